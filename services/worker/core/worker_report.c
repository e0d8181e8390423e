/* SPDX-License-Identifier: Apache-2.0 */
/* Reports of progress: one at a time, with a number, sent until the master has heard it. */

#include "worker/core/worker_state.h"

/* The same measurements once more; where the worker is may have changed since then, and with a new
 * generation even what a position means. */
static void report_again(struct worker *w)
{
    bool idle_still = w->idle_due && !w->measured;
    if (w->report.idle && !idle_still) {
        w->report.idle = false;
        w->idle_reported = false;
    }
    w->report.generation = w->a.generation;
    w->report.position = w->position;
    w->report.again = true;
    w->report_retry_ms = 0;
    worker_add(w, WORKER_DO_REPORT_PROGRESS)->report_progress = w->report;
}

/* The metrics of few epochs have room, here and at the master, and small data have many of them
 * within WORKER_REPORT_MS. */
void worker_report_measured(struct worker *w, uint64_t epoch)
{
    w->measured_epoch = w->epoch_measured ? w->measured_epoch : epoch;
    w->epoch_measured = true;
    w->measured = true;
    w->report_now = w->report_now || epoch >= w->measured_epoch + WORKER_REPORT_EPOCHS;
}

void worker_report_pump(struct worker *w)
{
    if (!w->assigned) {
        return;
    }
    if (w->report_open) {
        if (w->report_retry_ms != 0 && w->report_retry_ms <= w->now_ms) {
            report_again(w);
        }
        return;
    }
    bool idle = w->idle_due && !w->idle_reported;
    bool due = w->measured && w->now_ms >= w->report_last_ms + WORKER_REPORT_MS;
    if (!idle && !due && !w->report_now) {
        return;
    }
    struct worker_do_report_progress *report =
        &worker_add(w, WORKER_DO_REPORT_PROGRESS)->report_progress;
    report->sequence = ++w->report_sequence;
    report->generation = w->a.generation;
    report->position = w->position;
    report->idle = w->idle_due;
    report->dropped = w->dropped;
    report->speculated = w->speculated;
    w->report = *report;
    w->report_open = true;
    w->report_retry_ms = 0;
    w->report_attempts = 0;
    w->report_last_ms = w->now_ms;
    w->idle_reported = w->idle_due;
    w->measured = false;
    w->epoch_measured = false;
    w->dropped = 0;
    w->speculated = 0;
    w->report_now = false;
}

/* The master refused the report, because it is in another generation: the counts go with the next
 * report. Of a report that was sent more than once nobody knows whether it was taken. */
static void count_again(struct worker *w)
{
    w->dropped += w->report.dropped;
    w->speculated += w->report.speculated;
    w->measured = true;
}

void worker_on_progress_reported(struct worker *w, const struct worker_reported *event)
{
    if (!w->report_open) {
        return;
    }
    if (event->code == 0 || event->code == ERR_NOT_FOUND || event->code == ERR_ABORTED) {
        w->report_open = false;
        w->report_acked = w->report.sequence;
        if (event->code == ERR_ABORTED && !w->report.again) {
            count_again(w);
        }
        if (event->code == ERR_ABORTED && w->report.idle &&
            w->report.generation == w->a.generation) {
            w->fenced = true; /* the master is in a newer generation; its next assignment comes */
        }
        return;
    }
    w->report_attempts++;
    w->report_retry_ms = w->now_ms + worker_backoff(w->report_attempts);
}
