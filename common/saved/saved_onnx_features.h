/* SPDX-License-Identifier: Apache-2.0 */
/* From raw records to what the layers read, as nodes of an ONNX graph. Private to common/saved. */
#ifndef GRADUS_SAVED_SAVED_ONNX_FEATURES_H
#define GRADUS_SAVED_SAVED_ONNX_FEATURES_H

#include "data/encoder.h"
#include "onnx/onnx_graph.h"

#define SAVED_ONNX_FEATURES "features" /* the input with all numbers of a record */

/* Adds the inputs for numbers and categories, and the features made of them: *@out, [batch,
 * @shape]; NULL where records have sparse fields alone. @texts: as saved_onnx_write(). Errors:
 * ERR_UNSUPPORTED, ERR_INVALID. */
int saved_onnx_features(const struct encoder *e, bool texts, struct onnx_graph *g, const char **out,
                        struct shape *shape, struct err *err);
/* An input called @name and nothing else. Errors: ERR_INVALID the name is taken. */
int saved_onnx_input(struct onnx_graph *g, const char *name, enum onnx_element type,
                     const struct onnx_dim *dims, size_t rank, const char **out, struct err *err);
#endif
