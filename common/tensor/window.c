/* SPDX-License-Identifier: Apache-2.0 */
/* Patches for convolution as a matrix product (im2col), and max and mean pooling. Padding is 0
 * in patches and takes no part in pooling. */
#include "tensor/window.h"

#include <math.h>
#include <string.h>

#include "base/vector.h"

/* Outputs and the padding before the first input along one axis. */
static void place_axis(size_t in, size_t size, size_t stride, bool same, size_t *out, size_t *pad)
{
    *pad = 0;
    if (!same) {
        *out = size > in ? 0 : (in - size) / stride + 1;
        return;
    }
    *out = in == 0 ? 0 : (in - 1) / stride + 1;
    size_t reach = in == 0 ? 0 : (*out - 1) * stride + size;
    *pad = reach > in ? (reach - in) / 2 : 0;
}

void window_place(struct window *w)
{
    place_axis(w->in_height, w->height, w->stride_height, w->same, &w->out_height, &w->pad_top);
    place_axis(w->in_width, w->width, w->stride_width, w->same, &w->out_width, &w->pad_left);
}

size_t window_patch_floats(const struct window *w)
{
    return w->height * w->width * w->channels;
}

size_t window_positions(const struct window *w)
{
    return w->out_height * w->out_width;
}

/* The part of a window that lies inside the image along one axis: window elements first..end-1
 * are inputs start+first.. with start = position · stride - pad (may be negative). */
struct span {
    size_t first, end;
    size_t input; /* of element first */
};

static struct span span_at(size_t position, size_t stride, size_t pad, size_t size, size_t in)
{
    struct span s = {0};
    size_t at = position * stride; /* counted from the start of the padding */
    s.first = at < pad ? pad - at : 0;
    s.first = s.first < size ? s.first : size;
    s.end = in + pad > at ? in + pad - at : 0;
    s.end = s.end < size ? s.end : size;
    s.end = s.end > s.first ? s.end : s.first;
    s.input = at + s.first - pad;
    return s;
}

static struct span rows_at(const struct window *w, size_t i)
{
    return span_at(i, w->stride_height, w->pad_top, w->height, w->in_height);
}

static struct span columns_at(const struct window *w, size_t j)
{
    return span_at(j, w->stride_width, w->pad_left, w->width, w->in_width);
}

/* Runs are often a few floats, for which a call of memcpy() would cost more than the copy. */
VECTOR_INLINE void copy_run(size_t n, const float *restrict in, float *restrict out)
{
    if (n >= 64) {
        memcpy(out, in, n * sizeof *out);
        return;
    }
    for (; n >= 4; n -= 4, in += 4, out += 4) {
        memcpy(out, in, 4 * sizeof *out);
    }
    if ((n & 2) != 0) {
        memcpy(out, in, 2 * sizeof *out);
        in += 2;
        out += 2;
    }
    if ((n & 1) != 0) {
        *out = *in;
    }
}

/* @count runs of @n floats, @in_step and @out_step floats apart. The lengths that the first layer
 * over images of one channel has are constants for the compiler. */
static void copy_runs(size_t count, size_t n, size_t in_step, size_t out_step, const float *in,
                      float *out)
{
    switch (n) {
    case 3:
        for (size_t i = 0; i < count; i++) {
            memcpy(out + i * out_step, in + i * in_step, 3 * sizeof *out);
        }
        break;
    case 5:
        for (size_t i = 0; i < count; i++) {
            memcpy(out + i * out_step, in + i * in_step, 5 * sizeof *out);
        }
        break;
    default:
        for (size_t i = 0; i < count; i++) {
            copy_run(n, in + i * in_step, out + i * out_step);
        }
    }
}

/* The run of position @j where the window may hang over the edge; @line NULL: all is padding. */
static void copy_edge(const struct window *w, size_t j, const float *line, float *out)
{
    const struct span columns = columns_at(w, j);
    memset(out, 0, w->width * w->channels * sizeof *out);
    if (line != NULL) {
        copy_run((columns.end - columns.first) * w->channels, line + columns.input * w->channels,
                 out + columns.first * w->channels);
    }
}

/* One row of all windows at one height: @line is that row of the image, @out the row of the first
 * patch. Windows first..end-1 lie inside. */
static void copy_line(const struct window *w, const float *line, float *out)
{
    const size_t patch = window_patch_floats(w), step = w->stride_width * w->channels;
    const size_t reach = w->in_width + w->pad_left;
    size_t end = reach < w->width ? 0 : (reach - w->width) / w->stride_width + 1;
    size_t first = (w->pad_left + w->stride_width - 1) / w->stride_width;
    end = line == NULL ? 0 : end < w->out_width ? end : w->out_width;
    first = first < end ? first : end;
    for (size_t j = 0; j < first; j++) {
        copy_edge(w, j, line, out + j * patch);
    }
    if (first < end) {
        copy_runs(end - first, w->width * w->channels, step, patch,
                  line + (first * w->stride_width - w->pad_left) * w->channels,
                  out + first * patch);
    }
    for (size_t j = end; j < w->out_width; j++) {
        copy_edge(w, j, line, out + j * patch);
    }
}

void window_patches(const struct window *w, const float *image, float *patches)
{
    const size_t row_floats = w->width * w->channels;
    for (size_t i = 0; i < w->out_height; i++) {
        const struct span rows = rows_at(w, i);
        for (size_t y = 0; y < w->height; y++) {
            const bool inside = y >= rows.first && y < rows.end;
            const size_t line = rows.input + (y - rows.first);
            copy_line(w, inside ? image + line * w->in_width * w->channels : NULL,
                      patches + y * row_floats);
        }
        patches += w->out_width * window_patch_floats(w);
    }
}

static void add_run(size_t n, const float *restrict in, float *restrict out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] += in[i];
    }
}

void window_patches_add(const struct window *w, const float *patches, float *image)
{
    const size_t floats = window_patch_floats(w), row_floats = w->width * w->channels;
    for (size_t i = 0; i < w->out_height; i++) {
        const struct span rows = rows_at(w, i);
        for (size_t j = 0; j < w->out_width; j++) {
            const struct span columns = columns_at(w, j);
            const size_t run = (columns.end - columns.first) * w->channels;
            for (size_t y = rows.first; y < rows.end; y++) {
                const size_t line = rows.input + (y - rows.first);
                add_run(run, patches + y * row_floats + columns.first * w->channels,
                        image + (line * w->in_width + columns.input) * w->channels);
            }
            patches += floats;
        }
    }
}

/* Pools one pixel under one window, for all channels. */
VECTOR_CLONES
static void max_pixel(size_t n, const float *restrict pixel, uint32_t number, float *restrict best,
                      uint32_t *restrict winner)
{
    for (size_t c = 0; c < n; c++) {
        /* NaN wins and stays, so that a diverged model shows. */
        int wins = (pixel[c] > best[c]) | (pixel[c] != pixel[c]);
        best[c] = wins ? pixel[c] : best[c];
        winner[c] = wins ? number : winner[c];
    }
}

VECTOR_CLONES
static void max_pixel_only(size_t n, const float *restrict pixel, float *restrict best)
{
    for (size_t c = 0; c < n; c++) {
        int wins = (pixel[c] > best[c]) | (pixel[c] != pixel[c]);
        best[c] = wins ? pixel[c] : best[c];
    }
}

static void max_at(const struct window *w, struct span rows, struct span columns,
                   const float *image, float *out, uint32_t *winner)
{
    for (size_t c = 0; c < w->channels; c++) {
        out[c] = -INFINITY;
        if (winner != NULL) {
            winner[c] = (uint32_t)(rows.input * w->in_width + columns.input);
        }
    }
    for (size_t y = 0; y < rows.end - rows.first; y++) {
        for (size_t x = 0; x < columns.end - columns.first; x++) {
            const size_t pixel = (rows.input + y) * w->in_width + columns.input + x;
            if (winner != NULL) {
                max_pixel(w->channels, image + pixel * w->channels, (uint32_t)pixel, out, winner);
            } else {
                max_pixel_only(w->channels, image + pixel * w->channels, out);
            }
        }
    }
}

void window_max(const struct window *w, const float *image, float *out, uint32_t *winner)
{
    for (size_t i = 0; i < w->out_height; i++) {
        for (size_t j = 0; j < w->out_width; j++) {
            max_at(w, rows_at(w, i), columns_at(w, j), image, out, winner);
            out += w->channels;
            winner = winner == NULL ? NULL : winner + w->channels;
        }
    }
}

void window_max_backward(const struct window *w, const float *dy, const uint32_t *winner,
                         float *dimage)
{
    const size_t positions = window_positions(w);
    for (size_t i = 0; i < positions; i++) {
        for (size_t c = 0; c < w->channels; c++) {
            dimage[winner[c] * w->channels + c] += dy[c];
        }
        dy += w->channels;
        winner += w->channels;
    }
}

static void scale_run(size_t n, float factor, float *x)
{
    for (size_t i = 0; i < n; i++) {
        x[i] *= factor;
    }
}

static void add_scaled(size_t n, float factor, const float *restrict in, float *restrict out)
{
    for (size_t i = 0; i < n; i++) {
        out[i] += in[i] * factor;
    }
}

static float inverse_area(struct span rows, struct span columns)
{
    return 1.0F / (float)((rows.end - rows.first) * (columns.end - columns.first));
}

void window_mean(const struct window *w, const float *image, float *out)
{
    memset(out, 0, window_positions(w) * w->channels * sizeof *out);
    for (size_t i = 0; i < w->out_height; i++) {
        const struct span rows = rows_at(w, i);
        for (size_t j = 0; j < w->out_width; j++) {
            const struct span columns = columns_at(w, j);
            for (size_t y = 0; y < rows.end - rows.first; y++) {
                for (size_t x = 0; x < columns.end - columns.first; x++) {
                    size_t pixel = (rows.input + y) * w->in_width + columns.input + x;
                    add_run(w->channels, image + pixel * w->channels, out);
                }
            }
            scale_run(w->channels, inverse_area(rows, columns), out);
            out += w->channels;
        }
    }
}

void window_mean_backward(const struct window *w, const float *dy, float *dimage)
{
    for (size_t i = 0; i < w->out_height; i++) {
        const struct span rows = rows_at(w, i);
        for (size_t j = 0; j < w->out_width; j++) {
            const struct span columns = columns_at(w, j);
            const float factor = inverse_area(rows, columns);
            for (size_t y = 0; y < rows.end - rows.first; y++) {
                for (size_t x = 0; x < columns.end - columns.first; x++) {
                    size_t pixel = (rows.input + y) * w->in_width + columns.input + x;
                    add_scaled(w->channels, factor, dy, dimage + pixel * w->channels);
                }
            }
            dy += w->channels;
        }
    }
}
