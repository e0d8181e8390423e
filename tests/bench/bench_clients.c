/* SPDX-License-Identifier: Apache-2.0 */
/* Many workers at one gradus-ps: one process that is all of them, with a connection each.
 *
 * Usage: bench_clients TARGET BYTES CLIENTS DEAD [sync]
 *
 * Each client pushes a gradient of BYTES and pulls the parameters in one exchange, over and over.
 * With "sync" each has a replica, and a step is complete with all of them (DEAD must be 0).
 * DEAD of them ask, and never read what they are answered. Prints "ready", then reads lines and
 * answers each with a line of JSON about the others:
 *
 *     exchange SECONDS  each begins its next exchange when the last one is answered
 *     rRATE SECONDS     all together begin RATE in a second, one after the other at even
 *                       distances; one that comes late counts from when it should have begun */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/text.h"
#include "bench/bench_shard.h"
#include "bench/samples.h"
#include "gradus/v1/ps.pb-c.h"

#define CLIENTS_MAX 1024
#define BULK_FIELD 15 /* `values` of both messages */
#define DEAD_EXCHANGES 32
#define LAST_MS 300 /* for what is under way at the end */

struct bench;

struct client {
    struct bench *bench;
    struct rpc_channel *channel;
    struct rpc_stream *stream;
    char name[24];
    uint32_t number;
    bool dead;
    pthread_mutex_t lock; /* guards what follows */
    uint64_t exchange, version, began_ns, due_ns;
    uint32_t batch;
    size_t got; /* bytes of the answer */
    bool busy;
    size_t owed; /* exchanges that should have begun */
    size_t done; /* since the measurement began */
};

struct bench {
    struct client *clients;
    size_t count, bytes;
    bool sync;
    float *gradient;
    uint64_t period_ns;   /* between two exchanges of one client; 0: no pause */
    pthread_mutex_t lock; /* guards what follows */
    bool measuring;
    struct samples samples;
};

static void nothing(void *ctx)
{
    (void)ctx;
}

/* With the lock of @c. */
static void begin(struct client *c, uint64_t began_ns)
{
    struct err err;
    char job[] = BENCH_JOB;
    Gradus__V1__ExchangeRequest q = GRADUS__V1__EXCHANGE_REQUEST__INIT;
    Gradus__V1__ShardRef shard = GRADUS__V1__SHARD_REF__INIT;
    Gradus__V1__Training training = GRADUS__V1__TRAINING__INIT;
    Gradus__V1__Push push = GRADUS__V1__PUSH__INIT;
    Gradus__V1__Pull pull = GRADUS__V1__PULL__INIT;
    shard.job = job;
    shard.generation = BENCH_GENERATION;
    push.examples = 1;
    if (c->bench->sync) {
        push.step = c->version;
        push.replica_first = c->number;
        push.replica_end = c->number + 1;
        pull.kind = GRADUS__V1__PULL__KIND__VERSION;
        pull.version = c->version + 1;
    } else {
        push.split = c->number;
        push.batch = c->batch;
        push.batch_end = ++c->batch;
        push.base_version = c->version;
    }
    training.push = &push;
    training.pull = &pull;
    q.exchange = ++c->exchange;
    q.shard = &shard;
    q.worker = c->name;
    q.what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_TRAINING;
    q.training = &training;
    q.total = c->bench->bytes / sizeof(float);
    c->busy = true;
    c->got = 0;
    c->began_ns = began_ns;
    const struct rpc_piece piece = {c->bench->gradient, c->bench->bytes};
    const struct rpc_blob blob = {.pieces = &piece, .piece_count = 1, .release = nothing};
    if (rpc_stream_send(c->stream, &q.base, &blob, &err) != 0) {
        bench_die(c->name, &err);
    }
}

static void answered(struct client *c)
{
    struct bench *b = c->bench;
    uint64_t now_ns = chrono_now_ns();
    c->busy = false;
    pthread_mutex_lock(&b->lock);
    bool on = b->measuring;
    if (on) {
        samples_add(&b->samples, now_ns - c->began_ns);
        c->done++;
    }
    pthread_mutex_unlock(&b->lock);
    if (on && b->period_ns == 0) {
        begin(c, now_ns);
    } else if (on && c->owed > 0) {
        c->owed--;
        c->due_ns += b->period_ns;
        begin(c, c->due_ns);
    }
}

static void on_message(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    struct client *c = ctx;
    const Gradus__V1__ExchangeResponse *r = (const Gradus__V1__ExchangeResponse *)msg->body;
    if (c->dead) {
        rpc_stream_pause(stream);
        return;
    }
    if (r->code != 0) {
        (void)fprintf(stderr, "bench_clients: %s: %s\n", c->name, r->message);
        exit(1);
    }
    pthread_mutex_lock(&c->lock);
    c->got += rpc_spans_bytes(msg->bulk);
    c->version = r->version;
    if (c->got >= c->bench->bytes) {
        answered(c);
    }
    pthread_mutex_unlock(&c->lock);
}

static void on_done(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    struct client *c = ctx;
    if (status->err.code != 0 && !c->dead) {
        bench_die(c->name, &status->err);
    }
}

/* ---- a measurement ---- */

static void sleep_until(uint64_t ns)
{
    const struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static void due(struct client *c, uint64_t at_ns)
{
    pthread_mutex_lock(&c->lock);
    if (c->busy) {
        c->owed++;
    } else {
        c->due_ns = at_ns;
        begin(c, at_ns);
    }
    pthread_mutex_unlock(&c->lock);
}

/* @rate: of all together; 0: as fast as each can. */
static void drive(struct bench *b, double rate, double seconds)
{
    uint64_t start_ns = chrono_now_ns();
    uint64_t end_ns = start_ns + (uint64_t)(seconds * 1e9);
    size_t alive = 0;
    for (size_t i = 0; i < b->count; i++) {
        alive += !b->clients[i].dead;
    }
    b->period_ns = rate > 0 ? (uint64_t)(1e9 * (double)alive / rate) : 0;
    for (size_t i = 0; i < alive && rate <= 0; i++) {
        due(&b->clients[b->count - alive + i], start_ns);
    }
    for (size_t n = 0; rate > 0; n++) {
        uint64_t at_ns = start_ns + (uint64_t)(1e9 * (double)n / rate);
        if (at_ns >= end_ns) {
            break;
        }
        sleep_until(at_ns);
        due(&b->clients[b->count - alive + n % alive], at_ns);
    }
    sleep_until(end_ns);
}

static void measure(struct bench *b, const char *word, double seconds)
{
    for (size_t i = 0; i < b->count; i++) {
        b->clients[i].done = b->clients[i].owed = 0;
    }
    samples_begin(&b->samples);
    pthread_mutex_lock(&b->lock);
    b->measuring = true;
    pthread_mutex_unlock(&b->lock);
    drive(b, word[0] == 'r' ? strtod(word + 1, NULL) : 0, seconds);
    pthread_mutex_lock(&b->lock);
    b->measuring = false;
    b->samples.least = SIZE_MAX;
    for (size_t i = 0; i < b->count; i++) {
        const struct client *c = &b->clients[i];
        b->samples.least = !c->dead && c->done < b->samples.least ? c->done : b->samples.least;
        b->samples.most = !c->dead && c->done > b->samples.most ? c->done : b->samples.most;
    }
    samples_print(&b->samples);
    pthread_mutex_unlock(&b->lock);
    sleep_until(chrono_now_ns() + (uint64_t)LAST_MS * 1000000);
}

/* ---- life ---- */

static void client_open(struct bench *b, size_t i, const char *target, struct rpc_loop *loop,
                        bool dead)
{
    static const struct rpc_stream_events events = {.message = on_message, .done = on_done};
    struct client *c = &b->clients[i];
    struct err err;
    const struct rpc_channel_options options = {
        .target = target, .loop = loop, .own_connection = true};
    const struct rpc_request request = {.service = &gradus__v1__parameter_server__descriptor,
                                        .method = "Exchange",
                                        .request_bulk = BULK_FIELD,
                                        .response_bulk = BULK_FIELD,
                                        .wait_for_ready = true};
    *c = (struct client){.bench = b, .number = (uint32_t)i, .dead = dead};
    (void)snprintf(c->name, sizeof c->name, "w%zu", i);
    pthread_mutex_init(&c->lock, NULL);
    c->channel = rpc_channel_new(&options, &err);
    c->stream = c->channel == NULL ? NULL : rpc_stream_open(c->channel, &request, &events, c, &err);
    if (c->stream == NULL) {
        bench_die("connect", &err);
    }
}

static void open_all(struct bench *b, const char *target, size_t dead)
{
    struct err err;
    struct plan plan;
    struct rpc_loop *loop = rpc_loop_new(NULL, &err);
    struct rpc_channel *control =
        loop == NULL
            ? NULL
            : rpc_channel_new(&(struct rpc_channel_options){.target = target, .loop = loop}, &err);
    if (control == NULL) {
        bench_die("start", &err);
    }
    bench_shard_plan(&plan, b->bytes / sizeof(float));
    const struct bench_shard shard = {
        .rule = "sgd", .type = "fp32", .clients = (uint32_t)b->count, .sync = b->sync};
    bench_shard_open(control, &plan, &shard);
    plan_release(&plan);
    b->gradient = samples_touched(b->bytes);
    b->clients = mem_new(b->count, sizeof *b->clients);
    for (size_t i = 0; i < b->count; i++) {
        client_open(b, i, target, loop, i < dead);
    }
    for (size_t i = 0; i < dead * DEAD_EXCHANGES; i++) { /* more than a connection holds */
        pthread_mutex_lock(&b->clients[i % dead].lock);
        begin(&b->clients[i % dead], chrono_now_ns());
        pthread_mutex_unlock(&b->clients[i % dead].lock);
    }
}

int main(int argc, char **argv)
{
    int64_t bytes, clients, dead;
    bool sync = argc == 6 && strcmp(argv[5], "sync") == 0;
    if ((argc != 5 && !sync) || !text_to_int(argv[2], &bytes) || bytes < 4 || bytes % 4 != 0 ||
        !text_to_int(argv[3], &clients) || clients < 1 || clients > CLIENTS_MAX ||
        !text_to_int(argv[4], &dead) || dead < 0 || dead >= clients || (sync && dead > 0)) {
        (void)fputs("usage: bench_clients TARGET BYTES CLIENTS DEAD [sync]\n", stderr);
        return 2;
    }
    struct bench b = {.count = (size_t)clients, .bytes = (size_t)bytes, .sync = sync};
    pthread_mutex_init(&b.lock, NULL);
    rpc_init();
    open_all(&b, argv[1], (size_t)dead);
    samples_ready();
    char word[16];
    double seconds;
    while (samples_command(word, sizeof word, &seconds)) {
        measure(&b, word, seconds);
    }
    exit(0); /* hundreds of connections need no good-bye */
}
