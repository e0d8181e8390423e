/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's model whose gradients a program of the user's computes: what worker_model.c does with
 * layers, done by asking the program. */
#ifndef GRADUS_WORKER_JOB_WORKER_MODEL_PROGRAM_H
#define GRADUS_WORKER_JOB_WORKER_MODEL_PROGRAM_H

#include "worker/job/worker_model.h"

/* Asks the program for its model, when the spec is there, and the data where the job has some; when
 * it has none, the number of records is the program's, too. Errors: ERR_UNAVAILABLE this worker has
 * no program, or it does not answer; ERR_STATE what is wrong with its answer. */
int model_program_load(struct worker_model *m, const char *job, struct err *err);
void model_program_release(struct worker_model *m);
const struct given_variables *model_program_given(const struct worker_model *m);
/* [flat_count] what the program says that they begin with; borrowed. */
const float *model_program_initial(const struct worker_model *m);
size_t model_program_batch(const struct worker_model *m); /* the most records at once */
/* The layout and the loaders are there. Errors: as worker_program_begin(); ERR_EXHAUSTED. */
int model_program_begin(struct worker_model *m, struct err *err);
/* What @batch, which @b has, unless its records are the program's, looks up in tables: into @rows,
 * asked of the program. When these are m->ahead it is asked once; what fails then is asked again
 * when the batch is taken. Errors: as worker_program_keys(); ERR_EXHAUSTED. */
int model_program_keys(struct worker_model *m, const struct ledger_batch *batch,
                       const struct batch *b, struct worker_rows *rows, struct err *err);
/* The same of the first @count of m->records, test records, into m->rows. */
int model_program_keys_of_test(struct worker_model *m, size_t count, struct err *err);
/* The next gradient is that of @batch; m->taken has its records, unless they are the program's. */
void model_program_take(struct worker_model *m, const struct ledger_batch *batch);
/* worker_model_gradient() of a program, without rounding. */
int model_program_gradient(struct worker_model *m, const struct runner_step *step,
                           enum worker_set set, uint32_t buffer, struct metrics *metrics,
                           const struct runner_need *need, const struct runner_ready *ready,
                           struct err *err);
/* The first @count of m->records, which m->test_batch has, unless they are the program's; m->rows
 * have come. */
int model_program_evaluate(struct worker_model *m, size_t count, struct metrics *metrics,
                           struct err *err);

#endif
