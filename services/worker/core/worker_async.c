/* SPDX-License-Identifier: Apache-2.0 */
/* Async and bounded: leased splits, batch by batch (docs/protocol.md, Async and bounded). */
#include <string.h>

#include "base/mutant.h"
#include "worker/core/worker_state.h"

static const struct consistency *worker_consistency(const struct worker *w)
{
    return &w->a.consistency;
}

/* The lead says whether a gradient is too stale; the others hear of it only when it is not. */
static bool lead_decides(const struct worker *w)
{
    return worker_consistency(w)->policy == POLICY_MAX_STALENESS;
}

static bool is_bounded(const struct worker *w)
{
    return worker_consistency(w)->mode == TRAINING_BOUNDED;
}

static bool overlaps(const struct worker *w)
{
    return worker_consistency(w)->overlap && worker_consistency(w)->push_every == 1 &&
           worker_consistency(w)->pull_every == 1 && !lead_decides(w);
}

void worker_async_begin(struct worker *w)
{
    w->position = w->batches_done;
    /* In another generation the shards hold newer values. */
    worker_set_forget(w, w->current);
    w->async.prefetch_lost = true;
    worker_lease_begin(w);
}

static bool quiet(const struct worker *w)
{
    return worker_quiet(w) && w->async.making == MAKING_NOTHING &&
           worker_lease_finished_count(w) == 0 && !w->async.split_report_open;
}

/* ---- exchanges ---- */

static struct worker_request training(const struct worker *w, uint32_t shard)
{
    struct worker_request request = worker_request(w, shard, EXCHANGE_TRAIN);
    request.ask.session = is_bounded(w) ? w->async.session + 1 : 0;
    return request;
}

static void pull_from(struct worker *w, uint32_t shard, const struct holding *progress_of)
{
    struct worker_request request = training(w, shard);
    struct exchange_pull *pull = &request.ask.pull;
    request.ask.has_pull = true;
    pull->kind = PULL_LATEST;
    pull->clock = w->async.clock;
    pull->joins = is_bounded(w) && w->async.clock == 0 && shard == WORKER_LEAD;
    if (progress_of != NULL) {
        pull->progress = true;
        pull->epoch = progress_of->epoch;
        pull->split = progress_of->split;
    }
    worker_exchange(w, &request, false);
}

static void pull_latest(struct worker *w, uint32_t first_shard, const struct holding *progress_of)
{
    struct async_state *a = &w->async;
    a->phase = progress_of != NULL ? ASYNC_PULL_PROGRESS : ASYNC_PULL;
    a->idle_told = false; /* a pull makes this worker count again */
    a->progress_least = UINT32_MAX;
    a->pushes_without_pull = 0;
    if (is_bounded(w) && a->clock == 0) {
        /* the answer says the clock that the other shards are to hear */
        pull_from(w, WORKER_LEAD, progress_of);
        return;
    }
    for (uint32_t s = first_shard; s < w->config.shard_count; s++) {
        pull_from(w, s, progress_of);
    }
}

/* The lead has answered the first pull: pulls from the other shards now. */
static void joined(struct worker *w, uint64_t clock)
{
    struct async_state *a = &w->async;
    a->clock = clock == 0 ? 1 : clock;
    const struct holding *h = a->phase == ASYNC_PULL_PROGRESS ? worker_lease_in_hand(w) : NULL;
    for (uint32_t s = WORKER_LEAD + 1; s < w->config.shard_count; s++) {
        pull_from(w, s, h);
    }
}

/* Asks for the rows of the batch that is computed when the answer is there. Where a gradient may be
 * dropped that batch is not known yet; and with `overlap` another batch is computed meanwhile. */
static void rows_along(struct worker *w, struct worker_request *request)
{
    const struct holding *h = worker_lease_in_hand(w);
    struct ledger_batch next = {0};
    if (h == NULL || !h->progress_known || overlaps(w) || lead_decides(w)) {
        return;
    }
    ledger_shape_batch(&w->ledger.shape, h->epoch, h->split, h->next, &next);
    worker_rows_along(w, request, &next);
}

static void push_to(struct worker *w, uint32_t first_shard, uint32_t shard_end, bool pull,
                    uint64_t clock)
{
    const struct group *g = &w->async.pushing;
    for (uint32_t s = first_shard; s < shard_end; s++) {
        struct worker_request request = training(w, s);
        request.buffer = g->buffer;
        request.ask.has_push = true;
        request.ask.push = (struct exchange_push){
            .epoch = g->epoch,
            .split = g->split,
            .batch = g->first,
            .batch_end = g->end,
            .examples = g->examples,
            .base_version = w->gradient_versions[s],
            .decided = lead_decides(w) && s != WORKER_LEAD,
            .clock = clock,
        };
        if (pull) {
            request.ask.has_pull = true;
            request.ask.pull = (struct exchange_pull){.kind = PULL_LATEST, .clock = clock};
            request.set = overlaps(w) ? worker_other_set(w) : w->current;
            request.early = !overlaps(w);
            rows_along(w, &request);
        }
        worker_exchange(w, &request, false);
    }
}

/* True if the push to the lead also pulls. In bounded mode a pull may have to wait for workers that
 * are behind, and these may wait for this worker's push to the other shards: so the lead answers
 * the push without a pull. */
static bool lead_pulls_at_once(const struct worker *w)
{
    return w->async.pushing_pulls && !is_bounded(w);
}

/* The worker's clock with the batches that are being pushed. */
static uint64_t clock_after(const struct worker *w)
{
    const struct group *g = &w->async.pushing;
    return is_bounded(w) ? w->async.clock + (g->end - g->first) : 0;
}

static void push_group(struct worker *w)
{
    struct async_state *a = &w->async;
    a->making = MAKING_NOTHING;
    a->pushing = a->group;
    a->pushing_pulls = a->pushes_without_pull + 1 >= worker_consistency(w)->pull_every;
    if (lead_decides(w)) {
        a->phase = ASYNC_PUSH_LEAD;
        push_to(w, WORKER_LEAD, WORKER_LEAD + 1, lead_pulls_at_once(w), clock_after(w));
    } else {
        a->phase = ASYNC_PUSH;
        a->clock = clock_after(w);
        push_to(w, 0, w->config.shard_count, a->pushing_pulls, a->clock);
    }
}

/* Every shard has it. */
static void push_done(struct worker *w)
{
    struct async_state *a = &w->async;
    const struct group *g = &a->pushing;
    a->phase = ASYNC_STILL;
    worker_buffer_drop(w, g->buffer);
    w->batches_done += g->end - g->first;
    w->position = w->batches_done;
    a->pushes_without_pull = a->pushing_pulls ? 0 : a->pushes_without_pull + 1;
    struct holding *h = worker_lease_find(w, g->epoch, g->split);
    if (h != NULL && h->state == HOLDING_COMPUTED && g->end == h->batch_end) {
        worker_lease_finished(w, h);
    }
    if (overlaps(w)) {
        w->current = worker_other_set(w);
    }
}

/* Too stale for the lead, and so for all: the same batches again, on the newest parameters. The
 * lead's came with its answer, if they were asked for. */
static void push_dropped(struct worker *w)
{
    const struct group *g = &w->async.pushing;
    worker_buffer_drop(w, g->buffer);
    w->dropped += g->end - g->first;
    w->measured = true;
    w->async.prefetch_lost = true;
    struct holding *h = worker_lease_find(w, g->epoch, g->split);
    if (h != NULL && !MUTANT(dropped_is_done)) {
        h->state = HOLDING_OPEN;
        h->next = g->first;
    } else if (h != NULL && g->end == h->batch_end) {
        worker_lease_finished(w, h);
    }
    pull_latest(w, lead_pulls_at_once(w) ? WORKER_LEAD + 1 : WORKER_LEAD, NULL);
    if (w->training_open == 0) {
        w->async.phase = ASYNC_STILL; /* the lead is the only shard */
    }
}

static void push_decided(struct worker *w)
{
    w->async.phase = ASYNC_PUSH;
    w->async.clock = clock_after(w);
    push_to(w, WORKER_LEAD + 1, w->config.shard_count, w->async.pushing_pulls, w->async.clock);
    if (w->async.pushing_pulls && !lead_pulls_at_once(w)) {
        pull_from(w, WORKER_LEAD, NULL);
    }
    if (w->training_open == 0) {
        push_done(w); /* the lead is the only shard */
    }
}

static void progress_known(struct worker *w)
{
    struct async_state *a = &w->async;
    struct holding *h = worker_lease_in_hand(w);
    if (h == NULL) {
        return;
    }
    h->progress_known = true;
    h->next = a->progress_least;
    if (h->next >= h->batch_end) { /* all of it was applied before its last holder went */
        h->next = h->batch_end;
        worker_lease_finished(w, h);
    }
}

/* The shards count this worker out of the slowest until its next request. */
static void tell_idle(struct worker *w)
{
    w->async.idle_told = true;
    w->async.clock = 0; /* it joins again */
    w->async.phase = ASYNC_IDLE;
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        struct worker_request request = training(w, s);
        request.ask.idle = true;
        worker_exchange(w, &request, false);
    }
    w->async.session++;
}

void worker_async_exchanged(struct worker *w, const struct worker_request *request,
                            const struct worker_exchanged *event)
{
    struct async_state *a = &w->async;
    bool highest = MUTANT(highest_progress) && a->progress_least != UINT32_MAX;
    const uint32_t progress = event->answer.train.progress;
    if (request->ask.pull.progress &&
        (highest ? progress > a->progress_least : progress < a->progress_least)) {
        a->progress_least = progress;
    }
    if (w->training_open > 0) {
        return;
    }
    if (request->ask.pull.joins) {
        joined(w, event->answer.train.clock);
        if (w->training_open > 0) {
            return;
        }
    }
    enum async_phase phase = a->phase;
    a->phase = ASYNC_STILL;
    if (phase == ASYNC_PUSH) {
        push_done(w);
    } else if (phase == ASYNC_PUSH_LEAD && event->answer.train.push == PUSH_DROPPED) {
        push_dropped(w);
    } else if (phase == ASYNC_PUSH_LEAD) {
        push_decided(w);
    } else if (phase == ASYNC_PULL_PROGRESS) {
        progress_known(w);
    }
}

/* ---- computing ---- */

void worker_async_computed(struct worker *w)
{
    struct async_state *a = &w->async;
    struct group *g = &a->group;
    if (g->next == g->first) {
        g->buffer = w->computing_buffer;
    } else {
        struct worker_do_add *add = &worker_add(w, WORKER_DO_ADD)->add;
        add->buffer = g->buffer;
        add->buffer_from = w->computing_buffer;
        worker_buffer_drop(w, w->computing_buffer);
    }
    g->examples += w->computing_batch.count;
    g->next++;
    a->making = g->next == g->end ? MAKING_READY : MAKING_BATCHES;
}

void worker_async_given_up(struct worker *w, enum computing was)
{
    struct async_state *a = &w->async;
    const struct group *g = &a->group;
    if (was == COMPUTING_PUSHED) {
        if (a->phase == ASYNC_PUSH && is_bounded(w)) {
            a->clock -= g->end - g->first;
        }
        a->phase = ASYNC_STILL;
    } else if (g->next > g->first) {
        worker_buffer_drop(w, g->buffer);
    }
    worker_buffer_drop(w, w->computing_buffer);
    a->making = MAKING_NOTHING;
    a->prefetch_lost = true;
    struct holding *h = worker_lease_find(w, g->epoch, g->split);
    if (h != NULL && !MUTANT(given_up_is_done)) {
        h->state = HOLDING_OPEN;
        h->next = g->first;
    }
}

/* Is the batch that was named last a push of its own, and none in its way? What overlaps with the
 * push before it has to wait for that one, and so does what may lack rows. */
static bool goes_alone(const struct worker *w)
{
    const struct group *g = &w->async.group;
    return g->end == g->first + 1 && w->training_open == 0 && !overlaps(w) && !w->config.tables;
}

static void prefetch(struct worker *w, const struct holding *h)
{
    struct async_state *a = &w->async;
    if (a->prefetch_epoch != h->epoch || a->prefetch_split != h->split ||
        a->prefetch_batch < h->next) {
        a->prefetch_epoch = h->epoch;
        a->prefetch_split = h->split;
        a->prefetch_batch = h->next;
    }
    if (a->prefetch_lost) { /* the reader has other batches ready, which nobody wants */
        a->prefetch_lost = false;
        a->prefetch_batch = h->next + 1;
        return;
    }
    while (a->prefetch_batch < h->batch_end && a->prefetch_batch < h->next + WORKER_PREFETCH_MAX) {
        struct ledger_batch batch;
        ledger_shape_batch(&w->ledger.shape, h->epoch, h->split, a->prefetch_batch, &batch);
        worker_add(w, WORKER_DO_PREFETCH)->prefetch = batch;
        a->prefetch_batch++;
    }
}

static void group_begin(struct worker *w, const struct holding *h)
{
    w->async.group = (struct group){
        .epoch = h->epoch,
        .split = h->split,
        .first = h->next,
        .end = consistency_push_end(worker_consistency(w), h->next, h->batch_end),
        .next = h->next,
        .buffer = WORKER_BUFFER_NONE,
    };
    memcpy(w->gradient_versions, w->versions[w->current],
           w->config.shard_count * sizeof w->gradient_versions[0]);
}

static void compute_next(struct worker *w, struct holding *h)
{
    struct async_state *a = &w->async;
    prefetch(w, h);
    if (a->making == MAKING_NOTHING) {
        group_begin(w, h);
    }
    a->making = MAKING_BATCHES;
    struct ledger_batch batch;
    ledger_shape_batch(&w->ledger.shape, h->epoch, h->split, h->next, &batch);
    h->next++;
    if (h->next == h->batch_end) {
        h->state = HOLDING_COMPUTED; /* the next split may begin while this batch is pushed */
    }
    w->computing_buffer = worker_buffer_take(w);
    w->computing = COMPUTING_BATCH;
    w->computing_batch = batch;
    w->landing = false;
    a->idle_told = false;
    size_t at = w->out->count;
    struct worker_do_compute *compute = &worker_add(w, WORKER_DO_COMPUTE)->compute;
    compute->batch = batch;
    /* The identity of the batch for dropout: its number in the whole training. */
    compute->step = batch.epoch * ledger_shape_batches(&w->ledger.shape) +
                    (uint64_t)batch.split * w->ledger.shape.split_batches + batch.batch;
    compute->buffer = w->computing_buffer;
    compute->set = w->current;
    compute->generation = w->a.generation;
    worker_rows_needed(w, compute, ROWS_OF_LATEST, 0);
    if (goes_alone(w)) {
        worker_push_along(w);
        worker_async_computed(w);
        push_group(w);
        worker_pushed_along(w, at);
    }
}

/* Nothing may be begun: say so to whoever waits for this worker. */
static void rest(struct worker *w)
{
    w->idle_due = quiet(w) && (w->a.hold || w->async.lease_done);
    if (w->a.hold && w->idle_due) {
        worker_lease_give_back(w);
    }
    if (!w->a.hold && worker_lease_in_hand(w) != NULL) {
        return; /* goes on when the master has heard its reports: no less at work than before */
    }
    /* On hold too: others may wait at the shards for this worker, and cannot hold before. */
    if (is_bounded(w) && !w->async.idle_told && w->training_open == 0 &&
        w->async.making == MAKING_NOTHING && w->computing == COMPUTING_NOTHING) {
        tell_idle(w);
    }
}

void worker_async_pump(struct worker *w)
{
    struct async_state *a = &w->async;
    worker_lease_split_report_pump(w);
    if (a->making == MAKING_READY && w->training_open == 0) {
        push_group(w);
    }
    worker_lease_pump(w);
    struct holding *h = worker_lease_in_hand(w);
    /* A push that is begun is made whole, on hold too. */
    bool going_on = a->making == MAKING_BATCHES;
    if (!going_on && (w->a.hold || h == NULL || worker_lease_finished_count(w) >= 2)) {
        rest(w);
        return;
    }
    w->idle_due = false;
    if (w->computing != COMPUTING_NOTHING || w->rows_retry_ms > w->now_ms) {
        return;
    }
    if (going_on) {
        compute_next(w, worker_lease_find(w, a->group.epoch, a->group.split));
        return;
    }
    bool joins = is_bounded(w) && a->clock == 0;
    if (!h->progress_known || !worker_set_known(w, w->current) || joins) {
        if (w->training_open == 0 && a->making == MAKING_NOTHING) {
            pull_latest(w, 0, h->progress_known ? NULL : h);
        }
        return;
    }
    if (a->making == MAKING_READY || (w->training_open > 0 && !overlaps(w))) {
        return;
    }
    compute_next(w, h);
}
