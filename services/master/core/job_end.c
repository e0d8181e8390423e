/* SPDX-License-Identifier: Apache-2.0 */
/* A job loses nodes, goes back, ends. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/mem.h"
#include "master/core/core.h"

/* Tell every node to drop the job; each keeps its place taken until it has answered. */
static void release_nodes(struct master *m, struct job *j)
{
    for (size_t i = j->worker_count; i-- > 0;) {
        struct node *n = j->workers[i].node;
        job_worker_remove(m, j, &j->workers[i]);
        if (n->alive && node_serves(n, j)) {
            call_start(m, j, n, MASTER_CALL_STOP, 0);
        }
    }
    for (size_t i = 0; i < j->shard_count; i++) {
        struct node *n = j->shards[i].node;
        j->shards[i].node = NULL;
        if (n == NULL || !n->alive || !node_serves(n, j)) {
            continue;
        }
        if (j->shards[i].opened) {
            call_start(m, j, n, MASTER_CALL_CLOSE, (uint32_t)i);
        } else {
            node_drop(m, n, j);
        }
    }
}

void job_end(struct master *m, struct job *j, enum job_state state, const char *fmt, ...)
{
    if (job_state_is_final(j->record.state)) {
        return;
    }
    struct buf reason = {0};
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&reason, fmt, args);
    va_end(args);
    calls_forget_job(&m->calls, j);
    struct job_names workers = j->record.workers; /* who served it is still shown */
    j->record.workers = (struct job_names){0};
    job_enter(m, j, state, buf_str(&reason));
    buf_release(&reason);
    j->work = WORK_NONE;
    j->retry_ms = 0;
    j->restartable = false;
    j->resume = false;
    release_nodes(m, j);
    job_names_clear(&j->record.workers);
    free(j->record.workers.items);
    j->record.workers = workers;
    job_cleaned(m, j);
}

void job_ended(struct master *m, struct job *j)
{
    const char *ended = action_printf(m, "job %s ended %s: %s", j->record.id,
                                      job_state_name(j->record.state), j->record.reason);
    milestone_waiters(m, j, true, ERR_ABORTED, ended);
    change_forget(m, j, ERR_ABORTED, ended);
    if (j->record.checkpoint[0] == '\0') {
        action_add(m, MASTER_PRUNE)->prune =
            (struct master_prune){.job = &j->record, .release = true};
    }
    job_changed(m, j);
    job_cleaned(m, j);
}

bool job_is_starting(const struct job *j)
{
    return j->phase == PHASE_INSPECT || j->phase == PHASE_FIND || j->phase == PHASE_OPEN ||
           j->phase == PHASE_START;
}

/* What a job that is to be started again gives up; the state it is in says why, and nodes are told.
 */
static void give_up_nodes(struct master *m, struct job *j)
{
    release_nodes(m, j);
    job_names_clear(&j->record.ps);
    j->restartable = true;
    change_at_once(m, j);
    job_cleaned(m, j);
}

void job_recover(struct master *m, struct job *j, const char *why)
{
    if (j->hold_cancel || (j->over && j->milestone.cancel)) {
        job_end(m, j, JOB_CANCELLED, "cancelled; then %s; %s", why, job_checkpoint_words(m, j));
        return;
    }
    bool again = j->resume; /* its recovery failed */
    calls_forget_job(&m->calls, j);
    milestone_waiters(
        m, j, true, ERR_ABORTED,
        action_printf(m, "job %s goes back to its last checkpoint: %s", j->record.id, why));
    j->work = WORK_NONE;
    j->retry_ms = 0;
    j->over = false;
    j->hold_checkpoint = false;
    j->hold_limit = false;
    j->standing = false;
    j->changing = false;
    j->resume = true;
    if (!again) {
        j->resume_fewer_ms = m->now_ms + RESUME_FEWER_MS;
    }
    j->record.recoveries += again ? 0 : 1;
    m->counts.recoveries += again ? 0 : 1;
    job_record_set(&j->resume_reason, why);
    if (j->record.state == JOB_RECOVERING) {
        j->phase = PHASE_NONE;
        job_say(m, j, why);
    } else {
        job_enter(m, j, JOB_RECOVERING, why);
    }
    give_up_nodes(m, j);
}

/* Whatever kills its nodes may do so again: the more often, the longer it is left alone. */
static void back_off(struct master *m, struct job *j)
{
    unsigned before = j->start_failures++; /* the first is tried again at once */
    j->start_after_ms = m->now_ms + backoff_ms(before, START_BACKOFF_MS_MIN, START_BACKOFF_MS_MAX);
}

void job_restart(struct master *m, struct job *j, const char *why)
{
    back_off(m, j);
    if (j->resume) {
        job_recover(m, j, why);
        return;
    }
    calls_forget_job(&m->calls, j);
    job_record_set(&j->resume_reason, why);
    job_enter(m, j, JOB_PENDING, action_printf(m, "starts again: %s", why));
    give_up_nodes(m, j);
}

static bool is_clean(const struct master *m, const struct job *j)
{
    return ((job_state_is_final(j->record.state) && row_has_end(j)) || j->restartable) &&
           calls_open(&m->calls, j, MASTER_CALL_STOP) == 0 && calls_open(&m->calls, j, MASTER_CALL_CLOSE) == 0;
}

void job_cleaned(struct master *m, struct job *j)
{
    m->sweep = m->sweep || is_clean(m, j);
}

/* At the beginning of a step, when no action points to any of it. */
void jobs_sweep(struct master *m)
{
    size_t finished = 0;
    m->sweep = false;
    for (size_t i = m->job_count; i-- > 0;) {
        struct job *j = m->jobs[i];
        if (!is_clean(m, j)) {
            continue;
        }
        job_release_data(j);
        m->reschedule = m->reschedule || j->restartable;
        j->restartable = false;
        if (!job_state_is_final(j->record.state)) {
            continue;
        }
        job_release_spec(j);
        if (++finished > m->config.finished_max) {
            job_free(j);
            memmove(m->jobs + i, m->jobs + i + 1, (m->job_count - i - 1) * sizeof(struct job *));
            m->job_count--;
        }
    }
}

void job_worker_lost(struct master *m, struct job *j, struct node *n, const char *why)
{
    struct job_worker *w = job_worker_of(j, n);
    if (w == NULL) {
        return; /* it was only being told to drop the job */
    }
    char quoted[256];
    action_log(m, LOG_LEVEL_WARN, "worker_lost", "job=%s node=%s reason=%s", j->record.id, n->id,
               log_quote(why, quoted, sizeof quoted));
    bool started = w->started;
    job_worker_remove(m, j, w);
    m->reschedule = true;
    if (job_is_starting(j)) {
        start_worker_gone(m, j);
        return;
    }
    if (j->record.state != JOB_RUNNING || !started) {
        return;
    }
    bool evaluates = j->work == WORK_EVALUATE || (j->work == WORK_PIN && j->milestone.evaluate);
    if (job_workers_started(j) == 0 && (!j->over || evaluates)) {
        if (j->hold_cancel) {
            job_end(m, j, JOB_CANCELLED, "cancelled after its last worker was lost; %s",
                    job_checkpoint_words(m, j));
            return;
        }
        calls_forget(&m->calls, j, MASTER_CALL_ASSIGN);
        job_enter(m, j, JOB_RECOVERING,
                  action_printf(m, "waits for a worker: lost the last one, %s (%s)", n->id, why));
        j->phase = PHASE_WAIT;
        return;
    }
    evaluate_pump(m, j); /* it may have left a chunk behind */
    if (!j->over) {
        train_regroup(m, j);
    }
}

void job_drop_worker(struct master *m, struct job *j, struct node *n, const char *why)
{
    job_worker_lost(m, j, n, why);
    calls_forget_node(&m->calls, n, j);
    call_start(m, j, n, MASTER_CALL_STOP, 0);
}

void job_leave_out(struct master *m, struct job *j, struct node *n, bool for_good, const char *why)
{
    j->refused[j->refused_count++ % JOB_REFUSED_MAX] = (struct refusal){
        .node = n->number, .until_ms = for_good ? UINT64_MAX : m->now_ms + JOB_REFUSED_MS};
    if (j->phase == PHASE_WAIT) {
        job_say(m, j, why);
    }
    job_drop_worker(m, j, n, why);
}

void job_ps_lost(struct master *m, struct job *j, struct node *n, const char *why)
{
    const char *what = action_printf(m, "parameter server %s was lost (%s)", n->id, why);
    if (job_is_starting(j)) {
        job_restart(m, j, what);
    } else if ((j->record.state == JOB_RUNNING || j->record.state == JOB_RECOVERING) &&
               !j->restartable) {
        job_recover(m, j, what);
    }
}
