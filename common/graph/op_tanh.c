/* SPDX-License-Identifier: Apache-2.0 */
/* tanh: y = tanh x. */
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

extern const struct layer_kind layer_tanh;
const struct layer_kind layer_tanh = {
    .name = "tanh",
    .help = "Hyperbolic tangent: outputs between -1 and 1",
    .in_place = true,
    .reads_output = true,
    .plan = layer_plan_same_shape,
    .forward = tanh_forward,
    .backward = tanh_backward,
};
