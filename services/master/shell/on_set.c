/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs.Set: the job's file with the changes applied, checked on the pool, then the core's to put
 * into force. The call is answered when that has happened, however long it takes. */
#include "gradus/v1/jobs.pb-c.h"
#include "master/shell/job_wire.h"
#include "master/shell/shell.h"
#include "os/chrono.h"

static void answer(struct request *r, const struct master_reply *reply)
{
    request_done(r, "set", reply->job->id);
    request_reply_job(r, reply->job, JOB_WIRE_ALL);
}

static void begin(struct request *r);

static void refused(struct request *r, const struct err *err)
{
    if (job_change_again(r, err)) {
        begin(r);
    } else {
        request_fail(r, err);
    }
}

static void run_parsed(struct request *r)
{
    struct job_change *c = r->data;
    struct master_event e = {.kind = MASTER_SET};
    e.set = (struct master_set_event){.job = c->job, .spec = &c->spec, .base = c->base};
    e.set.words = job_change_words(r);
    r->refused = refused;
    request_event(r, &e, answer);
}

static void begin(struct request *r)
{
    struct job_change *c = r->data;
    const struct job_record *record = master_job(r->shell->master, c->job, chrono_now_ms());
    struct err err = {0};
    if (record == NULL) {
        (void)job_change_absent(r->shell, c->job, "has ended", &err);
        request_fail(r, &err);
        return;
    }
    c->parsed = run_parsed;
    job_change_parse(r, record->text);
}

void run_set(struct request *r)
{
    const Gradus__V1__SetJobRequest *q = (const Gradus__V1__SetJobRequest *)r->msg->body;
    struct err err = {0};
    if (q->n_sets == 0 || q->n_sets > JOB_SETS_MAX) {
        err_set(&err, ERR_INVALID, "%zu keys to set; from 1 to %d are possible", q->n_sets,
                JOB_SETS_MAX);
        request_fail(r, &err);
        return;
    }
    if (!request_may_change(r, "set", q->job)) {
        return;
    }
    job_change_begin(r, q->job, q->sets, q->n_sets);
    begin(r);
}

void on_set_call(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    request_begin(service, call, msg, run_set);
}
