/* SPDX-License-Identifier: Apache-2.0 */
/* MatMul and Gemm. */
#include <string.h>

#include "base/mem.h"
#include "onnx_net/onnx_op.h"
#include "tensor/blas.h"
#include "tensor/kernel.h"

/* ---- MatMul: as numpy.matmul ---- */

struct matmul {
    size_t m, n, k;
    bool one;                     /* b is one matrix for all of a: a single product */
    struct onnx_broadcast stacks; /* of matrices */
    size_t stack_count;
};

/* The dimensions in front of the matrix, which is made of the last @keep ones. */
static struct onnx_dims stacks_of(const struct onnx_dims *d)
{
    struct onnx_dims out = {.rank = d->rank > 2 ? d->rank - 2 : 0};
    memcpy(out.dims, d->dims, out.rank * sizeof *out.dims);
    return out;
}

static int matmul_shape(struct onnx_step *s, struct err *err)
{
    const struct onnx_dims *a = &s->in[0]->shape, *b = &s->in[1]->shape;
    struct matmul *p = mem_new(1, sizeof *p);
    s->plan = p;
    int rc = onnx_needs_floats(s, 0, err);
    rc = rc != 0 ? rc : onnx_needs_floats(s, 1, err);
    if (rc != 0) {
        return rc;
    }
    if (a->rank == 0 || b->rank == 0) {
        return err_set(err, ERR_INVALID, "an input is a single number; matrices would fit");
    }
    p->m = a->rank == 1 ? 1 : a->dims[a->rank - 2];
    p->k = a->dims[a->rank - 1];
    p->n = b->rank == 1 ? 1 : b->dims[b->rank - 1];
    const size_t rows = b->rank == 1 ? b->dims[0] : b->dims[b->rank - 2];
    if (rows != p->k) {
        char left[128], right[128];
        return err_set(err, ERR_INVALID,
                       "%s and %s have no product; as many columns as the second has rows would "
                       "fit",
                       onnx_dims_format(a, left, sizeof left),
                       onnx_dims_format(b, right, sizeof right));
    }
    const struct onnx_dims sa = stacks_of(a), sb = stacks_of(b);
    struct onnx_dims out;
    rc = onnx_broadcast_shapes(&sa, &sb, &out, err);
    if (rc != 0) {
        return rc;
    }
    onnx_broadcast_make(&sa, &sb, &out, &p->stacks);
    p->stack_count = onnx_dims_count(&out);
    p->one = b->rank <= 2;
    if (a->rank > 1) {
        out.dims[out.rank++] = p->m;
    }
    if (b->rank > 1) {
        out.dims[out.rank++] = p->n;
    }
    return onnx_set_shape(s->out[0], ONNX_FLOAT, &out, err);
}

/* Calls @each for every pair of matrices. */
static void pairs(const struct onnx_calc *c, const struct matmul *p,
                  void (*each)(const struct onnx_calc *c, const struct matmul *p, size_t a,
                               size_t b, size_t y))
{
    const size_t last = p->stacks.rank - 1;
    struct onnx_row at = {0};
    size_t y = 0;
    for (size_t r = 0; r < onnx_broadcast_rows(&p->stacks); r++) {
        for (size_t i = 0; i < p->stacks.dims[last]; i++) {
            each(c, p, at.a + i * p->stacks.a[last], at.b + i * p->stacks.b[last], y++);
        }
        onnx_row_next(&p->stacks, &at);
    }
}

static void multiply(const struct onnx_calc *c, const struct matmul *p, size_t a, size_t b,
                     size_t y)
{
    blas_gemm(false, false, p->m, p->n, p->k, c->x[0] + a * p->m * p->k, c->x[1] + b * p->k * p->n,
              0.0F, c->y[0] + y * p->m * p->n);
}

static void matmul_forward(const struct onnx_calc *c)
{
    const struct matmul *p = c->step->plan;
    if (p->one) {
        blas_gemm(false, false, p->stack_count * p->m, p->n, p->k, c->x[0], c->x[1], 0.0F, c->y[0]);
    } else {
        pairs(c, p, multiply);
    }
}

static void add_da(const struct onnx_calc *c, const struct matmul *p, size_t a, size_t b, size_t y)
{
    blas_gemm(false, true, p->m, p->k, p->n, c->dy[0] + y * p->m * p->n, c->x[1] + b * p->k * p->n,
              1.0F, c->dx[0] + a * p->m * p->k);
}

static void add_db(const struct onnx_calc *c, const struct matmul *p, size_t a, size_t b, size_t y)
{
    blas_gemm(true, false, p->k, p->n, p->m, c->x[0] + a * p->m * p->k, c->dy[0] + y * p->m * p->n,
              1.0F, c->dx[1] + b * p->k * p->n);
}

static void matmul_backward(const struct onnx_calc *c)
{
    const struct matmul *p = c->step->plan;
    const size_t m = p->stack_count * p->m;
    if (p->one && c->dx[0] != NULL) {
        blas_gemm(false, true, m, p->k, p->n, c->dy[0], c->x[1], 0.0F, c->dx[0]);
    }
    if (p->one && c->dx[1] != NULL) {
        blas_gemm(true, false, p->k, p->n, m, c->x[0], c->dy[0], 0.0F, c->dx[1]);
    }
    for (size_t i = 0; i < 2 && !p->one; i++) {
        if (c->dx[i] != NULL) {
            memset(c->dx[i], 0, c->step->in[i]->count * sizeof(float));
            pairs(c, p, i == 0 ? add_da : add_db);
        }
    }
}

const struct onnx_op onnx_op_matmul = {"MatMul",        2, 2, 1, 0, matmul_shape, matmul_forward,
                                       matmul_backward, 0};

/* ---- Gemm: alpha · op(a) · op(b) + beta · c ---- */

struct gemm {
    size_t m, n, k;
    bool turn_a, turn_b;
    float alpha, beta;
    struct onnx_broadcast bias; /* the output with c */
};

static int gemm_check(const struct onnx_step *s, struct err *err)
{
    for (size_t i = 0; i < 2; i++) {
        int rc = onnx_needs_floats(s, i, err);
        if (rc == 0 && s->in[i]->shape.rank != 2) {
            rc = err_set(err, ERR_INVALID, "input %zu has %zu dimensions; 2 would fit", i,
                         s->in[i]->shape.rank);
        }
        if (rc != 0) {
            return rc;
        }
    }
    return onnx_in_is(s, 2) ? onnx_needs_floats(s, 2, err) : 0;
}

static int gemm_bias(const struct onnx_step *s, struct gemm *p, const struct onnx_dims *out,
                     struct err *err)
{
    struct onnx_dims both;
    char text[128];
    int rc = onnx_broadcast_shapes(out, &s->in[2]->shape, &both, err);
    if (rc == 0 && !onnx_dims_equal(&both, out)) {
        rc = err_set(err, ERR_INVALID, "what is added is larger than the product %s",
                     onnx_dims_format(out, text, sizeof text));
    }
    if (rc == 0) {
        onnx_broadcast_make(out, &s->in[2]->shape, out, &p->bias);
    }
    return rc;
}

static int gemm_shape(struct onnx_step *s, struct err *err)
{
    struct gemm *p = mem_new(1, sizeof *p);
    s->plan = p;
    int rc = gemm_check(s, err);
    if (rc != 0) {
        return rc;
    }
    const size_t *a = s->in[0]->shape.dims, *b = s->in[1]->shape.dims;
    p->turn_a = onnx_attribute_int(s->node, "transA", 0) != 0;
    p->turn_b = onnx_attribute_int(s->node, "transB", 0) != 0;
    p->alpha = onnx_attribute_float(s->node, "alpha", 1.0F);
    p->beta = onnx_attribute_float(s->node, "beta", 1.0F);
    p->m = a[p->turn_a];
    p->k = a[!p->turn_a];
    p->n = b[!p->turn_b];
    if (b[p->turn_b] != p->k) {
        char left[128], right[128];
        return err_set(err, ERR_INVALID, "%s%s and %s%s have no product",
                       onnx_dims_format(&s->in[0]->shape, left, sizeof left),
                       p->turn_a ? " transposed" : "",
                       onnx_dims_format(&s->in[1]->shape, right, sizeof right),
                       p->turn_b ? " transposed" : "");
    }
    const struct onnx_dims out = {.rank = 2, .dims = {p->m, p->n}};
    rc = onnx_in_is(s, 2) ? gemm_bias(s, p, &out, err) : 0;
    s->scratch_floats = p->m * p->n;
    return rc != 0 ? rc : onnx_set_shape(s->out[0], ONNX_FLOAT, &out, err);
}

/* True if one row serves all rows of the output. */
static bool is_row(const struct onnx_calc *c, const struct gemm *p)
{
    const struct onnx_value *bias = c->step->in[2];
    const size_t rank = bias->shape.rank;
    return rank > 0 && bias->shape.dims[rank - 1] == p->n && bias->count == p->n;
}

/* y += beta · c, or y = it. */
static void add_bias(const struct onnx_calc *c, const struct gemm *p, bool first)
{
    const struct onnx_broadcast *plan = &p->bias;
    const size_t last = plan->rank - 1, n = plan->dims[last];
    struct onnx_row at = {0};
    for (size_t r = 0; r < onnx_broadcast_rows(plan); r++) {
        float *y = c->y[0] + r * n;
        for (size_t i = 0; i < n; i++) {
            y[i] = (first ? 0.0F : y[i]) + p->beta * c->x[2][at.b + i * plan->b[last]];
        }
        onnx_row_next(plan, &at);
    }
}

static void gemm_forward(const struct onnx_calc *c)
{
    const struct gemm *p = c->step->plan;
    const bool bias = onnx_in_is(c->step, 2), plain = p->alpha == 1.0F;
    if (bias && plain && p->beta == 1.0F && is_row(c, p)) {
        kernel_repeat_row(p->m, p->n, c->x[2], c->y[0]);
    } else if (bias && plain) {
        add_bias(c, p, true);
    }
    blas_gemm(p->turn_a, p->turn_b, p->m, p->n, p->k, c->x[0], c->x[1], bias && plain ? 1.0F : 0.0F,
              c->y[0]);
    for (size_t i = 0; !plain && i < p->m * p->n; i++) {
        c->y[0][i] *= p->alpha;
    }
    if (bias && !plain) {
        add_bias(c, p, false);
    }
}

static const float *scaled(const struct onnx_calc *c, const struct gemm *p, float by)
{
    if (by == 1.0F) {
        return c->dy[0];
    }
    for (size_t i = 0; i < p->m * p->n; i++) {
        c->scratch[i] = by * c->dy[0][i];
    }
    return c->scratch;
}

static void gemm_backward(const struct onnx_calc *c)
{
    const struct gemm *p = c->step->plan;
    if (onnx_in_is(c->step, 2) && c->dx[2] != NULL) {
        const float *g = scaled(c, p, p->beta);
        if (is_row(c, p)) {
            kernel_column_sums(p->m, p->n, g, c->dx[2]);
        } else {
            onnx_broadcast_sum_b(&p->bias, g, c->step->in[2]->count, c->dx[2]);
        }
    }
    const float *g = scaled(c, p, p->alpha);
    if (c->dx[0] != NULL && !p->turn_a) {
        blas_gemm(false, !p->turn_b, p->m, p->k, p->n, g, c->x[1], 0.0F, c->dx[0]);
    } else if (c->dx[0] != NULL) {
        blas_gemm(p->turn_b, true, p->k, p->m, p->n, c->x[1], g, 0.0F, c->dx[0]);
    }
    if (c->dx[1] != NULL && !p->turn_b) {
        blas_gemm(!p->turn_a, false, p->k, p->n, p->m, c->x[0], g, 0.0F, c->dx[1]);
    } else if (c->dx[1] != NULL) {
        blas_gemm(true, p->turn_a, p->n, p->k, p->m, g, c->x[0], 0.0F, c->dx[1]);
    }
}

const struct onnx_op onnx_op_gemm = {"Gemm",        2, 3, 1, 0, gemm_shape, gemm_forward,
                                     gemm_backward, 0};
