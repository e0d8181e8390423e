/* SPDX-License-Identifier: Apache-2.0 */
/* dot: the inner product of two inputs, one number; with vectors of users and items, matrix
 * factorization. */
#include <string.h>

#include "graph/layer_onnx.h"
#include "graph/op.h"
#include "tensor/kernel.h"

static int dot_plan(struct layer *l, struct err *err)
{
    l->out = (struct shape){.rank = 1, .dims = {1}};
    return layer_check_same_inputs(l, err);
}

static void dot_forward(const struct layer_run *r)
{
    const size_t n = r->layer->in_count;
    for (size_t i = 0; i < r->count; i++) {
        r->y[i] = kernel_dot(r->xs[0] + i * n, r->xs[1] + i * n, n);
    }
}

static void dot_backward(const struct layer_run *r)
{
    const size_t n = r->layer->in_count;
    for (size_t k = 0; k < 2; k++) {
        const float *other = r->xs[1 - k];
        float *dx = r->dxs[k];
        if (dx == NULL) {
            continue;
        }
        memset(dx, 0, r->count * n * sizeof *dx);
        for (size_t i = 0; i < r->count; i++) {
            kernel_add_scaled(n, r->dy[i], other + i * n, dx + i * n);
        }
    }
}

static int dot_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    struct onnx_graph *g = o->graph;
    const char *products =
        onnx_graph_op(g, "Mul", "/products", layer_onnx_last(o, 0), layer_onnx_last(o, 1), NULL);
    products =
        o->layer->in.rank > 1 ? onnx_graph_op(g, "Flatten", "/row", products, NULL) : products;
    return layer_onnx_is(o, layer_onnx_sum(o, "", products, 1, true));
}

extern const struct layer_kind layer_dot;
const struct layer_kind layer_dot = {
    .name = "dot",
    .help = "The inner product of its two inputs: one number",
    .inputs_min = 2,
    .inputs_max = 2,
    .plan = dot_plan,
    .forward = dot_forward,
    .backward = dot_backward,
    .onnx = dot_onnx,
};
