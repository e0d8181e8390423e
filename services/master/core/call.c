/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/backoff.h"
#include "base/mem.h"
#include "base/mutant.h"
#include "base/text.h"
#include "master/core/core.h"

/* A request stays open until it is answered or its connection is no more: how long the work takes
 * that it asks for depends on bytes and batches, and the node says in its heartbeats that it is at
 * it. This is only so that nothing is kept for ever. */
#define CALL_MS 3600000
#define DEAF_MS 60000   /* a node that beats, is not at work for the call, and does not answer it */
#define STALL_MS 600000 /* one that is at work, and the work does not get on */
#define BACKOFF_MS_MIN 200 /* between attempts */
#define BACKOFF_MS_MAX 3200
#define REFUSALS_MAX 3 /* of one call, for what passes by itself */
#define SAID_MS 3000   /* what takes longer is shown */

static const struct call_rule {
    const char *name;
    bool patient; /* errors that nobody knows may pass, too */
} RULES[MASTER_CALL_KIND_COUNT] = {
    [MASTER_CALL_INSPECT] = {"InspectData", false},
    [MASTER_CALL_OPEN] = {"OpenShard", false},
    [MASTER_CALL_START] = {"StartJob", false},
    [MASTER_CALL_MEMBERSHIP] = {"SetMembership", true},
    [MASTER_CALL_ASSIGN] = {"Assign", true},
    [MASTER_CALL_PIN] = {"Pin", true},
    [MASTER_CALL_EVALUATE] = {"Evaluate", false},
    [MASTER_CALL_CHECKPOINT] = {"Checkpoint", false},
    [MASTER_CALL_UNPIN] = {"Unpin", true},
    [MASTER_CALL_STOP] = {"StopJob", true},
    [MASTER_CALL_CLOSE] = {"CloseShard", true},
};

const char *master_call_name(enum master_call_kind kind)
{
    return kind < MASTER_CALL_KIND_COUNT ? RULES[kind].name : "unknown";
}

/* Calls that a shard answers only in its present generation and that go on through a regrouping. */
static bool follows_generation(enum master_call_kind kind)
{
    return kind == MASTER_CALL_PIN || kind == MASTER_CALL_UNPIN || kind == MASTER_CALL_CHECKPOINT;
}

/* Calls whose requests name the job's generation. */
static bool has_generation(enum master_call_kind kind)
{
    return kind != MASTER_CALL_INSPECT && kind != MASTER_CALL_EVALUATE;
}

static bool blocked(const struct master *m, const struct call *c)
{
    return (has_generation(c->kind) && !row_has_generation(c->job)) ||
           (follows_generation(c->kind) && calls_open(m, c->job, MASTER_CALL_MEMBERSHIP) > 0);
}

static void send(struct master *m, struct call *c)
{
    if (blocked(m, c)) {
        c->due_ms = UINT64_MAX;
        c->begun = false;
        return;
    }
    c->number = ++m->next_number;
    c->generation = c->job->record.generation;
    c->flying = true;
    c->due_ms = UINT64_MAX;
    if (!c->begun) {
        c->begun = true;
        c->begun_ms = m->now_ms;
        c->heard_ms = m->now_ms;
    }
    m->counts.calls++;
    struct master_action *action = action_add(m, MASTER_CALL);
    action->call = (struct master_call){
        .number = c->number,
        .kind = c->kind,
        .node = c->node->id,
        .address = c->node->address,
        .incarnation = c->node->incarnation,
        .timeout_ms = CALL_MS,
        .job = c->job->record.id,
        .fence = fence_of(c->job),
        .generation = c->generation,
        .text = c->job->record.text,
    };
    call_build(m, c, &action->call);
}

static struct call *call_add(struct master *m, struct job *j, struct node *n,
                             enum master_call_kind kind, uint32_t index)
{
    m->calls = mem_grow(m->calls, &m->call_capacity, m->call_count + 1, sizeof *m->calls);
    struct call *c = &m->calls[m->call_count++];
    *c = (struct call){.kind = kind, .job = j, .node = n, .index = index};
    return c;
}

void call_start(struct master *m, struct job *j, struct node *n, enum master_call_kind kind,
                uint32_t index)
{
    send(m, call_add(m, j, n, kind, index));
}

void call_start_hold(struct master *m, struct job *j, struct node *n)
{
    struct call *c = call_add(m, j, n, MASTER_CALL_ASSIGN, 0);
    c->hold = true;
    send(m, c);
}

size_t calls_open(const struct master *m, const struct job *j, enum master_call_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < m->call_count; i++) {
        count += m->calls[i].job == j && m->calls[i].kind == kind;
    }
    return count;
}

static void call_remove(struct master *m, size_t i)
{
    m->calls[i] = m->calls[--m->call_count];
}

void calls_forget(struct master *m, const struct job *j, enum master_call_kind kind)
{
    for (size_t i = m->call_count; i-- > 0;) {
        if (m->calls[i].job == j && m->calls[i].kind == kind) {
            call_remove(m, i);
        }
    }
}

/* All but those that tell nodes to drop the job: a node's place is free when it has. */
void calls_forget_job(struct master *m, const struct job *j)
{
    for (size_t i = m->call_count; i-- > 0;) {
        enum master_call_kind kind = m->calls[i].kind;
        if (m->calls[i].job == j && kind != MASTER_CALL_STOP && kind != MASTER_CALL_CLOSE) {
            call_remove(m, i);
        }
    }
}

void calls_forget_node(struct master *m, const struct node *n, const struct job *j)
{
    for (size_t i = m->call_count; i-- > 0;) {
        if (m->calls[i].node == n && (j == NULL || m->calls[i].job == j)) {
            call_remove(m, i);
        }
    }
}

void calls_unblock(struct master *m, const struct job *j)
{
    for (size_t i = 0; i < m->call_count; i++) {
        struct call *c = &m->calls[i];
        if (c->job == j && !c->flying && c->due_ms == UINT64_MAX) {
            send(m, c);
        }
    }
}

/* It did not reach the node, the answer did not reach us, or the node is putting the job away; it
 * is asked again. Every call may be: the work that is under way answers the second one, too. */
static bool is_transport(const struct call *c, int code)
{
    return code == ERR_UNAVAILABLE || code == ERR_CANCELLED || code == ERR_TIMEOUT ||
           (RULES[c->kind].patient && (code == ERR_UNKNOWN || code == ERR_INTERNAL));
}

void call_drop_worker(struct master *m, struct job *j, struct node *n, const char *why)
{
    job_worker_lost(m, j, n, why);
    calls_forget_node(m, n, j);
    call_start(m, j, n, MASTER_CALL_STOP, 0);
}

void call_leave_out(struct master *m, struct job *j, struct node *n, bool for_good, const char *why)
{
    j->refused[j->refused_count++ % JOB_REFUSED_MAX] = (struct refusal){
        .node = n->number, .until_ms = for_good ? UINT64_MAX : m->now_ms + JOB_REFUSED_MS};
    if (j->phase == PHASE_WAIT) {
        job_say(m, j, why);
    }
    call_drop_worker(m, j, n, why);
}

/* Not now, or whatever else the server holds. */
static bool no_room(const struct err *err)
{
    return err->code == ERR_EXHAUSTED || err->code == ERR_RANGE;
}

/* A worker has not the data, or no memory for them. For a first start that is an error of the job;
 * one that ran before goes on with the others. */
static void start_refused(struct master *m, struct job *j, struct node *n, const struct err *err,
                          const char *why)
{
    bool first = job_is_starting(j) && !j->resume;
    if (first && err->code != ERR_EXHAUSTED) {
        job_end(m, j, JOB_FAILED, "%s", why);
        return;
    }
    if (job_is_starting(j) && (first || j->worker_count == 1)) {
        job_restart(m, j, why); /* memory, or a disk that is not mounted: it may pass */
        return;
    }
    call_leave_out(m, j, n, err->code != ERR_EXHAUSTED, why);
}

/* What answers there is not the process that joined, or holds what another master gave it: nothing
 * that it does counts here. One that is there all the same finds out by its next heartbeat, drops
 * what it has and joins again. */
static bool is_stranger(const struct call *c, int code)
{
    bool first = c->kind == MASTER_CALL_INSPECT || c->kind == MASTER_CALL_OPEN ||
                 c->kind == MASTER_CALL_START;
    return first && (code == ERR_ABORTED || code == ERR_UNAUTHENTICATED);
}

/* The node answered with an error. The call is out of the table. */
static void refused(struct master *m, const struct call *c, const struct err *err)
{
    struct job *j = c->job;
    char where[ID_ROOM + 64];
    snprintf(where, sizeof where, "%s on %s", RULES[c->kind].name, c->node->id);
    const char *why = action_printf(m, "%s: %s", where, err->msg);
    switch (c->kind) {
    case MASTER_CALL_STOP:
    case MASTER_CALL_CLOSE: /* as good as done: it does not have the job */
        node_drop(m, c->node, j);
        job_cleaned(m, j);
        break;
    case MASTER_CALL_INSPECT:
    case MASTER_CALL_START:
        start_refused(m, j, c->node, err, why);
        break;
    case MASTER_CALL_ASSIGN:
        if (err->code == ERR_NOT_FOUND || err->code == ERR_ABORTED || err->code == ERR_STATE) {
            call_drop_worker(m, j, c->node, why); /* it has dropped the job */
        } else {
            call_leave_out(m, j, c->node, false, why);
        }
        break;
    case MASTER_CALL_EVALUATE:
        evaluate_done(m, j, c->node, c->index,
                      &(struct master_call_done){.number = c->number, .err = err});
        break;
    case MASTER_CALL_CHECKPOINT:
        if (err->code == ERR_NOT_FOUND || err->code == ERR_UNAUTHENTICATED) {
            job_recover(m, j, why); /* the server came back without the shard */
        } else {
            milestone_checkpoint_failed(m, j, why);
        }
        break;
    case MASTER_CALL_OPEN:
        start_open_refused(m, j, err, why);
        break;
    case MASTER_CALL_MEMBERSHIP:
        if (no_room(err)) {
            train_no_room(m, j, c->index, why);
            break;
        }
        /* fall through */
    case MASTER_CALL_PIN:
    case MASTER_CALL_UNPIN:
        if (c->kind == MASTER_CALL_PIN && no_room(err)) {
            milestone_pin_failed(m, j, why);
            break;
        }
        if (err->code == ERR_NOT_FOUND || err->code == ERR_UNAVAILABLE ||
            err->code == ERR_UNAUTHENTICATED) {
            job_recover(m, j, why); /* the server came back without the shard, or is going */
            break;
        }
        job_end(m, j, JOB_FAILED, "%s", why);
        break;
    default:
        job_end(m, j, JOB_FAILED, "%s", why);
    }
}

static void failed(struct master *m, size_t i, const struct err *err)
{
    struct call *c = &m->calls[i];
    m->counts.call_failures++;
    c->flying = false;
    if (follows_generation(c->kind) && err->code == ERR_ABORTED &&
        c->generation < c->job->record.generation) {
        c->due_ms = blocked(m, c) ? UINT64_MAX : m->now_ms; /* overtaken by a regrouping */
        return;
    }
    char quoted[512];
    action_log(m, LOG_LEVEL_WARN, "call_failed", "job=%s node=%s call=%s attempt=%u reason=%s",
               c->job->record.id, c->node->id, RULES[c->kind].name, c->attempts + 1,
               log_quote(err->msg, quoted, sizeof quoted));
    if (is_transport(c, err->code)) {
        c->due_ms = m->now_ms + backoff_ms(++c->attempts, BACKOFF_MS_MIN, BACKOFF_MS_MAX);
        text_copy(c->failure, sizeof c->failure, err->msg);
        return;
    }
    if (follows_generation(c->kind) && err->code == ERR_STATE && ++c->refusals < REFUSALS_MAX) {
        c->due_ms = m->now_ms + backoff_ms(c->refusals + 1, BACKOFF_MS_MIN, BACKOFF_MS_MAX);
        return;
    }
    struct call copy = *c;
    call_remove(m, i);
    if (is_stranger(&copy, err->code)) {
        node_lost(m, copy.node, action_printf(m, "%s: %s", RULES[copy.kind].name, err->msg));
        return;
    }
    refused(m, &copy, err);
}

/* It beats, and that is all that it does for us. */
static void give_up(struct master *m, size_t i)
{
    struct call c = m->calls[i];
    uint64_t s = (m->now_ms - c.heard_ms) / 1000;
    call_remove(m, i);
    m->counts.call_failures++;
    if (c.kind == MASTER_CALL_EVALUATE) {
        evaluate_returned(c.job, c.index);
    }
    node_lost(m, c.node,
              c.worked
                  ? action_printf(m, "it beats, but %s has not got on for %" PRIu64 " s",
                                  RULES[c.kind].name, s)
                  : action_printf(
                        m, "it beats, but cannot be called: no answer to %s for %" PRIu64 " s%s%s",
                        RULES[c.kind].name, s, c.failure[0] == 0 ? "" : ": ", c.failure));
}

static void succeeded(struct master *m, size_t i, const struct master_call_done *done)
{
    struct call c = m->calls[i];
    struct job *j = c.job;
    call_remove(m, i);
    switch (c.kind) {
    case MASTER_CALL_INSPECT:
        start_inspect_done(m, j, done);
        break;
    case MASTER_CALL_OPEN:
        j->shards[c.index].answered = true;
        if (done->problem != NULL && done->problem[0] != '\0') {
            start_warn(m, j, c.node, done->problem);
        }
        train_shard_said(j, c.index, done);
        start_open_done(m, j);
        break;
    case MASTER_CALL_START:
        start_worker_done(m, j, c.node);
        break;
    case MASTER_CALL_MEMBERSHIP:
        train_shard_said(j, c.index, done);
        train_membership_done(m, j);
        break;
    case MASTER_CALL_ASSIGN:
        train_assign_done(m, j, c.node, c.hold, done->position);
        break;
    case MASTER_CALL_EVALUATE:
        evaluate_done(m, j, c.node, c.index, done);
        break;
    case MASTER_CALL_PIN:
    case MASTER_CALL_CHECKPOINT:
    case MASTER_CALL_UNPIN:
        milestone_shard_done(m, j, c.index, done, c.kind);
        break;
    case MASTER_CALL_STOP:
    case MASTER_CALL_CLOSE:
        node_drop(m, c.node, j);
        job_cleaned(m, j);
        break;
    case MASTER_CALL_KIND_COUNT:
        break;
    }
}

void on_call_done(struct master *m, const struct master_call_done *done)
{
    for (size_t i = 0; i < m->call_count; i++) {
        if (m->calls[i].flying && m->calls[i].number == done->number) {
            if (done->err != NULL) {
                failed(m, i, done->err);
            } else {
                succeeded(m, i, done);
            }
            return;
        }
    }
    /* Nobody waits for it any more: the job ended, the node was given up, or it took too long. */
}

static uint64_t limit_ms(const struct call *c)
{
    return !c->begun ? UINT64_MAX : c->heard_ms + (c->worked ? STALL_MS : DEAF_MS);
}

/* One call may remove or add others, so the search begins anew after each; each that was handled is
 * due later or gone. */
void calls_tick(struct master *m)
{
    for (size_t i = 0; i < m->call_count;) {
        struct call *c = &m->calls[i];
        if (limit_ms(c) <= m->now_ms) {
            give_up(m, i);
        } else if (c->due_ms <= m->now_ms) {
            send(m, c);
        } else {
            i++;
            continue;
        }
        i = 0;
    }
}

uint64_t calls_timer(const struct master *m)
{
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < m->call_count; i++) {
        uint64_t limit = limit_ms(&m->calls[i]);
        next = m->calls[i].due_ms < next ? m->calls[i].due_ms : next;
        next = limit < next ? limit : next;
    }
    return next;
}

void calls_late(struct master *m, uint64_t late_ms)
{
    for (size_t i = 0; i < m->call_count; i++) {
        struct call *c = &m->calls[i];
        c->heard_ms = m->now_ms - c->heard_ms < late_ms ? m->now_ms : c->heard_ms + late_ms;
    }
}

/* The work of @n that @c is, or waits for; NULL: none. A worker does one thing after the other, so
 * there anything is; a server's jobs do not wait for each other. */
static const struct node_work *work_of(const struct node *n, const struct call *c)
{
    const struct node_work *any = NULL;
    for (size_t i = 0; i < n->work_count; i++) {
        const struct node_work *w = &n->works[i];
        bool same_job = strcmp(w->job, c->job->record.id) == 0;
        if (same_job && strcmp(w->what, RULES[c->kind].name) == 0) {
            return w;
        }
        if (same_job || n->role == MASTER_WORKER) {
            any = w;
        }
    }
    return any;
}

void calls_heard(struct master *m, const struct node *n)
{
    for (size_t i = 0; i < m->call_count; i++) {
        struct call *c = &m->calls[i];
        const struct node_work *w = c->node == n ? work_of(n, c) : NULL;
        c->worked = c->node == n ? w != NULL && !MUTANT(work_is_silence) : c->worked;
        if (w != NULL && c->worked && w->moved_ms > c->heard_ms) {
            c->heard_ms = w->moved_ms;
        }
    }
}

static void say_work(struct buf *words, const struct node_work *w, const char *call,
                     uint64_t now_ms)
{
    if (strcmp(w->what, call) != 0) {
        buf_printf(words, ", which is at %s%s", strcmp(w->what, "step") == 0 ? "a " : "", w->what);
    }
    if (w->total > 0 && strcmp(w->unit, "bytes") == 0) {
        buf_printf(words, ", %.1f of %.1f MB", (double)w->done * 1e-6, (double)w->total * 1e-6);
    } else if (w->total > 0) {
        buf_printf(words, ", %" PRIu64 " of %" PRIu64 " %s", w->done, w->total, w->unit);
    }
    if (now_ms > w->moved_ms + DEAF_MS) {
        buf_printf(words, ", and has not got on for %" PRIu64 " s", (now_ms - w->moved_ms) / 1000);
    }
}

const char *calls_words(struct master *m, const struct job *j, uint64_t now_ms, struct buf *words)
{
    buf_reset(words);
    for (size_t i = 0; i < m->call_count; i++) {
        const struct call *c = &m->calls[i];
        if (c->job != j || !c->begun || now_ms < c->begun_ms + SAID_MS) {
            continue;
        }
        const struct node_work *w = work_of(c->node, c);
        const char *name = RULES[c->kind].name;
        buf_printf(words, "%s%s on %s for %" PRIu64 " s", words->len == 0 ? "" : "; ", name,
                   c->node->id, (now_ms - c->begun_ms) / 1000);
        if (w != NULL) {
            say_work(words, w, name, now_ms);
        } else if (c->failure[0] != 0) {
            buf_printf(words, " (%s)", c->failure);
        }
    }
    return buf_str(words);
}
