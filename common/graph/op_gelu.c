/* SPDX-License-Identifier: Apache-2.0 */
/* gelu: y = x · Φ(x), exactly or by the tanh approximation. */
#include "graph/layer_onnx.h"
#include "graph/op.h"
#include "tensor/activation.h"

struct gelu_params {
    bool approximate;
};

static const struct field gelu_fields[] = {
    {"approximate", FIELD_BOOL, offsetof(struct gelu_params, approximate), "false", 0, 0, NULL,
     "Use the tanh approximation in place of the normal distribution"},
};

static void gelu_forward(const struct layer_run *r)
{
    const struct gelu_params *p = r->layer->params;
    const size_t n = r->count * r->layer->out_count;
    if (p->approximate) {
        activation_gelu_tanh(n, r->x, r->y);
    } else {
        activation_gelu(n, r->x, r->y);
    }
}

static void gelu_backward(const struct layer_run *r)
{
    const struct gelu_params *p = r->layer->params;
    const size_t n = r->count * r->layer->out_count;
    if (r->dx == NULL) {
        return;
    }
    if (p->approximate) {
        activation_gelu_tanh_backward(n, r->x, r->dy, r->dx);
    } else {
        activation_gelu_backward(n, r->x, r->dy, r->dx);
    }
}

/* erf(x / √2), of x/2 · (1 + erf(x / √2)) */
static const char *onnx_exact(struct onnx_graph *g, const char *x)
{
    const char *root = onnx_graph_float(g, "/root_2", 1.41421356F);
    return onnx_graph_op(g, "Erf", "/erf", onnx_graph_op(g, "Div", "/scaled", x, root, NULL), NULL);
}

/* The tanh of x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))) */
static const char *onnx_approximate(struct onnx_graph *g, const char *x)
{
    const char *cube =
        onnx_graph_op(g, "Mul", "/cube", onnx_graph_op(g, "Mul", "/square", x, x, NULL), x, NULL);
    const char *part =
        onnx_graph_op(g, "Mul", "/part", cube, onnx_graph_float(g, "/cubic", 0.044715F), NULL);
    const char *sum = onnx_graph_op(g, "Add", "/sum", x, part, NULL);
    const char *scaled = onnx_graph_op(g, "Mul", "/scaled", sum,
                                       onnx_graph_float(g, "/root_2_pi", 0.797884561F), NULL);
    return onnx_graph_op(g, "Tanh", "/tanh", scaled, NULL);
}

static int gelu_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    const struct gelu_params *p = o->layer->params;
    struct onnx_graph *g = o->graph;
    const char *x = layer_onnx_any(o, 0);
    const char *bent = p->approximate ? onnx_approximate(g, x) : onnx_exact(g, x);
    const char *raised =
        onnx_graph_op(g, "Add", "/raised", bent, onnx_graph_float(g, "/one", 1.0F), NULL);
    const char *product = onnx_graph_op(g, "Mul", "/product", x, raised, NULL);
    return layer_onnx_keep(
        o, onnx_graph_op(g, "Mul", "", product, onnx_graph_float(g, "/half", 0.5F), NULL));
}

extern const struct layer_kind layer_gelu;
const struct layer_kind layer_gelu = {
    .name = "gelu",
    .help = "Gaussian error linear unit: a smooth rectifier",
    .fields = gelu_fields,
    .field_count = sizeof gelu_fields / sizeof gelu_fields[0],
    .params_bytes = sizeof(struct gelu_params),
    .plan = layer_plan_same_shape,
    .forward = gelu_forward,
    .backward = gelu_backward,
    .onnx = gelu_onnx,
};
