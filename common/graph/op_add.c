/* SPDX-License-Identifier: Apache-2.0 */
/* add: the sum of the inputs, element by element; with a layer and what it reads, a residual block.
 */
#include <string.h>

#include "graph/layer_onnx.h"
#include "graph/op.h"
#include "tensor/kernel.h"

static int add_plan(struct layer *l, struct err *err)
{
    int rc = layer_check_same_inputs(l, err);
    return rc != 0 ? rc : layer_plan_same_shape(l, err);
}

static void add_forward(const struct layer_run *r)
{
    const size_t n = r->count * r->layer->out_count;
    memcpy(r->y, r->xs[0], n * sizeof *r->y);
    for (size_t k = 1; k < r->layer->input_count; k++) {
        kernel_add(n, r->xs[k], r->y);
    }
}

static void add_backward(const struct layer_run *r)
{
    for (size_t k = 0; k < r->layer->input_count; k++) {
        if (r->dxs[k] != NULL) {
            memcpy(r->dxs[k], r->dy, r->count * r->layer->out_count * sizeof *r->dy);
        }
    }
}

static int add_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    return layer_onnx_chain(o, "Add");
}

extern const struct layer_kind layer_add;
const struct layer_kind layer_add = {
    .name = "add",
    .help = "The sum of its inputs, element by element; what a residual block ends with",
    .inputs_min = 2,
    .inputs_max = LAYER_INPUTS_MAX,
    .plan = add_plan,
    .forward = add_forward,
    .backward = add_backward,
    .onnx = add_onnx,
};
