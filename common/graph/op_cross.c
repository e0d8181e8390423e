/* SPDX-License-Identifier: Apache-2.0 */
/* cross: a layer of a deep & cross network, version 2 (Wang et al. 2021): y = x0 ∘ (x · kernel +
 * bias) + x. Its inputs are x0, what all cross layers of a stack start from, and x, the layer
 * before; with one input, x is x0. With `rank` the kernel is the product of two narrow ones. */
#include <string.h>

#include "graph/layer_onnx.h"
#include "graph/op.h"
#include "tensor/blas.h"
#include "tensor/kernel.h"

struct cross_params {
    int64_t rank;
    struct init_params kernel, bias;
};

static const struct field cross_fields[] = {
    {"rank", FIELD_INT, offsetof(struct cross_params, rank), "0", 0, 1 << 24, NULL,
     "Columns of the kernel's first factor and rows of its second; 0: one square kernel"},
    INIT_FIELDS(struct cross_params, kernel, "kernel", "glorot_uniform"),
    INIT_FIELDS(struct cross_params, bias, "bias", "zeros"),
};

/* The variables: kernel, or down and up; bias at last. */
static size_t rank_of(const struct layer *l)
{
    return (size_t)((const struct cross_params *)l->params)->rank;
}

static int add_kernels(struct layer *l, const struct cross_params *p, struct err *err)
{
    const uint64_t n = l->in_count, rank = rank_of(l);
    const struct shape square = {.rank = 2, .dims = {n, n}};
    const struct shape down = {.rank = 2, .dims = {n, rank}}, up = {.rank = 2, .dims = {rank, n}};
    if (rank == 0) {
        return layer_add_variable(l, "kernel", &square, &p->kernel, n, n, err);
    }
    int rc = layer_add_variable(l, "kernel_down", &down, &p->kernel, n, rank, err);
    return rc != 0 ? rc : layer_add_variable(l, "kernel_up", &up, &p->kernel, rank, n, err);
}

static int cross_plan(struct layer *l, struct err *err)
{
    const struct cross_params *p = l->params;
    const size_t n = l->in_count;
    int rc = layer_check_same_inputs(l, err);
    if (rc == 0 && l->in.rank != 1) {
        char shape[96];
        rc = err_set(err, ERR_INVALID,
                     "a cross layer needs one row of numbers, but its input is %s; put a flatten "
                     "layer in front of it",
                     shape_format(&l->in, shape, sizeof shape));
    }
    if (rc == 0 && rank_of(l) > n) {
        rc = err_set(err, ERR_INVALID, "rank %zu is more than its %zu inputs; up to %zu would fit",
                     rank_of(l), n, n);
    }
    rc = rc != 0 ? rc : add_kernels(l, p, err);
    rc = rc != 0 ? rc : layer_plan_same_shape(l, err);
    /* x · kernel + bias and its gradient, and both of x · down */
    l->state_bytes = 2 * (n + rank_of(l)) * sizeof(float);
    return rc != 0 ? rc : layer_add_variable(l, "bias", &l->out, &p->bias, n, n, err);
}

struct cross_run {
    size_t n, rank, count;
    const float *x0, *x;
    float *product, *d_product; /* [count × n] */
    float *low, *d_low;         /* [count × rank] */
};

static struct cross_run cross_run(const struct layer_run *r)
{
    const size_t n = r->layer->in_count, rank = rank_of(r->layer);
    float *state = r->state;
    return (struct cross_run){.n = n,
                              .rank = rank,
                              .count = r->count,
                              .x0 = r->xs[0],
                              .x = r->xs[r->layer->input_count - 1],
                              .product = state,
                              .d_product = state + r->count * n,
                              .low = state + 2 * r->count * n,
                              .d_low = state + r->count * (2 * n + rank)};
}

static void cross_forward(const struct layer_run *r)
{
    const struct cross_run c = cross_run(r);
    const float *bias = r->values[r->layer->variable_count - 1];
    kernel_repeat_row(c.count, c.n, bias, c.product);
    if (c.rank == 0) {
        blas_gemm(false, false, c.count, c.n, c.n, c.x, r->values[0], 1.0F, c.product);
    } else {
        blas_gemm(false, false, c.count, c.rank, c.n, c.x, r->values[0], 0.0F, c.low);
        blas_gemm(false, false, c.count, c.n, c.rank, c.low, r->values[1], 1.0F, c.product);
    }
    kernel_multiply(c.count * c.n, c.x0, c.product, r->y);
    kernel_add(c.count * c.n, c.x, r->y);
}

/* Gradients of the kernels; and, unless NULL, @dx, the part of x's gradient that goes through them.
 */
static void product_backward(const struct layer_run *r, const struct cross_run *c, float *dx)
{
    const float *d = c->d_product;
    if (c->rank == 0) {
        blas_gemm(true, false, c->n, c->n, c->count, c->x, d, 0.0F, r->gradients[0]);
        if (dx != NULL) {
            blas_gemm(false, true, c->count, c->n, c->n, d, r->values[0], 0.0F, dx);
        }
        return;
    }
    blas_gemm(true, false, c->rank, c->n, c->count, c->low, d, 0.0F, r->gradients[1]);
    blas_gemm(false, true, c->count, c->rank, c->n, d, r->values[1], 0.0F, c->d_low);
    blas_gemm(true, false, c->n, c->rank, c->count, c->x, c->d_low, 0.0F, r->gradients[0]);
    if (dx != NULL) {
        blas_gemm(false, true, c->count, c->n, c->rank, c->d_low, r->values[0], 0.0F, dx);
    }
}

static void cross_backward(const struct layer_run *r)
{
    const struct cross_run c = cross_run(r);
    const size_t all = c.count * c.n, last = r->layer->input_count - 1;
    kernel_multiply(all, r->dy, c.x0, c.d_product);
    kernel_column_sums(c.count, c.n, c.d_product, r->gradients[r->layer->variable_count - 1]);
    product_backward(r, &c, r->dxs[last]);
    if (r->dxs[last] != NULL) {
        kernel_add(all, r->dy, r->dxs[last]);
    }
    if (r->dxs[0] == NULL) {
        return;
    }
    if (last > 0) {
        kernel_multiply(all, r->dy, c.product, r->dxs[0]);
    } else {
        kernel_multiply(all, r->dy, c.product, c.d_product);
        kernel_add(all, c.d_product, r->dxs[0]);
    }
}

static int cross_onnx(struct layer_onnx *o, struct err *err)
{
    (void)err;
    struct onnx_graph *g = o->graph;
    const char *x0 = layer_onnx_last(o, 0), *x = layer_onnx_last(o, o->layer->input_count - 1);
    const bool narrow = rank_of(o->layer) > 0;
    const char *low =
        narrow ? onnx_graph_op(g, "MatMul", "/low", x, layer_onnx_variable(o, 0), NULL) : x;
    const char *kernel = layer_onnx_variable(o, narrow ? 1 : 0);
    const char *product = onnx_graph_op(g, "Gemm", "/product", low, kernel,
                                        layer_onnx_variable(o, o->layer->variable_count - 1), NULL);
    const char *crossed = onnx_graph_op(g, "Mul", "/crossed", x0, product, NULL);
    return layer_onnx_is(o, onnx_graph_op(g, "Add", "", crossed, x, NULL));
}

extern const struct layer_kind layer_cross;
const struct layer_kind layer_cross = {
    .name = "cross",
    .help = "A cross layer of DCN v2: its first input times a weighted sum of its second, plus the "
            "second; with one input, that is both",
    .fields = cross_fields,
    .field_count = sizeof cross_fields / sizeof cross_fields[0],
    .params_bytes = sizeof(struct cross_params),
    .inputs_max = 2,
    .plan = cross_plan,
    .forward = cross_forward,
    .backward = cross_backward,
    .onnx = cross_onnx,
};
