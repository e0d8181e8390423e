/* SPDX-License-Identifier: Apache-2.0 */
/* A job: its record, its workers, and the state that clients see. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "master/core/core.h"

bool job_is_sync(const struct job *j)
{
    return j->record.consistency.mode == TRAINING_SYNC;
}

bool job_is_starting(const struct job *j)
{
    return j->phase == PHASE_RECALL || j->phase == PHASE_INSPECT || j->phase == PHASE_FIND ||
           j->phase == PHASE_OPEN || j->phase == PHASE_START;
}

bool job_is_pinning(const struct job *j)
{
    const struct sync_point *s = &j->sync_point;
    bool stands = (s->yield || s->decides) && j->work != WORK_NONE;
    return (j->work == WORK_PIN || stands) && s->quiesced;
}

uint64_t job_refused_until(const struct job *j, const struct node *n)
{
    for (size_t i = 0; i < JOB_REFUSED_MAX; i++) {
        if (j->refused[i].node == n->number) {
            return j->refused[i].until_ms;
        }
    }
    return 0;
}

size_t job_servers_to_start(const struct job *j, size_t free)
{
    const size_t wanted = (size_t)j->spec.cluster.ps, had = j->record.servers;
    if (had == 0 || free >= wanted || MUTANT(resize_waits_for_all)) {
        return wanted;
    }
    return had < wanted || free >= had ? had : wanted;
}

/* ---- facts ---- */

bool job_is_ending(const struct job *j)
{
    return j->verdict != VERDICT_NONE;
}

/* The first one counts; but an end is an end. */
static void judge(struct job *j, enum verdict verdict, const char *why)
{
    bool counts =
        j->verdict == VERDICT_NONE || (j->verdict != VERDICT_END && verdict == VERDICT_END);
    if (!counts || job_state_is_final(j->record.state)) {
        return;
    }
    j->verdict = verdict;
    job_record_set(&j->verdict_reason, why);
    job_touch(j);
}

bool job_is_cancelled(const struct job *j)
{
    return j->hold_cancel || (j->over && j->sync_point.cancel);
}

void job_must_end(struct job *j, enum job_state state, const char *fmt, ...)
{
    struct buf reason = {0};
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&reason, fmt, args);
    va_end(args);
    if (j->verdict != VERDICT_END) {
        j->verdict_state = state;
    }
    judge(j, VERDICT_END, buf_str(&reason));
    buf_release(&reason);
}

void job_must_recover(struct job *j, const char *why)
{
    judge(j, VERDICT_RECOVER, why);
}

void job_must_restart(struct job *j, const char *why)
{
    judge(j, VERDICT_RESTART, why);
}

void job_must_yield(struct job *j, const char *why)
{
    judge(j, VERDICT_YIELD, why);
}

/* ---- what it shows ---- */

void job_say(struct job *j, const char *reason)
{
    if (strcmp(j->record.reason, reason) != 0) {
        job_record_set(&j->record.reason, reason);
        job_changed(j);
    }
}

void job_enter(struct master *m, struct job *j, enum job_state state, const char *reason)
{
    enum job_state from = j->record.state;
    if (!job_state_allows(from, state)) {
        /* A hole in the core, not in its input: seen by every test that runs into it. */
        action_log(m, LOG_LEVEL_ERROR, "job_state_refused", "job=%s from=%s to=%s", j->record.id,
                   job_state_name(from), job_state_name(state));
        return;
    }
    char quoted[1200];
    action_log(m, state == JOB_FAILED ? LOG_LEVEL_ERROR : LOG_LEVEL_INFO, "job_state",
               "job=%s from=%s to=%s generation=%" PRIu64 " step=%" PRIu64 " reason=%s",
               j->record.id, job_state_name(from), job_state_name(state), j->record.generation,
               j->record.step, log_quote(reason, quoted, sizeof quoted));
    if (j->running) {
        j->training_ms += m->now_ms - j->running_since_ms;
    }
    j->record.state = state;
    if (state == JOB_STARTING || state == JOB_RUNNING || job_state_is_final(state)) {
        j->record.queue_position = 0;
        j->record.waiting = JOB_WAITS_NOT;
    }
    j->running = state == JOB_RUNNING;
    j->running_since_ms = m->now_ms;
    job_record_set(&j->record.reason, reason);
    if (state == JOB_RUNNING && j->record.started_ms == 0) {
        j->record.started_ms = m->wall_ms;
    }
    if (job_state_is_final(state)) {
        j->record.finished_ms = m->wall_ms;
        j->state_before = from;
        progress_refresh(j, m->now_ms);
    }
    m->reschedule = true;
    job_store(m, j);
    j->row_final = job_state_is_final(state) ? j->row : 0;
}

struct job_worker *job_worker_of(struct job *j, const struct node *n)
{
    for (size_t i = 0; i < j->worker_count; i++) {
        if (j->workers[i].node == n) {
            return &j->workers[i];
        }
    }
    return NULL;
}

bool job_has_worker(const struct job *j, const struct node *n)
{
    bool has = false;
    for (size_t i = 0; i < j->worker_count; i++) {
        has = has || j->workers[i].node == n;
    }
    return has;
}

size_t job_workers_started(const struct job *j)
{
    size_t count = 0;
    for (size_t i = 0; i < j->worker_count; i++) {
        count += j->workers[i].started;
    }
    return count;
}

/* The first so many started workers have a share; the others stand by. */
uint32_t job_workers_active(const struct job *j)
{
    size_t started = job_workers_started(j);
    uint32_t replicas = j->record.consistency.replicas;
    return job_is_sync(j) && started > replicas ? replicas : (uint32_t)started;
}

void job_names_refresh(struct job *j)
{
    job_names_clear(&j->record.workers);
    for (size_t i = 0; i < j->worker_count; i++) {
        job_names_add(&j->record.workers, j->workers[i].node->id);
    }
}

struct job_worker *job_worker_add(struct job *j, struct node *n)
{
    node_take(n, j);
    j->workers = mem_grow(j->workers, &j->worker_capacity, j->worker_count + 1, sizeof *j->workers);
    struct job_worker *w = &j->workers[j->worker_count++];
    *w = (struct job_worker){.node = n};
    job_names_refresh(j);
    return w;
}

const char *job_checkpoint_words(struct master *m, const struct job *j)
{
    if (j->record.checkpoint[0] == '\0') {
        return "there is no checkpoint";
    }
    return action_printf(m, "the newest checkpoint is %s", j->record.checkpoint);
}
