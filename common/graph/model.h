/* SPDX-License-Identifier: Apache-2.0 */
/* A model: layers put together for one input shape, and a runner that computes gradients.
 *
 * `struct model` is immutable and may be shared; `struct runner` holds one arena with all
 * activations and gradients for up to batch_max records and belongs to one thread; a step allocates
 * nothing. */
#ifndef GRADUS_GRAPH_MODEL_H
#define GRADUS_GRAPH_MODEL_H

#include "graph/layer.h"
#include "graph/metric.h"
#include "tensor/batch.h"
#include "tensor/init.h"

struct model;
struct runner;

/* Put @spec together for records of shape @input (of no elements: there are sparse fields alone)
 * with these sparse fields (NULL: none) and, for class labels, @classes classes (0: real labels).
 * Errors: ERR_INVALID "layer 3 (conv2d 'conv2d_1', line 12): kernel [5, 5] does not fit its input
 * [3, 3, 8]; …".
 *
 * @spec and @input are borrowed for the call. A last softmax in front of softmax_cross_entropy (or
 * sigmoid in front of sigmoid_cross_entropy) is part of the loss, which is computed from what goes
 * into it; runner_predict() gives its probabilities. The kernel of conv2d is a variable [kernel
 * height · kernel width · channels, filters]. */
int model_new(const struct model_spec *spec, const struct shape *input,
              const struct sparse_names *fields, uint32_t classes, struct model **out,
              struct err *err);
void model_free(struct model *m);
/* The loss that is minimised: of LOSS_AUTO two classes have one output (sigmoid_cross_entropy),
 * more have one each. */
enum loss_kind model_loss(const struct model *m);
/* The metrics that say something about a loss, as a bit set; of LOSS_AUTO about one of the two. */
unsigned model_metrics_of(enum loss_kind loss);
size_t model_variable_count(const struct model *m);
const struct variable_spec *model_variable(const struct model *m, size_t i);
/* All variables as an array, free() it; what they point to is the model's. */
struct variable_spec *model_variables(const struct model *m);
size_t model_outputs(const struct model *m); /* numbers for each record */
/* Is a mini-batch of @records enough for every layer? Errors: ERR_INVALID which needs more. */
int model_check_batch(const struct model *m, size_t records, struct err *err);
/* Append a table: a line per layer with name, kind, output shape and parameters, and the total. */
void model_describe(const struct model *m, struct buf *out);

/* ---- sparse fields and tables (model_lists.c) ---- */

/* What layers of the model cannot do with the lists of field @field: a key of *@keys or above
 * (UINT64_MAX: none is too large), more keys than *@length (SIZE_MAX: no list is too long). The
 * layers that say so, borrowed; NULL where none does. */
void model_list_limits(const struct model *m, size_t field, uint64_t *keys, const char **keys_layer,
                       size_t *length, const char **length_layer);
/* The sparse field whose keys are the records' groups; SIZE_MAX: none is needed. Every record that
 * is measured must have one key there. */
size_t model_group_field(const struct model *m);
/* Tables, numbered as in the job file, and the floats of a row. */
size_t model_table_count(const struct model *m);
size_t model_table_dim(const struct model *m, size_t table);
/* How many keys the layers look up in a table for the records of @b: as often as they do. */
size_t model_table_lookups(const struct model *m, size_t table, const struct sparse_batch *b);
/* These keys, as the table has them: layer by layer, input by input, record by record. */
void model_table_keys(const struct model *m, size_t table, const struct sparse_batch *b,
                      uint64_t *out);

/* What a runner for so many records takes in memory; SIZE_MAX: more than fits in a number. */
size_t runner_bytes(const struct model *m, size_t batch_max);
/* @m is borrowed and must outlive the runner. @threads: BLAS threads of this process.
 * Errors: ERR_EXHAUSTED. */
int runner_new(const struct model *m, size_t batch_max, int threads, struct runner **out,
               struct err *err);
void runner_free(struct runner *r);

/* Identity of a mini-batch for dropout masks: they are a pure function of it. */
struct runner_step {
    uint64_t seed, step, replica;
};

/* Told when elements [first, first + count) of gradients[variable] are final. */
struct runner_ready {
    void (*call)(void *ctx, size_t variable, uint64_t first, uint64_t count);
    void *ctx;
};

/* Asked, before gradients are computed, whether a variable may be read: 0, once, or why the
 * computation is to be given up. */
struct runner_need {
    int (*call)(void *ctx, size_t variable);
    int (*rows)(void *ctx); /* asked once for the rows of all tables; NULL: they are there */
    void *ctx;
};

/* Rows of a table for one batch. */
struct runner_rows {
    const uint32_t *index; /* of each key of model_table_keys(), its row */
    const float *values;   /* [rows × dim] */
    float *gradient;       /* [rows × dim], zeros: the SUM over the batch is added; NULL: none is
                              computed */
};
/* What the next calls read of the tables: [model_table_count()], borrowed. Not needed without
 * tables, nor for an empty batch. */
void runner_set_rows(struct runner *r, const struct runner_rows *rows);

/* Forward and backward over @b, whose count is at most batch_max and whose classes lie below the
 * model's (mean_squared_error and sigmoid_cross_entropy read targets). @values[i] holds variable i.
 * @gradients[i] receives d(sum over the batch of the loss)/d(variable i): a SUM over examples,
 * overwritten, not added to; of a statistic, the batch's times its examples. An empty batch gives
 * zeros.
 * @metrics (may be NULL) gets this batch's contribution added.
 * @need (may be NULL) is called for each variable before it is read for the first time, first
 * layers first, and for all before anything is told to @ready. When it refuses, its answer is
 * returned, @gradients hold nothing, and @metrics got nothing. Otherwise returns 0.
 * @ready (may be NULL) is called as soon as a part of a gradient is final and the values of its
 * layer are not read any more: each element once, last layers first, and within a layer from the
 * last variable's end down. The bits do not depend on it. */
int runner_gradients(struct runner *r, const float *const *values, const struct batch *b,
                     const struct runner_step *step, float *const *gradients,
                     struct metrics *metrics, const struct runner_need *need,
                     const struct runner_ready *ready);
/* Forward only (dropout off), adding to @metrics. */
void runner_evaluate(struct runner *r, const float *const *values, const struct batch *b,
                     struct metrics *metrics);
/* Forward only; borrows the output [count × outputs] until the next call. */
const float *runner_predict(struct runner *r, const float *const *values, const struct batch *b,
                            size_t *outputs);
/* Turns the outputs @y of @count records into answers, @out [count × model_outputs()]: the
 * probability of each class (by one output: of the second of two), or a value, scaled as the labels
 * of training were. */
void model_answer(const struct model *m, const float *y, size_t count, float *out);

#endif
