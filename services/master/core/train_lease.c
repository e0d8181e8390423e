/* SPDX-License-Identifier: Apache-2.0 */
/* Async and bounded: who works on which split. */
#include "master/core/core.h"

bool train_leases(const struct job *j)
{
    return j->leases.splits != NULL;
}

/* Gives the leases of a worker to others. */
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
    j->parked_count--;
    if (code == ERR_OK) {
        reply_add(m, w->parked_request)->lease_kind = MASTER_LEASE_WAIT;
    } else {
        reply_error(m, w->parked_request, code, "job %s: %s", j->record.id, why);
    }
}

/* Removes leases of splits that are done on every shard. */
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

void train_grant_one(struct master *m, struct job *j, struct job_worker *w,
                     const struct lease *lease)
{
    w->idle = false;
    m->counts.leases_granted++;
    struct master_reply *reply = reply_add(m, w->parked_request);
    reply->lease_kind = MASTER_LEASE_GRANTED;
    reply->lease = *lease;
    w->parked = false;
    j->parked_count--;
}

void train_grant(struct master *m, struct job *j)
{
    for (size_t i = 0; i < j->worker_count; i++) {
        struct job_worker *w = &j->workers[i];
        struct lease lease;
        if (w->parked && w->lease_count < LEASES_PER_WORKER &&
            leases_take(&j->leases, w->node->number, &lease)) {
            w->leases[w->lease_count++] = lease;
            train_grant_one(m, j, w, &lease);
        }
    }
}

void train_no_more_leases(struct master *m, struct job *j)
{
    for (size_t i = 0; i < j->worker_count; i++) {
        if (j->workers[i].parked) {
            j->workers[i].parked = false;
            j->parked_count--;
            reply_add(m, j->workers[i].parked_request)->lease_kind = MASTER_LEASE_DONE;
        }
    }
}

void leases_tick(struct master *m)
{
    for (size_t i = 0; i < m->live_count; i++) {
        struct job *j = m->live[i];
        for (size_t k = 0; j->parked_count > 0 && k < j->worker_count; k++) {
            struct job_worker *w = &j->workers[k];
            if (w->parked && w->parked_until_ms <= m->now_ms) {
                train_park_clear(m, j, w, ERR_OK, NULL);
            }
        }
    }
}
