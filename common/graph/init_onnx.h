/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values of rows of a table, as nodes of an ONNX graph. Private to common/graph. */
#ifndef GRADUS_GRAPH_INIT_ONNX_H
#define GRADUS_GRAPH_INIT_ONNX_H

#include "onnx/onnx_graph.h"
#include "tensor/init.h"

/* True if all rows begin alike. */
bool init_onnx_same(const struct init *init);
/* What rows under @keys, INT64 [n], of the table @name begin with: FLOAT [n, dim], as init_fill()
 * of the table's rows up to rounding. A truncated normal number is drawn TRIES times at most. */
const char *init_onnx_rows(struct onnx_graph *g, const struct init *init, uint64_t seed,
                           const char *name, const char *keys, size_t dim);

#endif
