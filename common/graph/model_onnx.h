/* SPDX-License-Identifier: Apache-2.0 */
/* A model as nodes of an ONNX graph. */
#ifndef GRADUS_GRAPH_MODEL_ONNX_H
#define GRADUS_GRAPH_MODEL_ONNX_H

#include "graph/model.h"
#include "onnx/onnx_graph.h"

/* The rows of a table; all borrowed, and they outlive the graph. */
struct model_onnx_table {
    const char *name;
    size_t count;
    const int64_t *keys; /* [count] the bits of the keys, as the table has them */
    const float *values; /* [(count + 1) × dim] the rows, and how one without a row begins: for
                             an init that makes all alike */
    struct init init;    /* how a row begins, from @seed and @name */
    uint64_t seed;
};

struct model_onnx { /* all borrowed */
    struct onnx_graph *graph;
    const float *const *values; /* [model_variable_count()]; they outlive the graph */
    /* name of the records in the graph, [batch, input_shape]; NULL: there are sparse fields alone
     */
    const char *input;
    struct shape input_shape;
    const char *const *keys; /* of each sparse field, INT64 [batch, keys], -1: no key; NULL for one
                                that no layer reads */
    const char *const *weights; /* of each sparse field, FLOAT [batch, keys]; NULL: all are 1 */
    const struct model_onnx_table *tables; /* [model_table_count()] */
};
/* Add the layers to o->graph: what runner_predict() computes and model_answer() makes of it.
 * *@out: the answers' name, [batch, model_outputs()]. Errors: ERR_UNSUPPORTED a layer that the
 * operators of ONNX cannot say, with advice; ERR_EXHAUSTED. */
int model_onnx(const struct model *m, const struct model_onnx *o, const char **out,
               struct err *err);
/* True if a layer looks up the keys of the sparse field. */
bool model_onnx_reads(const struct model *m, size_t field);
/* How many keys of a sparse field the file takes for each record; SIZE_MAX: any number. */
size_t model_onnx_keys(const struct model *m, size_t field);
/* [batch, @record] */
void model_onnx_dims(const struct shape *record, struct onnx_dim out[ONNX_DIMS_MAX]);

#endif
