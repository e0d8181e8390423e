/* SPDX-License-Identifier: Apache-2.0 */
/* Softmax and LogSoftmax: since opset 13 along one axis, before that over all that stands behind
 * it. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "onnx_net/onnx_op.h"
#include "tensor/activation.h"
#include "tensor/kernel.h"

static int softmax_shape(struct onnx_step *s, struct err *err)
{
    const bool whole = s->node->opset < 13;
    struct onnx_cut *cut = mem_new(1, sizeof *cut);
    size_t axis;
    s->plan = cut;
    int rc = onnx_axis(onnx_attribute_int(s->node, "axis", whole ? 1 : -1), s->in[0]->shape.rank,
                       &axis, err);
    if (rc != 0) {
        return rc;
    }
    *cut = onnx_cut_at(&s->in[0]->shape, axis);
    if (whole) {
        cut->along *= cut->inner;
        cut->inner = 1;
    }
    s->scratch_floats = 3 * cut->along;
    return onnx_same_shape(s, err);
}

static void take(const struct onnx_cut *cut, const float *from, float *to)
{
    for (size_t i = 0; i < cut->along; i++) {
        to[i] = from[i * cut->inner];
    }
}

static void put(const struct onnx_cut *cut, const float *from, float *to)
{
    for (size_t i = 0; i < cut->along; i++) {
        to[i * cut->inner] = from[i];
    }
}

typedef void along(size_t n, const float *x, float *y); /* of a function */
typedef void along_backward(size_t n, const float *y, const float *dy, float *dx);

static void softmax(size_t n, const float *x, float *y)
{
    activation_softmax(1, n, x, y);
}

static void softmax_dx(size_t n, const float *y, const float *dy, float *dx)
{
    activation_softmax_backward(1, n, y, dy, dx);
}

static void log_softmax(size_t n, const float *x, float *y)
{
    const float max = kernel_max(x, n);
    /* Not x - (max + rest), which of large numbers loses what the sum says. */
    const float rest = logf(activation_exp_row(n, x, max, y));
    for (size_t i = 0; i < n; i++) {
        y[i] = x[i] - max - rest;
    }
}

static void log_softmax_dx(size_t n, const float *y, const float *dy, float *dx)
{
    const float sum = kernel_sum(dy, n);
    for (size_t i = 0; i < n; i++) {
        dx[i] = dy[i] - expf(y[i]) * sum;
    }
}

static void each_forward(const struct onnx_calc *c, along *f)
{
    const struct onnx_cut *cut = c->step->plan;
    for (size_t o = 0; o < cut->outer; o++) {
        for (size_t i = 0; i < cut->inner; i++) {
            const size_t at = o * cut->along * cut->inner + i;
            float *y = c->scratch + cut->along;
            take(cut, c->x[0] + at, c->scratch);
            f(cut->along, c->scratch, y);
            put(cut, y, c->y[0] + at);
        }
    }
}

static void each_backward(const struct onnx_calc *c, along_backward *f)
{
    const struct onnx_cut *cut = c->step->plan;
    for (size_t o = 0; o < cut->outer; o++) {
        for (size_t i = 0; i < cut->inner; i++) {
            const size_t at = o * cut->along * cut->inner + i;
            float *dy = c->scratch + cut->along, *dx = dy + cut->along;
            take(cut, c->y[0] + at, c->scratch);
            take(cut, c->dy[0] + at, dy);
            f(cut->along, c->scratch, dy, dx);
            put(cut, dx, c->dx[0] + at);
        }
    }
}

static void softmax_forward(const struct onnx_calc *c)
{
    each_forward(c, softmax);
}

static void softmax_backward(const struct onnx_calc *c)
{
    each_backward(c, softmax_dx);
}

static void log_softmax_forward(const struct onnx_calc *c)
{
    each_forward(c, log_softmax);
}

static void log_softmax_backward(const struct onnx_calc *c)
{
    each_backward(c, log_softmax_dx);
}

const struct onnx_op onnx_op_softmax = {
    "Softmax", 1, 1, 1, 0, softmax_shape, softmax_forward, softmax_backward, 0};
const struct onnx_op onnx_op_log_softmax = {
    "LogSoftmax", 1, 1, 1, 0, softmax_shape, log_softmax_forward, log_softmax_backward, 0};
