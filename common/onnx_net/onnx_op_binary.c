/* SPDX-License-Identifier: Apache-2.0 */
/* Add, Sub, Mul, Div and Pow of two tensors that are broadcast; of known whole numbers, too. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/vector.h"
#include "onnx_net/onnx_op.h"
#include "tensor/kernel.h"

enum binary { ADD, SUB, MUL, DIV, POW };

/* y = EXPRESSION of a and b over a row; either may be one number for all of it. */
#define ROW(expression)                                                                            \
    if (sa == 1 && sb == 1) {                                                                      \
        VECTOR_LOOP                                                                                \
        for (size_t i = 0; i < n; i++) {                                                           \
            const float a = x[i], b = z[i];                                                        \
            y[i] = (expression);                                                                   \
        }                                                                                          \
    } else if (sa == 1) {                                                                          \
        const float b = *z;                                                                        \
        VECTOR_LOOP                                                                                \
        for (size_t i = 0; i < n; i++) {                                                           \
            const float a = x[i];                                                                  \
            y[i] = (expression);                                                                   \
        }                                                                                          \
    } else {                                                                                       \
        const float a = *x;                                                                        \
        VECTOR_LOOP                                                                                \
        for (size_t i = 0; i < n; i++) {                                                           \
            const float b = sb == 1 ? z[i] : *z;                                                   \
            y[i] = (expression);                                                                   \
        }                                                                                          \
    }

static float power(float a, float b)
{
    return b == 2.0F ? a * a : b == 3.0F ? a * a * a : b == 0.5F ? sqrtf(a) : powf(a, b);
}

VECTOR_CLONES
static void row_arithmetic(enum binary kind, size_t n, const float *x, size_t sa, const float *z,
                           size_t sb, float *y)
{
    if (kind == ADD) {
        ROW(a + b)
    } else if (kind == SUB) {
        ROW(a - b)
    } else if (kind == MUL) {
        ROW(a * b)
    } else {
        ROW(a / b)
    }
}

static void row(enum binary kind, size_t n, const float *x, size_t sa, const float *z, size_t sb,
                float *y)
{
    if (kind != POW) {
        row_arithmetic(kind, n, x, sa, z, sb, y);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        y[i] = power(x[i * sa], z[i * sb]);
    }
}

/* dy times the derivative by the first input. */
static void row_da(enum binary kind, size_t n, const float *x, size_t sa, const float *z, size_t sb,
                   const float *dy, float *out)
{
    switch (kind) {
    case ADD:
    case SUB:
        memcpy(out, dy, n * sizeof *out);
        break;
    case MUL:
        row_arithmetic(MUL, n, dy, 1, z, sb, out);
        break;
    case DIV:
        row_arithmetic(DIV, n, dy, 1, z, sb, out);
        break;
    case POW:
        for (size_t i = 0; i < n; i++) {
            out[i] = dy[i] * z[i * sb] * power(x[i * sa], z[i * sb] - 1.0F);
        }
        break;
    }
}

/* As row_da(), by the second operand. */
static void row_db(enum binary kind, size_t n, const float *x, size_t sa, const float *z, size_t sb,
                   const float *dy, float *out)
{
    switch (kind) {
    case ADD:
        memcpy(out, dy, n * sizeof *out);
        break;
    case SUB:
        for (size_t i = 0; i < n; i++) {
            out[i] = -dy[i];
        }
        break;
    case MUL:
        row_arithmetic(MUL, n, dy, 1, x, sa, out);
        break;
    case DIV:
        for (size_t i = 0; i < n; i++) {
            const float b = z[i * sb];
            out[i] = -dy[i] * x[i * sa] / (b * b);
        }
        break;
    case POW:
        for (size_t i = 0; i < n; i++) {
            const float a = x[i * sa];
            out[i] = a > 0.0F ? dy[i] * power(a, z[i * sb]) * logf(a) : 0.0F;
        }
        break;
    }
}

static int whole(enum binary kind, int64_t a, int64_t b, int64_t *out, struct err *err)
{
    bool fits = true;
    if (kind == ADD) {
        fits = !__builtin_add_overflow(a, b, out);
    } else if (kind == SUB) {
        fits = !__builtin_sub_overflow(a, b, out);
    } else if (kind == MUL) {
        fits = !__builtin_mul_overflow(a, b, out);
    } else {
        fits = kind == DIV && b != 0 && !(a == INT64_MIN && b == -1);
        *out = fits ? a / b : 0;
    }
    return fits ? 0
                : err_set(err, ERR_INVALID, "%" PRId64 " and %" PRId64 " have no whole result", a,
                          b);
}

static int fold(enum binary kind, struct onnx_step *s, const struct onnx_broadcast *plan,
                struct err *err)
{
    const int64_t *a = s->in[0]->ints, *b = s->in[1]->ints;
    const size_t last = plan->rank - 1;
    int64_t *out = s->out[0]->count == 0 ? NULL : onnx_set_ints(s->out[0]);
    struct onnx_row at = {0};
    int rc = 0;
    for (size_t r = 0; r < onnx_broadcast_rows(plan) && out != NULL; r++) {
        for (size_t i = 0; i < plan->dims[last] && rc == 0; i++) {
            rc = whole(kind, a[at.a + i * plan->a[last]], b[at.b + i * plan->b[last]], out++, err);
        }
        onnx_row_next(plan, &at);
    }
    return rc;
}

static int binary_shape(enum binary kind, struct onnx_step *s, struct err *err)
{
    struct onnx_dims out;
    struct onnx_value *a = s->in[0], *b = s->in[1];
    const enum onnx_type type = a->type == ONNX_INT && b->type == ONNX_INT ? ONNX_INT : ONNX_FLOAT;
    int rc = onnx_broadcast_shapes(&a->shape, &b->shape, &out, err);
    rc = rc != 0 ? rc : onnx_set_shape(s->out[0], type, &out, err);
    if (rc != 0) {
        return rc;
    }
    struct onnx_broadcast *plan = mem_new(1, sizeof *plan);
    s->plan = plan;
    onnx_broadcast_make(&a->shape, &b->shape, &out, plan);
    if (kind == DIV && type == ONNX_INT && !(onnx_known(a) && onnx_known(b))) {
        return err_set(err, ERR_INVALID,
                       "it divides whole numbers that depend on records; floats would fit");
    }
    s->scratch_floats = s->out[0]->count;
    return onnx_known(a) && onnx_known(b) && type == ONNX_INT ? fold(kind, s, plan, err) : 0;
}

static void binary_forward(enum binary kind, const struct onnx_calc *c)
{
    const struct onnx_broadcast *plan = c->step->plan;
    const size_t last = plan->rank - 1, n = plan->dims[last], rows = onnx_broadcast_rows(plan);
    struct onnx_row at = {0};
    for (size_t r = 0; r < rows; r++) {
        row(kind, n, c->x[0] + at.a, plan->a[last], c->x[1] + at.b, plan->b[last], c->y[0] + r * n);
        onnx_row_next(plan, &at);
    }
}

/* In scratch, as large as the output; then summed over repeated dimensions. */
static void binary_backward(enum binary kind, const struct onnx_calc *c)
{
    const struct onnx_broadcast *plan = c->step->plan;
    const size_t last = plan->rank - 1, n = plan->dims[last], rows = onnx_broadcast_rows(plan);
    for (size_t k = 0; k < 2; k++) {
        const size_t have = c->step->in[k]->count;
        float *dx = c->dx[k];
        if (dx == NULL) {
            continue;
        }
        float *to = have == rows * n ? dx : c->scratch;
        struct onnx_row at = {0};
        for (size_t r = 0; r < rows; r++) {
            (k == 0 ? row_da : row_db)(kind, n, c->x[0] + at.a, plan->a[last], c->x[1] + at.b,
                                       plan->b[last], c->dy[0] + r * n, to + r * n);
            onnx_row_next(plan, &at);
        }
        if (to != dx) {
            struct onnx_broadcast turned = *plan;
            memcpy(turned.b, k == 0 ? plan->a : plan->b, sizeof turned.b);
            onnx_broadcast_sum_b(&turned, to, have, dx);
        }
    }
}

#define BINARY(name, kind)                                                                         \
    static int name##_shape(struct onnx_step *s, struct err *err)                                  \
    {                                                                                              \
        return binary_shape(kind, s, err);                                                         \
    }                                                                                              \
    static void name##_forward(const struct onnx_calc *c)                                          \
    {                                                                                              \
        binary_forward(kind, c);                                                                   \
    }                                                                                              \
    static void name##_backward(const struct onnx_calc *c)                                         \
    {                                                                                              \
        binary_backward(kind, c);                                                                  \
    }
BINARY(add, ADD)
BINARY(sub, SUB)
BINARY(mul, MUL)
BINARY(div, DIV)
BINARY(pow, POW)

const struct onnx_op onnx_op_add = {"Add", 2, 2, 1, 0, add_shape, add_forward, add_backward, 0};
const struct onnx_op onnx_op_sub = {"Sub", 2, 2, 1, 0, sub_shape, sub_forward, sub_backward, 0};
const struct onnx_op onnx_op_mul = {"Mul", 2, 2, 1, 0, mul_shape, mul_forward, mul_backward, 0};
const struct onnx_op onnx_op_div = {"Div", 2, 2, 1, 0, div_shape, div_forward, div_backward, 0};
const struct onnx_op onnx_op_pow = {"Pow", 2, 2, 1, 0, pow_shape, pow_forward, pow_backward, 2};
