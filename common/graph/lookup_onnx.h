/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a variable under keys of sparse fields, as an ONNX file looks them up. Private to
 * common/graph. A key there is a number of 64 bits with a sign; a negative one is none, so lists of
 * several lengths can be in one tensor. Every key has weight 1. */
#ifndef GRADUS_GRAPH_LOOKUP_ONNX_H
#define GRADUS_GRAPH_LOOKUP_ONNX_H

#include "graph/layer_onnx.h"
#include "graph/lookup.h"

struct lookup_onnx {
    const char *rows; /* [batch, keys, width]; zeros where a key has no row */
    const char *mask; /* [batch, keys, 1] of 1, and 0 where a key has no row */
};

/* Errors: ERR_UNSUPPORTED rows that no operator of ONNX finds: those of a table, or under hashes.
 */
int lookup_onnx_check(const struct layer *l, const struct lookup_params *p, struct err *err);
/* The rows of @table, a constant, for the keys of input @k; of a layer that passes the check. */
struct lookup_onnx lookup_onnx(struct layer_onnx *o, const struct lookup_params *p, size_t k,
                               const char *table);
/* @rows with zeros behind them, up to @length. */
const char *lookup_onnx_lengthen(struct layer_onnx *o, size_t k, const char *rows, size_t length);

#endif
