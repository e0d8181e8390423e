/* SPDX-License-Identifier: Apache-2.0 */
/* The bulk side of a job on a worker: data, model, parameters and gradients in flat arrays.
 *
 * Owner: the job's thread. Sets of parameters and gradient buffers are allocated when first used
 * and kept. */
#ifndef GRADUS_WORKER_JOB_WORKER_MODEL_H
#define GRADUS_WORKER_JOB_WORKER_MODEL_H

#include "data/dataset_cache.h"
#include "data/loader.h"
#include "graph/model.h"
#include "job/spec/job_spec.h"
#include "job/plan/plan.h"
#include "worker/core/worker.h"
#include "worker/job/worker_rows.h"
#include "worker/program/worker_program.h"

struct model_program; /* what a program's model needs beside it (worker_model_program.c) */

struct worker_model {
    struct job_spec spec;
    char *encoding; /* with which the records are encoded; NULL: it is measured on them */
    struct dataset *train, *test; /* test may be NULL; train of a program's own records, too */
    struct dataset_info train_info, test_info; /* of what there is; test: no records */
    struct worker_program *program;            /* borrowed: of this worker; NULL: it has none */
    struct model_program *by_program;          /* NULL: the model is one of layers */
    bool data_known;                           /* they were in memory */
    struct loader *loader;
    struct model *model;
    struct runner *runner;
    size_t runner_batch;
    struct batch test_batch;
    uint64_t *records; /* numbers of test records, [runner_batch] */
    size_t variable_count;
    uint64_t *offsets; /* [variables] in a flat array */
    uint64_t flat_count;
    struct variable_spec *given; /* of layers, when the job file says `from`; else NULL */
    /* [flat_count] the values that this worker brings to the servers when the plan's are given; or
     * NULL. worker_model_bring() sees to it; those of a program alone are there when it is built,
     * and it keeps them. */
    const float *initial;
    float *brought; /* the same, owned */
    float *sets[WORKER_SET_COUNT];
    float *buffers[WORKER_BUFFERS_MAX];
    bool summed[WORKER_BUFFERS_MAX];                        /* and not rounded since */
    const float **values;                                   /* [variables] scratch */
    float **gradients;                                      /* [variables] scratch */
    struct worker_rows rows;                                /* of the model's tables */
    struct worker_rows_keys found[WORKER_PREFETCH_MAX + 1]; /* of each slot of the loader */
    struct worker_rows ahead; /* of the batch that is computed next, of which it keeps */
    struct ledger_batch ahead_of;
    bool has_ahead;                  /* `ahead` is that of `ahead_of` */
    const struct batch *ahead_taken; /* from the loader; NULL: none, or the program's records */
    bool was_ahead;                  /* the batch that was taken */
    struct worker_rows_gradient row_gradients[WORKER_BUFFERS_MAX]; /* likewise, of each buffer */
    const struct batch *taken;                                     /* from the loader; NULL: none */
    uint64_t load_ns; /* the last gradient waited for its batch so long, or decoded it */
};

struct worker_job_file {
    const char *id, *text;
    /* Of one with job_spec_takes_encoding(): what was measured before; "": it is measured, or
     * with `begins` that of the source, if it has one. */
    const char *encoding;
    bool begins;
};
/* @m is zeroed but for its program. Parse the job file and load its data, unless @cache (may be
 * NULL) knows them: m->data_known. The model of a program is asked for. Errors: what the file,
 * the data or the source has; ERR_UNAVAILABLE: again later. */
int worker_model_load(struct worker_model *m, const struct worker_job_file *file,
                      struct dataset_cache *cache, struct err *err);
/* The variables of a model that the plan does not know how to begin; none: it knows. Borrows. */
struct given_variables worker_model_given(const struct worker_model *m);
void worker_model_give(struct worker_model *m); /* m->given, of m->model */
/* Has this worker first values for all variables of the model, or can it make them? */
bool worker_model_brings(const struct worker_model *m);
struct worker_source {
    char *summary;        /* owned: what is taken of it */
    uint64_t fingerprint; /* of these values */
    char *rows_from;      /* owned: the checkpoint that has rows for tables; "": none are taken */
    uint64_t rows_manifest;
};
void worker_source_release(struct worker_source *s); /* zeroed is fine */
/* Of a job with `from`: read the source, within @roots, and say what is taken of it. @out begins
 * zeroed. Errors: those of warm_start.h. */
int worker_model_look(const struct worker_model *m, const struct data_roots *roots,
                      struct worker_source *out, struct err *err);
/* See to it that m->initial is there, of a model that was built. @expected: what another worker
 * said that the values of the source are; 0: nobody knows. Errors: the same; ERR_STATE they are
 * others; ERR_EXHAUSTED. */
int worker_model_bring(struct worker_model *m, const struct data_roots *roots, uint64_t expected,
                       struct err *err);
void worker_model_brought(struct worker_model *m); /* nobody needs them any more */
/* Build the model; its variables must be the plan's. Errors: ERR_STATE naming the difference. */
int worker_model_build(struct worker_model *m, const struct plan *plan, struct err *err);
void worker_model_release(struct worker_model *m);
/* NULL and ERR_EXHAUSTED without memory. */
float *worker_model_set(struct worker_model *m, enum worker_set set, struct err *err);
float *worker_model_buffer(struct worker_model *m, uint32_t buffer, struct err *err);
/* Have @batch decoded ahead; it need not be computed, and others may be. */
void worker_model_prefetch(struct worker_model *m, const struct ledger_batch *batch);
/* Decode @batch, or wait for it, and find what it needs of tables: m->rows. Errors: ERR_RANGE it is
 * outside the data; ERR_EXHAUSTED. */
int worker_model_take(struct worker_model *m, const struct ledger_batch *batch, struct err *err);
/* The same, for the computation after the present one: m->ahead, which becomes m->rows when the
 * batch is taken. What is on its way there must have come. */
int worker_model_take_ahead(struct worker_model *m, const struct ledger_batch *batch,
                            struct err *err);
/* Is that done for @batch, and nothing else since? */
bool worker_model_is_ahead(const struct worker_model *m, const struct ledger_batch *batch);
/* The gradient of the batch that was taken, rounded to the type in which gradients travel, so that
 * it is the same whether it is pushed or added to others here; both arrays exist. @metrics (may be
 * NULL) gets the batch's contribution; @need (may be NULL) is asked for the parameters, and for the
 * rows of tables, which it gives to worker_model_rows(); @ready (may be NULL) hears what is made,
 * which is not rounded yet. A gradient of rows that is not finite makes that of the first
 * variable's first element NaN: a step is dropped as a whole. Errors: what @need refused with,
 * which has said why; those of a program, in @err.
 */
int worker_model_gradient(struct worker_model *m, const struct runner_step *step,
                          enum worker_set set, uint32_t buffer, struct metrics *metrics,
                          const struct runner_need *need, const struct runner_ready *ready,
                          struct err *err);
/* The rows of the batch that was taken have come. Errors: ERR_EXHAUSTED. */
int worker_model_rows(struct worker_model *m, uint32_t buffer, struct err *err);
/* Errors: ERR_EXHAUSTED. */
int worker_model_add(struct worker_model *m, uint32_t buffer, uint32_t from, struct err *err);
/* Round a sum of batches, which is pushed like a single gradient, to the type in which they travel;
 * single ones are rounded already. */
void worker_model_round_sum(struct worker_model *m, uint32_t buffer);
/* m->values become those of @set, which exists. */
void worker_model_point(struct worker_model *m, enum worker_set set);
/* Who brings the rows that m->rows asks for: 0, or why not. */
struct worker_model_fetch {
    int (*call)(void *ctx, struct err *err);
    void *ctx;
};
/* Test records first..first+count-1. Errors: ERR_RANGE, ERR_STATE no test source; ERR_EXHAUSTED;
 * those of @fetch. */
int worker_model_evaluate(struct worker_model *m, uint64_t first, uint64_t count,
                          const struct worker_model_fetch *fetch, struct metrics *metrics,
                          struct err *err);

#endif
