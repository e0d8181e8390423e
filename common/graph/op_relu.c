/* SPDX-License-Identifier: Apache-2.0 */
/* relu: y = max(x, 0). */
#include "graph/layer_onnx.h"
#include "graph/op.h"
#include "tensor/activation.h"

static void relu_forward(const struct layer_run *r)
{
    activation_relu(r->count * r->layer->out_count, r->x, r->y);
}

static void relu_backward(const struct layer_run *r)
{
    if (r->dx != NULL) {
        activation_relu_backward(r->count * r->layer->out_count, r->y, r->dy, r->dx);
    }
}

static int relu_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    return layer_onnx_keep(o, onnx_graph_op(o->graph, "Relu", "", layer_onnx_any(o, 0), NULL));
}

extern const struct layer_kind layer_relu;
const struct layer_kind layer_relu = {
    .name = "relu",
    .help = "Rectifier: negative inputs become 0",
    .in_place = true,
    .reads_output = true,
    .plan = layer_plan_same_shape,
    .forward = relu_forward,
    .backward = relu_backward,
    .onnx = relu_onnx,
};
