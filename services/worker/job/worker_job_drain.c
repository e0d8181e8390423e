/* SPDX-License-Identifier: Apache-2.0 */
/* A job's last moments on a worker that leaves in order. */
#include <stdlib.h>

#include "base/mem.h"
#include "worker/job/worker_job_state.h"

/* To the core a drain is a hold in its present generation, which only this worker knows of: it
 * finishes what it has begun, takes nothing new, and tells the master that it is idle, and the
 * master takes back its leases. When the master has heard that, the worker may go. */

void worker_job_drain_over(struct worker_job *j)
{
    void (*drained)(void *ctx) = j->drained;
    j->drained = NULL;
    if (drained != NULL) {
        drained(j->drained_ctx);
    }
}

bool worker_job_assign_while_draining(struct worker_job *j, struct rpc_call *call,
                                      uint64_t generation, bool hold)
{
    uint64_t present = j->core != NULL ? worker_generation(j->core) : 0;
    if (!j->draining || (hold && generation <= present)) {
        return false;
    }
    worker_job_fail_call(call, ERR_UNAVAILABLE, "this worker is leaving");
    if (generation > present) {
        worker_job_drain_over(j); /* its batches in hand are of a generation that is over */
    }
    return true;
}

/* ---- the start, on any thread ---- */

struct drain_message {
    struct worker_job *job;
    void (*drained)(void *ctx);
    void *ctx;
};

static void drain_run(void *ctx)
{
    struct drain_message *m = ctx;
    struct worker_job *j = m->job;
    if (!loop_discarding(j->loop)) {
        j->draining = true;
        j->drained = m->drained;
        j->drained_ctx = m->ctx;
        if (j->assigned && !j->idle && !j->halted) {
            struct worker_event event = {
                .kind = WORKER_ASSIGN,
                .assign.assignment = {.generation = worker_generation(j->core), .hold = true},
            };
            worker_job_step(j, &event);
        } else {
            worker_job_drain_over(j);
        }
    }
    free(m);
}

int worker_job_drain(struct worker_job *j, void (*drained)(void *ctx), void *ctx, struct err *err)
{
    slow_down_end(&j->slow_down);
    struct drain_message *m = mem_new(1, sizeof *m);
    *m = (struct drain_message){j, drained, ctx};
    int rc = loop_post(j->loop, drain_run, m, err);
    if (rc != 0) {
        free(m);
    }
    return rc;
}
