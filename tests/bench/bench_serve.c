/* SPDX-License-Identifier: Apache-2.0 */
/* A client of gradus-serve that measures, and a server that answers as many bytes and computes
 * nothing, over the same RPC layer. tests/bench/bench_serve.py runs both.
 *
 *   bench_serve echo OUTPUTS                                    serves until stdin ends
 *   bench_serve ask ADDRESS MODEL FEATURES BATCH SECONDS CLIENTS   prints a line of JSON */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "inference/open_inference.pb-c.h"
#include "os/chrono.h"
#include "rpc/rpc.h"

#define SAMPLES_MAX ((size_t)1 << 20)
#define CLIENTS_MAX 256
#define CALL_MS 30000
#define ASK_ARGUMENTS 8

/* ---- the echo ---- */

static void on_infer(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Inference__ModelInferRequest *q = (const Inference__ModelInferRequest *)msg->body;
    const size_t outputs = *(const size_t *)service;
    const size_t records = q->n_inputs > 0 ? (size_t)q->inputs[0]->shape[0] : 0;
    Inference__ModelInferResponse r = INFERENCE__MODEL_INFER_RESPONSE__INIT;
    const size_t bytes = records * (outputs * sizeof(float) + 5); /* and "\1\0\0\0" "7" */
    ProtobufCBinaryData raw = {.len = bytes, .data = mem_new(bytes + 1, 1)};
    r.raw_output_contents = &raw;
    r.n_raw_output_contents = 1;
    (void)rpc_reply(call, &r.base, NULL);
    free(raw.data);
}

static void on_other(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const struct err err = {.code = ERR_UNSUPPORTED, .msg = "this is an echo"};
    (void)msg;
    (void)service;
    (void)rpc_fail(call, &err);
}

static int echo(size_t outputs)
{
    static const struct rpc_method methods[] = {
        {.name = "ServerLive", .request = on_other},
        {.name = "ServerReady", .request = on_other},
        {.name = "ModelReady", .request = on_other},
        {.name = "ServerMetadata", .request = on_other},
        {.name = "ModelMetadata", .request = on_other},
        {.name = "ModelInfer", .request = on_infer},
        {.name = "ModelConfig", .request = on_other},
    };
    const char *const addresses[] = {"127.0.0.1:0"};
    const struct rpc_server_options options = {.addresses = addresses, .address_count = 1};
    struct err err = {0};
    struct rpc_server *s = rpc_server_new(&options, &err);
    if (s == NULL ||
        rpc_server_add(s, &inference__grpcinference_service__descriptor, methods,
                       sizeof methods / sizeof methods[0], &outputs, &err) != 0 ||
        rpc_server_start(s, &err) != 0) {
        (void)fprintf(stderr, "bench_serve: %s\n", err.msg);
        return 1;
    }
    (void)printf("%s\n", rpc_server_address(s, 0));
    (void)fflush(stdout);
    while (getchar() != EOF) {
    }
    rpc_server_free(s);
    return 0;
}

/* ---- the client ---- */

struct client {
    const char *address, *model;
    size_t features, batch;
    uint64_t until_ns;
    uint64_t *ns; /* [count] */
    size_t count, failures, versions;
    char version[32];
    pthread_t thread;
};

static void take_version(struct client *c, const struct rpc_msg *reply)
{
    const Inference__ModelInferResponse *r = (const Inference__ModelInferResponse *)reply->body;
    if (strcmp(c->version, r->model_version) != 0) {
        (void)snprintf(c->version, sizeof c->version, "%s", r->model_version);
        c->versions++;
    }
}

static void ask_once(struct client *c, struct rpc_channel *channel,
                     const Inference__ModelInferRequest *q)
{
    const struct rpc_request request = {.service = &inference__grpcinference_service__descriptor,
                                        .method = "ModelInfer",
                                        .body = &q->base,
                                        .timeout_ms = CALL_MS};
    struct rpc_msg *reply = NULL;
    struct err err = {0};
    const uint64_t begin = chrono_now_ns();
    if (rpc_call_blocking(channel, &request, &reply, &err) != 0) {
        c->failures++;
        (void)fprintf(stderr, "bench_serve: %s\n", err.msg);
    } else if (c->count < SAMPLES_MAX) {
        c->ns[c->count++] = chrono_now_ns() - begin;
        take_version(c, reply);
    }
    rpc_msg_unref(reply);
}

static void *run(void *arg)
{
    struct client *c = arg;
    const struct rpc_channel_options options = {.target = c->address, .own_connection = true};
    struct err err = {0};
    struct rpc_channel *channel = rpc_channel_new(&options, &err);
    Inference__ModelInferRequest q = INFERENCE__MODEL_INFER_REQUEST__INIT;
    Inference__ModelInferRequest__InferInputTensor input =
        INFERENCE__MODEL_INFER_REQUEST__INFER_INPUT_TENSOR__INIT;
    Inference__ModelInferRequest__InferInputTensor *inputs[] = {&input};
    const size_t n = c->batch * c->features;
    float *values = mem_new(n, sizeof *values);
    int64_t shape[] = {(int64_t)c->batch, (int64_t)c->features};
    char name[] = "features", datatype[] = "FP32", *model = mem_strdup(c->model);
    for (size_t i = 0; i < n; i++) {
        values[i] = (float)(i * 37 % 256);
    }
    ProtobufCBinaryData raw = {.len = n * sizeof *values, .data = (uint8_t *)values};
    input.name = name;
    input.datatype = datatype;
    input.shape = shape;
    input.n_shape = 2;
    q.model_name = model;
    q.inputs = inputs;
    q.n_inputs = 1;
    q.raw_input_contents = &raw;
    q.n_raw_input_contents = 1;
    while (channel != NULL && chrono_now_ns() < c->until_ns) {
        ask_once(c, channel, &q);
    }
    if (channel != NULL) {
        rpc_channel_free(channel);
    }
    free(values);
    free(model);
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static int ask(char **argv)
{
    const double seconds = strtod(argv[6], NULL);
    const size_t count = (size_t)strtoul(argv[7], NULL, 10);
    if (count < 1 || count > CLIENTS_MAX || seconds <= 0) {
        return 2;
    }
    struct client *clients = mem_new(count, sizeof *clients);
    const uint64_t begin = chrono_now_ns();
    size_t all = 0, failures = 0, versions = 0;
    for (size_t i = 0; i < count; i++) {
        clients[i] = (struct client){.address = argv[2],
                                     .model = argv[3],
                                     .features = (size_t)strtoul(argv[4], NULL, 10),
                                     .batch = (size_t)strtoul(argv[5], NULL, 10),
                                     .until_ns = begin + (uint64_t)(seconds * 1e9),
                                     .ns = mem_new(SAMPLES_MAX, sizeof(uint64_t))};
        (void)pthread_create(&clients[i].thread, NULL, run, &clients[i]);
    }
    for (size_t i = 0; i < count; i++) {
        (void)pthread_join(clients[i].thread, NULL);
        all += clients[i].count;
        failures += clients[i].failures;
        versions = clients[i].versions > versions ? clients[i].versions : versions;
    }
    const double took = (double)(chrono_now_ns() - begin) / 1e9;
    uint64_t *ns = mem_new(all + 1, sizeof *ns);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        memcpy(ns + at, clients[i].ns, clients[i].count * sizeof *ns);
        at += clients[i].count;
        free(clients[i].ns);
    }
    qsort(ns, all, sizeof *ns, by_value);
    (void)printf("{\"requests\": %zu, \"failures\": %zu, \"versions\": %zu, \"requests_s\": %.1f, "
                 "\"p50_us\": %.1f, \"p99_us\": %.1f, \"max_us\": %.1f}\n",
                 all, failures, versions, (double)all / took, (double)ns[all / 2] / 1e3,
                 (double)ns[all - all / 100 - (all > 0)] / 1e3, (double)ns[all - (all > 0)] / 1e3);
    free(ns);
    free(clients);
    return failures > 0;
}

int main(int argc, char **argv)
{
    int code = 2;
    rpc_init();
    if (argc == 3 && strcmp(argv[1], "echo") == 0) {
        code = echo((size_t)strtoul(argv[2], NULL, 10));
    } else if (argc == ASK_ARGUMENTS && strcmp(argv[1], "ask") == 0) {
        code = ask(argv);
    } else {
        (void)fprintf(stderr, "usage: bench_serve echo OUTPUTS | ask ADDRESS MODEL FEATURES BATCH "
                              "SECONDS CLIENTS\n");
    }
    rpc_shutdown();
    return code;
}
