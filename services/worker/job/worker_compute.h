/* SPDX-License-Identifier: Apache-2.0 */
/* What computes the model of a job: layers in this process, or a program of the user's, to which
 * plug-ins in C belong. Each is a table of functions; what both need (data, arrays, sums, rounding)
 * is worker_model.c's, and nobody else asks which one it is. Owner: as of the worker_model. */
#ifndef GRADUS_WORKER_JOB_WORKER_COMPUTE_H
#define GRADUS_WORKER_JOB_WORKER_COMPUTE_H

#include "worker/job/worker_model.h"

struct worker_compute {
    bool interrupted; /* ERR_CANCELLED of what it computes: the job is dropped */
    /* Makes m->computer and m->given, and maybe m->variables; the spec and the data are there.
     * Errors: as worker_model_load(). */
    int (*load)(struct worker_model *m, const char *job, struct err *err);
    /* Makes m->variables, where load() does not. Errors: what the model has. */
    int (*make)(struct worker_model *m, struct err *err);
    /* What variable @i begins with: one of m->given for which the job has no source. */
    void (*begin)(const struct worker_model *m, size_t i, float *out);
    /* The variables are those of the plan, and laid out: makes m->rows, m->ahead, and the loaders
     * for m->batch_max. Errors: what does not fit the data; ERR_EXHAUSTED; those of a program. */
    int (*build)(struct worker_model *m, uint32_t shard_count, struct err *err);
    /* [m->flat_count] for @what, under this @number. NULL and ERR_EXHAUSTED. */
    float *(*array)(struct worker_model *m, uint32_t number, const char *what, struct err *err);
    /* What @batch looks up in tables, into @rows: m->rows or m->ahead. @b: as m->taken. Errors:
     * ERR_EXHAUSTED; those of a program. */
    int (*keys)(struct worker_model *m, const struct ledger_batch *batch, const struct batch *b,
                struct worker_rows *rows, struct err *err);
    /* The same of the first @count of m->records, test records, into m->rows. */
    int (*test_keys)(struct worker_model *m, size_t count, struct err *err);
    /* Of m->batch, without rounding. Errors: as worker_model_gradient(). */
    int (*gradient)(struct worker_model *m, const struct worker_gradient *g, struct err *err);
    /* Of the first @count of m->records; m->test_batch has them, if the job has data. */
    int (*evaluate)(struct worker_model *m, size_t count, struct metrics *metrics, struct err *err);
    void (*release)(struct worker_model *m); /* arrays and m->computer */
};

extern const struct worker_compute worker_compute_layers;  /* worker_model_layers.c */
extern const struct worker_compute worker_compute_program; /* worker_model_program.c */

/* For their build(): loaders for training.batch_size or @least records at once, which is more in a
 * model with tables: each batch asks for rows. */
size_t worker_compute_batch(const struct worker_model *m, size_t least);
int worker_compute_loaders(struct worker_model *m, size_t least, struct err *err);

#endif
