/* SPDX-License-Identifier: Apache-2.0 */
/* Sync: global step t from version t, replicas summed along the fixed tree (docs/protocol.md,
 * Sync). Here are the steps and the tree; worker_nonblocking.c has what differs when a step need
 * not wait for every worker. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mutant.h"
#include "worker/core/worker_state.h"

static bool nonblocking(const struct worker *w)
{
    return consistency_is_nonblocking(&w->a.consistency);
}

bool worker_sync_is_standby(const struct worker *w)
{
    return w->a.replica_first == w->a.replica_end && !nonblocking(w);
}

void worker_sync_begin(struct worker *w)
{
    uint32_t mine = w->a.replica_end - w->a.replica_first;
    if (nonblocking(w) && mine > WORKER_SINGLES_MAX) { /* a late worker pushes each alone, too */
        char message[192];
        (void)snprintf(
            message, sizeof message,
            "%" PRIu32 " replicas on one worker; with %s each needs "
            "a gradient of its own, and a worker has at most %d: use more workers",
            mine, consistency_is_partial(&w->a.consistency) ? "replicas_to_aggregate" : "speculate",
            WORKER_SINGLES_MAX);
        worker_fail_job(w, ERR_EXHAUSTED, message);
        return;
    }
    w->position = w->a.step;
    w->sync.own_end = w->a.replica_end;
    w->sync.prefetch_step = w->a.step;
    w->sync.prefetch_replica = w->a.replica_first;
    w->sync.prefetch_lost = true; /* named before: batches of the generation that is over */
    worker_sync_step_begin(w);
}

/* ---- parameters ---- */

static void pull_version(struct worker *w)
{
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        struct worker_request request = worker_request(w, s, EXCHANGE_TRAIN);
        request.ask.has_pull = true;
        request.ask.pull.kind = PULL_VERSION;
        request.ask.pull.version = w->position;
        worker_exchange(w, &request, false);
    }
}

/* ---- computing ---- */

/* Name the batches that will be computed next, a few ahead. */
static void prefetch(struct worker *w)
{
    struct sync_state *s = &w->sync;
    uint32_t mine = w->a.replica_end - w->a.replica_first;
    for (;;) {
        uint64_t ahead =
            (s->prefetch_step - w->position) * mine + (s->prefetch_replica - w->a.replica_first);
        uint64_t done = s->replica_next - w->a.replica_first;
        if (s->prefetch_step >= w->a.step_limit || ahead >= done + WORKER_PREFETCH_MAX) {
            return;
        }
        struct ledger_batch batch;
        worker_sync_batch(w, s->prefetch_step, s->prefetch_replica, &batch);
        if (batch.count > 0) {
            worker_add(w, WORKER_DO_PREFETCH)->prefetch = batch;
        }
        if (++s->prefetch_replica == w->a.replica_end) {
            s->prefetch_replica = w->a.replica_first;
            s->prefetch_step++;
        }
    }
}

/* After a leap the reader has batches ready that nobody wants: the present one is read when it is
 * computed, and those behind it are named anew with the next. */
static void prefetch_from_next(struct worker *w)
{
    struct sync_state *s = &w->sync;
    s->prefetch_lost = false;
    s->prefetch_step = w->position;
    s->prefetch_replica = s->replica_next + 1;
    if (s->prefetch_replica == w->a.replica_end) {
        s->prefetch_replica = w->a.replica_first;
        s->prefetch_step++;
    }
}

/* ---- pushing ---- */

/* The next version, and what its first computation here reads of tables. */
static void pull_next_version(const struct worker *w, struct worker_request *request)
{
    struct ledger_batch next = {0};
    request->ask.has_pull = true;
    request->ask.pull.kind = PULL_VERSION;
    request->ask.pull.version = w->position + 1;
    request->early = worker_sums_rounds(w) == 0;
    if (w->position + 1 < w->a.step_limit) {
        worker_sync_batch(w, w->position + 1, w->a.replica_first, &next);
    }
    worker_rows_along(w, request, &next);
}

/* Push one finished node to every shard; the last node of the step also pulls the next version. */
static void push_node(struct worker *w, const struct stacked *node, bool last)
{
    bool pull_next = nonblocking(w) && !w->sync.next_pulled;
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        struct worker_request request = worker_request(w, s, EXCHANGE_TRAIN);
        request.buffer = node->buffer;
        worker_sync_push(w, &request.ask, node->block, node->examples);
        if (pull_next) {
            worker_nonblocking_pull_next(w, &request);
        } else if (last && !nonblocking(w)) {
            pull_next_version(w, &request);
        }
        worker_exchange(w, &request, false);
    }
    w->sync.lead_holds += node->examples > 0 ? 1 : 0;
    worker_buffer_drop(w, node->buffer);
    if (pull_next || (last && !nonblocking(w))) {
        worker_sums_ask(w);
    }
}

static bool within(const struct worker *w, struct tree_block b)
{
    return b.lo >= w->a.replica_first && b.hi <= w->a.replica_end;
}

/* Add the right node of a pair to the left one. An empty contribution is no summand at all, here as
 * at the shards, so that the bits do not depend on who does the sum. */
static void merge_pair(struct worker *w, struct stacked *left, struct stacked *right)
{
    if (left->buffer == WORKER_BUFFER_NONE) {
        left->buffer = right->buffer;
    } else if (right->buffer != WORKER_BUFFER_NONE) {
        struct worker_do_add *add = &worker_add(w, WORKER_DO_ADD)->add;
        w->made[left->buffer].whole = false;
        add->buffer = left->buffer;
        add->buffer_from = right->buffer;
        worker_buffer_drop(w, right->buffer);
    }
    left->block.hi = right->block.hi;
    left->examples += right->examples;
}

static void stack_merge(struct worker *w)
{
    struct sync_state *s = &w->sync;
    while (s->stack_count >= 2) {
        struct stacked *left = &s->stack[s->stack_count - 2];
        struct stacked *right = &s->stack[s->stack_count - 1];
        struct tree_block parent;
        if (!tree_parent(w->a.consistency.replicas, right->block, &parent) ||
            parent.lo != left->block.lo || parent.hi != right->block.hi ||
            tree_split(parent.lo, parent.hi) != right->block.lo) {
            return;
        }
        merge_pair(w, left, right);
        s->stack_count--;
    }
}

/* Push the nodes whose parent this worker cannot complete: nothing will be added to them here. */
static void stack_push(struct worker *w)
{
    struct sync_state *s = &w->sync;
    bool last_replica = s->replica_next == w->a.replica_end;
    size_t kept = 0;
    for (size_t i = 0; i < s->stack_count; i++) {
        struct tree_block parent;
        bool has_parent = tree_parent(w->a.consistency.replicas, s->stack[i].block, &parent);
        if (has_parent && within(w, parent)) {
            s->stack[kept++] = s->stack[i];
        } else {
            push_node(w, &s->stack[i], last_replica && i + 1 == s->stack_count);
        }
    }
    s->stack_count = kept;
}

static void remember(struct sync_state *s)
{
    s->before.replica_next = s->replica_next;
    s->before.step_begun = s->step_begun;
    s->before.stack_count = s->stack_count;
    memcpy(s->before.stack, s->stack, s->stack_count * sizeof s->stack[0]);
}

static void take_in(struct worker *w, uint32_t buffer, uint64_t examples)
{
    struct sync_state *s = &w->sync;
    struct stacked node = {
        .block = {s->replica_next, s->replica_next + 1},
        .buffer = buffer,
        .examples = examples,
    };
    s->step_begun = true;
    s->replica_next++;
    bool is_late = s->own_end < w->a.replica_end;
    if (consistency_is_partial(&w->a.consistency) || is_late) {
        push_node(w, &node, false); /* it is not known yet whether the replica will be in the sum */
    } else {
        s->stack[s->stack_count++] = node;
        stack_merge(w);
        stack_push(w);
    }
    if (nonblocking(w) && !s->next_pulled) {
        worker_nonblocking_pull_next(w, NULL);
    }
}

/* ---- gradients that were made before ---- */

void worker_sync_made(struct worker *w)
{
    uint32_t buffer = w->computing_buffer;
    w->made[buffer].whole = true;
    w->made[buffer].step = w->computing_step;
    w->made[buffer].replica = w->computing_replica;
    w->made[buffer].batch = w->computing_batch;
}

/* A new generation forgets what was not applied, and a computation may take minutes: what this
 * worker has made of the step is pushed again. The buffer; WORKER_BUFFER_NONE: it must be computed.
 */
static uint32_t find_made(struct worker *w, uint32_t replica, const struct ledger_batch *batch)
{
    for (uint32_t i = 0; i < WORKER_BUFFERS_MAX; i++) {
        bool same_step = w->made[i].step == w->position || MUTANT(kept_gradient_of_any_step);
        bool same =
            ledger_batch_equal(&w->made[i].batch, batch) || MUTANT(kept_gradient_of_any_step);
        if (w->made[i].whole && same_step && w->made[i].replica == replica &&
            w->buffer_users[i] == 0 && same) {
            w->buffer_users[i] = 1;
            return i;
        }
    }
    return WORKER_BUFFER_NONE;
}

/* ---- events ---- */

void worker_sync_computed(struct worker *w, enum computing was)
{
    if (was == COMPUTING_SPARE) {
        worker_nonblocking_spare_computed(w);
    } else if (w->sync.step_over) {
        worker_buffer_drop(w, w->computing_buffer); /* the step is complete without it */
    } else {
        take_in(w, w->computing_buffer, w->computing_batch.count);
    }
}

/* Those below it on the stack, which its pushes had with them, are all empty: without a buffer. */
void worker_sync_given_up(struct worker *w, enum computing was)
{
    struct sync_state *s = &w->sync;
    s->prefetch_lost = true;
    if (was != COMPUTING_PUSHED) {
        worker_buffer_drop(w, w->computing_buffer);
    } else if (!MUTANT(given_up_is_done)) {
        s->replica_next = s->before.replica_next;
        s->step_begun = s->before.step_begun;
        s->stack_count = s->before.stack_count;
        memcpy(s->stack, s->before.stack, s->stack_count * sizeof s->stack[0]);
    }
}

void worker_sync_exchanged(struct worker *w, const struct worker_request *request,
                           const struct worker_exchanged *event)
{
    if (request->ask.kind == EXCHANGE_SUMS) {
        worker_sums_answered(w, request, event);
    }
    if (nonblocking(w)) {
        worker_nonblocking_answered(w, request, event);
    } else if (w->training_open == 0 && w->sync.step_begun &&
               w->sync.replica_next == w->a.replica_end) {
        w->position++;
        worker_sync_step_begin(w);
    }
}

/* With so many replicas of one worker at the lead the step will be complete: more would be too
 * many, and each is a gradient in memory. Not so with rounds of sums: what makes up the step may
 * have been decided in a generation that is over. */
static bool enough(const struct worker *w)
{
    return consistency_is_partial(&w->a.consistency) && worker_sums_rounds(w) == 0 &&
           w->sync.lead_holds >= w->a.consistency.aggregate;
}

/* Will the gradient that is computed next be pushed as it is, with nothing added to it before? */
static bool goes_alone(const struct worker *w)
{
    const struct sync_state *s = &w->sync;
    struct tree_block block = {s->replica_next, s->replica_next + 1};
    struct tree_block parent;
    size_t below = s->stack_count;
    if (nonblocking(w) || (w->config.tables && !MUTANT(rows_pushed_along))) {
        return false; /* the step may be over when the batch is computed, or rows may not come */
    }
    if (w->landing && worker_sums_rounds(w) > 0) {
        return false; /* sums are asked for behind a push, and it may be given up */
    }
    while (tree_parent(w->a.consistency.replicas, block, &parent) && within(w, parent)) {
        if (block.hi != parent.hi || below == 0 ||
            s->stack[below - 1].buffer != WORKER_BUFFER_NONE) {
            return false;
        }
        below--; /* the left node of the pair is empty */
        block = parent;
    }
    return true;
}

static void compute_next(struct worker *w)
{
    struct sync_state *s = &w->sync;
    while (s->replica_next < s->own_end && !s->step_over && !enough(w)) {
        struct ledger_batch batch;
        worker_sync_batch(w, w->position, s->replica_next, &batch);
        uint32_t made =
            batch.count > 0 ? find_made(w, s->replica_next, &batch) : WORKER_BUFFER_NONE;
        if (made != WORKER_BUFFER_NONE) {
            s->prefetch_lost = true;
            w->computing_batch = batch;
            take_in(w, made, batch.count);
            continue;
        }
        if (batch.count > 0) {
            if (s->prefetch_lost) {
                prefetch_from_next(w);
            } else {
                prefetch(w);
            }
            bool alone = goes_alone(w);
            size_t at = w->out->count;
            worker_sync_compute(w, COMPUTING_BATCH, s->replica_next, &batch);
            if (alone) {
                worker_push_along(w);
                remember(s);
                take_in(w, w->computing_buffer, batch.count);
                worker_pushed_along(w, at);
            }
            return;
        }
        w->computing_batch = batch;
        take_in(w, WORKER_BUFFER_NONE, 0);
    }
}

void worker_sync_pump(struct worker *w)
{
    if (w->computing != COMPUTING_NOTHING) {
        return;
    }
    if (worker_sync_is_standby(w)) {
        w->position = w->a.step_limit; /* nothing to contribute */
        w->idle_due = true;
        return;
    }
    if (nonblocking(w)) {
        worker_nonblocking_settle(w);
    }
    if (!worker_set_is(w, w->current, w->position)) {
        if (w->training_open == 0) {
            pull_version(w);
        }
        return;
    }
    w->idle_due = w->position >= w->a.step_limit && !w->sync.step_begun;
    if (w->idle_due || w->rows_retry_ms > w->now_ms) {
        return;
    }
    compute_next(w);
    if (nonblocking(w) && w->computing == COMPUTING_NOTHING) {
        worker_nonblocking_wait(w);
    }
}
