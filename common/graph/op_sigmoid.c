/* SPDX-License-Identifier: Apache-2.0 */
/* sigmoid: y = 1 / (1 + e^-x). */
#include "graph/layer_onnx.h"
#include "graph/op.h"
#include "tensor/activation.h"

static void sigmoid_forward(const struct layer_run *r)
{
    activation_sigmoid(r->count * r->layer->out_count, r->x, r->y);
}

static void sigmoid_backward(const struct layer_run *r)
{
    if (r->dx != NULL) {
        activation_sigmoid_backward(r->count * r->layer->out_count, r->y, r->dy, r->dx);
    }
}

static int sigmoid_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    return layer_onnx_keep(o, onnx_graph_op(o->graph, "Sigmoid", "", layer_onnx_any(o, 0), NULL));
}

extern const struct layer_kind layer_sigmoid;
const struct layer_kind layer_sigmoid = {
    .name = "sigmoid",
    .help = "Logistic function: outputs between 0 and 1",
    .in_place = true,
    .reads_output = true,
    .plan = layer_plan_same_shape,
    .forward = sigmoid_forward,
    .backward = sigmoid_backward,
    .onnx = sigmoid_onnx,
};
