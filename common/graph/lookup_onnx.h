/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of a variable or table under keys of sparse fields, as an ONNX file looks them up. Private
 * to common/graph. A key there is 64 bits in a number with a sign; -1 is none, so lists of several
 * lengths can be in one tensor. */
#ifndef GRADUS_GRAPH_LOOKUP_ONNX_H
#define GRADUS_GRAPH_LOOKUP_ONNX_H

#include "graph/layer_onnx.h"
#include "graph/lookup.h"

/* The keys of all inputs of a layer, side by side. */
struct lookup_onnx {
    const char *rows;    /* [batch, keys, width] times their weights; zeros where there is no row */
    const char *weights; /* [batch, keys, 1]; 0 where a key has no row */
    const char *sizes;   /* INT64 [inputs] keys of each input; NULL: there is one */
};

/* The rows, of @dim floats, of a layer whose variable 0 has them where it has no table. */
struct lookup_onnx lookup_onnx(struct layer_onnx *o, const struct lookup_params *p, size_t dim);
/* @x, [batch, keys, n], input by input into @out[input_count]. */
void lookup_onnx_split(struct layer_onnx *o, const struct lookup_onnx *l, const char *name,
                       const char *x, const char **out);
/* @rows of input @k with zeros behind them, up to @length. */
const char *lookup_onnx_lengthen(struct layer_onnx *o, size_t k, const char *rows, size_t length);

#endif
