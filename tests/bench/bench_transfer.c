/* SPDX-License-Identifier: Apache-2.0 */
/* A worker that only transfers: pushes, pulls and fused exchanges with a real gradus-ps.
 *
 * Usage: bench_transfer TARGET BYTES RULE CLIENT CLIENTS [TYPE]
 *
 * The first client (0) opens a shard of BYTES of parameters in async mode. Each prints "ready",
 * then reads lines "exchange|push|pull SECONDS" and answers each with a line of JSON. One exchange
 * is under way at a time. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "bench/samples.h"
#include "gradus/v1/ps.pb-c.h"
#include "rpc/rpc.h"
#include "wire/wire.h"
#include "worker/ps_client/ps_client.h"

#define COLUMNS 256 /* of the one variable */
#define GENERATION 1
#define ARRAY_STAGGER_FLOATS 1088 /* gradient and parameters compete for other cache sets */

static char job[] = "bench";

struct client {
    struct ps_client *ps;
    struct plan plan;
    struct loop *loop;
    struct rpc_channel *channel;
    struct rpc_credentials *credentials; /* NULL: plain */
    char name[16];
    float *gradient, *values;

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

static void die(const char *what, const struct err *err)
{
    (void)fprintf(stderr, "bench_transfer: %s: %s\n", what, err->msg);
    exit(1);
}

/* ---- measuring, on the loop's thread ---- */

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
        .generation = GENERATION,
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
        die("begin", &err);
    }
    pthread_mutex_lock(&c->lock);
    while (!c->over) {
        pthread_cond_wait(&c->changed, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
}

/* ---- the shard ---- */

static void make_plan(struct plan *plan, uint64_t elements)
{
    struct variable_spec variable = {.name = "w", .shape = {1, {elements}}};
    struct cluster_spec cluster = {
        .workers = {1, 1}, .ps = 1, .partitioner = PARTITIONER_FIXED, .partitions = 1};
    struct err err;
    if (elements % COLUMNS == 0) {
        variable.shape = (struct shape){2, {elements / COLUMNS, COLUMNS}};
    }
    variable.init = (struct init){.kind = INIT_CONSTANT, .a = 0.5};
    if (plan_make(&variable, 1, &cluster, plan, &err) != 0) {
        die("plan", &err);
    }
}

static void open_shard(struct client *c, const char *rule, uint32_t clients, const char *type)
{
    const struct ledger_shape shape = {
        .records = (uint64_t)UINT32_MAX * clients, .batch_records = 1, .split_batches = UINT32_MAX};
    const struct consistency consistency = {.mode = TRAINING_ASYNC,
                                            .replicas = clients,
                                            .aggregate = clients,
                                            .push_every = 1,
                                            .pull_every = 1};
    struct err err;
    struct ledger ledger;
    if (ledger_init(&ledger, &shape, 0, &err) != 0) {
        die("ledger", &err);
    }
    char *text = mem_printf("name: bench\n"
                            "data: {train: {file: a.csv}}\n"
                            "model: {layers: [dense: {units: 10}], loss: softmax_cross_entropy}\n"
                            "update: {rule: %s}\n"
                            "training: {mode: async, batch_size: 1, "
                            "wire: {gradients: %s, parameters: %s}}\n"
                            "cluster: {workers: %u}\n",
                            rule, type, type, (unsigned)clients);
    Gradus__V1__OpenShardRequest r = GRADUS__V1__OPEN_SHARD_REQUEST__INIT;
    Gradus__V1__ShardRef ref = GRADUS__V1__SHARD_REF__INIT;
    Gradus__V1__Plan plan;
    Gradus__V1__Ledger ledger_message;
    Gradus__V1__Consistency consistency_message;
    wire_plan_to_proto(&c->plan, &plan);
    wire_ledger_to_proto(&ledger, &ledger_message);
    wire_consistency_to_proto(&consistency, &consistency_message);
    ref.job = job;
    ref.generation = GENERATION;
    r.shard = &ref;
    r.text = text;
    r.plan = &plan;
    r.ledger = &ledger_message;
    r.consistency = &consistency_message;
    struct rpc_request request = {.service = &gradus__v1__parameter_server__descriptor,
                                  .method = "OpenShard",
                                  .body = &r.base,
                                  .timeout_ms = 60000,
                                  .wait_for_ready = true};
    if (rpc_call_blocking(c->channel, &request, NULL, &err) != 0) {
        die("open the shard", &err);
    }
    wire_plan_release(&plan);
    ledger_release(&ledger);
    free(text);
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
        die("TLS", &err);
    }
    return credentials;
}

static void client_init(struct client *c, const char *target, uint64_t elements,
                        enum value_type type)
{
    static const uint64_t offsets[] = {0};
    struct err err;
    make_plan(&c->plan, elements);
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
    struct ps_client_options options = {.job = job,
                                        .worker = c->name,
                                        .plan = &c->plan,
                                        .variable_offsets = offsets,
                                        .exchanges_max = 1,
                                        .gradients_max = 1,
                                        .gradients = type,
                                        .parameters = type,
                                        .credentials = c->credentials,
                                        .local_sockets = "auto", /* where the server has one */
                                        .shared_memory = true,   /* likewise */
                                        .loop = c->loop,
                                        .answered = answered,
                                        .ctx = c};
    const struct ps_client_place place = {.address = target};
    if (c->channel == NULL || ps_client_new(&options, &c->ps, &err) != 0 ||
        ps_client_place(c->ps, 0, &place, &err) != 0 || loop_start(c->loop, "job", &err) != 0) {
        die("start", &err);
    }
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
    int64_t bytes, number, clients;
    enum value_type type = VALUE_FP32;
    while (argc == 7 && type < VALUE_TYPES && strcmp(argv[6], value_type_names[type]) != 0) {
        type++;
    }
    if (argc < 6 || argc > 7 || type == VALUE_TYPES || !text_to_int(argv[2], &bytes) || bytes < 4 ||
        bytes % 4 != 0 || !text_to_int(argv[4], &number) || !text_to_int(argv[5], &clients) ||
        number < 0 || clients <= number) {
        (void)fputs("usage: bench_transfer TARGET BYTES RULE CLIENT CLIENTS [TYPE]\n", stderr);
        return 2;
    }
    struct client c = {.split = (uint32_t)number};
    (void)snprintf(c.name, sizeof c.name, "w%u", (unsigned)number);
    rpc_expect_few_connections();
    rpc_init();
    client_init(&c, argv[1], (uint64_t)bytes / sizeof(float), type);
    if (number == 0) {
        open_shard(&c, argv[3], (uint32_t)clients, value_type_names[type]);
    }
    char kind[16];
    double seconds;
    samples_ready();
    while (samples_command(kind, sizeof kind, &seconds)) {
        measure(&c, kind, seconds);
    }
    client_release(&c);
    rpc_shutdown();
    return 0;
}
