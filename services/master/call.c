/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "job/tree.h"
#include "master/core.h"

#define LONG_MS 600000 /* loading data, initial values, evaluating, writing to a disk */
#define SHORT_MS 5000
#define SLACK_MS 500 /* the shell's own deadline ends a call first, with a better message */
#define BACKOFF_MS 200

/* The retry rules of docs/protocol.md. A node that cannot be reached in so many attempts is given
 * up; what a node itself refuses is another matter, see refused(). */
static const struct call_rule {
    const char *name;
    uint32_t timeout_ms;
    unsigned attempts;
} RULES[MASTER_CALL_KIND_COUNT] = {
    [MASTER_CALL_INSPECT] = {"InspectData", LONG_MS, 3},
    [MASTER_CALL_OPEN] = {"OpenShard", LONG_MS, 3},
    [MASTER_CALL_START] = {"StartJob", LONG_MS, 3},
    [MASTER_CALL_MEMBERSHIP] = {"SetMembership", SHORT_MS, 3},
    [MASTER_CALL_ASSIGN] = {"Assign", SHORT_MS, 3},
    [MASTER_CALL_PIN] = {"Pin", SHORT_MS, 3},
    [MASTER_CALL_EVALUATE] = {"Evaluate", LONG_MS, 3},
    [MASTER_CALL_CHECKPOINT] = {"Checkpoint", LONG_MS, 3},
    [MASTER_CALL_UNPIN] = {"Unpin", SHORT_MS, 3},
    [MASTER_CALL_STOP] = {"StopJob", SHORT_MS, 3},
    [MASTER_CALL_CLOSE] = {"CloseShard", SHORT_MS, 3},
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

static bool blocked(const struct master *m, const struct call *c)
{
    return follows_generation(c->kind) && calls_open(m, c->job, MASTER_CALL_MEMBERSHIP) > 0;
}

static void send(struct master *m, struct call *c)
{
    if (blocked(m, c)) {
        c->due_ms = UINT64_MAX;
        return;
    }
    c->number = ++m->next_number;
    c->generation = c->job->record.generation;
    c->flying = true;
    c->due_ms = m->now_ms + RULES[c->kind].timeout_ms + SLACK_MS;
    m->counts.calls++;
    struct master_action *action = action_add(m, MASTER_CALL);
    action->call = (struct master_call){
        .number = c->number,
        .kind = c->kind,
        .node = c->node->id,
        .address = c->node->address,
        .incarnation = c->node->incarnation,
        .timeout_ms = RULES[c->kind].timeout_ms,
        .job = c->job->record.id,
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
        if (c->job == j && !c->flying && follows_generation(c->kind)) {
            c->due_ms = m->now_ms;
        }
    }
}

/* It did not reach the node, the answer did not reach us, or the node is putting the job away;
 * trying again may help. */
static bool is_transport(const struct call *c, int code)
{
    bool patient = RULES[c->kind].timeout_ms == SHORT_MS;
    return code == ERR_UNAVAILABLE || code == ERR_CANCELLED ||
           (patient && (code == ERR_TIMEOUT || code == ERR_UNKNOWN || code == ERR_INTERNAL));
}

static void drop_worker(struct master *m, struct job *j, struct node *n, const char *why)
{
    job_worker_lost(m, j, n, why);
    calls_forget_node(m, n, j);
    call_start(m, j, n, MASTER_CALL_STOP, 0);
}

/* A worker that cannot take part in a running job is not asked again; the others go on. */
static void start_refused(struct master *m, struct job *j, struct node *n, const char *why)
{
    if (j->phase == PHASE_START) {
        job_end(m, j, JOB_FAILED, "%s", why);
        return;
    }
    j->refused[j->refused_count++ % JOB_REFUSED_MAX] = n->number;
    if (j->phase == PHASE_WAIT) {
        job_say(m, j, why);
    }
    drop_worker(m, j, n, why);
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
    case MASTER_CALL_START:
        start_refused(m, j, c->node, why);
        break;
    case MASTER_CALL_ASSIGN:
        if (err->code == ERR_NOT_FOUND || err->code == ERR_ABORTED) {
            drop_worker(m, j, c->node, why); /* it has dropped the job */
        } else {
            job_end(m, j, JOB_FAILED, "%s", why);
        }
        break;
    case MASTER_CALL_EVALUATE:
        evaluate_done(m, j, c->node, c->index,
                      &(struct master_call_done){.number = c->number, .err = err});
        break;
    case MASTER_CALL_CHECKPOINT:
        if (err->code == ERR_NOT_FOUND) {
            job_recover(m, j, why); /* the server came back without the shard */
        } else {
            milestone_checkpoint_failed(m, j, why);
        }
        break;
    case MASTER_CALL_MEMBERSHIP:
    case MASTER_CALL_PIN:
    case MASTER_CALL_UNPIN:
        if (err->code == ERR_NOT_FOUND || err->code == ERR_UNAVAILABLE) {
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
    bool again =
        is_transport(c, err->code) || (follows_generation(c->kind) && err->code == ERR_STATE);
    bool reachable = !is_transport(c, err->code);
    if (again && ++c->attempts < RULES[c->kind].attempts) {
        c->due_ms = m->now_ms + ((uint64_t)BACKOFF_MS << c->attempts);
        return;
    }
    struct call copy = *c;
    call_remove(m, i);
    if (reachable) {
        refused(m, &copy, err);
        return;
    }
    if (copy.kind == MASTER_CALL_EVALUATE) {
        evaluate_returned(copy.job, copy.index);
    }
    node_lost(
        m, copy.node,
        action_printf(m, "%s failed %u times: %s", RULES[copy.kind].name, copy.attempts, err->msg));
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

/* One call may remove or add others, so the search begins anew after each; each that was handled is
 * due later or gone. */
void calls_tick(struct master *m)
{
    for (size_t i = 0; i < m->call_count;) {
        struct call *c = &m->calls[i];
        if (c->due_ms > m->now_ms) {
            i++;
            continue;
        }
        if (c->flying) {
            struct err err = {0};
            err_set(&err, ERR_TIMEOUT, "no answer from %s within %u ms", c->node->address,
                    RULES[c->kind].timeout_ms);
            failed(m, i, &err);
        } else {
            send(m, c);
        }
        i = 0;
    }
}

static void build_assign(struct master *m, const struct call *c, struct master_call *out)
{
    const struct job *j = c->job;
    uint32_t index = 0;
    size_t i = 0;
    for (; i < j->worker_count && j->workers[i].node != c->node; i++) {
        index += j->workers[i].started;
    }
    const struct job_worker *w = &j->workers[i];
    out->consistency = &j->record.consistency;
    out->hold = c->hold;
    if (!job_is_sync(j)) {
        struct lease *leases = action_memory(m, w->lease_count, sizeof *leases);
        for (size_t k = 0; k < w->lease_count; k++) {
            leases[k] = w->leases[k];
            leases[k].fresh = false; /* it may have begun them */
        }
        out->ledger = &j->leases.ledger;
        out->leases = leases;
        out->lease_count = w->lease_count;
        return;
    }
    out->ledger = &j->course.ledger;
    out->ledger_step = j->course.step + j->version_shift;
    out->step_limit = j->step_limit + j->version_shift;
    out->step = w->from + j->version_shift;
    struct tree_block share = tree_share(j->record.consistency.replicas, train_active(j), index);
    out->replica_first = share.lo;
    out->replica_end = share.hi;
}

static void build_workers(struct master *m, const struct job *j, struct master_call *out)
{
    const char **names = action_memory(m, j->worker_count, sizeof *names);
    size_t count = 0;
    for (size_t i = 0; i < j->worker_count; i++) {
        if (j->workers[i].started || job_is_starting(j)) {
            names[count++] = j->workers[i].node->id;
        }
    }
    out->workers = names;
    out->worker_count = count;
}

/* Consistency and data position of the shards, as they begin or as they change. */
static void build_position(const struct job *j, struct master_call *out)
{
    out->consistency = &j->record.consistency;
    out->ledger = &j->course.ledger;
    out->version = j->course.step + j->version_shift;
}

static void build_start(struct master *m, const struct job *j, struct master_call *out)
{
    struct master_shard_location *shards = action_memory(m, j->shard_count, sizeof *shards);
    for (size_t i = 0; i < j->shard_count; i++) {
        shards[i] = (struct master_shard_location){(uint32_t)i, j->shards[i].node->id,
                                                   j->shards[i].node->address};
    }
    out->shards = shards;
    out->shard_count = j->shard_count;
    out->plan = &j->plan;
    out->train = &j->train;
    out->test = &j->test;
}

/* The fields of @c's kind, from the state of its job now. */
void call_build(struct master *m, const struct call *c, struct master_call *out)
{
    const struct job *j = c->job;
    switch (c->kind) {
    case MASTER_CALL_OPEN:
        out->shard = c->index;
        out->plan = &j->plan;
        out->restore = j->restore == NULL ? "" : j->restore;
        build_position(j, out);
        build_workers(m, j, out);
        break;
    case MASTER_CALL_START:
        build_start(m, j, out);
        break;
    case MASTER_CALL_MEMBERSHIP:
        out->shard = c->index;
        if (j->changing) {
            build_position(j, out);
        }
        build_workers(m, j, out);
        break;
    case MASTER_CALL_ASSIGN:
        build_assign(m, c, out);
        break;
    case MASTER_CALL_PIN:
    case MASTER_CALL_UNPIN:
    case MASTER_CALL_CHECKPOINT:
        out->shard = c->index;
        out->pin_id = j->milestone.pin_id;
        out->slots =
            j->milestone.checkpoint || (j->milestone.evaluate && j->spec.update.evaluate_average);
        out->directory = j->milestone.directory;
        break;
    case MASTER_CALL_EVALUATE:
        out->pin_id = j->milestone.pin_id;
        out->first = (uint64_t)c->index * MASTER_EVALUATION_CHUNK;
        out->count = j->test.records - out->first < MASTER_EVALUATION_CHUNK
                         ? j->test.records - out->first
                         : MASTER_EVALUATION_CHUNK;
        break;
    case MASTER_CALL_STOP:
        out->reason = action_printf(m, "%s", j->record.reason); /* it may change in this step */
        break;
    case MASTER_CALL_CLOSE:
        out->shard = c->index;
        break;
    default:
        break;
    }
}
