/* SPDX-License-Identifier: Apache-2.0 */
/* Many nodes at one master: one process that is all of them, and the clients.
 *
 * Usage: bench_master MASTER CHECKPOINT_DIR WORKERS SERVERS JOBS FLAPS SPLIT_MS QUEUE
 *
 * CHECKPOINT_DIR is the master's. FLAPS of the workers come and go; QUEUE more jobs wait for nodes.
 * A split takes SPLIT_MS; a job has an epoch of 16 splits for each of its workers, is changed once,
 * and is followed by another. Prints "ready" when all nodes have joined and most jobs run; then
 * reads lines "measure SECONDS" and answers each with a line of JSON: how many calls of each kind
 * were answered, how fast, and what became of the jobs so far. Between two such lines the load
 * stands still: what is measured can have the machine for a moment, and others have it meanwhile.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/mem.h"
#include "base/text.h"
#include "bench/load.h"
#include "bench/samples.h"
#include "os/chrono.h"

#define READY_MS 120000
#define MAILBOX LOOP_MESSAGES_MAX
#define NODE_ADDRESS "127.1.%zu.%zu:0"

static void die(const char *what, const struct err *err)
{
    (void)fprintf(stderr, "bench_master: %s: %s\n", what, err->msg);
    exit(1);
}

static void sleep_ms(uint64_t ms)
{
    const struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    (void)nanosleep(&t, NULL);
}

/* ---- figures ---- */

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return *x < *y ? -1 : *x > *y;
}

static double at_ms(const struct load_series *s, double part)
{
    return s->count == 0 ? 0 : (double)s->ns[(size_t)((double)(s->count - 1) * part)] * 1e-6;
}

static void begin(void *ctx)
{
    struct load *l = ctx;
    for (size_t i = 0; i < LOAD_KINDS; i++) {
        l->series[i].count = 0;
    }
    l->measured_ns = chrono_now_ns();
    l->measuring = true;
    l->paused = false;
}

static void end(void *ctx)
{
    struct load *l = ctx;
    l->measuring = false;
    l->paused = true;
    (void)printf("{\"seconds\": %.4f", (double)(chrono_now_ns() - l->measured_ns) * 1e-9);
    for (size_t i = 0; i < LOAD_KINDS; i++) {
        struct load_series *s = &l->series[i];
        if (s->count > 0) {
            qsort(s->ns, s->count, sizeof *s->ns, compare);
        }
        (void)printf(", \"%s\": {\"calls\": %zu, \"p50_ms\": %.4f, \"p99_ms\": %.4f, "
                     "\"max_ms\": %.4f}",
                     load_kind_names[i], s->count, at_ms(s, 0.5), at_ms(s, 0.99), at_ms(s, 1));
    }
    (void)printf(", \"nodes\": %zu, \"running\": %zu, \"submitted\": %zu, \"changed\": %zu, "
                 "\"ended\": %zu, \"failed\": %zu, \"lost\": %zu, \"errors\": %zu}\n",
                 l->in_count, l->running, l->submitted, l->changed, l->ended, l->failed, l->lost,
                 l->errors);
    (void)fflush(stdout);
}

/* ---- life ---- */

static void raise_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max; /* three descriptors for each node */
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* Each node has an address of this host of its own, where one server answers for all. */
static void listen_for_all(struct load *l)
{
    struct err err;
    char **addresses = mem_new(l->node_count, sizeof *addresses);
    for (size_t i = 0; i < l->node_count; i++) {
        addresses[i] = mem_printf(NODE_ADDRESS, i / 250, i % 250 + 1);
    }
    const struct rpc_server_options options = {
        .addresses = (const char *const *)addresses, .address_count = l->node_count, .pollers = 1};
    l->server = rpc_server_new(&options, &err);
    if (l->server == NULL || load_services_add(l, &err) != 0 ||
        rpc_server_start(l->server, &err) != 0) {
        die("listen", &err);
    }
    for (size_t i = 0; i < l->node_count; i++) {
        text_copy(l->nodes[i].address, sizeof l->nodes[i].address,
                  rpc_server_address(l->server, i));
        free(addresses[i]);
    }
    free(addresses);
}

static struct rpc_channel *connection(struct load *l)
{
    struct err err;
    const struct rpc_channel_options options = {
        .target = l->options.master, .loop = l->rpc_loop, .own_connection = true};
    struct rpc_channel *c = rpc_channel_new(&options, &err);
    if (c == NULL) {
        die("connect", &err);
    }
    return c;
}

static void load_begin(void *ctx)
{
    load_nodes_begin(ctx);
    load_clients_begin(ctx);
}

static void load_open(struct load *l)
{
    struct err err = {0};
    l->loop = loop_new(MAILBOX);
    l->rpc_loop = rpc_loop_new(NULL, &err);
    l->node_count = l->options.workers + l->options.servers;
    l->nodes = mem_new(l->node_count, sizeof *l->nodes);
    if (l->rpc_loop == NULL) {
        die("start", &err);
    }
    listen_for_all(l);
    l->client = connection(l);
    for (size_t i = 0; i < l->node_count; i++) {
        l->nodes[i].load = l;
        l->nodes[i].server = i < l->options.servers;
        l->nodes[i].flaps = i >= l->node_count - l->options.flaps;
        l->nodes[i].channel = connection(l);
    }
    if (loop_start(l->loop, "load", &err) != 0 || loop_call(l->loop, load_begin, l, &err) != 0) {
        die("start", &err);
    }
}

static void pause(void *ctx)
{
    struct load *l = ctx;
    l->paused = true;
}

struct state {
    struct load *load;
    bool ready;
};

static void look(void *ctx)
{
    struct state *s = ctx;
    const struct load *l = s->load;
    size_t there = l->node_count - l->options.flaps;
    s->ready = l->in_count >= there && l->running >= l->options.jobs * 9 / 10;
}

static void wait_until_ready(struct load *l)
{
    struct state s = {l, false};
    struct err err = {0};
    for (uint64_t ms = 0; !s.ready && ms < READY_MS; ms += 100) {
        sleep_ms(100);
        (void)loop_call(l->loop, look, &s, &err);
    }
    if (!s.ready) {
        err_set(&err, ERR_TIMEOUT, "%zu of %zu nodes have joined, %zu of %zu jobs run", l->in_count,
                l->node_count, l->running, l->options.jobs);
        die("get ready", &err);
    }
}

static bool number(const char *text, size_t min, size_t max, size_t *out)
{
    int64_t value;
    bool good = text_to_int(text, &value) && value >= (int64_t)min && value <= (int64_t)max;
    *out = good ? (size_t)value : 0;
    return good;
}

int main(int argc, char **argv)
{
    struct load l = {.options = {.start_ms = 20}};
    struct load_options *o = &l.options;
    size_t split_ms = 0;
    if (argc != 9 || !number(argv[3], 1, LOAD_NODES_MAX, &o->workers) ||
        !number(argv[4], 1, LOAD_NODES_MAX, &o->servers) ||
        o->workers + o->servers > LOAD_NODES_MAX || !number(argv[5], 1, LOAD_JOBS_MAX, &o->jobs) ||
        !number(argv[6], 0, o->workers, &o->flaps) || !number(argv[7], 1, 3600000, &split_ms) ||
        !number(argv[8], 0, 1000, &o->queue)) {
        (void)fputs("usage: bench_master MASTER CHECKPOINT_DIR WORKERS SERVERS JOBS FLAPS "
                    "SPLIT_MS QUEUE\n",
                    stderr);
        return 2;
    }
    o->master = argv[1];
    o->checkpoint_dir = argv[2];
    o->split_ms = split_ms;
    o->job_workers = o->workers / o->jobs > 0 ? o->workers / o->jobs : 1;
    o->job_servers = o->servers > 1 ? 2 : 1;
    raise_limit();
    rpc_init();
    load_open(&l);
    wait_until_ready(&l);
    (void)loop_call(l.loop, pause, &l, NULL);
    samples_ready();
    char word[16];
    double seconds;
    while (samples_command(word, sizeof word, &seconds)) {
        (void)loop_call(l.loop, begin, &l, NULL);
        sleep_ms((uint64_t)(seconds * 1e3));
        (void)loop_call(l.loop, end, &l, NULL);
    }
    exit(0); /* a thousand connections need no good-bye */
}
