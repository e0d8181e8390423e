/* SPDX-License-Identifier: Apache-2.0 */
/* Async and bounded: who works on which split. */
#include <inttypes.h>
#include <string.h>

#include "base/mutant.h"
#include "master/core/core.h"

#define LEASE_WAIT_MS_MAX 9500 /* below the 10 s after which a worker gives the call up */

bool train_leases(const struct job *j)
{
    return j->leases.splits != NULL;
}

/* Its leases go to others. */
void train_give_back(struct master *m, struct job *j, struct job_worker *w)
{
    while (w->lease_count > 0) {
        leases_return(&j->leases, w->leases[--w->lease_count].split, w->node->number);
        m->counts.leases_returned++;
    }
}

void train_park_clear(struct master *m, struct job *j, struct job_worker *w, int code,
                      const char *why)
{
    if (!w->parked) {
        return;
    }
    w->parked = false;
    if (code == ERR_OK) {
        reply_add(m, w->parked_request)->lease_kind = MASTER_LEASE_WAIT;
    } else {
        reply_error(m, w->parked_request, code, "job %s: %s", j->record.id, why);
    }
}

/* Leases of what is done on every shard are over. */
void train_drop_finished(struct job *j)
{
    for (size_t i = 0; i < j->worker_count; i++) {
        struct job_worker *w = &j->workers[i];
        size_t kept = 0;
        for (size_t k = 0; k < w->lease_count; k++) {
            if (j->leases.splits[w->leases[k].split].owner == w->node->number) {
                w->leases[kept++] = w->leases[k];
            }
        }
        w->lease_count = kept;
    }
}

static void grant(struct master *m, struct job_worker *w, const struct lease *lease)
{
    w->idle = false;
    m->counts.leases_granted++;
    struct master_reply *reply = reply_add(m, w->parked_request);
    reply->lease_kind = MASTER_LEASE_GRANTED;
    reply->lease = *lease;
    w->parked = false;
}

void train_grant(struct master *m, struct job *j)
{
    for (size_t i = 0; i < j->worker_count; i++) {
        struct job_worker *w = &j->workers[i];
        struct lease lease;
        if (w->parked && w->lease_count < LEASES_PER_WORKER &&
            leases_take(&j->leases, w->node->number, &lease)) {
            w->leases[w->lease_count++] = lease;
            grant(m, w, &lease);
        }
    }
}

void train_no_more_leases(struct master *m, struct job *j)
{
    for (size_t i = 0; i < j->worker_count; i++) {
        if (j->workers[i].parked) {
            j->workers[i].parked = false;
            reply_add(m, j->workers[i].parked_request)->lease_kind = MASTER_LEASE_DONE;
        }
    }
}

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
    struct job_worker *w = train_sender(m, e, job);
    if (w == NULL || !train_is_present(m, *job, e)) {
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
    train_park_clear(m, j, w, ERR_OK, NULL); /* an earlier call that nobody listens to any more */
    if (j->over) {
        reply_add(m, e->request)->lease_kind = MASTER_LEASE_DONE;
        return;
    }
    w->parked = true;
    w->parked_request = e->request;
    uint64_t wait = e->worker.wait_ms < LEASE_WAIT_MS_MAX ? e->worker.wait_ms : LEASE_WAIT_MS_MAX;
    w->parked_until_ms = m->now_ms + wait;
    /* On hold nobody begins anything; this request may be from before. */
    const struct lease *lost =
        j->phase == PHASE_HOLD && !MUTANT(grant_on_hold) ? NULL : forgotten(w, &e->worker);
    if (lost != NULL) {
        struct lease again = *lost;
        again.fresh = false; /* it may have begun, if an answer came twice */
        grant(m, w, &again);
        return;
    }
    train_check(m, j);
}

void leases_tick(struct master *m)
{
    for (size_t i = 0; i < m->job_count; i++) {
        struct job *j = m->jobs[i];
        for (size_t k = 0; k < j->worker_count; k++) {
            struct job_worker *w = &j->workers[k];
            if (w->parked && w->parked_until_ms <= m->now_ms) {
                train_park_clear(m, j, w, ERR_OK, NULL);
            }
        }
    }
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
        return; /* said before; the epoch ended with it */
    }
    train_drop_finished(j); /* whoever had it */
    progress_step(m, j, train_step(j));
    train_check(m, j);
}
