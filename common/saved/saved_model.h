/* SPDX-License-Identifier: Apache-2.0 */
/* A trained model out of a checkpoint, or of a file that was exported from one: variables and
 * tables in memory, and the encoder that makes of records what the model was trained on. Immutable;
 * any thread may compute with it, in a run of its own. */
#ifndef GRADUS_SAVED_SAVED_MODEL_H
#define GRADUS_SAVED_SAVED_MODEL_H

#include "checkpoint/checkpoint.h"
#include "data/encoder.h"
#include "graph/model.h"
#include "job/spec/job_spec.h"
#include "saved/saved_job.h"
#include "table/table.h"

struct saved_model;
struct saved_run;
struct saved_tables;

/* The values of a model that somebody else has read; borrowed for the call, but for the texts,
 * which outlive the model. */
struct saved_given {
    struct saved_about about;
    const struct variable_spec *variables; /* [count] */
    const float *const *values;            /* [count] */
    size_t count;
    /* Of a job with tables: how many rows table number @table of the job file has; and the next of
     * them, which have @dim floats each, into @out, with arrays that stay until the next call
     * (none: there are no more). Tables are asked for one after the other. */
    uint64_t (*row_count)(void *ctx, size_t table);
    int (*rows)(void *ctx, size_t table, size_t dim, struct table_chunk *out, struct err *err);
    void *ctx;
    uint64_t rows_bytes_max; /* memory for all of them; more is refused */
};

struct saved_model_request { /* everything is borrowed for the call */
    const char *path; /* the checkpoint's directory, or the file; of @given: a name for messages */
    const struct saved_given *given; /* NULL: what is at the path */
    const char *const *sets;         /* [set_count] "key=value" of the job file */
    size_t set_count;
    /* of the parameters (update.average), even where the job does not evaluate with it; a file has
     * either the average or the parameters */
    bool average;
    /* directory of indexes (data_spec.h); may be NULL; kept for good */
    const char *cache_dir;
    /* a model of the same job, or NULL: what was measured on the train data is taken from it, where
     * nothing but values differs */
    const struct saved_model *before;
};

/* Errors: those of the checkpoint or the file, the job file, the train data and the model. */
int saved_model_open(const struct saved_model_request *request, struct saved_model **out,
                     struct err *err);
void saved_model_free(struct saved_model *m); /* NULL is fine */

const char *saved_model_path(const struct saved_model *m);
const struct saved_about *saved_model_about(const struct saved_model *m);
const struct job_spec *saved_model_spec(const struct saved_model *m);
/* True if the checkpoint is older than the member for what was measured on the train data, so the
 * present train data were measured again. */
bool saved_model_measured_anew(const struct saved_model *m);
struct encoder *saved_model_encoder(const struct saved_model *m); /* borrows */
/* Classes that an answer has a probability for; 0: an answer is one value. */
size_t saved_model_classes(const struct saved_model *m);
/* "setosa"; the number where classes have no names. Borrows. */
const char *saved_model_class_name(const struct saved_model *m, size_t i);
/* Numbers of an answer: the classes, or 1. */
size_t saved_model_width(const struct saved_model *m);

/* What answers are computed with: the layers, and the values of their variables. Borrows. */
const struct model *saved_model_graph(const struct saved_model *m);
const float *const *saved_model_values(const struct saved_model *m);
const struct saved_tables *saved_model_tables(const struct saved_model *m); /* all rows */

/* For batches of up to @batch_max records. @threads: BLAS threads. Errors: ERR_EXHAUSTED. */
int saved_run_new(struct saved_model *m, size_t batch_max, int threads, struct saved_run **out,
                  struct err *err);
void saved_run_free(struct saved_run *r); /* NULL is fine */
/* The answers for @b into @out, [count × width]: probabilities of all classes, or the value in the
 * units of the data. Errors: ERR_INVALID keys that the model does not take; ERR_EXHAUSTED. */
int saved_run_answer(struct saved_run *r, const struct batch *b, float *out, struct err *err);
/* Add the metrics of @b, whose lists the model takes, to @sums. Errors: ERR_EXHAUSTED. */
int saved_run_evaluate(struct saved_run *r, const struct batch *b, struct metrics *sums,
                       struct err *err);

#endif
