/* SPDX-License-Identifier: Apache-2.0 */
/* multiply: the product of the inputs, element by element. */
#include <string.h>

#include "graph/layer_onnx.h"
#include "graph/op.h"
#include "tensor/kernel.h"

static int multiply_plan(struct layer *l, struct err *err)
{
    int rc = layer_check_same_inputs(l, err);
    return rc != 0 ? rc : layer_plan_same_shape(l, err);
}

static void multiply_forward(const struct layer_run *r)
{
    const size_t n = r->count * r->layer->out_count;
    memcpy(r->y, r->xs[0], n * sizeof *r->y);
    for (size_t k = 1; k < r->layer->input_count; k++) {
        kernel_multiply(n, r->y, r->xs[k], r->y);
    }
}

/* Every input gets dy times all others: no division, for an input may be 0. */
static void multiply_backward(const struct layer_run *r)
{
    const size_t n = r->count * r->layer->out_count;
    for (size_t k = 0; k < r->layer->input_count; k++) {
        if (r->dxs[k] == NULL) {
            continue;
        }
        memcpy(r->dxs[k], r->dy, n * sizeof *r->dy);
        for (size_t j = 0; j < r->layer->input_count; j++) {
            if (j != k) {
                kernel_multiply(n, r->dxs[k], r->xs[j], r->dxs[k]);
            }
        }
    }
}

static int multiply_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    return layer_onnx_chain(o, "Mul");
}

extern const struct layer_kind layer_multiply;
const struct layer_kind layer_multiply = {
    .name = "multiply",
    .help = "The product of its inputs, element by element",
    .inputs_min = 2,
    .inputs_max = LAYER_INPUTS_MAX,
    .plan = multiply_plan,
    .forward = multiply_forward,
    .backward = multiply_backward,
    .onnx = multiply_onnx,
};
