/* SPDX-License-Identifier: Apache-2.0 */
/* tanh: y = tanh x. */
#include "graph/layer_onnx.h"
#include "graph/op.h"
#include "tensor/activation.h"

static void tanh_forward(const struct layer_run *r)
{
    activation_tanh(r->count * r->layer->out_count, r->x, r->y);
}

static void tanh_backward(const struct layer_run *r)
{
    if (r->dx != NULL) {
        activation_tanh_backward(r->count * r->layer->out_count, r->y, r->dy, r->dx);
    }
}

static int tanh_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    return layer_onnx_keep(o, onnx_graph_op(o->graph, "Tanh", "", layer_onnx_any(o, 0), NULL));
}

extern const struct layer_kind layer_tanh;
const struct layer_kind layer_tanh = {
    .name = "tanh",
    .help = "Hyperbolic tangent: outputs between -1 and 1",
    .in_place = true,
    .reads_output = true,
    .plan = layer_plan_same_shape,
    .forward = tanh_forward,
    .backward = tanh_backward,
    .onnx = tanh_onnx,
};
