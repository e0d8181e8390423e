/* SPDX-License-Identifier: Apache-2.0 */
/* Clients let jobs go on: paused jobs, and jobs that have ended, which keep their id, their records
 * and their checkpoints. A job that has ended waits for nodes like any other and starts from its
 * newest checkpoint, or from the beginning when it never had one. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/mutant.h"
#include "base/text.h"
#include "master/core/core.h"

#define EPOCH_ROUNDING 1e-6 /* of a count of epochs, which is a quotient */

/* ---- paused ---- */

static void unpause(struct master *m, struct job *j)
{
    j->record.paused = false;
    j->record.waiting = JOB_WAITS_NOT;
    action_log(m, LOG_LEVEL_INFO, "job_resume", "job=%s step=%" PRIu64, j->record.id,
               j->record.step);
    if (j->record.state == JOB_PAUSED) {
        job_record_set(&j->resume_reason, "resumed");
        j->resume = j->resume && !MUTANT(resume_anew);
        j->resume_fewer_ms = m->now_ms + RESUME_FEWER_MS;
        job_enter(m, j, JOB_PENDING, "resumed");
    } else if (!j->over) {
        job_say(j, j->record.state == JOB_RUNNING ? "" : "resumed");
        yield_take_back(j);
    }
    job_store(m, j);
}

/* ---- ended ---- */

/* The step of the newest checkpoint, "digits-1/step-000000500"; 0: there is none. */
static uint64_t saved_step(const struct job_record *r)
{
    const char *dash = strrchr(r->checkpoint, '-');
    int64_t step = 0;
    return dash != NULL && text_to_int(dash + 1, &step) && step > 0 ? (uint64_t)step : 0;
}

/* The epochs that lie behind @step for certain. */
static double epochs_before(const struct job_record *r, uint64_t step)
{
    double epoch = step > 0 && step >= r->step ? r->epoch : 0;
    for (size_t i = 0; i < r->evaluation_count; i++) {
        const struct job_evaluation *e = &r->evaluations[i];
        epoch = e->step <= step && e->epoch > epoch ? e->epoch : epoch;
    }
    return epoch;
}

/* Refuses a job whose newest checkpoint lies behind the end of its file @t. At that very end there
 * may be something left: its last evaluation. */
static int check_behind(const struct job_record *r, const struct training_spec *t, struct err *err)
{
    const uint64_t step = saved_step(r);
    const double epoch = epochs_before(r, step);
    bool by_epochs = t->epochs > 0 && (double)t->epochs < epoch - EPOCH_ROUNDING;
    bool by_steps = t->steps > 0 && (uint64_t)t->steps < step;
    if (!by_epochs && !by_steps) {
        return 0;
    }
    const char *unit = by_epochs ? "epoch" : "step";
    const double done = by_epochs ? epoch : (double)step;
    return err_set(err, ERR_STATE,
                   "job %s is %s, with %.6g %ss in its newest checkpoint, which is more than "
                   "training.%ss=%" PRId64 "; to train on, set more: training.%ss=%.0f",
                   r->id, job_state_name(r->state), done, unit, unit,
                   by_epochs ? t->epochs : t->steps, unit, by_epochs ? floor(done) + 5 : done * 2);
}

/* Refuses a job that has come to its end by its file; a job that was stopped early has not. */
static int check_done(const struct job *j, const struct training_spec *t, struct err *err)
{
    const struct job_record *r = &j->record;
    if (r->state != JOB_SUCCEEDED) {
        return check_behind(r, t, err);
    }
    bool by_epochs = t->epochs > 0 && (double)t->epochs <= r->epoch;
    bool by_steps = t->steps > 0 && (uint64_t)t->steps <= r->step;
    if (!by_epochs && !by_steps) {
        return 0;
    }
    const char *unit = by_epochs ? "epoch" : "step";
    const double done = by_epochs ? r->epoch : (double)r->step;
    return err_set(err, ERR_STATE,
                   "job %s has SUCCEEDED after %.6g %s%s all of its file; to train on, set more: "
                   "training.%ss=%.0f",
                   r->id, done, unit, done == 1 ? ", which is" : "s, which are", unit,
                   by_epochs ? (double)t->epochs + 5 : (double)t->steps * 2);
}

static int check(const struct master *m, const struct job *j, const struct master_resume_event *e,
                 struct err *err)
{
    const struct job_record *r = &j->record;
    bool final = job_state_is_final(r->state);
    if (final && !row_has_end(j)) {
        return err_set(err, ERR_STATE, "job %s is ending", r->id);
    }
    if (final != (e->spec != NULL)) {
        return err_set(err, ERR_ABORTED, "job %s is %s by now; try again", r->id,
                       job_state_name(r->state));
    }
    if (!final) {
        return 0;
    }
    if (j->removing || j->removed) {
        return err_set(err, ERR_STATE, "job %s is being removed", r->id);
    }
    if (strcmp(e->base, r->text) != 0) {
        return err_set(err, ERR_ABORTED, "job %s was changed meanwhile; try again", r->id);
    }
    if (jobs_open(m) >= m->config.jobs_max) {
        return err_set(err, ERR_EXHAUSTED,
                       "%zu jobs wait or run already; this master takes no more", jobs_open(m));
    }
    int rc = change_check_eras(j, e->spec->text, err);
    return rc != 0 ? rc : check_done(j, &e->spec->training, err);
}

static void take_spec(struct job *j, struct job_spec *spec)
{
    j->spec = *spec;
    j->has_spec = true;
    memset(spec, 0, sizeof *spec);
    job_record_set(&j->record.text, j->spec.text);
    j->record.priority = (int32_t)j->spec.priority;
    consistency_of(&j->spec, &j->record.consistency);
}

/* What is changed of the file holds from its newest checkpoint on. */
static void note_changes(struct master *m, struct job *j, const struct master_resume_event *e)
{
    if (strcmp(e->spec->text, j->record.text) == 0) {
        return;
    }
    struct job_revision note;
    change_words(&note, &e->words);
    note.step = j->record.step;
    note.version = ERA_NEXT_START;
    change_record(m, j, e->spec->text, &note);
    change_words_release(&note);
}

static void go_on(struct master *m, struct job *j, struct job_spec *spec)
{
    struct job_record *r = &j->record;
    const char *from = job_state_name(r->state);
    action_log(m, LOG_LEVEL_INFO, "job_resume", "job=%s step=%" PRIu64 " ended=%s", r->id, r->step,
               from);
    job_record_set(&r->ended_before,
                   action_printf(m, "%s%s%s", from, r->reason[0] == '\0' ? "" : ": ", r->reason));
    if (r->state == JOB_SUCCEEDED) { /* it was to end there, and is to go on all the same */
        r->stop_passed = r->step;
        best_go_on(&r->best);
    }
    r->resumes++;
    r->finished_ms = 0;
    r->eta_seconds = 0;
    job_revive(m, j);
    take_spec(j, spec);
    fence_draw_secret(m, j);
    job_record_set(&j->resume_reason, "resumed");
    job_enter(
        m, j, JOB_PENDING,
        r->checkpoint[0] == '\0'
            ? "resumed; begins again, for there is no checkpoint"
            : action_printf(m, "resumed; goes on from its newest checkpoint, %s", r->checkpoint));
}

void on_resume(struct master *m, const struct master_event *e)
{
    const struct master_resume_event *resume = &e->resume;
    struct job *j = job_find(m, resume->job);
    struct err err = {0};
    if (j == NULL) {
        reply_error(m, e->request, ERR_NOT_FOUND, "no job %.128s", resume->job);
        return;
    }
    if (check(m, j, resume, &err) < 0) {
        reply_error(m, e->request, err.code, "%s", err.msg);
        return;
    }
    if (resume->spec != NULL) {
        note_changes(m, j, resume);
        go_on(m, j, resume->spec);
    } else if (j->record.paused) {
        unpause(m, j);
    } /* otherwise the job is as it is wanted already */
    row_reply(m, j, e->request, MUTANT(revived_not_stored));
}
