/* SPDX-License-Identifier: Apache-2.0 */
/* Sync that need not wait for every worker (docs/protocol.md, Partial sync and Speculative sync).
 *
 * A step is over for a worker when every shard is past it, whether or not its replicas are in. So
 * the next version is asked for with the first gradient of a step, as "at least", and goes to the
 * other set; what this one holds can be computed on until then: replicas of its own, and spare ones
 * of workers that are late. Then the worker goes on from where the shards are, be it further. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mutant.h"
#include "worker/core/worker_state.h"

/* Shards that are a step behind mostly follow at once. */
#define LEVEL_MS 100
/* Pause before the next shard is asked what it lacks: mostly it follows the shard before at once.
 */
#define SPARE_NEXT_MS 5
/* Before the first one is, where not all replicas are waited for: rarely one is missed. */
#define SPARE_PARTIAL_MS 20

static bool partial(const struct worker *w)
{
    return consistency_is_partial(&w->a.consistency);
}

/* ---- versions ---- */

static void pull(struct worker *w, uint32_t shard, enum worker_set set, enum pull_kind kind,
                 uint64_t version)
{
    struct worker_request request = worker_request(w, shard, EXCHANGE_TRAIN);
    request.ask.has_pull = true;
    request.ask.pull.kind = kind;
    request.ask.pull.version = version;
    request.set = set;
    worker_exchange(w, &request, false);
}

void worker_nonblocking_pull_next(struct worker *w, struct worker_request *request)
{
    w->sync.next_pulled = true;
    if (request != NULL) {
        request->ask.has_pull = true;
        request->ask.pull.kind = PULL_AT_LEAST;
        request->ask.pull.version = w->position + 1;
        request->set = worker_other_set(w);
        return;
    }
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        pull(w, s, worker_other_set(w), PULL_AT_LEAST, w->position + 1);
    }
    worker_sums_ask(w);
}

/* That version is gone, so every shard is past it: values of it or older are pulled anew. */
bool worker_nonblocking_outrun(struct worker *w, const struct worker_request *request, int code)
{
    const struct exchange_request *ask = &request->ask;
    if (code != ERR_RANGE || !consistency_is_nonblocking(&w->a.consistency) || ask->has_push ||
        !ask->has_pull || ask->pull.kind != PULL_VERSION) {
        return false;
    }
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        uint64_t *version = &w->versions[request->set][s];
        if (*version != WORKER_VERSION_NONE && *version <= ask->pull.version) {
            *version = WORKER_VERSION_NONE;
        }
    }
    return true;
}

/* Batches of replicas first..end-1 in the steps before @step. */
static uint64_t batches_before(const struct worker *w, uint64_t step, uint32_t first, uint32_t end)
{
    return ledger_sync_batches(&w->ledger, w->a.consistency.replicas, step - w->a.ledger_step,
                               first, end);
}

/* Counts the replicas of this worker that no sum will have, in steps [position, version); of the
 * present step those that it did not come to. A shard may name any version, so nothing is counted
 * one by one. */
static void count_skipped(struct worker *w, uint64_t version)
{
    uint32_t first = w->a.replica_first;
    uint32_t next = w->sync.replica_next;
    if (partial(w)) {
        w->dropped += batches_before(w, version, first, w->a.replica_end) -
                      batches_before(w, w->position, first, w->a.replica_end);
        w->dropped -= batches_before(w, w->position + 1, first, next) -
                      batches_before(w, w->position, first, next);
    }
    w->measured = w->measured || w->dropped > 0;
}

/* Speculation: how many replicas of its own the worker begins the next step with. Those that it did
 * not come to in this step were given to others, and the lead gives them away at once from now on.
 * So a late worker computes its first replicas, pushes each as soon as it is made, and then asks
 * what is left: no replica is computed twice. */
static void choose_own(struct worker *w)
{
    struct sync_state *s = &w->sync;
    uint32_t pushed = s->stack_count > 0 ? s->stack[0].block.lo : s->replica_next;
    if (pushed < s->own_end) {
        s->own_end = pushed > w->a.replica_first ? pushed : w->a.replica_first + 1;
    } else if (s->own_spares < w->a.replica_end - s->own_end) {
        s->own_end += s->own_spares;
    } else {
        s->own_end = w->a.replica_end; /* the worker is in time again */
    }
}

static void go_on_from(struct worker *w, enum worker_set set, uint64_t version)
{
    struct sync_state *s = &w->sync;
    s->prefetch_lost =
        s->prefetch_lost || version > w->position + 1 || s->replica_next < w->a.replica_end;
    if (version > w->position) {
        count_skipped(w, version);
        if (!partial(w)) {
            choose_own(w);
        }
    }
    w->current = set;
    w->position = version;
    worker_sync_step_begin(w);
}

/* Brings all shards' parts of @set to one version, @least or later. */
static void align(struct worker *w, enum worker_set set, uint64_t least, bool first)
{
    const uint64_t *versions = w->versions[set];
    uint64_t lowest = UINT64_MAX;
    uint64_t highest = 0;
    bool complete = true;
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        if (versions[s] == WORKER_VERSION_NONE || versions[s] < least) {
            pull(w, s, set, PULL_AT_LEAST, least);
            complete = false;
            continue;
        }
        lowest = versions[s] < lowest ? versions[s] : lowest;
        highest = versions[s] > highest ? versions[s] : highest;
    }
    if (!complete) {
        return;
    }
    if (lowest == highest) {
        go_on_from(w, set, lowest);
        return;
    }
    /* Shards that are behind will follow: the worker that made the others go on sends the same to
     * all. But a step that was open when the generation began may be waiting for this very worker.
     */
    uint64_t wanted = first && lowest == w->a.step ? lowest : highest;
    if (wanted == highest) {
        w->sync.level_set = set;
        w->sync.level_version = highest;
        w->sync.level_ms = MUTANT(never_steps_back) ? 0 : w->now_ms + LEVEL_MS;
    }
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        if (versions[s] != wanted) {
            pull(w, s, set, PULL_VERSION, wanted);
        }
    }
}

/* The other shards did not follow: the worker that made some go on may have stopped before it sent
 * the same to all. The version before is readable on every shard, and what is missing of its step
 * is made from there as in any other step. */
static void step_back(struct worker *w)
{
    struct sync_state *s = &w->sync;
    enum worker_set other = s->level_set == WORKER_SET_A ? WORKER_SET_B : WORKER_SET_A;
    if (s->level_ms != 0 && s->level_ms <= w->now_ms) {
        s->level_ms = 0;
        s->steps_back = true;
        for (uint32_t shard = 0; shard < w->config.shard_count; shard++) {
            pull(w, shard, other, PULL_VERSION, s->level_version - 1);
        }
    } else if (s->steps_back && worker_set_is(w, other, s->level_version - 1) &&
               !worker_set_is(w, s->level_set, s->level_version)) {
        go_on_from(w, other, s->level_version - 1);
        s->next_pulled = true; /* by the pull that waits */
        worker_sums_ask(w);
    }
}

void worker_nonblocking_settle(struct worker *w)
{
    if (w->training_open > 0) {
        step_back(w);
        return;
    }
    w->sync.level_ms = 0;
    w->sync.steps_back = false;
    if (w->sync.next_pulled) {
        align(w, worker_other_set(w), w->position + 1, false);
    } else if (!worker_set_is(w, w->current, w->position)) {
        align(w, w->current, w->position, true);
    }
}

/* ---- decisions ---- */

/* A push of this step, or a request for its sums? */
static bool is_of_step(const struct worker *w, const struct exchange_request *ask)
{
    return (ask->has_push && ask->push.step == w->position) ||
           (ask->kind == EXCHANGE_SUMS && ask->sums.step == w->position);
}

/* True if an exchange of this step with @shard is still open. */
static bool is_waited_for(const struct worker *w, uint32_t shard)
{
    for (size_t i = 0; i < w->exchange_count; i++) {
        const struct worker_request *r = &w->exchanges[i].request;
        if (r->shard == shard && is_of_step(w, &r->ask)) {
            return true;
        }
    }
    return false;
}

/* The lead has said which replicas make up the step: tell the shards that wait for them. */
static void carry_decision(struct worker *w, const struct exchange_decision *d)
{
    struct sync_state *s = &w->sync;
    if (d->bytes > EXCHANGE_DECISION_BYTES_MAX) {
        char message[128];
        (void)snprintf(message, sizeof message, "the lead's decision has %zu bytes; at most %d",
                       d->bytes, EXCHANGE_DECISION_BYTES_MAX);
        worker_fail_job(w, ERR_INVALID, message);
        return;
    }
    s->decision_sent = true;
    uint8_t *replicas = s->decisions[w->position % 2];
    memcpy(replicas, d->replicas, d->bytes);
    for (uint32_t shard = 0; shard < w->config.shard_count; shard++) {
        if (shard == WORKER_LEAD || !is_waited_for(w, shard)) {
            continue;
        }
        struct worker_request request = worker_request(w, shard, EXCHANGE_TRAIN);
        request.ask.has_decision = true;
        request.ask.decision = (struct exchange_decision){w->position, replicas, d->bytes};
        worker_exchange(w, &request, false);
    }
}

static void adopt_decision(struct worker *w, const struct worker_exchanged *event)
{
    const struct exchange_decision *d = &event->answer.decision;
    if (d->bytes > 0 && d->step == w->position && partial(w) && !w->sync.decision_sent) {
        carry_decision(w, d);
    }
}

static void count_spare(struct worker *w, const struct exchange_push *push, enum push_result result)
{
    if (result != PUSH_ACCEPTED && result != PUSH_APPLIED) {
        return; /* another worker was faster */
    }
    bool own = push->replica_first >= w->a.replica_first && push->replica_first < w->a.replica_end;
    w->sync.own_spares += own ? 1 : 0;
    w->speculated += own ? 0 : 1;
    w->measured = w->measured || !own;
}

static void lead_answered_push(struct worker *w, const struct exchange_push *push,
                               const struct worker_exchanged *event)
{
    if (push->examples > 0) {
        w->sync.lead_holds--;
        if (event->answer.train.push == PUSH_STALE) {
            w->dropped++;
            w->measured = true;
        }
    }
    adopt_decision(w, event);
}

/* ---- spare replicas ---- */

/* The present one has all of the step. */
static void ask_next_shard(struct worker *w)
{
    struct sync_state *s = &w->sync;
    s->spare_ask_ms = ++s->spare_shard < w->config.shard_count ? w->now_ms + SPARE_NEXT_MS : 0;
}

static void take_spare_answer(struct worker *w, const struct exchange_spare *spare)
{
    struct sync_state *s = &w->sync;
    if (!spare->given && spare->wait_ms == 0) {
        ask_next_shard(w);
    } else if (!spare->given) {
        s->spare_ask_ms = w->now_ms + spare->wait_ms;
    } else if (spare->replica >= w->a.consistency.replicas) {
        char message[128];
        (void)snprintf(message, sizeof message,
                       "shard %" PRIu32 " gave spare replica %" PRIu32 " of %" PRIu32,
                       s->spare_shard, spare->replica, w->a.consistency.replicas);
        worker_fail_job(w, ERR_INVALID, message);
    } else {
        s->spare_given = true;
        s->spare_replica = spare->replica;
    }
}

/* To the shard that gave it and to all behind it: those before it have it. */
static void push_spare(struct worker *w, uint32_t buffer)
{
    w->sync.spare_given = false;
    w->sync.spare_ask_ms = 0;
    for (uint32_t s = w->sync.spare_shard; s < w->config.shard_count; s++) {
        struct worker_request request = worker_request(w, s, EXCHANGE_TRAIN);
        const struct tree_block node = {w->sync.spare_replica, w->sync.spare_replica + 1};
        request.buffer = buffer;
        worker_sync_push(w, &request.ask, node, w->computing_batch.count);
        request.ask.push.spare = true;
        worker_exchange(w, &request, false);
    }
    worker_buffer_drop(w, buffer);
}

void worker_nonblocking_spare_computed(struct worker *w)
{
    if (w->sync.step_over) {
        w->sync.spare_given = false;
        worker_buffer_drop(w, w->computing_buffer);
    } else {
        push_spare(w, w->computing_buffer);
    }
}

static void spare_compute(struct worker *w)
{
    struct ledger_batch batch;
    worker_sync_batch(w, w->position, w->sync.spare_replica, &batch);
    if (batch.count == 0) {
        w->computing_batch = batch;
        push_spare(w, WORKER_BUFFER_NONE);
        return;
    }
    w->sync.prefetch_lost = true;
    worker_sync_compute(w, COMPUTING_SPARE, w->sync.spare_replica, &batch);
}

/* True if a request for a spare replica, or the push of one, is not answered yet. */
static bool spare_open(const struct worker *w)
{
    for (size_t i = 0; i < w->exchange_count; i++) {
        const struct exchange_request *ask = &w->exchanges[i].request.ask;
        if (ask->kind == EXCHANGE_SPARE || ask->push.spare) {
            return true;
        }
    }
    return false;
}

/* The shard to ask for a spare replica now; shard_count: none. It stays the same one until all that
 * it was asked and pushed is answered. */
static uint32_t spare_shard(struct worker *w)
{
    struct sync_state *s = &w->sync;
    uint32_t count = w->config.shard_count;
    if (spare_open(w)) {
        return count;
    }
    while (s->spare_shard < count && w->heard[s->spare_shard] > w->position) {
        ask_next_shard(w);
    }
    if (MUTANT(lead_has_all) && s->spare_shard != WORKER_LEAD) {
        return count;
    }
    return s->spare_ask_ms > w->now_ms ? count : s->spare_shard;
}

void worker_nonblocking_wait(struct worker *w)
{
    struct sync_state *s = &w->sync;
    if (!s->next_pulled) {
        worker_nonblocking_pull_next(w, NULL); /* this worker has no replicas of its own */
    }
    if (s->step_over) {
        return;
    }
    if (s->spare_given) {
        spare_compute(w);
        return;
    }
    if (partial(w) && !s->spare_waits) {
        s->spare_waits = true;
        s->spare_ask_ms = w->now_ms + SPARE_PARTIAL_MS;
    }
    uint32_t shard = spare_shard(w);
    if (shard == w->config.shard_count) {
        return;
    }
    struct worker_request request = worker_request(w, shard, EXCHANGE_SPARE);
    request.ask.spare_step = w->position;
    s->spare_ask_ms = 0;
    worker_exchange(w, &request, false);
}

/* ---- answers ---- */

static bool every_shard_is_past(const struct worker *w)
{
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        if (w->heard[s] <= w->position) {
            return false;
        }
    }
    return true;
}

void worker_nonblocking_answered(struct worker *w, const struct worker_request *request,
                                 const struct worker_exchanged *event)
{
    const struct exchange_request *ask = &request->ask;
    const struct exchange_push *push = &ask->push;
    if (push->spare && request->shard == w->sync.spare_shard) {
        count_spare(w, push, event->answer.train.push);
    } else if (request->shard == WORKER_LEAD && ask->has_push && !push->spare) {
        lead_answered_push(w, push, event);
    }
    if (request->shard == WORKER_LEAD && ask->kind == EXCHANGE_SUMS) {
        adopt_decision(w, event);
    }
    if (ask->kind == EXCHANGE_SPARE) {
        take_spare_answer(w, &event->answer.spare);
    }
    if (event->version > w->heard[request->shard]) {
        w->heard[request->shard] = event->version;
    }
    if (w->sync.next_pulled && every_shard_is_past(w)) {
        w->sync.step_over = true;
    }
}
