/* SPDX-License-Identifier: Apache-2.0 */
/* The entrance of the worker's core: takes one event, then lets each part do what is possible now.
 */
#include "worker/core/worker.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "worker/core/worker_state.h"

struct worker *worker_new(const struct worker_config *config)
{
    struct worker *w = mem_new(1, sizeof *w);
    w->config = *config;
    worker_take_eras(w, config->eras, config->era_count);
    for (int i = 0; i < WORKER_SET_COUNT; i++) {
        w->versions[i] = mem_new(config->shard_count, sizeof(uint64_t));
        worker_set_forget(w, (enum worker_set)i);
    }
    w->placed = mem_new(config->shard_count, sizeof *w->placed);
    w->gradient_versions = mem_new(config->shard_count, sizeof(uint64_t));
    w->pushes = mem_new(config->shard_count, sizeof *w->pushes);
    w->sums_wanted = mem_new(config->shard_count, sizeof(bool));
    w->heard = mem_new(config->shard_count, sizeof(uint64_t));
    w->rows_came = mem_new(config->shard_count, sizeof(bool));
    return w;
}

void worker_free(struct worker *w)
{
    if (w == NULL) {
        return;
    }
    free(w->eras);
    for (int i = 0; i < WORKER_SET_COUNT; i++) {
        free(w->versions[i]);
    }
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        free(w->placed[s].address);
    }
    free(w->placed);
    free(w->gradient_versions);
    free(w->pushes);
    free(w->sums_wanted);
    free(w->heard);
    free(w->rows_came);
    free(w->exchanges);
    ledger_release(&w->ledger);
    ledger_release(&w->next_ledger);
    free(w);
}

/* The earlier of @at and @candidate; 0 is none, and what is due already was done by pump(). */
static uint64_t earlier(const struct worker *w, uint64_t at, uint64_t candidate)
{
    if (candidate <= w->now_ms) {
        return at;
    }
    return at == 0 || candidate < at ? candidate : at;
}

static void set_timer(struct worker *w)
{
    uint64_t at = 0;
    for (size_t i = 0; w->waiting_count > 0 && i < w->exchange_count; i++) {
        if (w->exchanges[i].waiting) {
            at = earlier(w, at, w->exchanges[i].retry_ms);
        }
    }
    at = earlier(w, at, w->rows_retry_ms);
    at = earlier(w, at, w->async.lease_retry_ms);
    at = earlier(w, at, w->async.split_retry_ms);
    at = earlier(w, at, w->sync.spare_ask_ms);
    at = earlier(w, at, w->sync.level_ms);
    at = earlier(w, at, w->report_open ? w->report_retry_ms : 0);
    if (w->measured && !w->report_open) {
        at = earlier(w, at, w->report_last_ms + WORKER_REPORT_MS);
    }
    if (at != 0) {
        worker_add(w, WORKER_DO_TIMER)->timer_ms = at;
    }
}

static void pump(struct worker *w)
{
    worker_retry_exchanges(w);
    worker_evaluation_pump(w);
    if (w->next_pending && worker_quiet(w)) {
        worker_begin_next(w);
    }
    if (w->stopped) {
        return;
    }
    if (w->assigned && !w->fenced && !w->next_pending) {
        if (w->a.consistency.mode == TRAINING_SYNC) {
            worker_sync_pump(w);
        } else {
            worker_async_pump(w);
        }
    }
    worker_report_pump(w);
}

/* A computation was given up, and nothing of it was pushed. Parameters that came in part are no
 * good: all are pulled anew, and not early, so the same batch is computed the next time. Rows are
 * asked for again after a while; when they are of a version that is gone, every shard is past it,
 * and newer parameters are pulled. */
static void given_up(struct worker *w, enum computing was, const struct worker_computed *event)
{
    const bool outrun = event->code == ERR_RANGE && consistency_is_nonblocking(&w->a.consistency) &&
                        !MUTANT(rows_outrun_unseen);
    if (event->rows_lost && !outrun && !MUTANT(rows_forget_parameters)) {
        w->landing = true; /* whether all values have landed is as unknown as before */
        w->rows_attempts++;
        w->rows_retry_ms = w->now_ms + worker_backoff(w->rows_attempts);
    } else if (!MUTANT(lost_values_known)) {
        worker_set_forget(w, w->current);
    }
    if (was == COMPUTING_PUSHED) {
        worker_drop_pushes(w, w->computing_buffer);
    }
    if (w->next_pending || w->fenced) {
        return;
    }
    if (w->a.consistency.mode == TRAINING_SYNC) {
        worker_sync_given_up(w, was);
    } else {
        worker_async_given_up(w, was);
    }
}

static void on_computed(struct worker *w, const struct worker_computed *event)
{
    enum computing was = w->computing;
    w->computing = COMPUTING_NOTHING;
    if (was != COMPUTING_EVALUATION && event->code != 0) {
        given_up(w, was, event);
        return;
    }
    w->rows_attempts = was != COMPUTING_EVALUATION ? 0 : w->rows_attempts;
    if (was == COMPUTING_BATCH || was == COMPUTING_PUSHED) {
        worker_report_measured(w, w->computing_batch.epoch);
    }
    if (was != COMPUTING_EVALUATION && w->a.consistency.mode == TRAINING_SYNC) {
        worker_sync_made(w);
    }
    if (was != COMPUTING_BATCH && was != COMPUTING_SPARE) {
        return;
    }
    if (w->next_pending || w->fenced) {
        worker_buffer_drop(w, w->computing_buffer); /* of a generation that is over */
    } else if (w->a.consistency.mode == TRAINING_SYNC) {
        worker_sync_computed(w, was);
    } else {
        worker_async_computed(w);
    }
}

static void take_event(struct worker *w, const struct worker_event *event)
{
    switch (event->kind) {
    case WORKER_ASSIGN:
        worker_on_assign(w, &event->assign);
        break;
    case WORKER_EVALUATE:
        worker_on_evaluate(w, &event->evaluate);
        break;
    case WORKER_COMPUTED:
        on_computed(w, &event->computed);
        break;
    case WORKER_EXCHANGED:
        worker_on_exchanged(w, &event->exchanged);
        break;
    case WORKER_LEASED:
        worker_lease_leased(w, &event->leased);
        break;
    case WORKER_SPLIT_REPORTED:
        worker_lease_split_reported(w, &event->reported);
        break;
    case WORKER_PROGRESS_REPORTED:
        worker_on_progress_reported(w, &event->reported);
        break;
    case WORKER_TIMER:
        break; /* pump() looks for what is due */
    case WORKER_FAIL:
        worker_fail_job(w, event->failed.code, event->failed.message);
        break;
    case WORKER_FAILURE_REPORTED: /* only a stopped worker reports a failure */
        break;
    case WORKER_STOP:
        worker_stop(w);
        break;
    }
}

void worker_step(struct worker *w, const struct worker_event *event, struct worker_actions *out)
{
    w->out = out;
    if (event->now_ms > w->now_ms) {
        w->now_ms = event->now_ms;
    }
    if (w->stopped) {
        worker_step_stopped(w, event);
    } else {
        take_event(w, event);
    }
    if (!w->stopped) {
        pump(w);
    }
    if (!w->stopped) {
        set_timer(w);
    }
    w->out = NULL;
}
