/* SPDX-License-Identifier: Apache-2.0 */
/* dropout (Srivastava et al. 2014), scaled while training: y = x / (1 - rate) or 0.
 *
 * What is dropped is a pure function of (seed, layer name, step, replica, element), whoever
 * computes the replica. Evaluation passes everything through. */
#include <string.h>

#include "base/rng.h"
#include "graph/layer_onnx.h"
#include "graph/op.h"
#include "tensor/kernel.h"

struct dropout_params {
    double rate;
};

static const struct field dropout_fields[] = {
    {"rate", FIELD_FLOAT, offsetof(struct dropout_params, rate), "0.5", 0, 0.99, NULL,
     "Part of the inputs that is set to 0 while training"},
};

static int dropout_plan(struct layer *l, struct err *err)
{
    l->state_bytes = l->in_count; /* the mask */
    return layer_plan_same_shape(l, err);
}

static float keep_scale(const struct layer_run *r)
{
    const struct dropout_params *p = r->layer->params;
    return (float)(1.0 / (1.0 - p->rate));
}

static void dropout_forward(const struct layer_run *r)
{
    const struct dropout_params *p = r->layer->params;
    const size_t n = r->count * r->layer->in_count;
    if (!r->training) {
        if (r->y != r->x) {
            memcpy(r->y, r->x, n * sizeof *r->y);
        }
        return;
    }
    uint64_t key = rng_key(r->step->seed, r->layer->name);
    key = rng_key_mix(rng_key_mix(key, r->step->step), r->step->replica);
    kernel_dropout_mask(key, p->rate, n, r->state);
    kernel_mask(n, r->state, keep_scale(r), r->x, r->y);
}

static void dropout_backward(const struct layer_run *r)
{
    if (r->dx != NULL) {
        kernel_mask(r->count * r->layer->in_count, r->state, keep_scale(r), r->dy, r->dx);
    }
}

/* It passes everything through, but who trains the file finds the rate. */
static int dropout_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    const struct dropout_params *p = o->layer->params;
    const char *ratio = onnx_graph_float(o->graph, "/ratio", (float)p->rate);
    return layer_onnx_keep(
        o, onnx_graph_op(o->graph, "Dropout", "", layer_onnx_any(o, 0), ratio, NULL));
}

extern const struct layer_kind layer_dropout;
const struct layer_kind layer_dropout = {
    .name = "dropout",
    .help = "Sets a random part of its inputs to 0 while training",
    .fields = dropout_fields,
    .field_count = sizeof dropout_fields / sizeof dropout_fields[0],
    .params_bytes = sizeof(struct dropout_params),
    .in_place = true,
    .plan = dropout_plan,
    .forward = dropout_forward,
    .backward = dropout_backward,
    .onnx = dropout_onnx,
};
