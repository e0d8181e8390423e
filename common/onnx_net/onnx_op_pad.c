/* SPDX-License-Identifier: Apache-2.0 */
/* Pad: numbers around a tensor, or taken from its edges. Attributes before opset 11, inputs since;
 * negative ones cut. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "onnx_net/onnx_op.h"

#define OUTSIDE UINT32_MAX

enum pad_mode { PAD_CONSTANT, PAD_EDGE, PAD_REFLECT, PAD_WRAP };

struct pad_plan {
    float value;
    uint32_t map[]; /* [elements of the output] which number of the input; OUTSIDE: value */
};

static int mode_of(const struct onnx_step *s, enum pad_mode *out, struct err *err)
{
    static const char *const names[] = {"constant", "edge", "reflect", "wrap"};
    *out = PAD_CONSTANT;
    if (onnx_attribute(s->node, "mode") == NULL) {
        return 0;
    }
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (onnx_attribute_is(s->node, "mode", names[i])) {
            *out = (enum pad_mode)i;
            return 0;
        }
    }
    return err_set(err, ERR_INVALID, "its mode is none of constant, edge, reflect and wrap");
}

/* What is added before and behind each dimension. */
static int widths_of(const struct onnx_step *s, int64_t before[ONNX_DIMS_MAX],
                     struct onnx_dims *out, struct err *err)
{
    const struct onnx_dims *in = &s->in[0]->shape;
    const int64_t *pads, *axes;
    size_t count, axis_count;
    bool used[ONNX_DIMS_MAX] = {false};
    int rc = onnx_ints_of(s, 1, "pads", &pads, &count, err);
    rc = rc != 0 ? rc : onnx_ints_of(s, 3, NULL, &axes, &axis_count, err);
    if (rc != 0) {
        return rc;
    }
    axis_count = axes == NULL ? in->rank : axis_count;
    if (axis_count > ONNX_DIMS_MAX || count != 2 * axis_count) {
        return err_set(err, ERR_INVALID, "pads has %zu numbers for %zu dimensions; %zu would fit",
                       count, axis_count, 2 * axis_count);
    }
    *out = *in;
    for (size_t i = 0; i < axis_count; i++) {
        const int64_t low = pads[i], high = pads[i + axis_count];
        size_t axis = i;
        rc = axes == NULL ? 0 : onnx_axis(axes[i], in->rank, &axis, err);
        if (rc != 0) {
            return rc;
        }
        const int64_t n = (int64_t)in->dims[axis];
        if (used[axis] || low > ONNX_ELEMENTS_MAX || high > ONNX_ELEMENTS_MAX || low < -n ||
            high < -n || low + n + high < 0) {
            return err_set(err, ERR_INVALID,
                           "axis %zu, which has %" PRId64 ", is padded twice, or by %" PRId64
                           " and %" PRId64,
                           axis, n, low, high);
        }
        used[axis] = true;
        before[axis] = low;
        out->dims[axis] = (size_t)(low + n + high);
    }
    return 0;
}

/* Where the number comes from that is at @i of a dimension of @n, counted from its first; -1: from
 * nowhere. */
static int64_t source_of(int64_t i, int64_t n, enum pad_mode mode)
{
    if (i >= 0 && i < n) {
        return i;
    }
    const int64_t period = mode == PAD_REFLECT ? 2 * (n - 1) : n;
    const int64_t turn = period == 0 ? 0 : (i % period + period) % period;
    switch (mode) {
    case PAD_EDGE:
        return i < 0 ? 0 : n - 1;
    case PAD_REFLECT:
        return turn < n ? turn : period - turn;
    case PAD_WRAP:
        return turn;
    default:
        return -1;
    }
}

/* Of a row along the last dimension, which is the @row-th of the input, from its first on. */
static void fill_row(size_t row, bool outside, int64_t before, int64_t n, enum pad_mode mode,
                     size_t count, uint32_t *map)
{
    const int64_t first = (int64_t)row * n;
    for (size_t k = 0; k < count; k++) {
        const int64_t at = (int64_t)k - before;
        const int64_t i = at >= 0 && at < n ? at : source_of(at, n, mode);
        map[k] = outside || i < 0 ? OUTSIDE : (uint32_t)(first + i);
    }
}

static void fill_map(const struct onnx_dims *in, const struct onnx_dims *out,
                     const int64_t before[ONNX_DIMS_MAX], enum pad_mode mode, size_t count,
                     uint32_t *map)
{
    size_t index[ONNX_DIMS_MAX] = {0};
    const size_t last = out->rank - 1, width = out->dims[last];
    for (size_t k = 0; k < count; k += width) {
        size_t row = 0;
        bool outside = false;
        for (size_t d = 0; d < last; d++) {
            const int64_t i = source_of((int64_t)index[d] - before[d], (int64_t)in->dims[d], mode);
            outside = outside || i < 0;
            row = row * in->dims[d] + (size_t)(i < 0 ? 0 : i);
        }
        fill_row(row, outside, before[last], (int64_t)in->dims[last], mode, width, map + k);
        for (size_t d = last; d-- > 0 && ++index[d] == out->dims[d];) {
            index[d] = 0;
        }
    }
}

static int pad_shape(struct onnx_step *s, struct err *err)
{
    int64_t before[ONNX_DIMS_MAX] = {0};
    struct onnx_dims out;
    enum pad_mode mode;
    float value = onnx_attribute_float(s->node, "value", 0);
    int rc = mode_of(s, &mode, err);
    rc = rc != 0 ? rc : onnx_scalar_of(s, 2, &value, err);
    rc = rc != 0 ? rc : widths_of(s, before, &out, err);
    rc = rc != 0 ? rc : onnx_set_shape(s->out[0], s->in[0]->type, &out, err);
    if (rc != 0) {
        return rc;
    }
    const size_t count = s->out[0]->count;
    const size_t head = sizeof(struct pad_plan) / sizeof(uint32_t);
    struct pad_plan *p = mem_try_aligned(count + head, sizeof(uint32_t), "a map of numbers", err);
    s->plan = p;
    if (p == NULL) {
        return ERR_EXHAUSTED;
    }
    p->value = value;
    /* Without numbers there is nothing to compute, which the caller says; one is its own copy. */
    if (out.rank == 0) {
        p->map[0] = 0;
    } else if (s->in[0]->count > 0) {
        fill_map(&s->in[0]->shape, &out, before, mode, count, p->map);
    }
    return 0;
}

static void pad_forward(const struct onnx_calc *c)
{
    const struct pad_plan *p = c->step->plan;
    for (size_t k = 0; k < c->step->out[0]->count; k++) {
        c->y[0][k] = p->map[k] == OUTSIDE ? p->value : c->x[0][p->map[k]];
    }
}

static void pad_backward(const struct onnx_calc *c)
{
    const struct pad_plan *p = c->step->plan;
    memset(c->dx[0], 0, c->step->in[0]->count * sizeof(float));
    for (size_t k = 0; k < c->step->out[0]->count; k++) {
        if (p->map[k] != OUTSIDE) {
            c->dx[0][p->map[k]] += c->dy[0][k];
        }
    }
}

const struct onnx_op onnx_op_pad = {"Pad", 1, 4, 1, 0, pad_shape, pad_forward, pad_backward, 14};
