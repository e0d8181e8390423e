/* SPDX-License-Identifier: Apache-2.0 */
/* elu: y = x, below 0 alpha · (e^x - 1). */
#include "graph/layer_onnx.h"
#include "graph/op.h"
#include "tensor/activation.h"

struct elu_params {
    double alpha;
};

static const struct field elu_fields[] = {
    {"alpha", FIELD_FLOAT, offsetof(struct elu_params, alpha), "1", 0, 1000, NULL,
     "How far outputs go below 0"},
};

static float alpha_of(const struct layer *l)
{
    const struct elu_params *p = l->params;
    return (float)p->alpha;
}

static void elu_forward(const struct layer_run *r)
{
    activation_elu(r->count * r->layer->out_count, alpha_of(r->layer), r->x, r->y);
}

static void elu_backward(const struct layer_run *r)
{
    if (r->dx != NULL) {
        activation_elu_backward(r->count * r->layer->out_count, alpha_of(r->layer), r->y, r->dy,
                                r->dx);
    }
}

static int elu_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    const struct onnx_attr alpha = ONNX_ATTR_FLOAT("alpha", alpha_of(o->layer));
    const char *x = layer_onnx_any(o, 0);
    return layer_onnx_keep(o, onnx_graph_node(o->graph, "Elu", "", &x, 1, &alpha, 1));
}

extern const struct layer_kind layer_elu;
const struct layer_kind layer_elu = {
    .name = "elu",
    .help = "Exponential linear unit: a rectifier that goes to -alpha below 0",
    .fields = elu_fields,
    .field_count = sizeof elu_fields / sizeof elu_fields[0],
    .params_bytes = sizeof(struct elu_params),
    .in_place = true,
    .reads_output = true,
    .plan = layer_plan_same_shape,
    .forward = elu_forward,
    .backward = elu_backward,
    .onnx = elu_onnx,
};
