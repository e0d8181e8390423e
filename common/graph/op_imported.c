/* SPDX-License-Identifier: Apache-2.0 */
/* The graph of an ONNX file as a layer: the only one of its model, and none that a job file can
 * name. Losses, metrics, evaluation and answers see a layer like any other. */
#include "base/rng.h"
#include "graph/op.h"
#include "onnx_net/onnx_net.h"

static int onnx_plan(struct layer *l, struct err *err)
{
    l->variables = onnx_net_variables(l->net);
    l->variable_count = onnx_net_variable_count(l->net);
    return onnx_net_output(l->net, &l->in, &l->out, err);
}

static int onnx_open(const struct layer *l, size_t batch_max, void **engine, struct err *err)
{
    struct onnx_run *run = NULL;
    int rc = onnx_run_new(l->net, &l->in, batch_max, &run, err);
    *engine = run;
    return rc == 0 ? 0 : err_wrap(err, "model.onnx, %zu records at once", batch_max);
}

static void onnx_close(void *engine)
{
    onnx_run_free(engine);
}

static size_t onnx_bytes(const struct layer *l, size_t batch_max)
{
    return onnx_run_bytes(l->net, &l->in, batch_max);
}

static void onnx_forward(const struct layer_run *r)
{
    uint64_t key = 0;
    if (r->training) {
        key = rng_key_mix(rng_key_mix(rng_key(r->step->seed, r->layer->name), r->step->step),
                          r->step->replica);
    }
    onnx_run_forward(r->engine, r->count, r->training, key, r->values, r->x, r->y);
}

static void onnx_backward(const struct layer_run *r)
{
    onnx_run_backward(r->engine, r->values, r->dy, r->gradients);
}

extern const struct layer_kind layer_imported;
const struct layer_kind layer_imported = {
    .name = "onnx",
    .help = "The graph of an ONNX file",
    .plan = onnx_plan,
    .forward = onnx_forward,
    .backward = onnx_backward,
    .open = onnx_open,
    .close = onnx_close,
    .engine_bytes = onnx_bytes,
};
