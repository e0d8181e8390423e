/* SPDX-License-Identifier: Apache-2.0 */
/* Ends a job, or lets it go back and start again; puts away what it had. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/mem.h"
#include "base/mutant.h"
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
        struct node *n = shard_give_up(&j->shards[i]);
        if (n == NULL || !n->alive || !node_serves(n, j)) {
            continue;
        }
        if (j->shards[i].opened) {
            call_start(m, j, n, MASTER_CALL_CLOSE, (uint32_t)i);
        } else {
            node_drop(m, n, j);
        }
    }
    for (size_t i = 0; i < j->shard_count; i++) { /* they lie where shards were */
        const struct shard_backup b = j->shards[i].backup;
        j->shards[i].backup = (struct shard_backup){0};
        if (b.node != NULL && b.node->alive && node_serves(b.node, j) && j->shards[i].opened) {
            call_start_close(m, j, b.node, (uint32_t)i, b.opening);
        }
    }
}

static void end(struct master *m, struct job *j, enum job_state state, const char *reason)
{
    calls_forget_job(&m->calls, j);
    struct job_names workers = j->record.workers; /* workers that served it are still shown */
    j->record.workers = (struct job_names){0};
    job_enter(m, j, state, reason);
    sync_point_stop(j);
    j->refill_after_ms = 0;
    j->restartable = false;
    j->resume = false;
    j->adopts = false;
    j->adoption = (struct adoption){0};
    j->record.paused = false;
    resize_let_go(m, j);
    release_nodes(m, j);
    job_names_clear(&j->record.workers);
    free(j->record.workers.items);
    j->record.workers = workers;
}

/* The end of the job is stored: clients are told. */
static void ended(struct master *m, struct job *j)
{
    const char *words = action_printf(m, "job %s ended %s: %s", j->record.id,
                                      job_state_name(j->record.state), j->record.reason);
    sync_point_waiters(m, j, true, ERR_ABORTED, words);
    change_forget(m, j, ERR_ABORTED, words);
    if (j->record.checkpoint[0] == '\0') {
        action_add(m, MASTER_PRUNE)->prune =
            (struct master_prune){.job = &j->record, .release = true};
    }
    job_changed(j);
}

void job_stored(struct master *m, struct job *j)
{
    sync_point_prune(m, j);
    if (job_state_is_final(j->record.state) && row_has_end(j) && !j->told) {
        j->told = true;
        ended(m, j);
    }
}

/* What a job that is to be started again gives up; the state it is in says why, and nodes are told.
 */
static void give_up_nodes(struct master *m, struct job *j)
{
    if (j->moves) {
        resize_keep(m, j);
    }
    release_nodes(m, j);
    job_names_clear(&j->record.ps);
    j->restartable = true;
    m->reschedule = true;                 /* its owner uses less now */
    if (!j->moves || j->change != NULL) { /* else a client waits until it has moved */
        change_at_once(m, j);
    }
}

/* Stops all that runs of the job, and answers requests that wait for it. */
static void stop_training(struct master *m, struct job *j, const char *why)
{
    calls_forget_job(&m->calls, j);
    sync_point_waiters(m, j, true, ERR_ABORTED, why);
    sync_point_stop(j);
    j->over = false;
    j->hold_checkpoint = false;
    j->hold_limit = false;
    j->quiesced = false;
    j->changing = false;
    j->standby_moved = false;
    j->refill = false;
    j->refill_after_ms = 0;
    j->refill_failures = 0;
    j->adopts = false;
    j->adoption = (struct adoption){0};
    j->yield_again_ms = 0;
    j->yield_failures = 0;
    j->resizing = false;
    free(j->preempted_by);
    j->preempted_by = NULL;
}

/* Ends the job if it is cancelled; @why: what happened before it came to the step at which it would
 * have ended. */
static bool end_cancelled(struct master *m, struct job *j, const char *why)
{
    bool cancelled = job_is_cancelled(j);
    if (cancelled) {
        end(m, j, JOB_CANCELLED,
            action_printf(m, "cancelled; then %s; %s", why, job_checkpoint_words(m, j)));
    }
    return cancelled;
}

/* Give up all nodes, and start again from the newest checkpoint when there are enough; one that was
 * to be paused waits there. */
static void recover(struct master *m, struct job *j, const char *why)
{
    if (end_cancelled(m, j, why)) {
        return;
    }
    bool again = j->resume && !j->adopts; /* its recovery failed */
    resize_let_go(m, j);
    stop_training(
        m, j, action_printf(m, "job %s goes back to its last checkpoint: %s", j->record.id, why));
    j->resume = true;
    if (!again) {
        j->resume_fewer_ms = m->now_ms + RESUME_FEWER_MS;
    }
    j->record.recoveries += again ? 0 : 1;
    m->counts.recoveries += again ? 0 : 1;
    job_record_set(&j->resume_reason, why);
    if (j->record.paused) {
        job_enter(m, j, JOB_PAUSED,
                  action_printf(m, "by request; goes back to its newest checkpoint: %s", why));
    } else if (j->record.state == JOB_RECOVERING) {
        job_say(j, why);
    } else {
        job_enter(m, j, JOB_RECOVERING, why);
    }
    give_up_nodes(m, j);
}

/* Give up all nodes, with a checkpoint of this moment or before there was anything to save. */
static void yield(struct master *m, struct job *j, const char *where)
{
    const char *why = where; /* sent back to the queue */
    if (end_cancelled(m, j, where)) {
        return;
    }
    if (j->preempted_by != NULL && !j->record.paused) {
        why = action_printf(m, "made way for job %s %s", j->preempted_by, where);
        j->record.preemptions++;
        m->counts.preemptions++;
    }
    const bool moves = j->resizing && !job_leaves(j);
    if (moves) {
        j->record.recoveries += MUTANT(resize_is_recovery) ? 1 : 0;
        why = action_printf(m, "moves from %zu to %" PRId64 " parameter servers %s", j->shard_count,
                            j->spec.cluster.ps, where);
    } else {
        resize_let_go(m, j);
    }
    stop_training(m, j, action_printf(m, "job %s gives up its nodes %s", j->record.id, where));
    j->moves = moves;
    j->resume = j->resume || j->record.state != JOB_STARTING;
    j->resume_fewer_ms = m->now_ms + RESUME_FEWER_MS;
    job_record_set(&j->resume_reason, why);
    if (j->record.paused) {
        job_enter(m, j, JOB_PAUSED, action_printf(m, "by request, %s", where));
    } else {
        job_enter(m, j, JOB_PENDING, why);
    }
    if (MUTANT(yield_keeps_nodes)) {
        return;
    }
    give_up_nodes(m, j);
}

/* Whatever kills its nodes may do so again: the more often, the longer it is left alone. */
static void back_off(struct master *m, struct job *j)
{
    unsigned before = j->start_failures++; /* the first is tried again at once */
    j->start_after_ms = m->now_ms + backoff_ms(before, START_BACKOFF_MS_MIN, START_BACKOFF_MS_MAX);
}

/* Its start failed: back to PENDING; one that was recovering recovers again. */
static void restart(struct master *m, struct job *j, const char *why)
{
    back_off(m, j);
    if (j->record.state == JOB_RECOVERING) {
        recover(m, j, why);
        return;
    }
    calls_forget_job(&m->calls, j);
    job_record_set(&j->resume_reason, why);
    if (j->record.paused) {
        resize_let_go(m, j);
        job_enter(m, j, JOB_PAUSED, action_printf(m, "by request; its start failed: %s", why));
    } else {
        job_enter(m, j, JOB_PENDING, action_printf(m, "starts again: %s", why));
    }
    give_up_nodes(m, j);
}

void job_settle(struct master *m, struct job *j)
{
    enum verdict verdict = j->verdict;
    const char *why = action_printf(m, "%s", j->verdict_reason);
    j->verdict = VERDICT_NONE;
    j->released = false;
    j->chosen = false;
    j->inspected = false;
    j->found = false;
    if (verdict == VERDICT_END) {
        end(m, j, j->verdict_state, why);
    } else if (verdict == VERDICT_RECOVER) {
        recover(m, j, why);
    } else if (verdict == VERDICT_YIELD) {
        yield(m, j, why);
    } else {
        restart(m, j, why);
    }
}

/* Frees everything that is needed only while the job runs or may start. */
static void release_data(struct job *j)
{
    sync_point_release(j);
    evaluate_release(j);
    for (size_t i = 0; i < EPOCHS_OPEN; i++) {
        if (j->epochs[i].used) {
            metrics_release(&j->epochs[i].sums);
        }
    }
    memset(j->epochs, 0, sizeof j->epochs);
    for (size_t i = 0; i < j->shard_count; i++) {
        free(j->shards[i].file);
        free(j->shards[i].base_file);
        ledger_release(&j->shards[i].ledger);
    }
    free(j->shards);
    j->shards = NULL;
    j->shard_count = 0;
    free(j->workers);
    j->workers = NULL;
    j->worker_count = 0;
    j->worker_capacity = 0;
    if (j->has_plan) {
        plan_release(&j->plan);
        memset(&j->plan, 0, sizeof j->plan);
        j->has_plan = false;
    }
    step_map_release(&j->step_map);
    leases_release(&j->leases);
}

static void release_spec(struct job *j)
{
    if (j->has_spec) {
        job_spec_release(&j->spec);
        j->has_spec = false;
    }
    if (j->change != NULL) {
        job_spec_release(j->change);
        free(j->change);
        j->change = NULL;
    }
    change_settle(j);
    free(j->resume_reason);
    free(j->restore);
    free(j->warning);
    free(j->move_refused);
    start_avoid_clear(j);
    j->move_refused = NULL;
    j->resume_reason = NULL;
    j->restore = NULL;
    j->warning = NULL;
}

/* Forgets the pauses of the life that has ended: what the job waited for, and nodes that it did
 * without. */
static void forget_pauses(struct job *j)
{
    j->start_failures = 0;
    j->start_after_ms = 0;
    j->yield_again_ms = 0;
    j->yield_failures = 0;
    j->workers_fit = 0;
    memset(j->refused, 0, sizeof j->refused);
    j->refused_count = 0;
    free(j->preempted_by);
    j->preempted_by = NULL;
}

void job_revive(struct master *m, struct job *j)
{
    release_spec(j);
    forget_pauses(j);
    start_forget_fields(j);
    j->train = (struct dataset_info){0}; /* the files may be others now: they are looked at again */
    j->test = (struct dataset_info){0};
    j->from_fingerprint = 0;
    j->told = false;
    j->over = j->over && MUTANT(revived_is_over);
    j->hold_checkpoint = false;
    j->hold_limit = false;
    j->hold_cancel = false;
    j->quiesced = false;
    j->released = false;
    j->training_ms = (uint64_t)(j->record.seconds * 1000);
    j->sample_count = 0;
    m->swept_count -= j->swept;
    j->swept = false;
    j->restartable = !MUTANT(revived_at_once); /* nodes drop the job first */
    j->resume =
        (j->record.checkpoint[0] != '\0' || j->record.started_ms > 0) && !MUTANT(revived_anew);
    j->resume_fewer_ms = m->now_ms + RESUME_FEWER_MS;
    job_names_clear(&j->record.workers);
    job_names_clear(&j->record.ps);
    job_touch(j);
}

void job_free(struct job *j)
{
    release_data(j);
    release_spec(j);
    start_forget_fields(j);
    job_record_release(&j->record);
    free(j->store_problem);
    free(j->shown_reason);
    row_answers_release(j);
    free(j->verdict_reason);
    free(j->preempted_by);
    free(j->lost_last);
    free(j);
}

void job_forget(struct master *m, struct job *j)
{
    job_take_out(m, j);
    job_free(j);
}

static bool is_clean(const struct master *m, const struct job *j)
{
    return ((job_state_is_final(j->record.state) && row_has_end(j)) || j->restartable) &&
           calls_open(&m->calls, j, MASTER_CALL_STOP) == 0 &&
           calls_open(&m->calls, j, MASTER_CALL_CLOSE) == 0;
}

void jobs_remove(struct master *m)
{
    for (size_t i = 0; i < m->live_count; i++) {
        struct job *j = m->live[i];
        if (j->removing && is_clean(m, j) && j->row_stored == j->row) {
            j->removing = false;
            j->removed = m->sweep = true;
            reply_add(m, j->remover)->job = &j->record;
        }
    }
}

void job_cleaned(struct master *m, struct job *j)
{
    m->sweep = m->sweep || is_clean(m, j);
}

static bool refuses_for_now(const struct job *j)
{
    for (size_t i = 0; i < JOB_REFUSED_MAX; i++) {
        if (j->refused[i].node != 0 && j->refused[i].until_ms != UINT64_MAX) {
            return true;
        }
    }
    return false;
}

/* True if nothing waits for the job, and it waits for nothing: no timer, no row, no answer. */
static bool may_rest(const struct job *j)
{
    bool stored = j->row_stored == j->row && j->row_sent == j->row && j->store_again_ms == 0 &&
                  j->store_failures == 0 && j->answer_count == 0 && j->told;
    bool idle = j->phase == PHASE_NONE && j->work == WORK_NONE && !j->touched && !j->changed &&
                j->retry_ms == 0 && j->refill_after_ms == 0 && j->start_after_ms == 0 &&
                j->yield_again_ms == 0 && j->waiter_count == 0 && !j->set_waits && !j->removing &&
                !refuses_for_now(j);
    return stored && idle && j->record.waiting == JOB_WAITS_NOT && j->record.queue_position == 0;
}

/* The job that ended first. */
static struct job *oldest_swept(const struct master *m)
{
    size_t i = 0;
    while (!m->jobs[i]->swept) {
        i++;
    }
    return m->jobs[i];
}

/* Frees ended jobs, at the beginning of a step, when no action points to them. */
void jobs_sweep(struct master *m)
{
    m->sweep = false;
    for (size_t i = m->live_count; i-- > 0;) {
        struct job *j = m->live[i];
        if (!is_clean(m, j)) {
            continue;
        }
        if (j->removed) {
            job_forget(m, j);
            continue;
        }
        release_data(j);
        m->reschedule = m->reschedule || j->restartable;
        j->restartable = false;
        if (!job_state_is_final(j->record.state)) {
            continue;
        }
        release_spec(j);
        m->swept_count += !j->swept;
        j->swept = true;
        if (may_rest(j)) {
            job_rest(m, j);
        }
    }
    while (m->swept_count > m->config.finished_max) {
        job_forget(m, oldest_swept(m));
    }
}
