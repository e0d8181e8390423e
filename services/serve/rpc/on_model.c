/* SPDX-License-Identifier: Apache-2.0 */
/* The methods of the open inference protocol: whether the server is ready, what its model is, and
 * requests, which go on in serve.c. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/release.h"
#include "serve/rpc/infer_answer.h"
#include "serve/rpc/serve.h"

#define PLATFORM "gradus"
#define DIMS_MAX (SHAPE_RANK_MAX + 1)

static void on_live(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    Inference__ServerLiveResponse r = INFERENCE__SERVER_LIVE_RESPONSE__INIT;
    (void)msg;
    (void)service;
    r.live = true;
    (void)rpc_reply(call, &r.base, NULL);
}

static void on_ready(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    Inference__ServerReadyResponse r = INFERENCE__SERVER_READY_RESPONSE__INIT;
    (void)msg;
    r.ready = serve_ready(service);
    (void)rpc_reply(call, &r.base, NULL);
}

static void on_model_ready(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Inference__ModelReadyRequest *q = (const Inference__ModelReadyRequest *)msg->body;
    Inference__ModelReadyResponse r = INFERENCE__MODEL_READY_RESPONSE__INIT;
    struct serve_model *m = serve_find(service, q->name, q->version, NULL);
    r.ready = m != NULL && serve_ready(service);
    serve_model_unref(m);
    (void)rpc_reply(call, &r.base, NULL);
}

static void reply(void *ctx, const ProtobufCMessage *message)
{
    (void)rpc_reply(ctx, message, NULL);
}

void serve_say_server(serve_say *say, void *ctx)
{
    Inference__ServerMetadataResponse r = INFERENCE__SERVER_METADATA_RESPONSE__INIT;
    char name[] = "gradus-serve", *version = mem_strdup(release_version());
    char configuration[] = "model_configuration", binary[] = "binary_tensor_data";
    char *extensions[] = {configuration, binary};
    r.name = name;
    r.version = version;
    r.extensions = extensions;
    r.n_extensions = sizeof extensions / sizeof extensions[0];
    say(ctx, &r.base);
    free(version);
}

static void on_server_metadata(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)msg;
    (void)service;
    serve_say_server(reply, call);
}

/* ---- what the model is ---- */

typedef Inference__ModelMetadataResponse__TensorMetadata tensor_metadata;

struct metadata {
    tensor_metadata *tensors, **inputs, **outputs;
    int64_t *dims; /* [DIMS_MAX] of each */
    size_t count;
};

/* The dimensions of an input, the records first, into @dims; how many. */
static size_t input_dims(const struct infer_input *input, int64_t *dims)
{
    size_t n = 0;
    dims[n++] = -1;
    for (size_t i = 0; i < input->shape.rank; i++) {
        dims[n++] = (int64_t)input->shape.dims[i];
    }
    if (input->elements == 0) {
        dims[n++] = -1;
    }
    return n;
}

static tensor_metadata *add_tensor(struct metadata *d, const char *name, const char *datatype)
{
    tensor_metadata *t = &d->tensors[d->count];
    inference__model_metadata_response__tensor_metadata__init(t);
    t->name = (char *)(uintptr_t)name;
    t->datatype = (char *)(uintptr_t)datatype;
    t->shape = d->dims + d->count++ * DIMS_MAX;
    return t;
}

static void describe(const struct serve_model *m, struct metadata *d,
                     Inference__ModelMetadataResponse *r)
{
    struct infer_output outputs[INFER_OUTPUTS_MAX];
    const size_t n = infer_outputs(m, outputs), all = m->inputs.count + n;
    d->tensors = mem_new(all, sizeof *d->tensors);
    d->dims = mem_new(all * DIMS_MAX, sizeof *d->dims);
    d->inputs = mem_new(m->inputs.count + 1, sizeof *d->inputs);
    d->outputs = mem_new(n, sizeof *d->outputs);
    for (size_t i = 0; i < m->inputs.count; i++) {
        const struct infer_input *input = &m->inputs.items[i];
        d->inputs[i] = add_tensor(d, input->name, infer_datatype(input));
        d->inputs[i]->n_shape = input_dims(input, d->inputs[i]->shape);
    }
    for (size_t i = 0; i < n; i++) {
        d->outputs[i] = add_tensor(d, outputs[i].name, outputs[i].datatype);
        d->outputs[i]->n_shape = 2;
        d->outputs[i]->shape[0] = -1;
        d->outputs[i]->shape[1] = (int64_t)outputs[i].elements;
    }
    r->inputs = d->inputs;
    r->n_inputs = m->inputs.count;
    r->outputs = d->outputs;
    r->n_outputs = n;
}

int serve_say_model(struct serve *s, const char *name, const char *version, serve_say *say,
                    void *ctx, struct err *err)
{
    Inference__ModelMetadataResponse r = INFERENCE__MODEL_METADATA_RESPONSE__INIT;
    struct metadata d = {0};
    struct err why = {0};
    char platform[] = PLATFORM;
    struct serve_model *m = serve_find(s, name, version, &why);
    if (m == NULL) {
        return err_set(err, why.code, "%s", why.msg);
    }
    char *versions[] = {m->version};
    describe(m, &d, &r);
    r.name = (char *)(uintptr_t)name;
    r.platform = platform;
    r.versions = versions;
    r.n_versions = 1;
    say(ctx, &r.base);
    free(d.tensors);
    free(d.dims);
    free(d.inputs);
    free(d.outputs);
    serve_model_unref(m);
    return 0;
}

static void on_model_metadata(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Inference__ModelMetadataRequest *q = (const Inference__ModelMetadataRequest *)msg->body;
    struct err err = {0};
    if (serve_say_model(service, q->name, q->version, reply, call, &err) != 0) {
        (void)rpc_fail(call, &err);
    }
}

/* ---- the same pages in the form of Triton's clients ---- */

static Inference__DataType data_type(const char *datatype)
{
    return strcmp(datatype, "FP32") == 0     ? INFERENCE__DATA_TYPE__TYPE_FP32
           : strcmp(datatype, "UINT64") == 0 ? INFERENCE__DATA_TYPE__TYPE_UINT64
                                             : INFERENCE__DATA_TYPE__TYPE_STRING;
}

struct config {
    Inference__ModelInput *inputs, **input_list;
    Inference__ModelOutput outputs[INFER_OUTPUTS_MAX], *output_list[INFER_OUTPUTS_MAX];
    int64_t *dims, output_dims[INFER_OUTPUTS_MAX];
};

static void configure(const struct serve_model *m, struct config *c, Inference__ModelConfig *r)
{
    struct infer_output outputs[INFER_OUTPUTS_MAX];
    r->n_input = m->inputs.count;
    r->n_output = infer_outputs(m, outputs);
    c->inputs = mem_new(r->n_input + 1, sizeof *c->inputs);
    c->input_list = mem_new(r->n_input + 1, sizeof(Inference__ModelInput *));
    c->dims = mem_new((r->n_input + 1) * DIMS_MAX, sizeof *c->dims);
    for (size_t i = 0; i < r->n_input; i++) {
        Inference__ModelInput *input = c->input_list[i] = &c->inputs[i];
        int64_t *dims = c->dims + i * DIMS_MAX;
        inference__model_input__init(input);
        input->name = (char *)(uintptr_t)m->inputs.items[i].name;
        input->data_type = data_type(infer_datatype(&m->inputs.items[i]));
        input->n_dims = input_dims(&m->inputs.items[i], dims) - 1;
        input->dims = dims + 1;
    }
    for (size_t i = 0; i < r->n_output; i++) {
        Inference__ModelOutput *output = c->output_list[i] = &c->outputs[i];
        inference__model_output__init(output);
        output->name = (char *)(uintptr_t)outputs[i].name;
        output->data_type = data_type(outputs[i].datatype);
        c->output_dims[i] = (int64_t)outputs[i].elements;
        output->dims = &c->output_dims[i];
        output->n_dims = 1;
    }
    r->input = c->input_list;
    r->output = c->output_list;
    r->max_batch_size = (int32_t)m->batch_max;
}

int serve_say_config(struct serve *s, const char *name, const char *version, serve_say *say,
                     void *ctx, struct err *err)
{
    Inference__ModelConfigResponse r = INFERENCE__MODEL_CONFIG_RESPONSE__INIT;
    Inference__ModelConfig config = INFERENCE__MODEL_CONFIG__INIT;
    Inference__ModelDynamicBatching batching = INFERENCE__MODEL_DYNAMIC_BATCHING__INIT;
    struct config c = {0};
    struct err why = {0};
    char platform[] = PLATFORM;
    struct serve_model *m = serve_find(s, name, version, &why);
    if (m == NULL) {
        return err_set(err, why.code, "%s", why.msg);
    }
    configure(m, &c, &config);
    config.name = (char *)(uintptr_t)name;
    config.platform = platform;
    batching.max_queue_delay_microseconds = serve_delay_us(s);
    config.scheduling_choice_case = INFERENCE__MODEL_CONFIG__SCHEDULING_CHOICE_DYNAMIC_BATCHING;
    config.dynamic_batching = &batching;
    r.config = &config;
    say(ctx, &r.base);
    free(c.inputs);
    free(c.input_list);
    free(c.dims);
    serve_model_unref(m);
    return 0;
}

static void on_model_config(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Inference__ModelConfigRequest *q = (const Inference__ModelConfigRequest *)msg->body;
    struct err err = {0};
    if (serve_say_config(service, q->name, q->version, reply, call, &err) != 0) {
        (void)rpc_fail(call, &err);
    }
}

/* ---- requests ---- */

struct asked {
    struct rpc_call *call;
    struct rpc_msg *msg;
};

static void end_asked(struct asked *a)
{
    rpc_msg_unref(a->msg);
    rpc_call_unref(a->call);
    free(a);
}

static void answer_call(void *ctx, const Inference__ModelInferResponse *answer)
{
    struct asked *a = ctx;
    (void)rpc_reply(a->call, &answer->base, NULL);
    end_asked(a);
}

static void fail_call(void *ctx, const struct err *err)
{
    struct asked *a = ctx;
    (void)rpc_fail(a->call, err);
    end_asked(a);
}

static void on_infer(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    static const struct serve_asker asker = {answer_call, fail_call};
    struct asked *a = mem_new(1, sizeof *a);
    *a = (struct asked){.call = rpc_call_ref(call), .msg = rpc_msg_ref(msg)};
    serve_infer(service, (const Inference__ModelInferRequest *)msg->body, &asker, a);
}

const struct rpc_method serve_methods[] = {
    {.name = "ServerLive", .request = on_live},
    {.name = "ServerReady", .request = on_ready},
    {.name = "ModelReady", .request = on_model_ready},
    {.name = "ServerMetadata", .request = on_server_metadata},
    {.name = "ModelMetadata", .request = on_model_metadata},
    {.name = "ModelInfer", .request = on_infer},
    {.name = "ModelConfig", .request = on_model_config},
};
const size_t serve_method_count = sizeof serve_methods / sizeof serve_methods[0];
