/* Async and bounded: leased splits, batch by batch (docs/protocol.md, Async and bounded). */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "worker/worker_state.h"

void worker_async_begin(struct worker *w)
{
    /* What it has of each split, the shards know best. */
    w->lease = w->held_count > 0 ? w->held[0] : (struct lease){0};
    w->lease_ahead = w->held_count > 1 ? w->held[1] : (struct lease){0};
    w->lease_open = false;
    w->lease_done = false;
    w->lease_retry_ms = 0;
    w->gradient_ready = false;
    w->pushing_valid = false;
    w->pulling_progress = false;
    w->prefetch_batch = 0;
    w->idle_told = false;
    w->split_report_open = false; /* finished splits are reported again */
    w->split_retry_ms = 0;
    w->position = w->batches_done;
    w->step_begun = false;
    w->params_valid = false; /* another generation: what the shards hold now is newer */
}

bool worker_async_quiet(const struct worker *w)
{
    return w->training_open == 0 && w->computing != COMPUTING_BATCH && !w->gradient_ready &&
           w->finished_count == 0 && !w->split_report_open;
}

/* ---- leases ---- */

static void held_drop(struct worker *w, uint64_t epoch, uint32_t split)
{
    for (size_t i = w->held_count; i-- > 0;) {
        if (w->held[i].epoch == epoch && w->held[i].split == split) {
            w->held_count--;
            memmove(w->held + i, w->held + i + 1, (w->held_count - i) * sizeof w->held[0]);
        }
    }
}

/* As a new generation will take it up: from what the shards say. */
static void held_add(struct worker *w, const struct lease *lease)
{
    held_drop(w, lease->epoch, lease->split);
    if (w->held_count == WORKER_LEASES_MAX) {
        held_drop(w, w->held[0].epoch, w->held[0].split);
    }
    w->held[w->held_count] = *lease;
    w->held[w->held_count].progress_known = false;
    w->held_count++;
}

static void lease_ask(struct worker *w)
{
    w->lease_open = true;
    w->lease_retry_ms = 0;
    worker_add(w, WORKER_DO_LEASE)->generation = w->a.generation;
}

static bool generation_now(const struct worker *w)
{
    return w->assigned && !w->fenced && !w->next_pending && w->a.mode != TRAINING_SYNC;
}

/* Whoever sent it: a split that the data does not have would be computed as no records. */
static bool lease_is_possible(const struct worker *w, const struct worker_event *e)
{
    return e->batch_end > 0 &&
           e->batch_end <= ledger_shape_split_batches(&w->ledger.shape, e->split);
}

static void take_lease(struct worker *w, const struct worker_event *e)
{
    if (!lease_is_possible(w, e)) {
        char message[160];
        (void)snprintf(message, sizeof message,
                       "the master leased split %" PRIu32 " up to batch %" PRIu32
                       ", which the data does not have",
                       e->split, e->batch_end);
        worker_fail_job(w, ERR_INTERNAL, message);
        return;
    }
    w->lease_ahead = (struct lease){
        .valid = true,
        .progress_known = e->fresh,
        .epoch = e->epoch,
        .split = e->split,
        .batch_end = e->batch_end,
    };
    held_add(w, &w->lease_ahead);
}

/* Asked for in a generation that is over: the master counts on it all the same. */
static void take_late_lease(struct worker *w, const struct worker_event *e)
{
    if (e->code == 0 && e->lease == WORKER_LEASE_GRANTED && w->assigned && !w->a.hold &&
        w->a.mode != TRAINING_SYNC && !w->lease_ahead.valid) {
        take_lease(w, e);
        w->lease_ahead.progress_known = false;
    }
}

void worker_async_leased(struct worker *w, const struct worker_event *e)
{
    if (e->generation != w->a.generation) {
        take_late_lease(w, e);
        return;
    }
    if (!w->lease_open) {
        return;
    }
    w->lease_open = false;
    if (!generation_now(w)) {
        take_late_lease(w, e);
        return;
    }
    if (e->code != 0) {
        if (e->code == ERR_ABORTED) {
            w->fenced = true;
            return;
        }
        w->lease_attempts++;
        w->lease_retry_ms = w->now_ms + worker_backoff(w->lease_attempts);
        return;
    }
    w->lease_attempts = 0;
    if (e->lease == WORKER_LEASE_DONE) {
        w->lease_done = true;
    } else if (e->lease == WORKER_LEASE_GRANTED) {
        take_lease(w, e);
    }
}

static void lease_pump(struct worker *w)
{
    if (!w->lease.valid && w->lease_ahead.valid && !w->pulling_progress) {
        w->lease = w->lease_ahead;
        w->lease_ahead.valid = false;
        w->prefetch_batch = 0;
    }
    bool last_in_hand = !w->lease.valid || w->lease.next + 1 >= w->lease.batch_end;
    if (last_in_hand && !w->lease_ahead.valid && !w->lease_open && !w->lease_done && !w->a.hold &&
        (w->lease_retry_ms == 0 || w->lease_retry_ms <= w->now_ms)) {
        lease_ask(w);
    }
}

/* ---- reports of finished splits ----
 *
 * What was measured on a split is reported before the split itself, so that the master knows all of
 * an epoch when its last split is done. */

static void split_finished(struct worker *w, uint64_t epoch, uint32_t split)
{
    w->finished[w->finished_count].epoch = epoch;
    w->finished[w->finished_count].split = split;
    w->finished[w->finished_count].sequence = w->report_sequence + 1;
    w->report_now = true;
    w->finished_count++;
    held_drop(w, epoch, split);
}

/* On hold the master takes the leases back when this worker reports that it is idle. */
static void give_back(struct worker *w)
{
    w->lease.valid = false;
    w->lease_ahead.valid = false;
    w->held_count = 0;
}

static void split_report_pump(struct worker *w)
{
    if (w->finished_count == 0 || w->split_report_open ||
        w->report_acked < w->finished[0].sequence ||
        (w->split_retry_ms != 0 && w->split_retry_ms > w->now_ms)) {
        return;
    }
    struct worker_action *action = worker_add(w, WORKER_DO_REPORT_SPLIT);
    action->generation = w->a.generation;
    action->batch.epoch = w->finished[0].epoch;
    action->batch.split = w->finished[0].split;
    w->split_report_open = true;
    w->split_retry_ms = 0;
}

void worker_async_split_reported(struct worker *w, const struct worker_event *e)
{
    if (!w->split_report_open || e->generation != w->a.generation) {
        return; /* of an older generation: the report is made again */
    }
    w->split_report_open = false;
    if (e->code == ERR_ABORTED || e->code == ERR_NOT_FOUND) {
        w->fenced = true;
        return;
    }
    if (e->code != 0) {
        w->split_attempts++;
        w->split_retry_ms = w->now_ms + worker_backoff(w->split_attempts);
        return;
    }
    w->split_attempts = 0;
    w->finished_count--;
    memmove(w->finished, w->finished + 1, w->finished_count * sizeof w->finished[0]);
}

/* ---- exchanges ---- */

static enum worker_set other(enum worker_set set)
{
    return set == WORKER_SET_A ? WORKER_SET_B : WORKER_SET_A;
}

static void pull_latest(struct worker *w, bool progress)
{
    w->pulling_progress = progress;
    w->idle_told = false; /* a pull makes this worker count again */
    w->progress_least = UINT32_MAX;
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        struct worker_action request = worker_request(w, s);
        request.pull = WORKER_PULL_LATEST;
        request.progress = progress;
        request.batch.epoch = w->lease.epoch;
        request.batch.split = w->lease.split;
        worker_exchange(w, &request, false);
    }
}

static void push_gradient(struct worker *w)
{
    w->gradient_ready = false;
    w->pushing = w->gradient_batch;
    w->pushing_valid = true;
    w->pushing_last = w->gradient_last;
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        struct worker_action request = worker_request(w, s);
        request.push = true;
        request.batch = w->gradient_batch;
        request.examples = w->gradient_batch.count;
        request.base_version = w->gradient_versions[s];
        request.slot = w->gradient_slot;
        request.pull = WORKER_PULL_LATEST;
        request.set = w->config.overlap ? other(w->current) : w->current;
        worker_exchange(w, &request, false);
    }
    worker_slot_drop(w, w->gradient_slot);
}

/* The shards count this worker out of the slowest until its next request. */
static void tell_idle(struct worker *w)
{
    w->idle_told = true;
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        struct worker_action request = worker_request(w, s);
        request.idle = true;
        worker_exchange(w, &request, false);
    }
}

void worker_async_exchanged(struct worker *w, uint32_t progress)
{
    if (w->pulling_progress && progress < w->progress_least) {
        w->progress_least = progress;
    }
    if (w->training_open > 0) {
        return;
    }
    if (w->pushing_valid) {
        w->pushing_valid = false;
        w->batches_done++;
        w->position = w->batches_done;
        if (w->pushing_last) {
            split_finished(w, w->pushing.epoch, w->pushing.split);
        }
        if (w->config.overlap) {
            w->current = other(w->current);
        }
        w->params_valid = true;
    } else if (w->pulling_progress) {
        w->pulling_progress = false;
        w->params_valid = true;
        w->lease.progress_known = true;
        w->lease.next = w->progress_least;
        if (w->lease.next >= w->lease.batch_end) {
            w->lease.valid = false; /* all of it was applied before its last holder went */
            split_finished(w, w->lease.epoch, w->lease.split);
        }
    } else if (!w->idle_told) {
        w->params_valid = true;
    }
}

/* ---- computing ---- */

void worker_async_computed(struct worker *w)
{
    if (w->next_pending || w->fenced) {
        worker_slot_drop(w, w->gradient_slot);
        return;
    }
    w->gradient_ready = true;
}

static void prefetch(struct worker *w)
{
    if (w->prefetch_batch < w->lease.next) {
        w->prefetch_batch = w->lease.next;
    }
    while (w->prefetch_batch < w->lease.batch_end &&
           w->prefetch_batch < w->lease.next + WORKER_PREFETCH_MAX) {
        struct ledger_batch batch;
        ledger_shape_batch(&w->ledger.shape, w->lease.epoch, w->lease.split, w->prefetch_batch,
                           &batch);
        worker_add(w, WORKER_DO_PREFETCH)->batch = batch;
        w->prefetch_batch++;
    }
}

static void compute_next(struct worker *w)
{
    prefetch(w);
    struct ledger_batch *batch = &w->gradient_batch;
    ledger_shape_batch(&w->ledger.shape, w->lease.epoch, w->lease.split, w->lease.next, batch);
    w->lease.next++;
    w->gradient_last = w->lease.next == w->lease.batch_end;
    w->lease.valid = !w->gradient_last; /* the next split may begin while this batch is pushed */
    w->gradient_slot = worker_slot_take(w);
    memcpy(w->gradient_versions, w->versions[w->current],
           w->config.shard_count * sizeof w->gradient_versions[0]);
    w->computing = COMPUTING_BATCH;
    w->computing_batch = *batch;
    w->idle_told = false;
    struct worker_action *action = worker_add(w, WORKER_DO_COMPUTE);
    action->batch = *batch;
    /* The identity of the batch for dropout: its number in the whole training. */
    action->step = batch->epoch * ledger_shape_batches(&w->ledger.shape) +
                   (uint64_t)batch->split * w->ledger.shape.split_batches + batch->batch;
    action->slot = w->gradient_slot;
    action->set = w->current;
    action->generation = w->a.generation;
}

void worker_async_pump(struct worker *w)
{
    split_report_pump(w);
    if (w->gradient_ready && w->training_open == 0) {
        push_gradient(w);
    }
    lease_pump(w);
    bool working = w->lease.valid && w->lease.next < w->lease.batch_end;
    if (w->a.hold || !working) {
        w->idle_due = worker_async_quiet(w) && (w->a.hold || w->lease_done);
        if (w->a.hold && w->idle_due) {
            give_back(w);
        }
        /* On hold too: others may wait at the shards for this worker, and cannot hold before. */
        bool waiting = w->a.hold || (!w->lease.valid && !w->lease_ahead.valid && w->lease_open);
        if (w->a.mode == TRAINING_BOUNDED && waiting && !w->idle_told && w->training_open == 0 &&
            !w->gradient_ready && w->computing == COMPUTING_NOTHING) {
            tell_idle(w);
        }
        return;
    }
    w->idle_due = false;
    if (w->computing != COMPUTING_NOTHING || w->finished_count >= 2) {
        return;
    }
    if (!w->lease.progress_known || !w->params_valid) {
        if (w->training_open == 0 && !w->gradient_ready) {
            pull_latest(w, !w->lease.progress_known);
        }
        return;
    }
    if (w->gradient_ready || (w->training_open > 0 && !w->config.overlap)) {
        return;
    }
    compute_next(w);
}
