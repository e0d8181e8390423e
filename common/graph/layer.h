/* SPDX-License-Identifier: Apache-2.0 */
/* Layers as the job file names them: a table of kinds, each with its rows of parameters.
 * To add one: a file op_<name>.c with its `const struct layer_kind`, and a line in the list of
 * layer.c. */
#ifndef GRADUS_GRAPH_LAYER_H
#define GRADUS_GRAPH_LAYER_H

#include "config/field.h"

struct layer_kind; /* opaque here; its operations are in graph/op.h */

const struct layer_kind *layer_kind_find(const char *name); /* NULL: unknown */
const struct layer_kind *layer_kind_at(size_t index);       /* NULL past the end */
const char *layer_kind_name(const struct layer_kind *k);
const char *layer_kind_help(const struct layer_kind *k);
const struct field *layer_kind_fields(const struct layer_kind *k, size_t *count);
size_t layer_kind_params_bytes(const struct layer_kind *k);

/* One entry of model.layers. */
struct layer_spec {
    const struct layer_kind *kind;
    char *name;    /* "dense_1": given, or made of kind and number; unique in the model */
    void *params;  /* layer_kind_params_bytes() bytes filled through the kind's fields */
    unsigned line; /* in the job file; 0: unknown */
    unsigned column;
};

enum loss_kind {
    LOSS_SOFTMAX_CROSS_ENTROPY,
    LOSS_SIGMOID_CROSS_ENTROPY,
    LOSS_MEAN_SQUARED_ERROR,
    LOSS_KIND_COUNT
};
enum metric_kind { METRIC_LOSS, METRIC_ACCURACY, METRIC_AUC, METRIC_RMSE, METRIC_KIND_COUNT };
extern const char *const loss_kind_names[LOSS_KIND_COUNT + 1];
extern const char *const metric_kind_names[METRIC_KIND_COUNT + 1];

/* The `model` section of a job file. */
struct model_spec {
    struct field_ints input; /* the shape of one record; count 0: taken from the data */
    struct layer_spec *layers;
    size_t layer_count;
    enum loss_kind loss;
    unsigned metrics; /* bit set of 1 << metric_kind; METRIC_LOSS is always in */
};
void model_spec_release(struct model_spec *spec);

#endif
