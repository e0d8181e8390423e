/* SPDX-License-Identifier: Apache-2.0 */
/* A server of models in this process behind real gRPC: what it says of itself, what it answers, who
 * is computed together, who is refused, and which checkpoints it looks at. */
#include "infer_rig.h"
#include "unit/saved/saved_rig.h"

#include <pthread.h>
#include <stdatomic.h>

#include "serve/rpc/serve.h"
#include "support/wait_until.h"

#define LONG_US 600000000 /* nobody waits so long */

extern const unsigned char gradus_descriptors[];
extern const unsigned char gradus_descriptors_end[];

struct server {
    struct meter_registry *meters;
    struct serve *serve;
    struct rpc_server *rpc;
    struct rpc_channel *channel;
    struct err err;
};

static void server_start(struct server *s, struct serve_options options)
{
    *s = (struct server){.meters = meter_registry_new()};
    options.meters = s->meters;
    assert_int_equal(serve_new(&options, &s->serve, &s->err), 0);
    const char *addresses[] = {"127.0.0.1:0"};
    const struct rpc_server_options server = {
        .addresses = addresses,
        .address_count = 1,
        .grace_ms = 200,
        .descriptors = gradus_descriptors,
        .descriptors_bytes = (size_t)(gradus_descriptors_end - gradus_descriptors)};
    s->rpc = rpc_server_new(&server, &s->err);
    assert_non_null(s->rpc);
    assert_int_equal(rpc_server_add(s->rpc, &inference__grpcinference_service__descriptor,
                                    serve_methods, serve_method_count, s->serve, &s->err),
                     0);
    assert_int_equal(rpc_server_start(s->rpc, &s->err), 0);
    const struct rpc_channel_options channel = {.target = rpc_server_address(s->rpc, 0)};
    s->channel = rpc_channel_new(&channel, &s->err);
    assert_non_null(s->channel);
}

static void server_stop(struct server *s)
{
    if (s->serve != NULL) {
        serve_free(s->serve);
    }
    rpc_channel_free(s->channel);
    rpc_server_free(s->rpc);
    meter_registry_free(s->meters);
}

static int call(struct server *s, const char *method, const ProtobufCMessage *body,
                struct rpc_msg **reply)
{
    const struct rpc_request q = {.service = &inference__grpcinference_service__descriptor,
                                  .method = method,
                                  .body = body,
                                  .timeout_ms = 60000,
                                  .wait_for_ready = true};
    *reply = NULL;
    return rpc_call_blocking(s->channel, &q, reply, &s->err);
}

static void assert_says(const struct server *s, int rc, int code, const char *says)
{
    if (rc != code || strstr(s->err.msg, says) == NULL) {
        fail_msg("code %d, expected %d with '%s': %s", rc, code, says, s->err.msg);
    }
}

/* "serve_requests_total" and its like. */
static void assert_meter(const struct server *s, const char *name, double expected)
{
    struct buf page = {0};
    char line[80];
    meter_expose(s->meters, &page);
    (void)snprintf(line, sizeof line, "\ngradus_%s %.0f\n", name, expected);
    if (strstr(buf_str(&page), line) == NULL) {
        (void)snprintf(line, sizeof line, "\n%s %.0f\n", name, expected);
        if (strstr(buf_str(&page), line) == NULL) {
            fail_msg("expected%sin %s", line, buf_str(&page));
        }
    }
    buf_release(&page);
}

static struct serve_model *open_model(const char *path, size_t batch_max, size_t slots,
                                      uint64_t number, const struct serve_model *before)
{
    const struct serve_model_request q = {.path = path,
                                          .data_dir = "",
                                          .batch_max = batch_max,
                                          .slots = slots,
                                          .number = number,
                                          .before = before};
    struct serve_model *m = NULL;
    struct err err;
    if (serve_model_open(&q, &m, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    return m;
}

/* Flowers: a and b, and a soil, are one of three kinds. */
static char *flowers(struct saved_rig *r, uint64_t step)
{
    saved_rig_file(r, "train", "a,kind,soil,b\n1,x,clay,10\n3,y,sand,30\n5,z,clay,50\n");
    char *text =
        saved_rig_job(r, "csv", ", label: kind, categorical: soil, scale: none",
                      "layers: [{dense: {units: 3}}], loss: softmax_cross_entropy", ", rule: sgd");
    char *path = saved_rig_checkpoint(r, text, step, 0);
    free(text);
    return path;
}

/* Of one number, 2 records or more, a value. */
static char *houses(struct saved_rig *r, uint64_t step)
{
    saved_rig_file(r, "train", "a,price\n1,100\n3,300\n5,800\n");
    char *text =
        saved_rig_job(r, "csv", ", label: price, scale: none",
                      "layers: [{dense: {units: 1}}], loss: mean_squared_error", ", rule: sgd");
    char *path = saved_rig_checkpoint(r, text, step, 0);
    free(text);
    return path;
}

static float price(float a)
{
    return a * saved_rig_value(0, 0) + saved_rig_value(1, 0);
}

static void ask_price(struct ask *a, const float *x, size_t records)
{
    ask_begin(a);
    ask_raw(a, "features", "FP32", (int64_t)records, 1, x, records * sizeof *x);
    a->message.model_name = (char *)(uintptr_t) "t-1";
    a->message.id = (char *)(uintptr_t) "request 9";
}

static void assert_prices(const struct rpc_msg *reply, const float *x, size_t records)
{
    const Inference__ModelInferResponse *r = (const Inference__ModelInferResponse *)reply->body;
    assert_string_equal(r->model_name, "t-1");
    assert_string_equal(r->id, "request 9");
    assert_int_equal(r->n_outputs, 1);
    assert_string_equal(r->outputs[0]->name, "value");
    assert_string_equal(r->outputs[0]->datatype, "FP32");
    assert_int_equal(r->outputs[0]->n_shape, 2);
    assert_int_equal(r->outputs[0]->shape[0], records);
    assert_int_equal(r->outputs[0]->shape[1], 1);
    assert_int_equal(r->n_raw_output_contents, 1);
    assert_int_equal(r->raw_output_contents[0].len, records * sizeof(float));
    for (size_t i = 0; i < records; i++) {
        float value;
        memcpy(&value, r->raw_output_contents[0].data + i * sizeof value, sizeof value);
        saved_rig_near(value, (double)price(x[i]));
    }
}

static const struct serve_options usual = {.threads = 1, .batch_max = 4, .waiting_max = 8};

static void test_what_it_says_of_itself(void **state)
{
    struct server s;
    struct rpc_msg *reply;
    char *path = flowers(*state, 7);
    server_start(&s, usual);
    Inference__ServerReadyRequest ready = INFERENCE__SERVER_READY_REQUEST__INIT;
    assert_int_equal(call(&s, "ServerReady", &ready.base, &reply), 0);
    assert_false(((const Inference__ServerReadyResponse *)reply->body)->ready);
    rpc_msg_unref(reply);
    Inference__ModelMetadataRequest of = INFERENCE__MODEL_METADATA_REQUEST__INIT;
    of.name = (char *)(uintptr_t) "t-1";
    assert_says(&s, call(&s, "ModelMetadata", &of.base, &reply), ERR_UNAVAILABLE,
                "there is no checkpoint to serve yet");
    assert_string_equal(serve_name(s.serve), "");
    serve_swap(s.serve, open_model(path, 4, 1, 1, NULL));
    assert_string_equal(serve_name(s.serve), "t-1");
    Inference__ServerLiveRequest live = INFERENCE__SERVER_LIVE_REQUEST__INIT;
    assert_int_equal(call(&s, "ServerLive", &live.base, &reply), 0);
    assert_true(((const Inference__ServerLiveResponse *)reply->body)->live);
    rpc_msg_unref(reply);
    assert_int_equal(call(&s, "ServerReady", &ready.base, &reply), 0);
    assert_true(((const Inference__ServerReadyResponse *)reply->body)->ready);
    rpc_msg_unref(reply);
    Inference__ServerMetadataRequest server = INFERENCE__SERVER_METADATA_REQUEST__INIT;
    assert_int_equal(call(&s, "ServerMetadata", &server.base, &reply), 0);
    const Inference__ServerMetadataResponse *who =
        (const Inference__ServerMetadataResponse *)reply->body;
    assert_string_equal(who->name, "gradus-serve");
    assert_string_equal(who->version, GRADUS_VERSION);
    assert_int_equal(who->n_extensions, 2);
    assert_string_equal(who->extensions[0], "model_configuration");
    rpc_msg_unref(reply);
    assert_int_equal(call(&s, "ModelMetadata", &of.base, &reply), 0);
    const Inference__ModelMetadataResponse *m =
        (const Inference__ModelMetadataResponse *)reply->body;
    assert_string_equal(m->name, "t-1");
    assert_string_equal(m->platform, "gradus");
    assert_int_equal(m->n_versions, 1);
    assert_string_equal(m->versions[0], "7");
    static const struct {
        const char *name, *datatype;
        int64_t elements;
    } tensors[] = {{"features", "FP32", 2},
                   {"soil", "BYTES", 1},
                   {"probabilities", "FP32", 3},
                   {"class", "BYTES", 1}};
    assert_int_equal(m->n_inputs, 2);
    assert_int_equal(m->n_outputs, 2);
    for (size_t i = 0; i < 4; i++) {
        const Inference__ModelMetadataResponse__TensorMetadata *t =
            i < 2 ? m->inputs[i] : m->outputs[i - 2];
        assert_string_equal(t->name, tensors[i].name);
        assert_string_equal(t->datatype, tensors[i].datatype);
        assert_int_equal(t->n_shape, 2);
        assert_int_equal(t->shape[0], -1);
        assert_int_equal(t->shape[1], tensors[i].elements);
    }
    rpc_msg_unref(reply);
    server_stop(&s);
    free(path);
}

static void test_how_it_is_configured(void **state)
{
    struct server s;
    struct rpc_msg *reply;
    char *path = flowers(*state, 7);
    struct serve_options options = usual;
    options.delay_us = 1234;
    server_start(&s, options);
    serve_swap(s.serve, open_model(path, 4, 1, 1, NULL));
    Inference__ModelConfigRequest q = INFERENCE__MODEL_CONFIG_REQUEST__INIT;
    q.name = (char *)(uintptr_t) "t-2";
    assert_says(&s, call(&s, "ModelConfig", &q.base, &reply), ERR_NOT_FOUND,
                "model \"t-2\" is not served here; \"t-1\" is");
    q.name = (char *)(uintptr_t) "t-1";
    assert_int_equal(call(&s, "ModelConfig", &q.base, &reply), 0);
    const Inference__ModelConfig *c = ((const Inference__ModelConfigResponse *)reply->body)->config;
    assert_string_equal(c->name, "t-1");
    assert_string_equal(c->platform, "gradus");
    assert_int_equal(c->max_batch_size, 4);
    assert_int_equal(c->scheduling_choice_case,
                     INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING);
    assert_int_equal(c->dynamic_batching->max_queue_delay_microseconds, 1234);
    assert_int_equal(c->n_input, 2);
    assert_string_equal(c->input[0]->name, "features");
    assert_int_equal(c->input[0]->data_type, INFERENCE__DATA_TYPE__TYPE_FP32);
    assert_int_equal(c->input[0]->n_dims, 1);
    assert_int_equal(c->input[0]->dims[0], 2);
    assert_string_equal(c->input[1]->name, "soil");
    assert_int_equal(c->input[1]->data_type, INFERENCE__DATA_TYPE__TYPE_STRING);
    assert_int_equal(c->input[1]->n_dims, 1);
    assert_int_equal(c->input[1]->dims[0], 1);
    assert_int_equal(c->n_output, 2);
    assert_string_equal(c->output[0]->name, "probabilities");
    assert_int_equal(c->output[0]->data_type, INFERENCE__DATA_TYPE__TYPE_FP32);
    assert_int_equal(c->output[0]->n_dims, 1);
    assert_int_equal(c->output[0]->dims[0], 3);
    assert_string_equal(c->output[1]->name, "class");
    assert_int_equal(c->output[1]->data_type, INFERENCE__DATA_TYPE__TYPE_STRING);
    assert_int_equal(c->output[1]->dims[0], 1);
    rpc_msg_unref(reply);
    server_stop(&s);
    free(path);
}

static void test_which_model_is_meant(void **state)
{
    struct server s;
    struct rpc_msg *reply;
    char *path = flowers(*state, 7);
    struct serve_options options = usual;
    options.name = "mine";
    server_start(&s, options);
    serve_swap(s.serve, open_model(path, 4, 1, 1, NULL));
    static const struct {
        const char *name, *version;
        bool ready;
    } cases[] = {{"mine", "", true}, {"mine", "7", true}, {"mine", "8", false}, {"t-1", "", false}};
    for (size_t i = 0; i < 4; i++) {
        Inference__ModelReadyRequest q = INFERENCE__MODEL_READY_REQUEST__INIT;
        q.name = (char *)(uintptr_t)cases[i].name;
        q.version = (char *)(uintptr_t)cases[i].version;
        assert_int_equal(call(&s, "ModelReady", &q.base, &reply), 0);
        assert_int_equal(((const Inference__ModelReadyResponse *)reply->body)->ready,
                         cases[i].ready);
        rpc_msg_unref(reply);
    }
    Inference__ModelMetadataRequest of = INFERENCE__MODEL_METADATA_REQUEST__INIT;
    of.name = (char *)(uintptr_t) "mine";
    of.version = (char *)(uintptr_t) "8";
    assert_says(&s, call(&s, "ModelMetadata", &of.base, &reply), ERR_NOT_FOUND,
                "version \"8\" of the model is not served; \"7\" is");
    serve_drain(s.serve);
    Inference__ModelReadyRequest q = INFERENCE__MODEL_READY_REQUEST__INIT;
    q.name = (char *)(uintptr_t) "mine";
    assert_int_equal(call(&s, "ModelReady", &q.base, &reply), 0);
    assert_false(((const Inference__ModelReadyResponse *)reply->body)->ready);
    rpc_msg_unref(reply);
    server_stop(&s);
    free(path);
}

static void test_the_outputs_that_are_asked_for(void **state)
{
    struct server s;
    struct rpc_msg *reply;
    struct ask a;
    char *path = flowers(*state, 7);
    const float numbers[] = {1, 2};
    float p[3];
    server_start(&s, usual);
    serve_swap(s.serve, open_model(path, 4, 1, 1, NULL));
    ask_begin(&a);
    a.message.model_name = (char *)(uintptr_t) "t-1";
    ask_raw(&a, "features", "FP32", 1, 2, numbers, sizeof numbers);
    ask_raw(&a, "soil", "BYTES", 1, 1, "\4\0\0\0sand", 8);
    assert_int_equal(call(&s, "ModelInfer", &a.message.base, &reply), 0);
    const Inference__ModelInferResponse *r = (const Inference__ModelInferResponse *)reply->body;
    assert_string_equal(r->model_version, "7");
    assert_int_equal(r->n_outputs, 2);
    assert_string_equal(r->outputs[0]->name, "probabilities");
    assert_int_equal(r->outputs[0]->shape[1], 3);
    assert_int_equal(r->raw_output_contents[0].len, sizeof p);
    memcpy(p, r->raw_output_contents[0].data, sizeof p);
    saved_rig_near(p[0] + p[1] + p[2], 1);
    const size_t best = p[0] > p[1] ? (p[0] > p[2] ? 0 : 2) : (p[1] > p[2] ? 1 : 2);
    const char name[] = {1, 0, 0, 0, "xyz"[best]};
    assert_string_equal(r->outputs[1]->name, "class");
    assert_int_equal(r->raw_output_contents[1].len, sizeof name);
    assert_memory_equal(r->raw_output_contents[1].data, name, sizeof name);
    rpc_msg_unref(reply);
    ask_output(&a, "class");
    assert_int_equal(call(&s, "ModelInfer", &a.message.base, &reply), 0);
    r = (const Inference__ModelInferResponse *)reply->body;
    assert_int_equal(r->n_outputs, 1);
    assert_int_equal(r->n_raw_output_contents, 1);
    assert_string_equal(r->outputs[0]->name, "class");
    assert_memory_equal(r->raw_output_contents[0].data, name, sizeof name);
    rpc_msg_unref(reply);
    ask_output(&a, "probabilities"); /* in the order of the request, or of the model */
    assert_int_equal(call(&s, "ModelInfer", &a.message.base, &reply), 0);
    assert_int_equal(((const Inference__ModelInferResponse *)reply->body)->n_outputs, 2);
    rpc_msg_unref(reply);
    ask_output(&a, "class");
    assert_says(&s, call(&s, "ModelInfer", &a.message.base, &reply), ERR_INVALID,
                "output \"class\": it is asked for twice; there are probabilities, class");
    a.output_list[2]->name = (char *)(uintptr_t) "odds";
    assert_says(&s, call(&s, "ModelInfer", &a.message.base, &reply), ERR_INVALID,
                "output \"odds\": the model has none of that name; it has probabilities, class");
    assert_meter(&s, "serve_requests_total", 5);
    assert_meter(&s, "serve_failures_total", 2);
    assert_meter(&s, "serve_batches_total", 3);
    assert_meter(&s, "serve_records_total", 3);
    server_stop(&s);
    free(path);
}

/* ---- requests that wait ---- */

struct waiter {
    struct ask ask;
    float x[4];
    size_t records;
    pthread_mutex_t lock;
    pthread_cond_t over;
    atomic_bool is_over;
    struct err err;
    struct rpc_msg *reply;
};

static void on_over(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    struct waiter *w = ctx;
    pthread_mutex_lock(&w->lock);
    w->err = status->err;
    w->reply = reply != NULL ? rpc_msg_ref(reply) : NULL;
    w->is_over = true;
    pthread_cond_signal(&w->over);
    pthread_mutex_unlock(&w->lock);
}

/* Asks for the price of @records houses from @first on; it has come to the server on return. */
static void waiter_start(struct waiter *w, struct server *s, float first, size_t records)
{
    memset(w, 0, sizeof *w);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->over, NULL);
    w->records = records;
    for (size_t i = 0; i < records; i++) {
        w->x[i] = first + (float)i;
    }
    ask_price(&w->ask, w->x, records);
    const struct rpc_request q = {.service = &inference__grpcinference_service__descriptor,
                                  .method = "ModelInfer",
                                  .body = &w->ask.message.base,
                                  .timeout_ms = 60000,
                                  .wait_for_ready = true};
    const size_t busy = serve_busy(s->serve);
    assert_int_equal(rpc_call_start(s->channel, &q, on_over, w, &s->err), 0);
    wait_until_locked(serve_busy(s->serve) != busy || w->is_over, &w->lock);
}

static void waiter_end(struct waiter *w)
{
    pthread_mutex_lock(&w->lock);
    wait_until_signalled(w->is_over, &w->over, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

static void waiter_release(struct waiter *w)
{
    rpc_msg_unref(w->reply);
    pthread_cond_destroy(&w->over);
    pthread_mutex_destroy(&w->lock);
}

/* Two requests wait for a third, with which the batch is full; each gets the answers of its own
 * records. */
static void test_requests_are_computed_together(void **state)
{
    struct server s;
    struct waiter w[3];
    char *path = houses(*state, 3);
    struct serve_options options = usual;
    options.delay_us = LONG_US;
    server_start(&s, options);
    serve_swap(s.serve, open_model(path, 4, 1, 1, NULL));
    waiter_start(&w[0], &s, 10, 1);
    waiter_start(&w[1], &s, 20, 2);
    assert_int_equal(serve_busy(s.serve), 2);
    waiter_start(&w[2], &s, 30, 1);
    for (size_t i = 0; i < 3; i++) {
        waiter_end(&w[i]);
        assert_int_equal(w[i].err.code, 0);
        assert_prices(w[i].reply, w[i].x, w[i].records);
        waiter_release(&w[i]);
    }
    assert_meter(&s, "serve_requests_total", 3);
    assert_meter(&s, "serve_batches_total", 1);
    assert_meter(&s, "serve_records_total", 4);
    assert_meter(&s, "serve_batch_records_sum", 4);
    assert_meter(&s, "serve_batch_records_count", 1);
    assert_meter(&s, "serve_seconds_count", 3);
    assert_meter(&s, "serve_waiting", 0);
    server_stop(&s);
    free(path);
}

/* A request ends with the version that it began with, and is not computed with those of the next.
 */
static void test_a_version_ends_what_it_began(void **state)
{
    struct server s;
    struct waiter w[2];
    struct saved_rig *r = *state;
    char *paths[] = {houses(r, 3), houses(r, 4)};
    struct serve_options options = usual;
    options.delay_us = LONG_US;
    server_start(&s, options);
    struct serve_model *first = open_model(paths[0], 4, 1, 1, NULL);
    serve_swap(s.serve, first);
    assert_meter(&s, "serve_version", 3);
    assert_meter(&s, "serve_swaps_total", 0);
    waiter_start(&w[0], &s, 10, 1);
    struct serve_model *second = open_model(paths[1], 4, 1, 2, first);
    assert_ptr_equal(second->inputs.encoder, first->inputs.encoder);
    serve_swap(s.serve, second);
    assert_meter(&s, "serve_version", 4);
    assert_meter(&s, "serve_swaps_total", 1);
    waiter_start(&w[1], &s, 20, 4); /* full by itself */
    for (size_t i = 0; i < 2; i++) {
        waiter_end(&w[i]);
        assert_int_equal(w[i].err.code, 0);
        assert_prices(w[i].reply, w[i].x, w[i].records);
        const Inference__ModelInferResponse *a =
            (const Inference__ModelInferResponse *)w[i].reply->body;
        assert_string_equal(a->model_version, i == 0 ? "3" : "4");
        waiter_release(&w[i]);
    }
    assert_meter(&s, "serve_batches_total", 2);
    server_stop(&s);
    for (size_t i = 0; i < 2; i++) {
        free(paths[i]);
    }
}

/* Further ones than may wait are refused at once; those that wait hear that it ends. */
static void test_who_waits_at_the_end(void **state)
{
    struct server s;
    struct waiter w[3];
    char *path = houses(*state, 3);
    struct serve_options options = usual;
    options.delay_us = LONG_US;
    options.waiting_max = 2;
    server_start(&s, options);
    serve_swap(s.serve, open_model(path, 4, 1, 1, NULL));
    for (size_t i = 0; i < 3; i++) {
        waiter_start(&w[i], &s, 10, 1);
    }
    waiter_end(&w[2]);
    assert_int_equal(w[2].err.code, ERR_EXHAUSTED);
    assert_non_null(
        strstr(w[2].err.msg, "2 requests wait already (--waiting-max); try again later"));
    assert_int_equal(serve_busy(s.serve), 2);
    assert_meter(&s, "serve_requests_total", 1);
    assert_meter(&s, "serve_failures_total", 1);
    serve_free(s.serve);
    s.serve = NULL;
    for (size_t i = 0; i < 3; i++) {
        waiter_end(&w[i]);
        if (i < 2) {
            assert_int_equal(w[i].err.code, ERR_UNAVAILABLE);
            assert_non_null(strstr(w[i].err.msg, "the server ends"));
        }
        waiter_release(&w[i]);
    }
    assert_meter(&s, "serve_requests_total", 3);
    assert_meter(&s, "serve_failures_total", 3);
    server_stop(&s);
    free(path);
}

/* Without a delay nobody waits who finds a free slot, again and again. */
static void test_a_free_slot_answers_at_once(void **state)
{
    struct server s;
    char *path = houses(*state, 3);
    server_start(&s, usual);
    serve_swap(s.serve, open_model(path, 4, 1, 1, NULL));
    for (size_t i = 1; i <= 4; i++) {
        struct rpc_msg *reply;
        struct ask a;
        const float x[] = {1, 2, 3, 4};
        ask_price(&a, x, i);
        assert_int_equal(call(&s, "ModelInfer", &a.message.base, &reply), 0);
        assert_prices(reply, x, i);
        rpc_msg_unref(reply);
        assert_meter(&s, "serve_batches_total", (double)i);
    }
    server_stop(&s);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_it_says_of_itself, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_how_it_is_configured, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_which_model_is_meant, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_the_outputs_that_are_asked_for, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_requests_are_computed_together, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_version_ends_what_it_began, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_who_waits_at_the_end, saved_rig_setup,
                                        saved_rig_teardown),
        cmocka_unit_test_setup_teardown(test_a_free_slot_answers_at_once, saved_rig_setup,
                                        saved_rig_teardown),
    };
    rpc_init();
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return failed;
}
