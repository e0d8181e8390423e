/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of struct model, for model.c and runner.c. */
#ifndef GRADUS_GRAPH_MODEL_IMPL_H
#define GRADUS_GRAPH_MODEL_IMPL_H

#include "graph/loss.h"
#include "graph/op.h"

/* A job file's layer becomes one layer here, and one more for its activation. */
struct model_layer {
    struct layer layer;
    bool is_activation; /* an activation of the layer before it */
    bool trains;        /* it has variables, or something that it reads trains */
    size_t readers;     /* layers that name its output */
    size_t uses;        /* layers that compute with its output, through views, too */
    char *from;         /* as the job file has it, "a, b"; NULL: the layer above */
    char *table;        /* the table in which it looks keys up, or NULL */
    size_t spec;        /* index in the job file's list */
};

struct model {
    struct model_layer *layers;
    size_t layer_count;
    size_t loss_layers; /* layers below the loss: without a last one that is part of the loss */
    size_t loss_from;   /* the layer whose output the loss reads */
    size_t inputs_max;  /* of one layer */
    const struct variable_spec **variables; /* point into layers */
    size_t variable_count;
    size_t outputs;        /* per record */
    uint32_t loss_outputs; /* outputs that the last layer needs for the labels */
    struct shape input;
    const struct sparse_names *fields;     /* while the model is made; then NULL */
    const struct model_table *table_specs; /* likewise */
    size_t table_count;
    size_t *table_dims; /* [table_count] */
    size_t top_k;
    bool balanced;
    uint32_t classes;
    float *class_weights; /* [classes]; NULL: 1 each, or not balanced yet */
    float shift;          /* of model_sampled() */
    /* the field whose keys are the groups of grouped_auc; SIZE_MAX: none */
    size_t group_field;
    enum loss_kind loss_kind; /* not LOSS_AUTO */
    const struct loss *loss;
};

/* model_lists.c */
/* What a layer's `from` says, "a, b, C1..C26"; NULL when it says nothing. Owned. */
char *model_from_text(const struct layer_spec *s);
/* Layer @l reads sparse fields @from, as indices of m->fields. */
void model_connect_fields(struct model *m, struct layer *l, const size_t *from, size_t count);
/* Every table is read by a layer, which has its name from now on. Errors: ERR_INVALID. */
int model_tables_check(struct model *m, const struct model_spec *spec, struct err *err);

/* The field of spec->group_by. Errors: ERR_INVALID there is none of the name, or grouped_auc is
 * measured and no field is named. */
int model_find_group(struct model *m, const struct model_spec *spec, struct err *err);
/* The group of each record of @b; NULL when @metrics (which may be NULL) needs none. */
const uint64_t *model_groups(const struct model *m, const struct batch *b,
                             const struct metrics *metrics);

/* The number of keys that layers above layer @i look up in its table for the records of @b: so many
 * come before its own in the index of the table's rows. */
size_t model_lookups_above(const struct model *m, size_t i, const struct sparse_batch *b);

/* The layer that computes what layer @i gives: a view gives what it reads. Indices as in
 * layer_input.from. */
size_t model_source(const struct model *m, size_t i);

/* The weights of the spec. Errors: ERR_INVALID not as many as there are classes. */
int model_weights_take(struct model *m, const struct model_spec *spec, uint32_t classes,
                       struct err *err);

#endif
