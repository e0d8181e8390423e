/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that only transfers: pushes, pulls and fused exchanges with a real gradus-ps.
 *
 * Usage: bench_transfer TARGET BYTES RULE CLIENT CLIENTS [TYPE [KEYS]]
 *
 * With KEYS the job has a table with rows of 16 floats besides: each push brings gradients of so
 * many rows, which are encoded for it, and with each pull come as many rows of other keys.
 *
 * The first client (0) opens a shard of BYTES of parameters in async mode. Each prints "ready",
 * then reads lines "exchange|push|pull SECONDS" and answers each with a line of JSON. One exchange
 * is under way at a time. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/text.h"
#include "bench/bench_shard.h"
#include "bench/samples.h"
#include "ps_client/ps_client.h"
#include "rpc/rpc.h"
#include "table/table_gradient.h"
#include "table/table_keys.h"

#define ARRAY_STAGGER_FLOATS 1088 /* gradient and parameters compete for other cache sets */

#define ROW_DIM 16
#define ROW_SETS 64 /* batches with keys of their own */

/* What an exchange brings of the table, and asks for. */
struct rows {
    uint32_t keys;  /* 0: there is no table */
    uint64_t *sets; /* [ROW_SETS × keys] rising in each */
    uint32_t *sightings;
    float *gradient, *values; /* [keys × ROW_DIM] */
    unsigned char *encoded;
};

struct client {
    struct ps_client *ps;
    struct plan plan;
    struct loop *loop;
    struct rpc_channel *channel;
    struct rpc_credentials *credentials; /* NULL: plain */
    char name[16];
    enum value_type type;
    float *gradient, *values;
    struct rows rows;

    struct ps_client_request request; /* of the loop's thread, like the rest */
    struct samples samples;
    double seconds;
    uint64_t exchange, version, sent_ns;
    uint32_t split, batch;
    bool connected;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool over;
};

/* ---- measuring, on the loop's thread ---- */

static void add_rows(struct client *c, struct ps_client_request *r)
{
    struct rows *rows = &c->rows;
    const struct table_gradient_view view = {
        .dim = ROW_DIM,
        .n = rows->keys,
        .keys = rows->sets + c->exchange % ROW_SETS * rows->keys,
        .sightings = rows->sightings,
        .values = rows->gradient,
    };
    if (r->ask.has_push) {
        table_gradient_encode(c->type, &view, rows->encoded);
        r->tables = rows->encoded;
        r->tables_bytes = table_gradient_bytes(c->type, view.n, view.dim);
    }
    if (r->ask.has_pull) {
        r->rows = (struct ps_client_rows){
            .counts = &rows->keys,
            .keys = rows->sets + (c->exchange + 1) % ROW_SETS * rows->keys,
            .count = rows->keys,
            .values = rows->values,
            .floats = (uint64_t)rows->keys * ROW_DIM,
        };
    }
}

static void next(struct client *c)
{
    struct ps_client_request *r = &c->request;
    struct exchange_push *push = &r->ask.push;
    r->exchange = ++c->exchange;
    push->base_version = c->version;
    push->split = c->split;
    push->batch = c->batch;
    push->batch_end = c->batch + 1;
    c->batch += r->ask.has_push;
    c->sent_ns = chrono_now_ns();
    if (c->rows.keys > 0) {
        add_rows(c, r);
    }
    ps_client_exchange(c->ps, r);
}

static void answered(void *ctx, const struct ps_answer *answer)
{
    struct client *c = ctx;
    if (answer->code == ERR_UNAVAILABLE && !c->connected) { /* gRPC gives it 100 ms */
        c->batch -= c->request.ask.has_push;
        next(c);
        return;
    }
    c->connected = true;
    if (answer->code != 0) {
        (void)fprintf(stderr, "bench_transfer: %s\n", answer->message);
        exit(1);
    }
    c->version = answer->version;
    samples_add(&c->samples, chrono_now_ns() - c->sent_ns);
    if (samples_seconds(&c->samples) < c->seconds) {
        next(c);
        return;
    }
    samples_print(&c->samples);
    pthread_mutex_lock(&c->lock);
    c->over = true;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static void begin(void *ctx)
{
    struct client *c = ctx;
    samples_begin(&c->samples);
    next(c);
}

static void measure(struct client *c, const char *kind, double seconds)
{
    struct err err;
    bool pulls = strcmp(kind, "push") != 0;
    bool pushes = strcmp(kind, "pull") != 0;
    c->request = (struct ps_client_request){
        .generation = BENCH_GENERATION,
        .ask = {.kind = EXCHANGE_TRAIN,
                .has_push = pushes,
                .push = {.examples = 1},
                .has_pull = pulls},
        .values = pulls ? c->values : NULL,
        .gradient = pushes ? c->gradient : NULL,
    };
    c->seconds = seconds;
    c->over = false;
    if (loop_post(c->loop, begin, c, &err) != 0) {
        bench_die("begin", &err);
    }
    pthread_mutex_lock(&c->lock);
    while (!c->over) {
        pthread_cond_wait(&c->changed, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
}

/* ---- life ---- */

/* Of the files that gradus's own variables name; NULL: plain. */
static struct rpc_credentials *credentials_of_environment(void)
{
    struct err err;
    const struct rpc_credentials_options o = {.certificate_file = getenv("GRADUS_TLS_CERT"),
                                              .key_file = getenv("GRADUS_TLS_KEY"),
                                              .ca_file = getenv("GRADUS_TLS_CA")};
    if (o.certificate_file == NULL || o.key_file == NULL || o.ca_file == NULL) {
        return NULL;
    }
    struct rpc_credentials *credentials = rpc_credentials_new(&o, &err);
    if (credentials == NULL) {
        bench_die("TLS", &err);
    }
    return credentials;
}

/* As a worker with the setting that GRADUS_POLL_US has; lives to the end. */
static struct rpc_polling *polling_of_environment(void)
{
    const char *text = getenv("GRADUS_POLL_US");
    struct err err;
    struct poll_setting setting;
    if (poll_setting_parse(text != NULL ? text : "auto", &setting, &err) != 0) {
        bench_die("GRADUS_POLL_US", &err);
    }
    return rpc_polling_new(&setting);
}

static void client_init(struct client *c, const char *target, uint64_t elements,
                        enum value_type type)
{
    static const uint64_t offsets[] = {0};
    struct err err;
    c->type = type;
    bench_shard_plan(&c->plan, elements);
    float *arrays = samples_touched((size_t)(2 * elements + ARRAY_STAGGER_FLOATS) * sizeof(float));
    c->gradient = arrays;
    c->values = arrays + elements + ARRAY_STAGGER_FLOATS;
    for (uint64_t i = 0; i < elements; i++) {
        c->gradient[i] = (float)(i % 100) * 1e-6F;
    }
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    c->loop = loop_new(0);
    c->credentials = credentials_of_environment();
    struct rpc_channel_options channel = {
        .target = target, .credentials = c->credentials, .own_connection = true};
    c->channel = rpc_channel_new(&channel, &err);
    struct ps_client_options options = {.job = BENCH_JOB,
                                        .worker = c->name,
                                        .plan = &c->plan,
                                        .variable_offsets = offsets,
                                        .exchanges_max = 1,
                                        .gradients_max = 1,
                                        .gradients = type,
                                        .parameters = type,
                                        .tables = c->rows.keys > 0,
                                        .credentials = c->credentials,
                                        .local_sockets = "auto", /* where the server has one */
                                        .shared_memory = true,   /* likewise */
                                        .polling = polling_of_environment(),
                                        .loop = c->loop,
                                        .answered = answered,
                                        .ctx = c};
    const struct ps_client_place place = {.address = target};
    if (c->channel == NULL || ps_client_new(&options, &c->ps, &err) != 0 ||
        ps_client_place(c->ps, 0, &place, &err) != 0 || loop_start(c->loop, "job", &err) != 0) {
        bench_die("start", &err);
    }
}

static void rows_init(struct rows *r, uint32_t keys)
{
    struct table_keys unique = {0};
    struct err err;
    r->keys = keys;
    r->sets = samples_touched((size_t)ROW_SETS * keys * sizeof *r->sets);
    r->sightings = samples_touched(keys * sizeof *r->sightings);
    r->gradient = samples_touched((size_t)keys * ROW_DIM * sizeof(float));
    r->values = samples_touched((size_t)keys * ROW_DIM * sizeof(float));
    r->encoded = samples_touched(table_gradient_bytes(VALUE_FP32, keys, ROW_DIM));
    for (size_t s = 0; s < ROW_SETS; s++) {
        uint64_t *set = r->sets + s * keys;
        for (size_t i = 0; i < keys; i++) {
            set[i] = rng_u64(1, s * keys + i);
        }
        if (table_keys_unique(&unique, set, keys, &err) != 0 || unique.count != keys) {
            bench_die("keys", &err); /* among 64-bit numbers none comes twice */
        }
        memcpy(set, unique.unique, keys * sizeof *set);
    }
    for (size_t i = 0; i < keys; i++) {
        r->sightings[i] = 1;
    }
    table_keys_release(&unique);
}

static void rows_release(struct rows *r)
{
    free(r->sets);
    free(r->sightings);
    free(r->gradient);
    free(r->values);
    free(r->encoded);
}

static void client_release(struct client *c)
{
    loop_stop(c->loop);
    loop_join(c->loop);
    ps_client_close(c->ps);
    loop_free(c->loop);
    ps_client_free(c->ps);
    rpc_channel_free(c->channel);
    rpc_credentials_free(c->credentials);
    plan_release(&c->plan);
    free(c->gradient);
}

int main(int argc, char **argv)
{
    int64_t bytes, number, clients, keys = 0;
    enum value_type type = VALUE_FP32;
    while (argc >= 7 && type < VALUE_TYPES && strcmp(argv[6], value_type_names[type]) != 0) {
        type++;
    }
    if (argc < 6 || argc > 8 || (argc == 8 && (!text_to_int(argv[7], &keys) || keys < 1)) ||
        keys > UINT32_MAX || type == VALUE_TYPES || !text_to_int(argv[2], &bytes) || bytes < 4 ||
        bytes % 4 != 0 || !text_to_int(argv[4], &number) || !text_to_int(argv[5], &clients) ||
        number < 0 || clients <= number) {
        (void)fputs("usage: bench_transfer TARGET BYTES RULE CLIENT CLIENTS [TYPE [KEYS]]\n",
                    stderr);
        return 2;
    }
    struct client c = {.split = (uint32_t)number};
    (void)snprintf(c.name, sizeof c.name, "w%u", (unsigned)number);
    rpc_expect_few_connections();
    rpc_init();
    if (keys > 0) {
        rows_init(&c.rows, (uint32_t)keys);
    }
    client_init(&c, argv[1], (uint64_t)bytes / sizeof(float), type);
    if (number == 0) {
        const struct bench_shard shard = {.rule = argv[3],
                                          .type = value_type_names[type],
                                          .clients = (uint32_t)clients,
                                          .rows = keys > 0};
        bench_shard_open(c.channel, &c.plan, &shard);
    }
    char kind[16];
    double seconds;
    samples_ready();
    while (samples_command(kind, sizeof kind, &seconds)) {
        measure(&c, kind, seconds);
    }
    client_release(&c);
    rows_release(&c.rows);
    rpc_shutdown();
    return 0;
}
