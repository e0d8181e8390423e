/* SPDX-License-Identifier: Apache-2.0 */
/* Async and bounded: which splits this worker holds, and the reports of those that are done.
 *
 * The master's word at the beginning of a generation is all that a worker holds. Within it a worker
 * names what it has with each request, so that a grant whose answer was lost is made again. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "worker/core/worker_state.h"

struct holding *worker_lease_find(struct worker *w, uint64_t epoch, uint32_t split)
{
    for (size_t i = 0; i < w->async.held_count; i++) {
        struct holding *h = &w->async.held[i];
        if (h->epoch == epoch && h->split == split) {
            return h;
        }
    }
    return NULL;
}

struct holding *worker_lease_in_hand(struct worker *w)
{
    for (size_t i = 0; i < w->async.held_count; i++) {
        if (w->async.held[i].state == HOLDING_OPEN) {
            return &w->async.held[i];
        }
    }
    return NULL;
}

size_t worker_lease_finished_count(const struct worker *w)
{
    size_t count = 0;
    for (size_t i = 0; i < w->async.held_count; i++) {
        count += w->async.held[i].state == HOLDING_FINISHED ? 1 : 0;
    }
    return count;
}

static void drop(struct worker *w, struct holding *h)
{
    size_t i = (size_t)(h - w->async.held);
    w->async.held_count--;
    memmove(h, h + 1, (w->async.held_count - i) * sizeof *h);
}

void worker_lease_give_back(struct worker *w)
{
    w->async.held_count = 0;
}

/* ---- grants ---- */

/* Whoever sent it: a split that the data does not have would be computed as no records. */
static bool is_possible(const struct worker *w, const struct worker_lease *l)
{
    return l->batch_end > 0 &&
           l->batch_end <= ledger_shape_split_batches(&w->ledger.shape, l->split);
}

static void take(struct worker *w, const struct worker_lease *l)
{
    struct async_state *a = &w->async;
    if (!is_possible(w, l) || a->held_count == WORKER_HELD_MAX) {
        char message[160];
        (void)snprintf(message, sizeof message,
                       "the master leased split %" PRIu32 " up to batch %" PRIu32 ", which %s",
                       l->split, l->batch_end,
                       is_possible(w, l) ? "is more than it may lease at a time"
                                         : "the data does not have");
        worker_fail_job(w, ERR_INTERNAL, message);
        return;
    }
    a->held[a->held_count++] = (struct holding){
        .epoch = l->epoch,
        .split = l->split,
        .batch_end = l->batch_end,
        .progress_known = l->fresh,
    };
}

void worker_lease_begin(struct worker *w)
{
    for (size_t i = 0; i < w->a.lease_count && i < WORKER_LEASES_MAX && !w->stopped; i++) {
        const struct worker_lease *l = &w->a.leases[i];
        if (worker_lease_find(w, l->epoch, l->split) == NULL) {
            take(w, l);
        }
    }
}

/* ---- requests ---- */

static void ask(struct worker *w)
{
    struct async_state *a = &w->async;
    a->lease_open = true;
    a->lease_retry_ms = 0;
    struct worker_do_lease *ask = &worker_add(w, WORKER_DO_LEASE)->lease;
    ask->generation = w->a.generation;
    for (size_t i = 0; i < a->held_count; i++) {
        ask->held[i] = (struct worker_lease){
            .epoch = a->held[i].epoch,
            .split = a->held[i].split,
            .batch_end = a->held[i].batch_end,
        };
    }
    ask->held_count = a->held_count;
}

void worker_lease_pump(struct worker *w)
{
    const struct async_state *a = &w->async;
    size_t open = 0;
    bool last_in_hand = true;
    for (size_t i = 0; i < a->held_count; i++) {
        if (a->held[i].state == HOLDING_OPEN) {
            open++;
            last_in_hand = a->held[i].next + 1 >= a->held[i].batch_end;
        }
    }
    if (open < WORKER_LEASES_MAX && last_in_hand && a->held_count < WORKER_HELD_MAX &&
        !a->lease_open && !a->lease_done && !w->a.hold && a->lease_retry_ms <= w->now_ms) {
        ask(w);
    }
}

static void retry_later(struct worker *w)
{
    w->async.lease_attempts++;
    w->async.lease_retry_ms = w->now_ms + worker_backoff(w->async.lease_attempts);
}

void worker_lease_leased(struct worker *w, const struct worker_leased *e)
{
    struct async_state *a = &w->async;
    if (!a->lease_open || e->generation != w->a.generation) {
        return; /* what counts in this generation came with its assignment */
    }
    a->lease_open = false;
    if (w->fenced || w->next_pending) {
        return;
    }
    if (e->code == ERR_ABORTED) {
        w->fenced = true;
    } else if (e->code != 0) {
        retry_later(w);
    } else if (e->kind == WORKER_LEASE_DONE) {
        a->lease_done = true;
    } else if (e->kind == WORKER_LEASE_WAIT) {
        a->lease_attempts = 0;
    } else if (w->a.hold) {
        return; /* no batch of it was begun; the master has it back with the rest */
    } else if (worker_lease_find(w, e->granted.epoch, e->granted.split) != NULL) {
        retry_later(w); /* the worker has this split, and said so: it does not ask over and over */
    } else {
        a->lease_attempts = 0;
        take(w, &e->granted);
    }
}

/* ---- reports of finished splits ----
 *
 * What was measured on a split is reported before the split itself, so that the master knows all of
 * an epoch when its last split is done. */

void worker_lease_finished(struct worker *w, struct holding *h)
{
    h->state = HOLDING_FINISHED;
    h->sequence = w->report_sequence + 1;
    w->report_now = true;
}

void worker_lease_split_report_pump(struct worker *w)
{
    struct async_state *a = &w->async;
    if (a->split_report_open || a->split_retry_ms > w->now_ms) {
        return;
    }
    for (size_t i = 0; i < a->held_count; i++) {
        const struct holding *h = &a->held[i];
        if (h->state != HOLDING_FINISHED || w->report_acked < h->sequence) {
            continue;
        }
        struct worker_do_report_split *report =
            &worker_add(w, WORKER_DO_REPORT_SPLIT)->report_split;
        report->generation = w->a.generation;
        report->epoch = h->epoch;
        report->split = h->split;
        report->batch_end = h->batch_end;
        a->split_report_open = true;
        a->split_retry_ms = 0;
        a->reporting_epoch = h->epoch;
        a->reporting_split = h->split;
        return;
    }
}

void worker_lease_split_reported(struct worker *w, const struct worker_reported *e)
{
    struct async_state *a = &w->async;
    if (!a->split_report_open || e->generation != w->a.generation) {
        return; /* of a generation that is over: the master knows from the shards */
    }
    a->split_report_open = false;
    if (e->code == ERR_ABORTED || e->code == ERR_NOT_FOUND) {
        w->fenced = true;
        return;
    }
    if (e->code != 0) {
        a->split_attempts++;
        a->split_retry_ms = w->now_ms + worker_backoff(a->split_attempts);
        return;
    }
    a->split_attempts = 0;
    struct holding *h = worker_lease_find(w, a->reporting_epoch, a->reporting_split);
    if (h != NULL) {
        drop(w, h);
    }
}
