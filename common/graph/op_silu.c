/* SPDX-License-Identifier: Apache-2.0 */
/* silu: y = x / (1 + e^-x). */
#include "graph/layer_onnx.h"
#include "graph/op.h"
#include "tensor/activation.h"

static void silu_forward(const struct layer_run *r)
{
    activation_silu(r->count * r->layer->out_count, r->x, r->y);
}

static void silu_backward(const struct layer_run *r)
{
    if (r->dx != NULL) {
        activation_silu_backward(r->count * r->layer->out_count, r->x, r->dy, r->dx);
    }
}

static int silu_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    const char *x = layer_onnx_any(o, 0);
    const char *gate = onnx_graph_op(o->graph, "Sigmoid", "/sigmoid", x, NULL);
    return layer_onnx_keep(o, onnx_graph_op(o->graph, "Mul", "", x, gate, NULL));
}

extern const struct layer_kind layer_silu;
const struct layer_kind layer_silu = {
    .name = "silu",
    .help = "Sigmoid linear unit (swish): the input times its sigmoid",
    .plan = layer_plan_same_shape,
    .forward = silu_forward,
    .backward = silu_backward,
    .onnx = silu_onnx,
};
