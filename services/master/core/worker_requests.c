/* SPDX-License-Identifier: Apache-2.0 */
/* What workers ask and report: leases, splits that are done, progress, failures. */
#include <inttypes.h>

#include "base/mutant.h"
#include "master/core/core.h"

#define LEASE_WAIT_MS_MAX 9500 /* below the 10 s after which a worker gives the call up */

/* The sender's place in the job, or NULL after an error reply. */
static struct job_worker *sender(struct master *m, const struct master_event *e, struct job **job)
{
    const struct master_worker_event *ask = &e->worker;
    struct node *n = node_find(m, ask->node, ask->incarnation);
    if (n == NULL) {
        reply_error(m, e->request, ERR_NOT_FOUND, "this master does not know the node; join again");
        return NULL;
    }
    node_heard(m, n); /* as good as a heartbeat */
    struct job *j = job_find(m, ask->job);
    struct job_worker *w = j == NULL ? NULL : job_worker_of(j, n);
    if (w == NULL) {
        reply_error(m, e->request, ERR_NOT_FOUND, "node %s does not serve job %.128s", n->id,
                    ask->job);
        return NULL;
    }
    *job = j;
    return w;
}

/* True if the request is of the present generation; otherwise it is answered. */
static bool is_present(struct master *m, const struct job *j, const struct master_event *e)
{
    if (e->worker.generation == j->record.generation) {
        return true;
    }
    reply_error(m, e->request, ERR_ABORTED,
                "job %s is in generation %" PRIu64 "; the request is of %" PRIu64, j->record.id,
                j->record.generation, e->worker.generation);
    return false;
}

void on_report_failure(struct master *m, const struct master_event *e)
{
    struct job *j = NULL;
    struct job_worker *w = sender(m, e, &j);
    if (w == NULL || (!MUTANT(failure_of_any_generation) && !is_present(m, j, e))) {
        return;
    }
    reply_add(m, e->request);
    const char *why = action_printf(m, "%s: %s", w->node->id, e->worker.message);
    if (e->worker.code == ERR_EXHAUSTED) { /* of this process: others may have the memory */
        job_leave_out(m, j, w->node, false, why);
    } else if (job_is_cancelled(j)) {
        job_must_end(j, JOB_CANCELLED, "cancelled; then %s; %s", why, job_checkpoint_words(m, j));
    } else {
        job_must_end(j, JOB_FAILED, "%s", why);
    }
}

/* ---- splits ---- */

/* A lease that the worker has by our books and does not name: the answer to it was lost. */
static const struct lease *forgotten(const struct job_worker *w,
                                     const struct master_worker_event *ask)
{
    for (size_t i = 0; i < w->lease_count; i++) {
        bool named = false;
        for (size_t k = 0; k < ask->held_count; k++) {
            named = named || (ask->held[k].split == w->leases[i].split &&
                              ask->held[k].epoch == w->leases[i].epoch);
        }
        if (!named) {
            return &w->leases[i];
        }
    }
    return NULL;
}

/* The sender of a request about splits, of the present generation; NULL after an error reply. */
static struct job_worker *split_sender(struct master *m, const struct master_event *e,
                                       struct job **job)
{
    struct job_worker *w = sender(m, e, job);
    if (w == NULL || !is_present(m, *job, e)) {
        return NULL;
    }
    if (!train_leases(*job)) {
        reply_error(m, e->request, ERR_STATE, "job %s leases no splits", (*job)->record.id);
        return NULL;
    }
    return w;
}

void on_lease_split(struct master *m, const struct master_event *e)
{
    struct job *j = NULL;
    struct job_worker *w = split_sender(m, e, &j);
    if (w == NULL) {
        return;
    }
    train_park_clear(m, j, w, ERR_OK, NULL); /* an earlier call whose caller is gone */
    if (j->over) {
        reply_add(m, e->request)->lease_kind = MASTER_LEASE_DONE;
        return;
    }
    w->parked = true;
    j->parked_count++;
    w->parked_request = e->request;
    uint64_t wait = e->worker.wait_ms < LEASE_WAIT_MS_MAX ? e->worker.wait_ms : LEASE_WAIT_MS_MAX;
    w->parked_until_ms = m->now_ms + wait;
    /* On hold no worker begins a split; this request may be from before. */
    const struct lease *lost =
        j->phase == PHASE_HOLD && !MUTANT(grant_on_hold) ? NULL : forgotten(w, &e->worker);
    if (lost != NULL) {
        struct lease again = *lost;
        again.fresh = false; /* the worker may have begun it, if an answer came twice */
        train_grant_one(m, j, w, &again);
        return;
    }
    job_touch(j);
}

void on_report_split(struct master *m, const struct master_event *e)
{
    struct job *j = NULL;
    if (split_sender(m, e, &j) == NULL) {
        return;
    }
    uint64_t epoch = j->leases.ledger.epoch;
    if (e->worker.epoch > epoch ||
        (e->worker.epoch == epoch &&
         !leases_report(&j->leases, e->worker.split, e->worker.batch_end))) {
        reply_error(m, e->request, ERR_INVALID,
                    "job %s: split %u of epoch %" PRIu64 " was never leased", j->record.id,
                    e->worker.split, e->worker.epoch);
        return;
    }
    reply_add(m, e->request);
    if (e->worker.epoch < epoch) {
        return; /* reported before; the epoch ended with it */
    }
    train_drop_finished(j); /* whoever had it */
    progress_step(m, j, train_step(j));
    job_touch(j);
}

/* ---- progress ---- */

static void add_staleness(struct job_record *r, const struct master_worker_event *report)
{
    for (size_t i = 0; i < report->staleness_count; i++) {
        r->staleness[i < JOB_STALENESS_BUCKETS ? i : JOB_STALENESS_BUCKETS - 1] +=
            report->staleness[i];
    }
}

void on_report_progress(struct master *m, const struct master_event *e)
{
    const struct master_worker_event *report = &e->worker;
    struct job *j = NULL;
    struct job_worker *w = sender(m, e, &j);
    if (w == NULL || !is_present(m, j, e)) {
        return;
    }
    if (!w->started || !j->has_plan) {
        reply_error(m, e->request, ERR_STATE, "job %s has not begun on this worker", j->record.id);
        return;
    }
    if (report->sequence <= w->sequence) {
        reply_add(m, e->request); /* its first answer was lost */
        return;
    }
    struct err err = {0};
    for (size_t i = 0; i < report->epoch_count; i++) {
        if (progress_add_epoch(j, &report->epochs[i], &err) < 0) {
            reply_error(m, e->request, err.code, "epoch %" PRIu64 ": %s", report->epochs[i].epoch,
                        err.msg);
            return;
        }
    }
    w->sequence = report->sequence;
    uint64_t position = job_is_sync(j) ? report->position - j->version_shift : report->position;
    if (!w->held || position > w->position ||
        MUTANT(position_falls)) { /* not a report from before the answer to the hold */
        w->position = position;
    }
    w->idle = report->idle;
    j->record.dropped += report->dropped;
    j->record.speculated += report->speculated;
    m->counts.dropped += report->dropped;
    m->counts.speculated += report->speculated;
    add_staleness(&j->record, report);
    job_record_add_times(&j->record, w->node->id, &report->times);
    progress_show_train(j);
    progress_step(m, j, job_is_sync(j) ? position : train_step(j));
    job_changed(j);
    reply_add(m, e->request);
    train_assign_idle(m, j, w);
    job_touch(j);
}
