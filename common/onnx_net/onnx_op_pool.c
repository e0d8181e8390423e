/* SPDX-License-Identifier: Apache-2.0 */
/* MaxPool, AveragePool and their global forms. */
#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/vector.h"
#include "onnx_net/onnx_slide.h"
#include "tensor/kernel.h"

static int pool_shape(struct onnx_step *s, struct err *err)
{
    struct onnx_slide *w = mem_new(1, sizeof *w);
    size_t count, kernel[2] = {0, 0};
    const int64_t *given = onnx_attribute_ints(s->node, "kernel_shape", &count);
    s->plan = w;
    if (given == NULL || count > 2 || count + 2 != s->in[0]->shape.rank) {
        return err_set(err, ERR_INVALID,
                       "kernel_shape has %zu numbers for an input of %zu dimensions; windows of "
                       "one or two dimensions would fit",
                       count, s->in[0]->shape.rank);
    }
    for (size_t i = 0; i < count; i++) {
        kernel[i] = given[i] < 0 ? 0 : (size_t)given[i];
    }
    int rc = onnx_slide_place(s, kernel, w, err);
    if (rc != 0) {
        return rc;
    }
    const struct onnx_dims out = onnx_slide_output(w, w->channels);
    return onnx_set_shape(s->out[0], ONNX_FLOAT, &out, err);
}

static int max_pool_shape(struct onnx_step *s, struct err *err)
{
    int rc = pool_shape(s, err);
    if (rc == 0 && onnx_attribute_int(s->node, "storage_order", 0) != 0) {
        rc = err_set(err, ERR_INVALID, "storage_order is not 0");
    }
    s->state_floats = rc == 0 ? s->out[0]->count : 0;
    return rc;
}

/* ---- the largest ---- */

static void max_of_window(const struct onnx_slide *w, const float *x, size_t oy, size_t ox,
                          float *best, uint32_t *where)
{
    *best = -INFINITY;
    *where = UINT32_MAX;
    for (size_t ky = 0; ky < w->height; ky++) {
        size_t at_y, at_x;
        if (!onnx_slide_at(oy, ky, w->stride_y, w->dilation_y, w->top, w->in_height, &at_y)) {
            continue;
        }
        for (size_t kx = 0; kx < w->width; kx++) {
            if (onnx_slide_at(ox, kx, w->stride_x, w->dilation_x, w->left, w->in_width, &at_x)) {
                const size_t at = at_y * w->in_width + at_x;
                if (*where == UINT32_MAX || x[at] > *best || x[at] != x[at]) {
                    *best = x[at];
                    *where = (uint32_t)at;
                }
            }
        }
    }
}

/* A row of windows that lie in the image with all their pixels, the usual case: pixel by pixel of
 * the window, all windows at once. */
VECTOR_CLONES
static void max_of_row(const struct onnx_slide *w, const float *x, size_t oy, float *restrict y,
                       uint32_t *restrict where)
{
    const size_t n = w->out_width, stride = w->stride_x;
    for (size_t k = 0; k < w->height * w->width; k++) {
        const size_t line = oy * w->stride_y + k / w->width * w->dilation_y;
        const uint32_t at = (uint32_t)(line * w->in_width + k % w->width * w->dilation_x);
        const float *from = x + at;
        for (size_t o = 0; o < n; o++) {
            const float value = from[o * stride];
            const bool more = k == 0 || value > y[o] || value != value;
            y[o] = more ? value : y[o];
            where[o] = more ? at + (uint32_t)(o * stride) : where[o];
        }
    }
}

/* The most usual one: 2 × 2 pixels that lie side by side. */
static void max_of_squares(const struct onnx_slide *w, const float *x, size_t oy, float *restrict y,
                           uint32_t *restrict where)
{
    const size_t below = w->in_width;
    for (size_t o = 0; o < w->out_width; o++) {
        const size_t at = oy * w->stride_y * w->in_width + o * w->stride_x;
        const float a = x[at], b = x[at + 1], c = x[at + below], d = x[at + below + 1];
        const bool right = b > a || b != b, lower = d > c || d != d;
        const float top = right ? b : a, bottom = lower ? d : c;
        const size_t top_at = at + right, bottom_at = at + below + lower;
        const bool second = bottom > top || bottom != bottom;
        y[o] = second ? bottom : top;
        where[o] = (uint32_t)(second ? bottom_at : top_at);
    }
}

static bool is_square(const struct onnx_slide *w)
{
    return w->height == 2 && w->width == 2 && w->dilation_y == 1 && w->dilation_x == 1;
}

static bool is_inside(const struct onnx_slide *w)
{
    return w->top + w->left == 0 &&
           (w->out_height - 1) * w->stride_y + (w->height - 1) * w->dilation_y < w->in_height &&
           (w->out_width - 1) * w->stride_x + (w->width - 1) * w->dilation_x < w->in_width;
}

static void max_pool_forward(const struct onnx_calc *c)
{
    const struct onnx_slide *w = c->step->plan;
    uint32_t *where = (uint32_t *)(void *)c->state;
    const float *x = c->x[0];
    float *y = c->y[0];
    const bool inside = is_inside(w), square = is_square(w);
    for (size_t i = 0; i < w->images * w->channels; i++, x += w->in_height * w->in_width) {
        for (size_t oy = 0; oy < w->out_height; oy++, y += w->out_width, where += w->out_width) {
            if (inside) {
                (square ? max_of_squares : max_of_row)(w, x, oy, y, where);
            }
            for (size_t ox = 0; ox < w->out_width && !inside; ox++) {
                max_of_window(w, x, oy, ox, y + ox, where + ox);
            }
        }
    }
}

static void max_pool_backward(const struct onnx_calc *c)
{
    const struct onnx_slide *w = c->step->plan;
    const uint32_t *where = (const uint32_t *)(const void *)c->state;
    const size_t pixels = w->out_height * w->out_width;
    const float *dy = c->dy[0];
    float *dx = c->dx[0];
    memset(dx, 0, c->step->in[0]->count * sizeof *dx);
    for (size_t i = 0; i < w->images * w->channels; i++, dx += w->in_height * w->in_width) {
        for (size_t o = 0; o < pixels; o++, where++, dy++) {
            if (*where != UINT32_MAX) {
                dx[*where] += *dy;
            }
        }
    }
}

/* ---- the mean ---- */

/* How many pixels the mean of a window is taken over along a line. */
static size_t counted(size_t o, size_t window, size_t stride, size_t dilation, size_t pad,
                      size_t size, size_t after, bool padding)
{
    size_t n = 0, at;
    for (size_t k = 0; k < window; k++) {
        n += padding ? o * stride + k * dilation < pad + size + after
                     : onnx_slide_at(o, k, stride, dilation, pad, size, &at);
    }
    return n;
}

/* @x gets the mean of each window into @y, or (x NULL) a share of each @dy is added to @dx. */
static void mean_windows(const struct onnx_calc *c, const float *x, float *y, const float *dy,
                         float *dx)
{
    const struct onnx_slide *w = c->step->plan;
    const bool padding = onnx_attribute_int(c->step->node, "count_include_pad", 0) != 0;
    for (size_t o = 0; o < w->out_height * w->out_width; o++) {
        const size_t oy = o / w->out_width, ox = o % w->out_width;
        const size_t n = counted(oy, w->height, w->stride_y, w->dilation_y, w->top, w->in_height,
                                 w->bottom, padding) *
                         counted(ox, w->width, w->stride_x, w->dilation_x, w->left, w->in_width,
                                 w->right, padding);
        const float share = n == 0 ? 0.0F : 1.0F / (float)n;
        float sum = 0.0F;
        for (size_t k = 0; k < w->height * w->width; k++) {
            size_t at_y, at_x;
            if (onnx_slide_at(oy, k / w->width, w->stride_y, w->dilation_y, w->top, w->in_height,
                              &at_y) &&
                onnx_slide_at(ox, k % w->width, w->stride_x, w->dilation_x, w->left, w->in_width,
                              &at_x)) {
                const size_t at = at_y * w->in_width + at_x;
                if (x != NULL) {
                    sum += x[at];
                } else {
                    dx[at] += dy[o] * share;
                }
            }
        }
        if (x != NULL) {
            y[o] = sum * share;
        }
    }
}

static void average_pool_forward(const struct onnx_calc *c)
{
    const struct onnx_slide *w = c->step->plan;
    const size_t in = w->in_height * w->in_width, out = w->out_height * w->out_width;
    for (size_t i = 0; i < w->images * w->channels; i++) {
        mean_windows(c, c->x[0] + i * in, c->y[0] + i * out, NULL, NULL);
    }
}

static void average_pool_backward(const struct onnx_calc *c)
{
    const struct onnx_slide *w = c->step->plan;
    const size_t in = w->in_height * w->in_width, out = w->out_height * w->out_width;
    memset(c->dx[0], 0, c->step->in[0]->count * sizeof(float));
    for (size_t i = 0; i < w->images * w->channels; i++) {
        mean_windows(c, NULL, NULL, c->dy[0] + i * out, c->dx[0] + i * in);
    }
}

const struct onnx_op onnx_op_max_pool = {
    "MaxPool", 1, 1, 1, 0, max_pool_shape, max_pool_forward, max_pool_backward, 0};
const struct onnx_op onnx_op_average_pool = {
    "AveragePool", 1, 1, 1, 0, pool_shape, average_pool_forward, average_pool_backward, 0};

/* ---- of a whole image ---- */

static int global_shape(struct onnx_step *s, struct err *err)
{
    struct onnx_dims out = s->in[0]->shape;
    int rc = onnx_needs_floats(s, 0, err);
    if (rc == 0 && out.rank < 3) {
        rc = err_set(err, ERR_INVALID,
                     "its input has %zu dimensions; [images, channels, height, width] would fit",
                     out.rank);
    }
    for (size_t i = 2; i < out.rank; i++) {
        out.dims[i] = 1;
    }
    return rc != 0 ? rc : onnx_set_shape(s->out[0], ONNX_FLOAT, &out, err);
}

static int global_max_shape(struct onnx_step *s, struct err *err)
{
    int rc = global_shape(s, err);
    s->state_floats = rc == 0 ? s->out[0]->count : 0;
    return rc;
}

static size_t pixels_of(const struct onnx_calc *c)
{
    return c->step->in[0]->count / c->step->out[0]->count;
}

static void global_average_forward(const struct onnx_calc *c)
{
    const size_t n = pixels_of(c);
    for (size_t i = 0; i < c->step->out[0]->count; i++) {
        c->y[0][i] = kernel_sum(c->x[0] + i * n, n) / (float)n;
    }
}

static void global_average_backward(const struct onnx_calc *c)
{
    const size_t n = pixels_of(c);
    for (size_t i = 0; i < c->step->in[0]->count; i++) {
        c->dx[0][i] = c->dy[0][i / n] / (float)n;
    }
}

static void global_max_forward(const struct onnx_calc *c)
{
    const size_t n = pixels_of(c);
    uint32_t *where = (uint32_t *)(void *)c->state;
    for (size_t i = 0; i < c->step->out[0]->count; i++) {
        const float *x = c->x[0] + i * n;
        size_t best = 0;
        for (size_t k = 1; k < n; k++) {
            best = x[k] > x[best] || x[k] != x[k] ? k : best;
        }
        where[i] = (uint32_t)best;
        c->y[0][i] = x[best];
    }
}

static void global_max_backward(const struct onnx_calc *c)
{
    const size_t n = pixels_of(c);
    const uint32_t *where = (const uint32_t *)(const void *)c->state;
    memset(c->dx[0], 0, c->step->in[0]->count * sizeof(float));
    for (size_t i = 0; i < c->step->out[0]->count; i++) {
        c->dx[0][i * n + where[i]] = c->dy[0][i];
    }
}

const struct onnx_op onnx_op_global_average = {
    "GlobalAveragePool",     1, 1, 1, 0, global_shape, global_average_forward,
    global_average_backward, 0};
const struct onnx_op onnx_op_global_max = {
    "GlobalMaxPool", 1, 1, 1, 0, global_max_shape, global_max_forward, global_max_backward, 0};
