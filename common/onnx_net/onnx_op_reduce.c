/* SPDX-License-Identifier: Apache-2.0 */
/* ReduceSum, ReduceMean, and ReduceProd of known whole numbers. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "onnx_net/onnx_op.h"
#include "tensor/kernel.h"

struct reduce {
    struct onnx_broadcast walk; /* the input with the output */
    float factor;
};

/* @gone[i]: dimension i is summed over. */
static int axes_of(const struct onnx_step *s, bool gone[ONNX_DIMS_MAX], struct err *err)
{
    const size_t rank = s->in[0]->shape.rank;
    const int64_t *axes;
    size_t count;
    int rc = onnx_ints_of(s, 1, "axes", &axes, &count, err);
    const bool all = count == 0 && onnx_attribute_int(s->node, "noop_with_empty_axes", 0) == 0;
    for (size_t i = 0; i < rank; i++) {
        gone[i] = all;
    }
    for (size_t i = 0; i < count && rc == 0; i++) {
        size_t axis;
        rc = onnx_axis(axes[i], rank, &axis, err);
        if (rc == 0) {
            gone[axis] = true;
        }
    }
    return rc;
}

/* @kept: dimensions that are summed over become 1. */
static int reduce_shapes(struct onnx_step *s, enum onnx_type type, struct onnx_dims *kept,
                         struct err *err)
{
    bool gone[ONNX_DIMS_MAX];
    const bool keep = onnx_attribute_int(s->node, "keepdims", 1) != 0;
    struct onnx_dims out = {.rank = 0};
    *kept = s->in[0]->shape;
    int rc = axes_of(s, gone, err);
    for (size_t i = 0; i < kept->rank && rc == 0; i++) {
        kept->dims[i] = gone[i] ? 1 : kept->dims[i];
        if (keep || !gone[i]) {
            out.dims[out.rank++] = kept->dims[i];
        }
    }
    return rc != 0 ? rc : onnx_set_shape(s->out[0], type, &out, err);
}

static int reduce_shape(struct onnx_step *s, bool mean, struct err *err)
{
    struct onnx_dims kept;
    struct reduce *p = mem_new(1, sizeof *p);
    s->plan = p;
    int rc = onnx_needs_floats(s, 0, err);
    rc = rc != 0 ? rc : reduce_shapes(s, ONNX_FLOAT, &kept, err);
    if (rc != 0) {
        return rc;
    }
    onnx_broadcast_make(&s->in[0]->shape, &kept, &s->in[0]->shape, &p->walk);
    p->factor =
        mean && s->in[0]->count > 0 ? (float)s->out[0]->count / (float)s->in[0]->count : 1.0F;
    return 0;
}

static void reduce_forward(const struct onnx_calc *c)
{
    const struct reduce *p = c->step->plan;
    const size_t n = c->step->out[0]->count;
    onnx_broadcast_sum_b(&p->walk, c->x[0], n, c->y[0]);
    for (size_t i = 0; i < n && p->factor != 1.0F; i++) {
        c->y[0][i] *= p->factor;
    }
}

static void reduce_backward(const struct onnx_calc *c)
{
    const struct reduce *p = c->step->plan;
    const size_t last = p->walk.rank - 1, n = p->walk.dims[last];
    struct onnx_row at = {0};
    for (size_t r = 0; r < onnx_broadcast_rows(&p->walk); r++) {
        for (size_t i = 0; i < n; i++) {
            c->dx[0][r * n + i] = p->factor * c->dy[0][at.b + i * p->walk.b[last]];
        }
        onnx_row_next(&p->walk, &at);
    }
}

static int reduce_sum_shape(struct onnx_step *s, struct err *err)
{
    return reduce_shape(s, false, err);
}

static int reduce_mean_shape(struct onnx_step *s, struct err *err)
{
    return reduce_shape(s, true, err);
}

const struct onnx_op onnx_op_reduce_sum = {
    "ReduceSum", 1, 2, 1, 0, reduce_sum_shape, reduce_forward, reduce_backward, 2};
const struct onnx_op onnx_op_reduce_mean = {
    "ReduceMean", 1, 2, 1, 0, reduce_mean_shape, reduce_forward, reduce_backward, 2};

static int reduce_prod_shape(struct onnx_step *s, struct err *err)
{
    struct onnx_dims kept;
    if (!onnx_known(s->in[0])) {
        return err_set(err, ERR_INVALID,
                       "it multiplies numbers that are computed from records; "
                       "known whole numbers (shapes) would fit");
    }
    int rc = reduce_shapes(s, ONNX_INT, &kept, err);
    if (rc == 0 && s->out[0]->count != 1) {
        rc = err_set(err, ERR_INVALID, "it leaves %zu numbers; one would fit", s->out[0]->count);
    }
    if (rc != 0) {
        return rc;
    }
    int64_t *out = onnx_set_ints(s->out[0]);
    *out = 1;
    for (size_t i = 0; i < s->in[0]->count; i++) {
        if (__builtin_mul_overflow(*out, s->in[0]->ints[i], out)) {
            return err_set(err, ERR_INVALID, "the product is too large");
        }
    }
    return 0;
}

const struct onnx_op onnx_op_reduce_prod = {"ReduceProd",      1,    2,    1, 0,
                                            reduce_prod_shape, NULL, NULL, 2};
