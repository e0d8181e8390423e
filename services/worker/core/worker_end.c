/* SPDX-License-Identifier: Apache-2.0 */
/* The end of the job on this worker: stopped by the master, or failed. After a failure the core
 * only refuses what still comes, and repeats its report until the master has heard it. */
#include <string.h>

#include "base/text.h"
#include "worker/core/worker_state.h"

void worker_evaluation_pop(struct worker *w)
{
    w->evaluation_count--;
    memmove(w->evaluations, w->evaluations + 1, w->evaluation_count * sizeof w->evaluations[0]);
}

void worker_evaluation_fail(struct worker *w, int code, const char *message)
{
    struct worker_do_reply *reply = &worker_add(w, WORKER_DO_FAIL_EVALUATE)->reply;
    reply->tag = w->evaluations[0].tag;
    reply->code = code;
    text_copy(reply->message, sizeof reply->message, message);
    worker_evaluation_pop(w);
}

void worker_stop(struct worker *w)
{
    w->stopped = true;
    while (w->evaluation_count > 0) {
        worker_evaluation_fail(w, ERR_CANCELLED, "the job was stopped");
    }
}

void worker_fail_job(struct worker *w, int code, const char *message)
{
    uint64_t generation = worker_generation(w);
    w->failure = (struct worker_do_fail_job){.code = code};
    w->failure.generation = generation > 0 ? generation : w->config.generation;
    text_copy(w->failure.message, sizeof w->failure.message, message);
    worker_add(w, WORKER_DO_FAIL_JOB)->fail_job = w->failure;
    w->failure.again = true;
    worker_stop(w);
}

/* Without this report the job would wait for the failed worker for ever. */
static void on_failure_reported(struct worker *w, const struct worker_reported *event)
{
    if (event->code == 0 || event->code == ERR_NOT_FOUND || event->code == ERR_ABORTED) {
        return;
    }
    w->failure_attempts++;
    w->failure_retry_ms = w->now_ms + worker_backoff(w->failure_attempts);
    worker_add(w, WORKER_DO_TIMER)->timer_ms = w->failure_retry_ms;
}

/* An older generation's failure counts for nothing, but what failed here fails in this one, too. */
static void fail_again(struct worker *w, uint64_t generation)
{
    if (w->failure.code != 0 && generation > w->failure.generation) {
        w->failure.generation = generation;
        worker_add(w, WORKER_DO_FAIL_JOB)->fail_job = w->failure;
    }
}

static void refuse_call(struct worker *w, enum worker_action_kind kind, uint64_t tag)
{
    struct worker_do_reply *reply = &worker_add(w, kind)->reply;
    reply->tag = tag;
    reply->code = ERR_CANCELLED;
    text_copy(reply->message, sizeof reply->message, "the job was stopped on this worker");
}

void worker_step_stopped(struct worker *w, const struct worker_event *event)
{
    switch (event->kind) {
    case WORKER_ASSIGN:
        refuse_call(w, WORKER_DO_REPLY_ASSIGN, event->assign.tag);
        fail_again(w, event->assign.assignment.generation);
        break;
    case WORKER_EVALUATE:
        refuse_call(w, WORKER_DO_FAIL_EVALUATE, event->evaluate.tag);
        break;
    case WORKER_FAILURE_REPORTED:
        on_failure_reported(w, &event->reported);
        break;
    case WORKER_TIMER:
        if (w->failure_retry_ms != 0 && w->failure_retry_ms <= w->now_ms) {
            w->failure_retry_ms = 0;
            worker_add(w, WORKER_DO_FAIL_JOB)->fail_job = w->failure;
        }
        break;
    default:
        break;
    }
}
