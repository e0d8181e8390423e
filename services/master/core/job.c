/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "master/core/core.h"

struct job *job_find(struct master *m, const char *id)
{
    for (size_t i = m->job_count; i-- > 0;) {
        if (strcmp(m->jobs[i]->record.id, id) == 0) {
            return m->jobs[i];
        }
    }
    return NULL;
}

struct job *job_new(struct master *m)
{
    struct job *j = mem_new(1, sizeof *j);
    m->jobs = mem_grow(m->jobs, &m->job_capacity, m->job_count + 1, sizeof(struct job *));
    m->jobs[m->job_count++] = j;
    return j;
}

/* All that is needed only while the job runs or may start. */
void job_release_data(struct job *j)
{
    milestone_release(j);
    evaluate_release(j);
    for (size_t i = 0; i < EPOCHS_OPEN; i++) {
        if (j->epochs[i].used) {
            metrics_release(&j->epochs[i].sums);
        }
    }
    memset(j->epochs, 0, sizeof j->epochs);
    for (size_t i = 0; i < j->shard_count; i++) {
        free(j->shards[i].file);
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
    course_release(&j->course);
    leases_release(&j->leases);
}

void job_release_spec(struct job *j)
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
    start_avoid_clear(j);
    j->resume_reason = NULL;
    j->restore = NULL;
    j->warning = NULL;
}

void job_free(struct job *j)
{
    job_release_data(j);
    job_release_spec(j);
    job_record_release(&j->record);
    free(j->store_problem);
    free(j->shown_reason);
    free(j->answers);
    free(j);
}

void job_changed(struct master *m, struct job *j)
{
    (void)m;
    j->changed = true;
}

void job_say(struct master *m, struct job *j, const char *reason)
{
    if (strcmp(j->record.reason, reason) != 0) {
        job_record_set(&j->record.reason, reason);
        job_changed(m, j);
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
    j->running = state == JOB_RUNNING;
    j->running_since_ms = m->now_ms;
    j->phase = PHASE_NONE;
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

size_t job_workers_started(const struct job *j)
{
    size_t count = 0;
    for (size_t i = 0; i < j->worker_count; i++) {
        count += j->workers[i].started;
    }
    return count;
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

/* Its lease and its chunk go to others. The order of the rest stays: shares depend on it. */
void job_worker_remove(struct master *m, struct job *j, struct job_worker *w)
{
    train_park_clear(m, j, w, ERR_NOT_FOUND, "the worker is not part of the job");
    job_record_drop_times(&j->record, w->node->id);
    if (!MUTANT(lease_lost_with_worker)) {
        train_give_back(m, j, w);
    }
    evaluate_returned(j, w);
    calls_forget_node(&m->calls, w->node, j);
    size_t i = (size_t)(w - j->workers);
    memmove(w, w + 1, (j->worker_count - i - 1) * sizeof *w);
    j->worker_count--;
    job_names_refresh(j);
    job_changed(m, j);
}

const char *job_checkpoint_words(struct master *m, const struct job *j)
{
    if (j->record.checkpoint[0] == '\0') {
        return "there is no checkpoint";
    }
    return action_printf(m, "the newest checkpoint is %s", j->record.checkpoint);
}
