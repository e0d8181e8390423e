/* SPDX-License-Identifier: Apache-2.0 */
/* A window that slides over images [height, width, channels]: patches for convolution, and pooling.
 *
 * Padding as in TensorFlow: valid uses only whole windows; same gives ceil(size / stride) outputs
 * and puts the odd padding at the bottom and at the right. */
#ifndef GRADUS_TENSOR_WINDOW_H
#define GRADUS_TENSOR_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct window {
    size_t in_height, in_width, channels;
    size_t height, width;               /* of the window */
    size_t stride_height, stride_width; /* at least 1 */
    bool same;
    size_t pad_top, pad_left;     /* set by window_place() */
    size_t out_height, out_width; /* set by window_place(); 0 when no window fits */
};

void window_place(struct window *w);

/* Floats of one patch, and patches of one image. */
size_t window_patch_floats(const struct window *w);
size_t window_positions(const struct window *w);

/* The patches of one image, one per row: [positions × height·width·channels], zeros in the padding.
 */
void window_patches(const struct window *w, const float *image, float *patches);
/* The reverse for gradients: adds every patch element to the pixel it came from. */
void window_patches_add(const struct window *w, const float *patches, float *image);

/* The largest value under each window, [positions × channels], and the number of its pixel in the
 * image (row · in_width + column; the first of equals). @winner may be NULL. */
void window_max(const struct window *w, const float *image, float *out, uint32_t *winner);
/* Adds dy to the winners in @dimage. */
void window_max_backward(const struct window *w, const float *dy, const uint32_t *winner,
                         float *dimage);
/* The mean over the pixels under each window; padding does not count. */
void window_mean(const struct window *w, const float *image, float *out);
void window_mean_backward(const struct window *w, const float *dy, float *dimage);

#endif
