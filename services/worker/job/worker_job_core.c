/* SPDX-License-Identifier: Apache-2.0 */
/* A job's core: made, given events, and asked for what it decides; calls that wait for that. */
#include "os/chrono.h"
#include "worker/job/worker_job_state.h"

void worker_job_begin(struct worker_job *j, uint64_t generation)
{
    const int64_t split_batches = j->model.spec.training.split_batches;
    struct worker_config config = {
        .generation = generation,
        .shard_count = j->plan.shard_count,
        .eras = j->sums.eras,
        .era_count = j->sums.era_count,
        .tables = j->model.rows.count > 0,
        .shape = {.records = worker_model_records(&j->model),
                  .batch_records = (uint32_t)j->model.spec.training.batch_size,
                  .split_batches = split_batches > 0 ? (uint32_t)split_batches : 1},
    };
    j->core = worker_new(&config);
    j->started = true;
}

void worker_job_step(struct worker_job *j, struct worker_event *event)
{
    if (j->core == NULL) {
        return;
    }
    event->now_ms = chrono_now_ms();
    worker_step(j->core, event, &j->actions);
    if (j->stepping) {
        return;
    }
    j->stepping = true;
    for (j->at = 0; j->at < j->actions.count; j->at++) {
        struct worker_action action = j->actions.items[j->at];
        j->execute(j, &action);
    }
    j->actions.count = 0;
    j->stepping = false;
}

void worker_job_fail(struct worker_job *j, const struct err *err)
{
    struct worker_event event = {.kind = WORKER_FAIL, .failed = {err->code, err->msg}};
    j->halted = true;
    worker_job_step(j, &event);
}

/* ---- calls ---- */

void worker_job_fail_call(struct rpc_call *call, int code, const char *message)
{
    struct err err;
    err_set(&err, code, "%s", message);
    (void)rpc_fail(call, &err);
}

bool worker_job_keep_call(struct worker_job *j, struct rpc_call *call, uint64_t *tag)
{
    for (size_t i = 0; i < sizeof j->calls / sizeof j->calls[0]; i++) {
        if (j->calls[i].call == NULL) {
            j->calls[i].call = rpc_call_ref(call);
            j->calls[i].tag = *tag = ++j->tag_last;
            if (j->calls_kept++ == 0) { /* assignments are answered at once */
                work_begin(&j->tells->evaluations, "Evaluate", 0, "");
            }
            return true;
        }
    }
    worker_job_fail_call(call, ERR_EXHAUSTED, "too many calls wait already");
    return false;
}

struct rpc_call *worker_job_take_call(struct worker_job *j, uint64_t tag)
{
    for (size_t i = 0; i < sizeof j->calls / sizeof j->calls[0]; i++) {
        if (j->calls[i].call != NULL && j->calls[i].tag == tag) {
            struct rpc_call *call = j->calls[i].call;
            j->calls[i].call = NULL;
            if (--j->calls_kept == 0) {
                work_end(&j->tells->evaluations);
            }
            return call;
        }
    }
    return NULL;
}
