/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs.Remove: the core forgets a job that has ended, its row goes and, where that is wanted, its
 * directory of checkpoints, on the pool, as files may be slow. */
#include <stdlib.h>

#include "base/mem.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/shell/checkpoints.h"
#include "master/shell/curves.h"
#include "master/shell/events.h"
#include "master/shell/job_logs.h"
#include "master/shell/job_wire.h"
#include "master/shell/shell.h"
#include "os/chrono.h"
#include "storage/storage.h"

struct removal {
    struct job_record record; /* of the job as it was; its texts are owned */
    struct err err;
};

static void free_removal(void *data)
{
    struct removal *v = data;
    job_record_release(&v->record);
    free(v);
}

static const Gradus__V1__RemoveJobRequest *asked(const struct request *r)
{
    return (const Gradus__V1__RemoveJobRequest *)r->msg->body;
}

static void reply(struct request *r)
{
    struct removal *v = r->data;
    Gradus__V1__RemoveJobResponse response = GRADUS__V1__REMOVE_JOB_RESPONSE__INIT;
    if (v->err.code != 0) {
        (void)err_wrap(&v->err, "job %s is removed, its checkpoints are not", v->record.id);
        request_fail(r, &v->err);
        return;
    }
    char *dir = storage_join(r->shell->checkpoints.root, v->record.id);
    enum storage_thing thing = STORAGE_NOTHING;
    (void)storage_look(dir, &thing, NULL);
    response.checkpoints = thing == STORAGE_NOTHING ? response.checkpoints : dir;
    request_reply(r, &response.base);
    free(dir);
}

/* On the pool. A directory without a checkpoint in it goes in any case. */
static void remove_files(void *ctx)
{
    struct request *r = ctx;
    struct removal *v = r->data;
    const struct checkpoints_job job = {v->record.id, v->record.checkpoint, v->record.submitted_ms,
                                        v->record.best_checkpoint};
    if (asked(r)->checkpoints) {
        (void)checkpoints_remove(&r->shell->checkpoints, &job, &v->err);
    } else {
        checkpoints_release(&r->shell->checkpoints, v->record.id);
    }
    reply(r);
}

/* On the loop: nobody of the core has the job any more. */
static void remove_row(struct request *r)
{
    struct store *store = r->shell->store;
    const struct removal *v = r->data;
    struct err err = {0};
    curves_forget(r->shell, v->record.id);
    events_removed(r->shell, v->record.id);
    job_logs_forget(r->shell, v->record.id);
    if (store->ops->remove(store, v->record.id, &err) < 0 ||
        pool_post(r->shell->files, remove_files, r, &err) < 0) {
        request_fail(r, &err);
    }
}

static void answer(struct request *r, const struct master_reply *reply)
{
    struct removal *v = r->data;
    job_record_set(&v->record.id, reply->job->id);
    job_record_set(&v->record.checkpoint, reply->job->checkpoint);
    job_record_set(&v->record.best_checkpoint, reply->job->best_checkpoint);
    v->record.submitted_ms = reply->job->submitted_ms;
    request_done(r, "remove", reply->job->id);
    remove_row(r);
}

/* Removes a job that ended so long ago that only the store has it. */
static void remove_stored(struct request *r)
{
    struct removal *v = r->data;
    struct store *store = r->shell->store;
    struct buf packed = {0};
    struct err err = {0};
    struct job_record record;
    int rc = store->ops->get(store, asked(r)->job, &packed, &err);
    rc = rc < 0 ? rc : job_wire_unpack(packed.data, packed.len, &record, &err);
    buf_release(&packed);
    if (rc == 0) {
        job_record_release(&v->record);
        v->record = record;
    }
    if (rc == 0 && job_state_is_final(v->record.state)) {
        request_done(r, "remove", v->record.id);
        remove_row(r);
        return;
    }
    if (rc == 0) {
        err_set(&err, ERR_STATE, "job %s has not ended, and this master cannot read it",
                v->record.id);
    } else if (rc == ERR_NOT_FOUND) {
        err_set(&err, ERR_NOT_FOUND, "no job %.128s", asked(r)->job);
    }
    request_fail(r, &err);
}

void run_remove(struct request *r)
{
    struct removal *v = mem_new(1, sizeof *v);
    if (!request_may_change(r, "remove", asked(r)->job)) {
        free(v);
        return;
    }
    job_record_init(&v->record);
    r->data = v;
    r->free_data = free_removal;
    if (master_job(r->shell->master, asked(r)->job, chrono_now_ms()) == NULL) {
        remove_stored(r);
    } else {
        struct master_event e = {.kind = MASTER_REMOVE};
        e.job = asked(r)->job;
        request_event(r, &e, answer);
    }
}
