/* SPDX-License-Identifier: Apache-2.0 */
/* The bulk side of a job on a worker: data, model, parameters and gradients in flat arrays.
 *
 * Owner: the job's thread. Sets of parameters and gradient buffers are allocated when first used
 * and kept. */
#ifndef GRADUS_WORKER_JOB_WORKER_MODEL_H
#define GRADUS_WORKER_JOB_WORKER_MODEL_H

#include "data/dataset_cache.h"
#include "data/loader.h"
#include "gradus/v1/types.pb-c.h"
#include "graph/model.h"
#include "job/spec/job_spec.h"
#include "job/plan/plan.h"
#include "worker/core/worker.h"
#include "worker/job/worker_arrays.h"
#include "worker/job/worker_rows.h"
#include "worker/program/worker_program.h"

struct worker_compute;

struct worker_model {
    struct job_spec spec;
    char *encoding; /* with which the records are encoded; NULL: it is measured on them */
    struct dataset *train, *test; /* test may be NULL; train of a program's own records, too */
    struct dataset_info train_info, test_info; /* of the data that there are; test: no records */
    struct worker_program *program;            /* borrowed: of this worker; NULL: it has none */
    struct worker_arrays *arrays;              /* borrowed: where sets and buffers come from */
    const struct worker_compute *compute;      /* what computes the model; NULL: not known yet */
    void *computer;                            /* its own */
    bool data_known;                           /* the data were in memory */
    struct loader *loader;
    size_t batch_max; /* records at once */
    struct batch test_batch;
    uint64_t *records;                     /* numbers of test records, [batch_max] */
    const struct variable_spec *variables; /* [variable_count]; NULL: not made yet */
    size_t variable_count;
    struct given_variables given; /* those that the plan does not know how to begin */
    uint64_t *offsets;            /* [variables] in a flat array */
    uint64_t flat_count;
    /* [flat_count] the values that this worker brings to the servers when the plan's are given; or
     * NULL. worker_model_bring() makes them; the values of a program are there when the model is
     * built, and the program keeps them. */
    const float *initial;
    float *brought; /* the same, owned */
    float *sets[WORKER_SET_COUNT];
    float *buffers[WORKER_BUFFERS_MAX];
    bool summed[WORKER_BUFFERS_MAX]; /* and not rounded since */
    struct worker_rows rows;         /* rows of the present batch */
    /* rows of the batch that is computed next, which reuses rows of the present one */
    struct worker_rows ahead;
    struct ledger_batch ahead_of;
    bool has_ahead; /* `ahead` is of `ahead_of` */
    /* that batch, from the loader; NULL: none, or the program's records */
    const struct batch *ahead_taken;
    bool was_ahead;                                                /* the batch that was taken */
    struct worker_rows_gradient row_gradients[WORKER_BUFFERS_MAX]; /* of each buffer */
    struct ledger_batch batch; /* the present one, and what the loader has of it; NULL: nothing */
    const struct batch *taken;
    uint64_t load_ns; /* the last gradient waited for its batch so long, or decoded it */
};

struct worker_job_file {
    const char *id, *text;
    /* Of one with job_spec_takes_encoding(): what was measured before; "": it is measured, or
     * with `begins` that of the source, if it has one. */
    const char *encoding;
    bool begins;
};
/* @m is zeroed but for its program and arrays. Parse the job file and load its data, unless @cache
 * (may be NULL) knows them: m->data_known. The model of a program is asked for. Errors: what the
 * file, the data or the source has; ERR_UNAVAILABLE: again later. */
int worker_model_load(struct worker_model *m, const struct worker_job_file *file,
                      struct dataset_cache *cache, struct err *err);
uint64_t worker_model_records(const struct worker_model *m); /* train records of an epoch */
/* Has this worker first values for all variables of the model, or can it make them? */
bool worker_model_brings(const struct worker_model *m);
struct worker_source {
    char *summary;        /* owned: what is taken of the source */
    uint64_t fingerprint; /* of these values */
    char *rows_from;      /* owned: the checkpoint that has rows for tables; "": none are taken */
    uint64_t rows_manifest;
    uint64_t slots_version; /* with from.slots: updates that they have seen */
};
/* @out borrows its texts. */
void worker_source_describe(const struct worker_source *s, Gradus__V1__DataInfo *out);
void worker_source_release(struct worker_source *s); /* zeroed is fine */
/* Of a job with `from`: reads the source, within @roots, and says what is taken of it. @out begins
 * zeroed. Errors: those of warm_start.h. */
int worker_model_look(const struct worker_model *m, const struct data_roots *roots,
                      struct worker_source *out, struct err *err);
/* Makes m->initial, for a model that was built. @expected: the fingerprint of the values that
 * another worker found; 0: nobody knows. Errors: those of warm_start.h; ERR_STATE the values are
 * others; ERR_EXHAUSTED. */
int worker_model_bring(struct worker_model *m, const struct data_roots *roots, uint64_t expected,
                       struct err *err);
/* frees the initial values, which nobody needs any more */
void worker_model_brought(struct worker_model *m);
/* Its variables, where they are known before it is built, are the plan's. Errors: ERR_STATE naming
 * the first difference. */
int worker_model_check_variables(const struct worker_model *m, const struct plan *plan,
                                 struct err *err);
/* Build the model; its variables must be the plan's. Errors: ERR_STATE naming the difference. */
int worker_model_build(struct worker_model *m, const struct plan *plan, struct err *err);
void worker_model_release(struct worker_model *m);
/* What it waits for ends soon; from any thread. */
void worker_model_interrupt(const struct worker_model *m);
/* NULL and ERR_EXHAUSTED without memory. */
float *worker_model_set(struct worker_model *m, enum worker_set set, struct err *err);
float *worker_model_buffer(struct worker_model *m, uint32_t buffer, struct err *err);
/* Have @batch decoded ahead; it need not be computed, and others may be. */
void worker_model_prefetch(struct worker_model *m, const struct ledger_batch *batch);
/* Decodes @batch, or waits for it, and finds what it needs of tables: m->rows. Errors: ERR_RANGE it
 * is outside the data; ERR_EXHAUSTED. */
int worker_model_take(struct worker_model *m, const struct ledger_batch *batch, struct err *err);
/* worker_model_take() for the computation after the present one: m->ahead, which becomes m->rows
 * when the batch is taken. Rows that are on their way there must have come. */
int worker_model_take_ahead(struct worker_model *m, const struct ledger_batch *batch,
                            struct err *err);
/* True if that was done for @batch, and nothing else since. */
bool worker_model_is_ahead(const struct worker_model *m, const struct ledger_batch *batch);
struct worker_gradient {
    struct runner_step step;
    enum worker_set set; /* the parameters, and where the gradient goes; both arrays exist */
    uint32_t buffer;
    struct metrics *metrics; /* gets the batch's contribution; may be NULL */
    /* is asked for the parameters, and for the rows of tables, which it gives to
     * worker_model_rows(); may be NULL */
    const struct runner_need *need;
    const struct runner_ready *ready; /* hears how much is made, and not rounded yet; may be NULL */
};
/* Computes the gradient of the batch that was taken, rounded to the type in which gradients travel,
 * so that it is the same whether it is pushed or added to others here. A gradient of rows that is
 * not finite makes the first element of the first variable's gradient NaN: a step is dropped as a
 * whole. Errors: what need refused with, which has said why; those of a program, in @err. */
int worker_model_gradient(struct worker_model *m, const struct worker_gradient *g, struct err *err);
/* The rows of the batch that was taken have come. Errors: ERR_EXHAUSTED. */
int worker_model_rows(struct worker_model *m, uint32_t buffer, struct err *err);
/* Errors: ERR_EXHAUSTED. */
int worker_model_add(struct worker_model *m, uint32_t buffer, uint32_t from, struct err *err);
/* Round a sum of batches, which is pushed like a single gradient, to the type in which they travel;
 * single ones are rounded already. */
void worker_model_round_sum(struct worker_model *m, uint32_t buffer);
/* Fetches the rows that m->rows asks for; returns 0, or why they do not come. */
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
