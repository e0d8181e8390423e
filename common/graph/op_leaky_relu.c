/* SPDX-License-Identifier: Apache-2.0 */
/* leaky_relu: y = x, below 0 alpha · x. */
#include "graph/layer_onnx.h"
#include "graph/op.h"
#include "tensor/activation.h"

struct leaky_relu_params {
    double alpha;
};

static const struct field leaky_relu_fields[] = {
    {"alpha", FIELD_FLOAT, offsetof(struct leaky_relu_params, alpha), "0.01", 0, 1000, NULL,
     "Slope below 0"},
};

static float alpha_of(const struct layer *l)
{
    const struct leaky_relu_params *p = l->params;
    return (float)p->alpha;
}

static void leaky_relu_forward(const struct layer_run *r)
{
    activation_leaky_relu(r->count * r->layer->out_count, alpha_of(r->layer), r->x, r->y);
}

static void leaky_relu_backward(const struct layer_run *r)
{
    if (r->dx != NULL) {
        activation_leaky_relu_backward(r->count * r->layer->out_count, alpha_of(r->layer), r->y,
                                       r->dy, r->dx);
    }
}

static int leaky_relu_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    const struct onnx_attr alpha = ONNX_ATTR_FLOAT("alpha", alpha_of(o->layer));
    const char *x = layer_onnx_any(o, 0);
    return layer_onnx_keep(o, onnx_graph_node(o->graph, "LeakyRelu", "", &x, 1, &alpha, 1));
}

extern const struct layer_kind layer_leaky_relu;
const struct layer_kind layer_leaky_relu = {
    .name = "leaky_relu",
    .help = "Rectifier with a slope below 0",
    .fields = leaky_relu_fields,
    .field_count = sizeof leaky_relu_fields / sizeof leaky_relu_fields[0],
    .params_bytes = sizeof(struct leaky_relu_params),
    .in_place = true,
    .reads_output = true,
    .plan = layer_plan_same_shape,
    .forward = leaky_relu_forward,
    .backward = leaky_relu_backward,
    .onnx = leaky_relu_onnx,
};
