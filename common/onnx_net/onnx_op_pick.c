/* SPDX-License-Identifier: Apache-2.0 */
/* Transpose, Slice and Expand: each number of the output is one of the input, by a map that is made
 * once. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "onnx_net/onnx_op.h"

/* The output's numbers, row-major, begin at @start and go on by @strides; into s->plan, or straight
 * into the known values. Strides may be negative. */
static int pick(struct onnx_step *s, const struct onnx_dims *out, int64_t start,
                const int64_t strides[ONNX_DIMS_MAX], struct err *err)
{
    const struct onnx_value *x = s->in[0];
    struct onnx_value *y = s->out[0];
    int rc = onnx_set_shape(y, x->type, out, err);
    if (rc != 0) {
        return rc;
    }
    uint32_t *map = mem_try_aligned(y->count + 1, sizeof *map, "a map of numbers", err);
    s->plan = map;
    if (map == NULL) {
        return ERR_EXHAUSTED;
    }
    size_t index[ONNX_DIMS_MAX] = {0};
    int64_t at = start;
    for (size_t k = 0; k < y->count; k++) {
        map[k] = (uint32_t)at;
        for (size_t i = out->rank; i-- > 0;) {
            at += strides[i];
            if (++index[i] < out->dims[i]) {
                break;
            }
            index[i] = 0;
            at -= strides[i] * (int64_t)out->dims[i];
        }
    }
    int64_t *ints = onnx_known(x) ? onnx_set_ints(y) : NULL;
    for (size_t k = 0; k < y->count && ints != NULL; k++) {
        ints[k] = x->ints[map[k]];
    }
    return 0;
}

static void pick_forward(const struct onnx_calc *c)
{
    const uint32_t *map = c->step->plan;
    for (size_t k = 0; k < c->step->out[0]->count; k++) {
        c->y[0][k] = c->x[0][map[k]];
    }
}

static void pick_backward(const struct onnx_calc *c)
{
    const uint32_t *map = c->step->plan;
    memset(c->dx[0], 0, c->step->in[0]->count * sizeof(float));
    for (size_t k = 0; k < c->step->out[0]->count; k++) {
        c->dx[0][map[k]] += c->dy[0][k];
    }
}

static void strides_of(const struct onnx_dims *d, int64_t strides[ONNX_DIMS_MAX])
{
    int64_t step = 1;
    for (size_t i = d->rank; i-- > 0;) {
        strides[i] = step;
        step *= (int64_t)d->dims[i];
    }
}

static int transpose_shape(struct onnx_step *s, struct err *err)
{
    const struct onnx_dims *in = &s->in[0]->shape;
    int64_t strides[ONNX_DIMS_MAX], turned[ONNX_DIMS_MAX] = {0};
    bool used[ONNX_DIMS_MAX] = {false};
    size_t count;
    const int64_t *order = onnx_attribute_ints(s->node, "perm", &count);
    struct onnx_dims out = {.rank = in->rank};
    strides_of(in, strides);
    if (order != NULL && count != in->rank) {
        return err_set(err, ERR_INVALID, "perm has %zu numbers for %zu dimensions", count,
                       in->rank);
    }
    for (size_t i = 0; i < in->rank; i++) {
        size_t axis = in->rank - 1 - i;
        int rc = order == NULL ? 0 : onnx_axis(order[i], in->rank, &axis, err);
        if (rc == 0 && used[axis]) {
            rc = err_set(err, ERR_INVALID, "perm names axis %zu twice", axis);
        }
        if (rc != 0) {
            return rc;
        }
        used[axis] = true;
        out.dims[i] = in->dims[axis];
        turned[i] = strides[axis];
    }
    return pick(s, &out, 0, turned, err);
}

/* ---- Slice: attributes before opset 10, inputs since ---- */

struct cuts {
    const int64_t *starts, *ends, *axes, *steps;
    size_t count;
};

static int cuts_of(const struct onnx_step *s, struct cuts *c, struct err *err)
{
    size_t ends, axes, steps;
    int rc = onnx_ints_of(s, 1, "starts", &c->starts, &c->count, err);
    rc = rc != 0 ? rc : onnx_ints_of(s, 2, "ends", &c->ends, &ends, err);
    rc = rc != 0 ? rc : onnx_ints_of(s, 3, "axes", &c->axes, &axes, err);
    rc = rc != 0 ? rc : onnx_ints_of(s, 4, NULL, &c->steps, &steps, err);
    if (rc == 0 && (ends != c->count || (c->axes != NULL && axes != c->count) ||
                    (c->steps != NULL && steps != c->count) || c->count > s->in[0]->shape.rank)) {
        rc = err_set(err, ERR_INVALID,
                     "%zu starts, %zu ends, %zu axes and %zu steps of a tensor "
                     "of %zu dimensions",
                     c->count, ends, axes, steps, s->in[0]->shape.rank);
    }
    return rc;
}

static int64_t between(int64_t x, int64_t low, int64_t high)
{
    return x < low ? low : x > high ? high : x;
}

/* As slices of Python, with indices outside brought in. */
static size_t cut_line(int64_t n, int64_t *start, int64_t end, int64_t step)
{
    const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
    *start = between(*start < 0 ? *start + n : *start, step > 0 ? 0 : low, high);
    end = between(end < 0 ? (end < -n ? -1 : end + n) : end, low, step > 0 ? n : n - 1);
    const int64_t span = step > 0 ? end - *start : *start - end;
    const int64_t by = step > 0 ? step : -step;
    return span <= 0 ? 0 : (size_t)((span - 1) / by + 1);
}

static int slice_shape(struct onnx_step *s, struct err *err)
{
    struct onnx_dims out = s->in[0]->shape;
    int64_t strides[ONNX_DIMS_MAX], first = 0;
    struct cuts c;
    bool used[ONNX_DIMS_MAX] = {false};
    int rc = cuts_of(s, &c, err);
    strides_of(&out, strides);
    for (size_t i = 0; i < c.count && rc == 0; i++) {
        size_t axis = i;
        int64_t start = c.starts[i];
        const int64_t step = c.steps == NULL ? 1 : c.steps[i];
        rc = c.axes == NULL ? 0 : onnx_axis(c.axes[i], out.rank, &axis, err);
        if (rc == 0 && (used[axis] || step == 0 || step > INT32_MAX || step < -INT32_MAX)) {
            rc = err_set(err, ERR_INVALID, "axis %zu is cut twice, or by steps of %" PRId64, axis,
                         step);
        }
        if (rc == 0) {
            used[axis] = true;
            out.dims[axis] = cut_line((int64_t)out.dims[axis], &start, c.ends[i], step);
            first += out.dims[axis] == 0 ? 0 : start * strides[axis];
            strides[axis] *= step;
        }
    }
    return rc != 0 ? rc : pick(s, &out, first, strides, err);
}

static int expand_shape(struct onnx_step *s, struct err *err)
{
    const struct onnx_dims *in = &s->in[0]->shape;
    const int64_t *want;
    size_t count;
    int64_t strides[ONNX_DIMS_MAX], wide[ONNX_DIMS_MAX] = {0};
    int rc = onnx_ints_of(s, 1, NULL, &want, &count, err);
    struct onnx_dims to = {.rank = count}, out;
    for (size_t i = 0; i < count && rc == 0; i++) {
        if (count > ONNX_DIMS_MAX || want[i] < 1 || want[i] > ONNX_ELEMENTS_MAX) {
            return err_set(err, ERR_INVALID, "dimension %zu of %zu is to be %" PRId64, i, count,
                           want[i]);
        }
        to.dims[i] = (size_t)want[i];
    }
    rc = rc != 0 ? rc : onnx_broadcast_shapes(in, &to, &out, err);
    if (rc != 0) {
        return rc;
    }
    strides_of(in, strides);
    for (size_t i = 0; i < in->rank; i++) {
        wide[i + out.rank - in->rank] = in->dims[i] == 1 ? 0 : strides[i];
    }
    return pick(s, &out, 0, wide, err);
}

const struct onnx_op onnx_op_transpose = {"Transpose",   1, 1, 1, 0, transpose_shape, pick_forward,
                                          pick_backward, 0};
const struct onnx_op onnx_op_slice = {"Slice",       1, 5, 1, 0, slice_shape, pick_forward,
                                      pick_backward, 30};
const struct onnx_op onnx_op_expand = {"Expand",      2, 2, 1, 0, expand_shape, pick_forward,
                                       pick_backward, 2};
