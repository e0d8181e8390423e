/* SPDX-License-Identifier: Apache-2.0 */
/* A call has ended: the row leaves the table first, then its job hears how. */
#include <inttypes.h>
#include <stdio.h>

#include "master/core/core.h"

/* True if the server has no memory for the shard, now or ever. */
static bool no_room(const struct err *err)
{
    return err->code == ERR_EXHAUSTED || err->code == ERR_RANGE;
}

/* It may be for the backup that the generation brings. */
static bool refuses_backup(const struct err *err)
{
    return no_room(err) || err->code == ERR_STATE || err->code == ERR_INVALID ||
           err->code == ERR_UNSUPPORTED;
}

/* A worker has not the data, or no memory for them. For a first start that is an error of the job;
 * one that ran before goes on with the others. */
static void start_refused(struct master *m, struct job *j, struct node *n, const struct err *err,
                          const char *why)
{
    bool first = job_is_starting(j) && !j->resume;
    if (first && err->code != ERR_EXHAUSTED) {
        job_must_end(j, JOB_FAILED, "%s", why);
        return;
    }
    if (job_is_starting(j) && (first || j->worker_count == 1) && !j->adopts) {
        job_must_restart(j, why); /* memory, or a disk that is not mounted: it may pass */
        return;
    }
    job_leave_out(m, j, n, err->code != ERR_EXHAUSTED, why);
}

/* The shard has begun without the backup that is being opened, and goes on without it. */
static bool opens_for_later(const struct call *c)
{
    return c->kind == MASTER_CALL_OPEN && c->backup && c->job->shards[c->index].backup.joins;
}

/* True if the process that answers is not the one that joined, or holds something of another
 * master: nothing that it does counts here. If the right process is there all the same, it finds
 * out by its next heartbeat, drops what it has and joins again. What nobody needs yet is no reason
 * to take a server from all of its jobs. */
static bool is_stranger(const struct call *c, int code)
{
    bool first = c->kind == MASTER_CALL_INSPECT || c->kind == MASTER_CALL_START ||
                 (c->kind == MASTER_CALL_OPEN && !opens_for_later(c));
    return first && (code == ERR_ABORTED || code == ERR_UNAUTHENTICATED);
}

/* The node has put away what the call was about, and may have a backup again. It may have more of
 * the job. */
static void put_away(struct master *m, const struct call *c)
{
    c->job->refill = true;
    if (!job_has_shard_on(c->job, c->node) && !calls_open_of(&m->calls, c->job, c->node)) {
        node_drop(m, c->node, c->job);
    }
}

/* The node answered with an error. */
static void refused(struct master *m, const struct call *c, const struct err *err)
{
    struct job *j = c->job;
    job_touch(j);
    char where[ID_ROOM + 64];
    snprintf(where, sizeof where, "%s on %s", master_call_name(c->kind), c->node->id);
    const char *why = action_printf(m, "%s: %s", where, err->msg);
    switch (c->kind) {
    case MASTER_CALL_STOP:
    case MASTER_CALL_CLOSE: /* as good as done: the node does not have the job */
        put_away(m, c);
        break;
    case MASTER_CALL_INSPECT:
    case MASTER_CALL_START:
        start_refused(m, j, c->node, err, why);
        break;
    case MASTER_CALL_ASSIGN:
        if (err->code == ERR_NOT_FOUND || err->code == ERR_ABORTED || err->code == ERR_STATE) {
            job_drop_worker(m, j, c->node, why); /* the worker has dropped the job */
        } else {
            job_leave_out(m, j, c->node, false, why);
        }
        break;
    case MASTER_CALL_EVALUATE:
        evaluate_done(m, j, c->node, c->index,
                      &(struct master_call_done){.number = c->number, .err = err});
        break;
    case MASTER_CALL_CHECKPOINT:
        if (err->code == ERR_NOT_FOUND || err->code == ERR_UNAUTHENTICATED) {
            job_must_recover(j, why); /* the server came back without the shard */
        } else {
            sync_point_checkpoint_failed(m, j, why);
        }
        break;
    case MASTER_CALL_OPEN:
        if (opens_for_later(c)) {
            standby_open_refused(m, j, c->index, why);
        } else {
            start_open_refused(m, j, c->node, err, why);
        }
        break;
    case MASTER_CALL_MEMBERSHIP:
        if (refuses_backup(err) && standby_not_taken(m, j, c->index, c->attempts > 0, why)) {
            break;
        }
        if (no_room(err)) {
            train_no_room(m, j, c->index, why);
            break;
        }
        /* fall through */
    case MASTER_CALL_PIN:
    case MASTER_CALL_UNPIN:
        if (c->kind == MASTER_CALL_PIN && no_room(err)) {
            sync_point_pin_failed(m, j, why);
            break;
        }
        if (err->code != ERR_INVALID && err->code != ERR_RANGE && err->code != ERR_UNSUPPORTED) {
            job_must_recover(j, why); /* most often the server came back without the shard */
            break;
        }
        job_must_end(j, JOB_FAILED, "%s", why); /* the next attempt would end the same way */
        break;
    default:
        job_must_end(j, JOB_FAILED, "%s", why);
    }
}

/* A regrouping overtook it: it is sent again to the shards that know the new generation. */
static bool was_overtaken(const struct call *c, const struct err *err)
{
    return call_follows_generation(c->kind) && err->code == ERR_ABORTED &&
           c->generation < c->job->record.generation;
}

/* The server was started again without the shard, or has put it away for a master that died before
 * it could store that. */
static bool has_lost_shard(const struct call *c, const struct err *err)
{
    const bool asks = call_follows_generation(c->kind) || c->kind == MASTER_CALL_MEMBERSHIP;
    return asks && (err->code == ERR_NOT_FOUND || err->code == ERR_ABORTED ||
                    err->code == ERR_UNAUTHENTICATED);
}

static void failed(struct master *m, struct call *c, const struct err *err)
{
    m->counts.call_failures++;
    if (was_overtaken(c, err)) {
        call_again(m, c);
        return;
    }
    char quoted[512];
    action_log(m, LOG_LEVEL_WARN, "call_failed", "job=%s node=%s call=%s attempt=%u reason=%s",
               c->job_id, c->node->id, master_call_name(c->kind), c->attempts + 1,
               log_quote(err->msg, quoted, sizeof quoted));
    if (call_retry(c, err, m->now_ms)) {
        return;
    }
    if (has_lost_shard(c, err)) {
        call_wait(c); /* it is for the backup now, or has ended */
        const char *why = action_printf(m, "%s: %s", master_call_name(c->kind), err->msg);
        if (standby_takes_shard(m, c->job, c->node, c->index, why)) {
            return;
        }
    }
    struct call ended = calls_remove(&m->calls, c);
    if (is_stranger(&ended, err->code)) {
        node_lost(m, ended.node,
                  action_printf(m, "%s: %s", master_call_name(ended.kind), err->msg));
        return;
    }
    refused(m, &ended, err);
}

/* The row goes with the node, or to the backup that takes over what it is about. */
static void give_up(struct master *m, const struct call *c)
{
    struct node *n = c->node;
    m->counts.call_failures++;
    struct buf why = {0};
    call_silence_words(c, m->now_ms, &why);
    node_lost(m, n, action_printf(m, "%s", buf_str(&why)));
    buf_release(&why);
}

static void succeeded(struct master *m, const struct call *c, const struct master_call_done *done)
{
    struct job *j = c->job;
    job_touch(j);
    switch (c->kind) {
    case MASTER_CALL_INSPECT:
        start_inspect_done(m, j, done);
        break;
    case MASTER_CALL_OPEN:
        if (done->problem != NULL && done->problem[0] != '\0') {
            start_warn(m, j, c->node, done->problem);
        }
        if (c->backup) {
            standby_opened(j, c->index);
            break;
        }
        shard_opened(&j->shards[c->index]);
        train_shard_said(j, c->index, done);
        break;
    case MASTER_CALL_START:
        start_worker_done(m, j, c->node);
        break;
    case MASTER_CALL_MEMBERSHIP:
        j->shards[c->index].promote = false;
        standby_taken(j, c->index);
        train_shard_said(j, c->index, done);
        adopt_shard_said(j, c->index, done);
        break;
    case MASTER_CALL_ASSIGN:
        train_assign_done(j, c->node, c->hold, done->position);
        break;
    case MASTER_CALL_EVALUATE:
        evaluate_done(m, j, c->node, c->index, done);
        break;
    case MASTER_CALL_PIN:
    case MASTER_CALL_CHECKPOINT:
    case MASTER_CALL_UNPIN:
        sync_point_shard_done(j, c->index, done, c->kind);
        break;
    case MASTER_CALL_STOP:
    case MASTER_CALL_CLOSE:
        put_away(m, c);
        break;
    case MASTER_CALL_KIND_COUNT:
        break;
    }
}

void on_call_done(struct master *m, const struct master_call_done *done)
{
    struct call *c = calls_find(&m->calls, done->number);
    if (c == NULL) {
        return; /* nobody waits for the answer: the job ended, or the node was given up */
    }
    if (done->err != NULL) {
        failed(m, c, done->err);
        return;
    }
    struct call ended = calls_remove(&m->calls, c);
    succeeded(m, &ended, done);
}

void calls_tick(struct master *m)
{
    struct call *c;
    while ((c = calls_due(&m->calls, m->now_ms)) != NULL) {
        if (call_is_given_up(&m->calls, c, m->now_ms)) {
            give_up(m, c);
        } else {
            call_send(m, c);
        }
    }
}
