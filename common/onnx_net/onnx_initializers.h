/* SPDX-License-Identifier: Apache-2.0 */
/* The initializers of an ONNX file by name, whatever its graph computes: for code that wants their
 * values and does not run the graph. Immutable; any thread may read. */
#ifndef GRADUS_ONNX_NET_ONNX_INITIALIZERS_H
#define GRADUS_ONNX_NET_ONNX_INITIALIZERS_H

#include "base/err.h"
#include "onnx/onnx_tensor.h"

struct onnx_initializers;

/* @bytes are borrowed for the call. Errors: ERR_INVALID what is wrong with the file, or with which
 * initializer. */
int onnx_initializers_read(const void *bytes, size_t n, struct onnx_initializers **out,
                           struct err *err);
void onnx_initializers_free(struct onnx_initializers *f); /* NULL is fine */
size_t onnx_initializers_count(const struct onnx_initializers *f);
const char *onnx_initializers_name(const struct onnx_initializers *f, size_t i); /* borrowed */
const struct onnx_tensor_info *onnx_initializers_info(const struct onnx_initializers *f, size_t i);
/* Reads all elements of @i into @out. @external as of struct onnx_net_source, with its @ctx.
 * Errors: those of onnx_tensor_floats() and of @external; ERR_EXHAUSTED. */
int onnx_initializers_floats(const struct onnx_initializers *f, size_t i,
                             int (*external)(void *ctx, const char *file, uint64_t offset,
                                             void *out, size_t bytes, struct err *err),
                             void *ctx, float *out, struct err *err);

#endif
