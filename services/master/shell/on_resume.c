/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs.Resume. For a paused job the core decides, after the changes of its file, if there are any,
 * have been set. Of a job that has ended the core has no file any more: it is read again, on the
 * pool, with the changes; and it is refused when the checkpoints that it had are gone, which is
 * looked for where files may be slow. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/shell/checkpoints.h"
#include "master/shell/job_wire.h"
#include "master/shell/shell.h"
#include "os/chrono.h"

static void begin(struct request *r);

static void answer(struct request *r, const struct master_reply *reply)
{
    request_done(r, "resume", reply->job->id);
    request_reply_job(r, reply->job, JOB_WIRE_ALL);
}

static void refused(struct request *r, const struct err *err)
{
    if (job_change_again(r, err)) {
        begin(r);
    } else {
        request_fail(r, err);
    }
}

/* ---- paused ---- */

static void resume_paused(struct request *r)
{
    struct job_change *c = r->data;
    struct master_event e = {.kind = MASTER_RESUME};
    e.resume = (struct master_resume_event){.job = c->job};
    c->tries++;
    r->refused = refused;
    request_event(r, &e, answer);
}

static void is_set(struct request *r, const struct master_reply *reply)
{
    request_done(r, "set", reply->job->id);
    r->run = resume_paused;
    request_post(r); /* an answer is not the place for another event */
}

static void set_parsed(struct request *r)
{
    struct job_change *c = r->data;
    struct master_event e = {.kind = MASTER_SET};
    e.set = (struct master_set_event){.job = c->job, .spec = &c->spec, .base = c->base};
    e.set.words = job_change_words(r);
    r->refused = refused;
    request_event(r, &e, is_set);
}

/* ---- ended ---- */

static void resume_ended(struct request *r)
{
    struct job_change *c = r->data;
    struct master_event e = {.kind = MASTER_RESUME};
    e.resume = (struct master_resume_event){.job = c->job, .spec = &c->spec, .base = c->base};
    e.resume.words = job_change_words(r);
    r->refused = refused;
    request_event(r, &e, answer);
}

static void look(void *ctx)
{
    struct request *r = ctx;
    const struct job_change *c = r->data;
    const struct checkpoints_job job = {c->job, c->named, c->submitted_ms, ""};
    struct checkpoint_found found = {0};
    struct err err = {0};
    int rc = checkpoints_find(&r->shell->checkpoints, &job, NULL, 0, &found, &err);
    if (rc == 0 && !found.found) {
        (void)err_set(&err, ERR_STATE,
                      "job %s cannot go on: none of its checkpoints is there, and it had %s: %.*s",
                      c->job, c->named, (int)strcspn(buf_str(&found.skipped), "\n"),
                      buf_str(&found.skipped));
    }
    checkpoint_found_release(&found);
    if (err.code != 0) {
        request_fail(r, &err);
    } else {
        request_post(r);
    }
}

static void ended_parsed(struct request *r)
{
    const struct job_change *c = r->data;
    struct err err = {0};
    r->run = resume_ended;
    if (c->named[0] == '\0') {
        resume_ended(r);
    } else if (pool_post(r->shell->files, look, r, &err) < 0) {
        request_fail(r, &err);
    }
}

/* ---- which of these ---- */

#define PUT_AWAY                                                                                   \
    "ended so long ago that the master has put it away; it keeps so many (--finished-max)"

static int check(struct request *r, const struct job_record *record, struct err *err)
{
    const struct job_change *c = r->data;
    if (record == NULL) {
        return job_change_absent(r->shell, c->job, PUT_AWAY, err);
    }
    if (job_state_is_final(record->state)) {
        return owner_check_room(r, err);
    }
    if (c->set_count > 0 && !record->paused) {
        return err_set(err, ERR_STATE, "job %s is %s; what runs or waits is changed with Set",
                       record->id, job_state_name(record->state));
    }
    return 0;
}

static void begin(struct request *r)
{
    struct job_change *c = r->data;
    const struct job_record *record = master_job(r->shell->master, c->job, chrono_now_ms());
    struct err err = {0};
    if (check(r, record, &err) != 0) {
        request_fail(r, &err);
    } else if (job_state_is_final(record->state)) {
        free(c->named);
        c->named = mem_strdup(record->checkpoint);
        c->submitted_ms = record->submitted_ms;
        c->parsed = ended_parsed;
        job_change_parse(r, record->text);
    } else if (c->set_count > 0) {
        c->parsed = set_parsed;
        job_change_parse(r, record->text);
    } else {
        resume_paused(r);
    }
}

void run_resume(struct request *r)
{
    const Gradus__V1__ResumeRequest *q = (const Gradus__V1__ResumeRequest *)r->msg->body;
    struct err err = {0};
    if (q->n_sets > JOB_SETS_MAX) {
        err_set(&err, ERR_INVALID, "%zu keys to set; up to %d are possible", q->n_sets,
                JOB_SETS_MAX);
        request_fail(r, &err);
        return;
    }
    if (request_may_change(r, "resume", q->job)) {
        job_change_begin(r, q->job, q->sets, q->n_sets);
        begin(r);
    }
}
