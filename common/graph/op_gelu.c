/* SPDX-License-Identifier: Apache-2.0 */
/* gelu: y = x · Φ(x), exactly or by the tanh approximation. */
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
};
