/* SPDX-License-Identifier: Apache-2.0 */
/* softplus: y = log(1 + e^x). */
#include "graph/layer_onnx.h"
#include "graph/op.h"
#include "tensor/activation.h"

static void softplus_forward(const struct layer_run *r)
{
    activation_softplus(r->count * r->layer->out_count, r->x, r->y);
}

static void softplus_backward(const struct layer_run *r)
{
    if (r->dx != NULL) {
        activation_softplus_backward(r->count * r->layer->out_count, r->x, r->dy, r->dx);
    }
}

static int softplus_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    return layer_onnx_keep(o, onnx_graph_op(o->graph, "Softplus", "", layer_onnx_any(o, 0), NULL));
}

extern const struct layer_kind layer_softplus;
const struct layer_kind layer_softplus = {
    .name = "softplus",
    .help = "A smooth rectifier, above 0 everywhere",
    .plan = layer_plan_same_shape,
    .forward = softplus_forward,
    .backward = softplus_backward,
    .onnx = softplus_onnx,
};
