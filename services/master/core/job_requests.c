/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of clients about jobs, and jobs that come back from a store. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "master/core/core.h"

static void spec_take(struct job *j, struct job_spec *spec)
{
    j->spec = *spec;
    j->has_spec = true;
    memset(spec, 0, sizeof *spec);
}

/* One more than the highest number that a job of this name has. */
static uint64_t number_after(const struct master *m, const char *name)
{
    uint64_t next = 1;
    size_t n = strlen(name);
    for (size_t i = 0; i < m->job_count; i++) {
        const struct job_record *r = &m->jobs[i]->record;
        if (strcmp(r->name, name) == 0 && strlen(r->id) > n + 1) {
            uint64_t number = strtoull(r->id + n + 1, NULL, 10);
            next = number >= next ? number + 1 : next;
        }
    }
    return next;
}

void on_submit(struct master *m, const struct master_event *e)
{
    const struct master_submit_event *submit = &e->submit;
    for (size_t i = 0; submit->request_id[0] != '\0' && i < m->job_count; i++) {
        if (strcmp(m->jobs[i]->record.request_id, submit->request_id) == 0) {
            row_reply(m, m->jobs[i], e->request, false);
            return;
        }
    }
    if (!job_name_is_good(submit->spec->name)) {
        reply_error(m, e->request, ERR_INVALID,
                    "name: at most %d letters, digits, '.', '_' and '-', not beginning with '.' "
                    "or '-'",
                    JOB_NAME_BYTES_MAX);
        return;
    }
    if (jobs_open(m) >= m->config.jobs_max) {
        reply_error(m, e->request, ERR_EXHAUSTED,
                    "%zu jobs wait or run already; this master takes no more", jobs_open(m));
        return;
    }
    const char *id =
        action_printf(m, "%s-%" PRIu64, submit->spec->name,
                      submit->number != 0 ? submit->number : number_after(m, submit->spec->name));
    if (job_find(m, id) != NULL) {
        reply_error(m, e->request, ERR_EXISTS, "there is a job %s already", id);
        return;
    }
    struct job *j = job_new(m);
    job_record_init(&j->record);
    job_record_set(&j->record.id, id);
    job_named(m, j);
    job_record_set(&j->record.name, submit->spec->name);
    job_record_set(&j->record.text, submit->spec->text);
    job_record_set(&j->record.request_id, submit->request_id);
    job_record_set(&j->record.owner, submit->owner == NULL ? "" : submit->owner);
    j->record.priority = (int32_t)submit->spec->priority;
    fence_draw_secret(m, j);
    j->record.state = JOB_PENDING;
    consistency_of(submit->spec, &j->record.consistency);
    j->record.submitted_ms = m->wall_ms;
    spec_take(j, submit->spec);
    m->reschedule = true;
    action_log(m, LOG_LEVEL_INFO, "job_submitted", "job=%s", j->record.id);
    job_store(m, j);
    row_reply(m, j, e->request, false);
}

void on_cancel(struct master *m, const struct master_event *e)
{
    struct job *j = job_find(m, e->cancel.job);
    if (j == NULL) {
        reply_error(m, e->request, ERR_NOT_FOUND, "no job %.128s", e->cancel.job);
        return;
    }
    if (job_state_is_final(j->record.state)) {
        /* nothing to cancel */
    } else if (e->cancel.now) {
        job_must_end(j, JOB_CANCELLED, "cancelled at once; %s", job_checkpoint_words(m, j));
    } else if (j->record.state == JOB_PAUSED) {
        job_must_end(j, JOB_CANCELLED, "cancelled while it was paused; %s",
                     job_checkpoint_words(m, j));
    } else if (j->record.state == JOB_PENDING && j->resume) {
        job_must_end(j, JOB_CANCELLED, "cancelled while it waited for its turn; %s",
                     job_checkpoint_words(m, j));
    } else if (j->record.state == JOB_STARTING && j->resume) {
        job_must_end(j, JOB_CANCELLED, "cancelled while it was starting again; %s",
                     job_checkpoint_words(m, j));
    } else if (j->record.state == JOB_RECOVERING && !j->over && !j->adopts) {
        job_must_end(j, JOB_CANCELLED, "cancelled while it was recovering (%s); %s",
                     action_printf(m, "%s", j->record.reason), job_checkpoint_words(m, j));
    } else if (j->record.state == JOB_PENDING || j->record.state == JOB_STARTING) {
        job_must_end(j, JOB_CANCELLED, "cancelled before it ran");
    } else if (j->work == WORK_EVALUATE && j->retry_ms != 0) {
        sync_point_skip_evaluation(j);
    } else if ((j->over || j->sync_point.last) && j->retry_ms != 0) {
        job_must_end(j, JOB_CANCELLED, "cancelled; %s; %s",
                     action_printf(m, "%s", j->sync_point.why), job_checkpoint_words(m, j));
    } else if (j->over) {
        j->sync_point.cancel = true; /* its last checkpoint is being written anyway */
        job_say(j, "is being cancelled: its checkpoint is being written");
    } else {
        j->hold_cancel = true;
        job_say(j, "is being cancelled: stops at the next step");
        job_touch(j);
    }
    m->answer_job = j; /* the answer shows the job as it is after this step */
    m->answer_request = e->request;
}

/* Nodes are told of an end before its job is forgotten: calls point to it. */
void on_remove(struct master *m, const struct master_event *e)
{
    struct job *j = job_find(m, e->job);
    if (j == NULL || j->removed) {
        reply_error(m, e->request, ERR_NOT_FOUND, "no job %.128s", e->job);
    } else if (!job_state_is_final(j->record.state)) {
        reply_error(m, e->request, ERR_STATE,
                    "job %s is %s; only a job that has ended is removed, and `gradus cancel %s` "
                    "ends it",
                    j->record.id, job_state_name(job_shown(j)->state), j->record.id);
    } else if (j->removing) {
        reply_error(m, e->request, ERR_STATE, "job %s is being removed already", j->record.id);
    } else {
        j->removing = true;
        j->remover = e->request;
        job_touch(j);
    }
}

void on_checkpoint(struct master *m, const struct master_event *e)
{
    struct job *j = job_find(m, e->job);
    if (j == NULL) {
        reply_error(m, e->request, ERR_NOT_FOUND, "no job %.128s", e->job);
    } else if (j->record.state != JOB_RUNNING) {
        reply_error(m, e->request, ERR_STATE,
                    "job %s is %s; only a running job has a state to save", j->record.id,
                    job_state_name(job_shown(j)->state));
    } else if (j->waiter_count == MASTER_CHECKPOINT_WAITERS) {
        reply_error(m, e->request, ERR_EXHAUSTED, "%d requests wait for a checkpoint of job %s",
                    MASTER_CHECKPOINT_WAITERS, j->record.id);
    } else {
        j->waiters[j->waiter_count++] = (struct waiter){.request = e->request, .served = j->over};
        if (!j->over) {
            j->hold_checkpoint = true;
            job_touch(j);
        }
    }
}

/* A later master may know the file, or this one with the rules that it is started with next: the
 * job waits for that, or for somebody who cancels it. */
static void wait_for_reader(struct master *m, struct job *j, const char *error)
{
    const char *why = action_printf(m, "this master cannot read its job file: %s",
                                    error == NULL ? "it is missing" : error);
    action_log(m, LOG_LEVEL_ERROR, "job_file_unreadable", "job=%s", j->record.id);
    if (j->record.state == JOB_STARTING) {
        job_enter(m, j, JOB_PENDING, why);
    } else if (j->record.state == JOB_PENDING || j->record.state == JOB_PAUSED) {
        job_say(j, why);
    } else {
        job_must_recover(j, why);
    }
}

/* The row goes on saying what it is taken over from. */
static void adopted_says(struct master *m, struct job *j)
{
    const char *why = "the master restarted and takes the job over";
    job_record_set(&j->resume_reason, "the master restarted");
    if (j->record.state == JOB_RECOVERING) {
        job_say(j, why);
    } else {
        job_enter(m, j, JOB_RECOVERING, why);
    }
}

void on_restore(struct master *m, const struct master_event *e)
{
    const struct master_restore_event *restore = &e->restore;
    struct job *j = job_new(m);
    j->record = *restore->record;
    memset(restore->record, 0, sizeof *restore->record);
    job_named(m, j);
    enum job_state state = j->record.state;
    row_restored(j);
    m->sweep = true;
    if (job_state_is_final(state)) {
        return;
    }
    j->record.queue_position = 0;
    j->record.waiting = JOB_WAITS_NOT;
    j->record.paused =
        (j->record.paused && !MUTANT(pause_forgotten)) || (restore->hold && !MUTANT(held_goes_on));
    const bool paused = j->record.paused;
    const char *why = restore->hold ? "what ran it has ended" : "the master restarted";
    if (state < JOB_RUNNING || state == JOB_PAUSED) { /* it has yielded, or never ran */
        j->resume = j->record.checkpoint[0] != '\0' || j->record.started_ms > 0;
        j->resume_fewer_ms = m->now_ms + RESUME_FEWER_MS;
        job_record_set(&j->resume_reason, "the master restarted");
    }
    if (restore->spec == NULL) {
        wait_for_reader(m, j, restore->spec_error);
        return;
    }
    spec_take(j, restore->spec);
    j->record.priority = (int32_t)j->spec.priority;
    fence_draw_secret(m, j);
    job_names_clear(&j->record.workers);
    j->training_ms = (uint64_t)(j->record.seconds * 1000);
    m->reschedule = true;
    if (state == JOB_STARTING) {
        job_names_clear(&j->record.ps);
        job_enter(m, j, paused ? JOB_PAUSED : JOB_PENDING,
                  action_printf(m, "%s: %s", paused ? "by request" : "starts again", why));
    } else if (state == JOB_PENDING && restore->hold) {
        job_enter(m, j, JOB_PAUSED, action_printf(m, "by request: %s", why));
    } else if (state != JOB_PENDING && state != JOB_PAUSED) {
        if (restore->hold || !adopt_begin(m, j)) {
            job_must_recover(j, why);
        } else {
            adopted_says(m, j);
        }
    }
}
