/* SPDX-License-Identifier: Apache-2.0 */
/* Categories in an ONNX graph: what its metadata say of them, and texts as their places. Private to
 * common/saved. */
#ifndef GRADUS_SAVED_SAVED_ONNX_CATEGORIES_H
#define GRADUS_SAVED_SAVED_ONNX_CATEGORIES_H

#include "data/column_spec.h"
#include "data/names.h"
#include "onnx/onnx_graph.h"

/* The metadata say what the @width places of a column are: the categories @known from place @first
 * on; or which hash of a text its numbers are. */
void saved_onnx_tell_categories(struct onnx_graph *g, const char *name, const struct names *known,
                                size_t first, size_t width);
void saved_onnx_tell_hash(struct onnx_graph *g, const char *name, const struct data_column *c);
/* The places of texts @x: from @first on those that are @known, @missing of texts that read as
 * missing, @unknown of others. */
const char *saved_onnx_places(struct onnx_graph *g, const struct names *known, size_t first,
                              int64_t missing, int64_t unknown, const char *x);

#endif
