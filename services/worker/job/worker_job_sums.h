/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over whole variables, as far as they are bytes and floats: partial sums of the shards, the
 * totals that are made of them, and the norms of gradients. Owner: the job's thread. */
#ifndef GRADUS_WORKER_JOB_WORKER_JOB_SUMS_H
#define GRADUS_WORKER_JOB_WORKER_JOB_SUMS_H

#include "base/buf.h"
#include "gradus/v1/types.pb-c.h"
#include "job/progress/era.h"
#include "job/plan/plan_update.h"
#include "ps_client/ps_client.h"
#include "worker/job/worker_model.h"

struct worker_job_era {
    struct update_spec spec;
    struct update *update; /* over all variables in one array */
    char *section;         /* that it was read from */
};

struct worker_job_sums {
    struct worker_job_era *items; /* [era_count] */
    struct era *eras;             /* [era_count] for the core; none: the job needs no sums */
    size_t era_count;
    const struct plan *plan;
    const struct job_spec *spec;
    uint32_t shard_count;
    struct buf *parts; /* [shard_count] the last ones of each */
    struct buf totals[WORKER_ROUNDS_MAX];
    bool needs_norms;              /* an era does */
    size_t variable_count, tables; /* that norms are of */
    float *gradient;               /* all variables, one behind the other */
    double *norms; /* [variable_count + tables] of the gradient in norms_buffer; NULL: nobody needs
                      norms */
    uint32_t norms_buffer;
};

/* @s is zeroed. @spec and @plan are borrowed. Without eras the update section of @spec is all of
 * them. Errors: those of worker_job_sums_eras(). */
int worker_job_sums_init(struct worker_job_sums *s, const struct plan *plan,
                         const struct job_spec *spec, Gradus__V1__Era *const *eras,
                         size_t era_count, struct err *err);
/* The eras are these from now on; without any, as before. Errors: ERR_INVALID they cannot be read;
 * those of plan_update_whole(). Nothing has changed then. */
int worker_job_sums_eras(struct worker_job_sums *s, Gradus__V1__Era *const *eras, size_t era_count,
                         struct err *err);
void worker_job_sums_release(struct worker_job_sums *s); /* zeroed is fine */

/* The sums of @answer are the last ones of its shard. */
void worker_job_sums_take(struct worker_job_sums *s, const struct ps_answer *answer);
/* Carries out WORKER_DO_JOIN. Errors: ERR_INVALID what came are no sums. */
int worker_job_sums_join(struct worker_job_sums *s, const struct worker_do_join *a,
                         struct err *err);
/* The totals or norms that @request is to bring, which it borrows. Errors: those of
 * update_norms(). */
int worker_job_sums_attach(struct worker_job_sums *s, const struct worker_model *model,
                           struct ps_client_request *request, struct err *err);
/* Does it bring norms, which are known when all of its gradient is? */
bool worker_job_sums_needs_norms(const struct worker_job_sums *s,
                                 const struct ps_client_request *request);
/* The gradient in @buffer is another one from now on. */
void worker_job_sums_changed(struct worker_job_sums *s, uint32_t buffer);

#endif
