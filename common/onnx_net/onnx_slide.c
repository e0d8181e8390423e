/* SPDX-License-Identifier: Apache-2.0 */
/* Places windows, and gathers the values under them. */
#include "onnx_net/onnx_slide.h"

#include <inttypes.h>
#include <string.h>

#include "base/vector.h"

#define SETTING_MAX 65536 /* of a stride, a padding, a dilation, a window */

/* An attribute of @want numbers, each @least or more; where it is left out they are @otherwise. */
static int numbers(const struct onnx_node *n, const char *name, size_t want, int64_t least,
                   int64_t otherwise, size_t *out, struct err *err)
{
    size_t count;
    const int64_t *given = onnx_attribute_ints(n, name, &count);
    if (given != NULL && count != want) {
        return err_set(err, ERR_INVALID, "%s has %zu numbers; %zu would fit", name, count, want);
    }
    for (size_t i = 0; i < want; i++) {
        const int64_t value = given == NULL ? otherwise : given[i];
        if (value < least || value > SETTING_MAX) {
            return err_set(err, ERR_INVALID, "%s is %" PRId64 "; from %" PRId64 " to %d would fit",
                           name, value, least, SETTING_MAX);
        }
        out[i] = (size_t)value;
    }
    return 0;
}

struct line { /* one dimension of the image */
    size_t in, window, stride, dilation, before, after, out;
};

static int place_line(const struct onnx_node *n, struct line *l, struct err *err)
{
    const size_t span = (l->window - 1) * l->dilation + 1;
    const bool upper = onnx_attribute_is(n, "auto_pad", "SAME_UPPER");
    if (upper || onnx_attribute_is(n, "auto_pad", "SAME_LOWER")) {
        const size_t out = (l->in + l->stride - 1) / l->stride, all = (out - 1) * l->stride + span;
        const size_t pad = all > l->in ? all - l->in : 0;
        l->before = upper ? pad / 2 : pad - pad / 2;
        l->after = pad - l->before;
    }
    const size_t padded = l->in + l->before + l->after;
    if (l->in == 0 || padded < span) {
        return err_set(err, ERR_INVALID, "a window of %zu does not fit an input of %zu%s", span,
                       l->in, l->before + l->after > 0 ? " with its padding" : "");
    }
    l->out = (padded - span) / l->stride + 1;
    if (onnx_attribute_int(n, "ceil_mode", 0) != 0 && (padded - span) % l->stride != 0 &&
        l->out * l->stride < l->in + l->before) { /* the window begins in the image or before it */
        l->out++;
    }
    return 0;
}

int onnx_slide_place(const struct onnx_step *s, const size_t *kernel, struct onnx_slide *out,
                     struct err *err)
{
    const struct onnx_dims *in = &s->in[0]->shape;
    const size_t n = in->rank < 2 ? 0 : in->rank - 2;
    size_t strides[2], dilations[2], pads[4];
    int rc = onnx_needs_floats(s, 0, err);
    if (rc == 0 && (n < 1 || n > 2)) {
        rc = err_set(err, ERR_INVALID,
                     "its input has %zu dimensions; [images, channels, width] or [images, "
                     "channels, height, width] would fit",
                     in->rank);
    }
    rc = rc != 0 ? rc : numbers(s->node, "strides", n, 1, 1, strides, err);
    rc = rc != 0 ? rc : numbers(s->node, "dilations", n, 1, 1, dilations, err);
    rc = rc != 0 ? rc : numbers(s->node, "pads", 2 * n, 0, 0, pads, err);
    struct line lines[2] = {{.in = 1, .window = 1, .stride = 1, .dilation = 1}};
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct line *l = &lines[i + 2 - n];
        *l = (struct line){in->dims[2 + i], kernel[i],   strides[i], dilations[i],
                           pads[i],         pads[n + i], 1};
        rc = kernel[i] == 0 || kernel[i] > SETTING_MAX
                 ? err_set(err, ERR_INVALID, "a window of %zu; from 1 to %d would fit", kernel[i],
                           SETTING_MAX)
                 : place_line(s->node, l, err);
    }
    if (rc != 0) {
        return rc;
    }
    lines[0].out = n == 1 ? 1 : lines[0].out;
    *out = (struct onnx_slide){
        n,
        in->dims[0],
        in->dims[1],
        lines[0].in,
        lines[1].in,
        lines[0].out,
        lines[1].out,
        lines[0].window,
        lines[1].window,
        lines[0].stride,
        lines[1].stride,
        lines[0].dilation,
        lines[1].dilation,
        lines[0].before,
        lines[1].before,
        lines[0].after,
        lines[1].after,
    };
    return 0;
}

struct onnx_dims onnx_slide_output(const struct onnx_slide *w, size_t channels)
{
    struct onnx_dims out = {.rank = 2 + w->spatial, .dims = {w->images, channels}};
    out.dims[2] = w->spatial == 2 ? w->out_height : w->out_width;
    out.dims[3] = w->spatial == 2 ? w->out_width : 0;
    return out;
}

bool onnx_slide_at(size_t o, size_t k, size_t stride, size_t dilation, size_t pad, size_t size,
                   size_t *at)
{
    const size_t place = o * stride + k * dilation;
    *at = place - pad;
    return place >= pad && place - pad < size;
}

/* The run of outputs whose pixel of the window is in the image: [*first, *end). */
static void inside(size_t out, size_t k, size_t stride, size_t dilation, size_t pad, size_t size,
                   size_t *first, size_t *end)
{
    const size_t shift = k * dilation;
    *first = shift >= pad ? 0 : (pad - shift + stride - 1) / stride;
    *end = shift >= pad + size ? 0 : (pad + size - shift - 1) / stride + 1;
    *end = *end > out ? out : *end;
    *first = *first > *end ? *end : *first;
}

/* The windows of a row of outputs, at pixel @kx of each. */
struct run {
    size_t first, end; /* outputs whose pixel lies in the image */
    size_t from;       /* place in the row of the pixel of the first of them */
};

static struct run run_of(const struct onnx_slide *w, size_t kx)
{
    struct run r;
    inside(w->out_width, kx, w->stride_x, w->dilation_x, w->left, w->in_width, &r.first, &r.end);
    r.from = r.first == r.end ? 0 : r.first * w->stride_x + kx * w->dilation_x - w->left;
    return r;
}

/* Rows are short: calls of library functions would cost more than what they do. */
VECTOR_NOT_MEMCPY
static void gather_row(const struct onnx_slide *w, const struct run *r, const float *line,
                       float *restrict to)
{
    const float *from = line + r->from;
    const size_t n = r->end - r->first, step = w->stride_x;
    for (size_t o = 0; o < r->first; o++) {
        to[o] = 0.0F;
    }
    for (size_t o = 0; o < n && step == 1; o++) {
        to[r->first + o] = from[o];
    }
    for (size_t o = 0; o < n && step != 1; o++) {
        to[r->first + o] = from[o * step];
    }
    for (size_t o = r->end; o < w->out_width; o++) {
        to[o] = 0.0F;
    }
}

void onnx_slide_patches(const struct onnx_slide *w, size_t channels, const float *image,
                        float *patches)
{
    for (size_t c = 0; c < channels; c++, image += w->in_height * w->in_width) {
        for (size_t k = 0; k < w->height * w->width; k++) {
            const struct run run = run_of(w, k % w->width);
            for (size_t o = 0; o < w->out_height; o++, patches += w->out_width) {
                size_t y;
                if (onnx_slide_at(o, k / w->width, w->stride_y, w->dilation_y, w->top, w->in_height,
                                  &y)) {
                    gather_row(w, &run, image + y * w->in_width, patches);
                } else {
                    memset(patches, 0, w->out_width * sizeof *patches);
                }
            }
        }
    }
}

static void scatter_row(const struct onnx_slide *w, const struct run *r, const float *from,
                        float *restrict line)
{
    float *to = line + r->from;
    const size_t n = r->end - r->first, step = w->stride_x;
    for (size_t o = 0; o < n && step == 1; o++) {
        to[o] += from[r->first + o];
    }
    for (size_t o = 0; o < n && step != 1; o++) {
        to[o * step] += from[r->first + o];
    }
}

void onnx_slide_patches_add(const struct onnx_slide *w, size_t channels, const float *patches,
                            float *image)
{
    for (size_t c = 0; c < channels; c++, image += w->in_height * w->in_width) {
        for (size_t k = 0; k < w->height * w->width; k++) {
            const struct run run = run_of(w, k % w->width);
            for (size_t o = 0; o < w->out_height; o++, patches += w->out_width) {
                size_t y;
                if (onnx_slide_at(o, k / w->width, w->stride_y, w->dilation_y, w->top, w->in_height,
                                  &y)) {
                    scatter_row(w, &run, patches, image + y * w->in_width);
                }
            }
        }
    }
}
