/* SPDX-License-Identifier: Apache-2.0 */
/* Layers as the job file names them: a table of kinds, each with its rows of parameters.
 * To add one: a file op_<name>.c with its `const struct layer_kind`, and a line in the list of
 * layer.c. */
#ifndef GRADUS_GRAPH_LAYER_H
#define GRADUS_GRAPH_LAYER_H

#include "config/field.h"
#include "graph/model_table.h"
#include "tensor/batch.h"

struct layer_kind; /* opaque here; its operations are in graph/op.h */
struct onnx_net;   /* a graph of an ONNX file */

const struct layer_kind *layer_kind_find(const char *name); /* NULL: unknown */
const struct layer_kind *layer_kind_at(size_t index);       /* NULL past the end */
const char *layer_kind_name(const struct layer_kind *k);
const char *layer_kind_help(const struct layer_kind *k);
const struct field *layer_kind_fields(const struct layer_kind *k, size_t *count);
size_t layer_kind_params_bytes(const struct layer_kind *k);
/* The number of inputs that a layer of that kind takes. */
void layer_kind_inputs(const struct layer_kind *k, size_t *min, size_t *max);
/* True if the kind reads sparse fields of the data, by their names; all of them when it names none.
 * Other kinds read layers and the records' numbers. */
bool layer_kind_reads_fields(const struct layer_kind *k);

#define LAYER_INPUTS_MAX 256
#define LAYER_NAME_OF_INPUT "input" /* the name of the records in `from`; no layer has it */

/* One entry of model.layers. */
struct layer_spec {
    const struct layer_kind *kind;
    char *name;        /* "dense_1": given, or made of kind and number; unique in the model */
    char **from;       /* names of layers above, or LAYER_NAME_OF_INPUT; or of sparse fields */
    size_t from_count; /* 0: the layer above, or the input of the model for the first one; of kinds
                          that read sparse fields: all fields */
    void *params;      /* layer_kind_params_bytes() bytes filled through the kind's fields */
    unsigned line;     /* line in the job file; 0: unknown */
    unsigned column;
};

enum loss_kind {
    LOSS_SOFTMAX_CROSS_ENTROPY,
    LOSS_SIGMOID_CROSS_ENTROPY,
    LOSS_MEAN_SQUARED_ERROR,
    LOSS_AUTO, /* by the number of classes; model_loss_of() */
    LOSS_KIND_COUNT
};
enum metric_kind {
    METRIC_LOSS,
    METRIC_ACCURACY,
    METRIC_AUC,
    METRIC_RMSE,
    METRIC_MAE,
    METRIC_NORMALISED_ENTROPY,
    METRIC_GROUPED_AUC,
    METRIC_PRECISION,
    METRIC_RECALL,
    METRIC_F1,
    METRIC_TOP_K_ACCURACY,
    METRIC_LOG_LOSS,
    METRIC_ECE,
    METRIC_R2,
    METRIC_ORDERED_END, /* of the metrics before this one, one value is better than another */
    METRIC_CALIBRATION = METRIC_ORDERED_END,
    METRIC_CONFUSION_MATRIX, /* no single number */
    METRIC_KIND_COUNT
};
extern const char *const loss_kind_names[LOSS_KIND_COUNT + 1];
extern const char *const metric_kind_names[METRIC_KIND_COUNT + 1];

/* The `model` section of a job file. */
struct model_spec {
    struct field_ints input; /* the shape of one record; count 0: taken from the data */
    struct layer_spec *layers;
    size_t layer_count;
    struct model_table *tables;
    size_t table_count;
    enum loss_kind loss;
    unsigned metrics;    /* bit set of 1 << metric_kind; METRIC_LOSS is always in */
    int64_t top_k;       /* of top_k_accuracy */
    char *class_weights; /* FIELD_TEXTS: "balanced", or one for each class; "" or NULL: 1 */
    char *group_by;      /* the sparse field whose key is a record's group; "" or NULL: none */
    char *program;   /* workers' programs compute it under this name, and there are no layers; ""
                        or NULL: the layers do */
    char *onnx;      /* file of the graph that replaces layers; "" or NULL: none */
    char *output;    /* output of that graph; "" or NULL: the only one */
    char *trainable; /* field_texts.h: patterns of the variables in it; "" or NULL: all */
    struct onnx_net *net; /* content of that file: model_import(); owned */
};
void model_spec_release(struct model_spec *spec);

/* Finds what entry @i of @spec reads: @out[k] is an index into layers, or SIZE_MAX for the input of
 * the model; for a kind that reads sparse fields an index into @fields. @fields NULL: they are not
 * known yet; then any name may be one and @count may come back as 0. Errors: ERR_INVALID a name
 * that no layer above, or no field, has, or a number of inputs that the kind does not take. */
int model_spec_inputs(const struct model_spec *spec, size_t i, const struct sparse_names *fields,
                      size_t out[LAYER_INPUTS_MAX], size_t *count, struct err *err);

#endif
