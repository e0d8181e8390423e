/* SPDX-License-Identifier: Apache-2.0 */
/* A window that slides over images [channels, height, width], with paddings of its own on each
 * side and steps between its pixels; rows of numbers are images of height 1. Private to
 * common/onnx_net. */
#ifndef GRADUS_ONNX_NET_ONNX_SLIDE_H
#define GRADUS_ONNX_NET_ONNX_SLIDE_H

#include "onnx_net/onnx_op.h"

struct onnx_slide {
    size_t spatial; /* 1 or 2 dimensions of the tensor */
    size_t images, channels;
    size_t in_height, in_width, out_height, out_width;
    size_t height, width; /* of the window */
    size_t stride_y, stride_x, dilation_y, dilation_x;
    size_t top, left, bottom, right; /* paddings */
};

/* From the attributes of a node with input [images, channels, width] or [.., height, width].
 * @kernel has the window's sizes [spatial]. Errors: ERR_INVALID. */
int onnx_slide_place(const struct onnx_step *s, const size_t *kernel, struct onnx_slide *out,
                     struct err *err);
/* [images, channels, out…] */
struct onnx_dims onnx_slide_output(const struct onnx_slide *w, size_t channels);
/* Patches of @channels of one image: [channels · height · width][out_height · out_width]. */
void onnx_slide_patches(const struct onnx_slide *w, size_t channels, const float *image,
                        float *patches);
/* Adds each value to the pixel from which it came. */
void onnx_slide_patches_add(const struct onnx_slide *w, size_t channels, const float *patches,
                            float *image);
/* Row or column of the image below pixel @k of window @o; false: padding. */
bool onnx_slide_at(size_t o, size_t k, size_t stride, size_t dilation, size_t pad, size_t size,
                   size_t *at);

#endif
