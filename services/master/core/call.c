/* SPDX-License-Identifier: Apache-2.0 */
/* The table of open calls: rows, attempts, pauses between them, and how long a node may be silent.
 */
#include "master/core/call.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/backoff.h"
#include "base/mem.h"
#include "base/mutant.h"
#include "base/text.h"
#include "master/core/core.h"

#define DEAF_MS 60000   /* a node that beats, is not at work for the call, and does not answer it */
#define STALL_MS 600000 /* a node whose work makes no progress for so long is given up */
#define BACKOFF_MS_MIN 200 /* between attempts */
#define BACKOFF_MS_MAX 3200
#define REFUSALS_MAX 3 /* refusals of one call for a reason that passes by itself */
/* Losses of one call. A node that has lost the job says so in two heartbeats, or joins again. */
#define LOSSES_MAX 8

static const struct call_rule {
    const char *name;
    bool patient; /* unknown errors may pass, too */
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

bool call_follows_generation(enum master_call_kind kind)
{
    return kind == MASTER_CALL_PIN || kind == MASTER_CALL_UNPIN || kind == MASTER_CALL_CHECKPOINT;
}

bool call_is_to_shard(enum master_call_kind kind)
{
    return call_follows_generation(kind) || kind == MASTER_CALL_OPEN ||
           kind == MASTER_CALL_MEMBERSHIP || kind == MASTER_CALL_CLOSE;
}

bool call_has_generation(enum master_call_kind kind)
{
    return kind != MASTER_CALL_INSPECT;
}

/* ---- rows ---- */

void calls_release(struct call_table *t)
{
    free(t->rows);
    *t = (struct call_table){.late_ms = t->late_ms};
}

struct call *calls_add(struct call_table *t, const struct call *c)
{
    t->rows = mem_grow(t->rows, &t->capacity, t->count + 1, sizeof *t->rows);
    struct call *row = &t->rows[t->count++];
    *row = *c;
    return row;
}

struct call calls_remove(struct call_table *t, struct call *c)
{
    struct call removed = *c;
    *c = t->rows[--t->count];
    return removed;
}

struct call *calls_find(struct call_table *t, uint64_t number)
{
    for (size_t i = 0; i < t->count; i++) {
        if (t->rows[i].flying && t->rows[i].number == number) {
            return &t->rows[i];
        }
    }
    return NULL;
}

size_t calls_open(const struct call_table *t, const struct job *j, enum master_call_kind kind)
{
    size_t count = 0;
    for (size_t i = 0; i < t->count; i++) {
        count += t->rows[i].job == j && t->rows[i].kind == kind;
    }
    return count;
}

bool calls_open_to(const struct call_table *t, const struct node *n, enum master_call_kind kind)
{
    for (size_t i = 0; i < t->count; i++) {
        if (t->rows[i].node == n && t->rows[i].kind == kind) {
            return true;
        }
    }
    return false;
}

bool calls_open_of(const struct call_table *t, const struct job *j, const struct node *n)
{
    for (size_t i = 0; i < t->count; i++) {
        const struct call *c = &t->rows[i];
        if (c->job == j && c->node == n &&
            (c->kind == MASTER_CALL_STOP || c->kind == MASTER_CALL_CLOSE)) {
            return true;
        }
    }
    return false;
}

void calls_forget(struct call_table *t, const struct job *j, enum master_call_kind kind)
{
    for (size_t i = t->count; i-- > 0;) {
        if (t->rows[i].job == j && t->rows[i].kind == kind) {
            calls_remove(t, &t->rows[i]);
        }
    }
}

void calls_forget_opening(struct call_table *t, const struct job *j, uint32_t shard,
                          uint64_t opening)
{
    for (size_t i = t->count; i-- > 0;) {
        const struct call *c = &t->rows[i];
        if (c->job == j && c->kind == MASTER_CALL_OPEN && c->index == shard &&
            c->opening == opening) {
            calls_remove(t, &t->rows[i]);
        }
    }
}

void calls_forget_job(struct call_table *t, const struct job *j)
{
    for (size_t i = t->count; i-- > 0;) {
        enum master_call_kind kind = t->rows[i].kind;
        if (t->rows[i].job == j && kind != MASTER_CALL_STOP && kind != MASTER_CALL_CLOSE) {
            calls_remove(t, &t->rows[i]);
        }
    }
}

void calls_forget_node(struct call_table *t, const struct node *n, const struct job *j)
{
    for (size_t i = t->count; i-- > 0;) {
        if (t->rows[i].node == n && (j == NULL || t->rows[i].job == j)) {
            calls_remove(t, &t->rows[i]);
        }
    }
}

/* ---- one call ---- */

void call_sent(struct call *c, uint64_t number, uint64_t generation, uint64_t now_ms)
{
    c->number = number;
    c->generation = generation;
    c->flying = true;
    c->due_ms = UINT64_MAX;
    if (!c->begun) {
        c->begun = true;
        c->begun_ms = now_ms;
        c->heard_ms = now_ms;
    }
}

void call_wait(struct call *c)
{
    c->flying = false;
    c->due_ms = UINT64_MAX;
    c->begun = false;
}

/* It did not reach the node, the answer did not reach us, or the node is putting the job away; it
 * is asked again. Every call may be: the work that is under way answers the second one, too. */
static bool is_transport(const struct call *c, int code)
{
    return code == ERR_UNAVAILABLE || code == ERR_CANCELLED || code == ERR_TIMEOUT ||
           (RULES[c->kind].patient && (code == ERR_UNKNOWN || code == ERR_INTERNAL));
}

/* How often is this answer taken for one that may be another the next time? */
static unsigned refusals_max(const struct call *c, int code)
{
    if (c->kind == MASTER_CALL_EVALUATE && code == ERR_NOT_FOUND && !MUTANT(evaluation_gone)) {
        return LOSSES_MAX;
    }
    return call_follows_generation(c->kind) && code == ERR_STATE ? REFUSALS_MAX : 0;
}

bool call_retry(struct call *c, const struct err *err, uint64_t now_ms)
{
    c->flying = false;
    if (is_transport(c, err->code)) {
        c->due_ms = now_ms + backoff_ms(++c->attempts, BACKOFF_MS_MIN, BACKOFF_MS_MAX);
        text_copy(c->failure, sizeof c->failure, err->msg);
        return true;
    }
    if (++c->refusals < refusals_max(c, err->code)) {
        c->due_ms = now_ms + backoff_ms(c->refusals + 1, BACKOFF_MS_MIN, BACKOFF_MS_MAX);
        return true;
    }
    return false;
}

/* ---- time ---- */

/* Judged while the node is on time: one that is late will be heard, and then the limit is another
 * one, or is given up for its silence. */
static uint64_t limit_ms(const struct call_table *t, const struct call *c)
{
    if (!c->begun) {
        return UINT64_MAX;
    }
    uint64_t limit = c->heard_ms + (c->worked ? STALL_MS : DEAF_MS);
    bool late = limit > c->node->heartbeat_ms + t->late_ms && !MUTANT(silence_is_deafness);
    return late ? UINT64_MAX : limit;
}

bool call_is_given_up(const struct call_table *t, const struct call *c, uint64_t now_ms)
{
    return limit_ms(t, c) <= now_ms;
}

struct call *calls_due(struct call_table *t, uint64_t now_ms)
{
    for (size_t i = 0; i < t->count; i++) {
        if (call_is_given_up(t, &t->rows[i], now_ms) || t->rows[i].due_ms <= now_ms) {
            return &t->rows[i];
        }
    }
    return NULL;
}

uint64_t calls_timer(const struct call_table *t)
{
    uint64_t next = UINT64_MAX;
    for (size_t i = 0; i < t->count; i++) {
        uint64_t limit = limit_ms(t, &t->rows[i]);
        next = t->rows[i].due_ms < next ? t->rows[i].due_ms : next;
        next = limit < next ? limit : next;
    }
    return next;
}

void calls_late(struct call_table *t, uint64_t late_ms, uint64_t now_ms)
{
    for (size_t i = 0; i < t->count; i++) {
        struct call *c = &t->rows[i];
        c->heard_ms = now_ms - c->heard_ms < late_ms ? now_ms : c->heard_ms + late_ms;
    }
}

void calls_silent(struct call_table *t, const struct node *n, uint64_t silent_ms, uint64_t now_ms)
{
    for (size_t i = 0; i < t->count; i++) {
        struct call *c = &t->rows[i];
        if (c->node == n) {
            c->heard_ms = now_ms - c->heard_ms < silent_ms ? now_ms : c->heard_ms + silent_ms;
        }
    }
}

/* A worker does one thing after the other, so there it waits for anything; a server's jobs do not
 * wait for each other. */
const struct node_work *call_work(const struct call *c)
{
    const struct node *n = c->node;
    const struct node_work *any = NULL;
    for (size_t i = 0; i < n->work_count; i++) {
        const struct node_work *w = &n->works[i];
        bool same_job = strcmp(w->job, c->job_id) == 0;
        if (same_job && strcmp(w->what, RULES[c->kind].name) == 0) {
            return w;
        }
        if (same_job || n->role == MASTER_WORKER) {
            any = w;
        }
    }
    return any;
}

void calls_heard(struct call_table *t, const struct node *n)
{
    for (size_t i = 0; i < t->count; i++) {
        struct call *c = &t->rows[i];
        const struct node_work *w = c->node == n ? call_work(c) : NULL;
        c->worked = c->node == n ? w != NULL && !MUTANT(work_is_silence) : c->worked;
        if (w != NULL && c->worked && w->moved_ms > c->heard_ms) {
            c->heard_ms = w->moved_ms;
        }
    }
}

/* Says that the node sends heartbeats and does nothing for the call. */
void call_silence_words(const struct call *c, uint64_t now_ms, struct buf *words)
{
    const char *name = RULES[c->kind].name;
    uint64_t s = (now_ms - c->heard_ms) / 1000;
    if (c->worked) {
        buf_printf(words, "it beats, but %s has not got on for %" PRIu64 " s", name, s);
        return;
    }
    buf_printf(words, "it beats, but cannot be called: no answer to %s for %" PRIu64 " s%s%s", name,
               s, c->failure[0] == 0 ? "" : ": ", c->failure);
}
