/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that a client pauses, and what they share with jobs that make way for others, and with those
 * that move to another number of servers: all yield, that is, write a checkpoint where all workers
 * stand and give up all nodes with it. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/backoff.h"
#include "base/mutant.h"
#include "master/core/core.h"

bool job_leaves(const struct job *j)
{
    return (j->record.paused || j->preempted_by != NULL) && !j->over;
}

bool job_yields(const struct job *j)
{
    return job_leaves(j) || (j->resizing && !j->over);
}

bool job_gives_up(const struct job *j)
{
    return job_leaves(j) || job_yields_now(j);
}

bool job_yields_now(const struct job *j)
{
    return job_yields(j) && j->yield_again_ms == 0;
}

/* Where it stands with its version pinned, it is let go; before that it was never stopped. */
void yield_take_back(struct job *j)
{
    if (job_yields(j)) {
        return; /* for another reason */
    }
    j->yield_again_ms = 0;
    j->yield_failures = 0;
    if (j->sync_point.yield && j->work != WORK_NONE) {
        j->sync_point.yield = false;
        /* Otherwise the job is released when it is pinned, or has decided. */
        j->released = j->work != WORK_PIN && j->sync_point.quiesced && !j->sync_point.decides;
    }
    job_touch(j);
}

/* Yielding failed. The reason may pass, and nobody can say when; a job that cannot write its
 * checkpoint keeps its nodes and trains on. */
void yield_failed(struct master *m, struct job *j)
{
    struct sync_point *s = &j->sync_point;
    uint64_t ms =
        backoff_ms(++j->yield_failures, CHECKPOINT_BACKOFF_MS_MIN, CHECKPOINT_BACKOFF_MS_MAX);
    s->yield = false;
    j->yield_again_ms = m->now_ms + ms;
    job_say(j, action_printf(m, "trains on, and is %s later: %s; attempt %u is in %" PRIu64 " s",
                             j->record.paused          ? "paused"
                             : j->preempted_by != NULL ? "preempted"
                                                       : "moved to other servers",
                             s->why, j->yield_failures + 1, ms / 1000));
    if (j->resizing) {
        resize_answer(m, j);
        m->reschedule = true; /* it may take workers meanwhile */
    }
}

/* ---- clients ---- */

/* NULL: it is answered. */
static struct job *job_for(struct master *m, const struct master_event *e)
{
    struct job *j = job_find(m, e->job);
    if (j == NULL) {
        reply_error(m, e->request, ERR_NOT_FOUND, "no job %.128s", e->job);
        return NULL;
    }
    if (job_state_is_final(j->record.state) && row_has_end(j)) {
        reply_error(m, e->request, ERR_STATE, "job %s has ended: %s", j->record.id,
                    job_state_name(j->record.state));
        return NULL;
    }
    if (job_state_is_final(j->record.state)) {
        reply_error(m, e->request, ERR_STATE, "job %s is ending", j->record.id);
        return NULL;
    }
    return j;
}

void on_pause(struct master *m, const struct master_event *e)
{
    struct job *j = job_for(m, e);
    if (j == NULL) {
        return;
    }
    if (j->record.paused) {
        row_reply(m, j, e->request, false);
        return;
    }
    if (j->over || j->hold_cancel) {
        reply_error(m, e->request, ERR_STATE, "job %s is ending", j->record.id);
        return;
    }
    j->record.paused = true;
    action_log(m, LOG_LEVEL_INFO, "job_pause", "job=%s step=%" PRIu64, j->record.id,
               j->record.step);
    if (j->record.state == JOB_PENDING) {
        resize_let_go(m, j);
        job_enter(m, j, JOB_PAUSED,
                  j->resume ? action_printf(m, "by request, at step %" PRIu64, j->record.step)
                            : "by request, before it ran");
    } else if (j->record.state == JOB_STARTING ||
               (j->record.state == JOB_RECOVERING && j->phase != PHASE_WAIT && !j->adopts)) {
        job_must_yield(j, j->resume ? "before it went on" : "before it ran");
    } else {
        job_say(j, "is being paused: stops at the next step, with a checkpoint");
        job_touch(j);
    }
    job_store(m, j);
    row_reply(m, j, e->request, false);
}
