/* SPDX-License-Identifier: Apache-2.0 */
#include "service/membership_held.h"

#include <stdlib.h>

#include "base/mem.h"

static Gradus__V1__HeldJob *add_job(struct membership_jobs *jobs, const char *job,
                                    uint64_t generation, uint64_t opening)
{
    if (jobs->count == MEMBERSHIP_JOBS_MAX) {
        return NULL;
    }
    Gradus__V1__HeldJob *held = &jobs->items[jobs->count];
    gradus__v1__held_job__init(held);
    held->job = mem_strdup(job);
    held->generation = generation;
    held->opening = opening;
    jobs->list[jobs->count++] = held;
    return held;
}

void membership_jobs_add(struct membership_jobs *jobs, const char *job, uint64_t generation,
                         uint64_t start)
{
    (void)add_job(jobs, job, generation, start);
}

void membership_jobs_add_shard(struct membership_jobs *jobs, const char *job,
                               const struct membership_shard *shard)
{
    Gradus__V1__HeldJob *held = add_job(jobs, job, 0, shard->opening);
    if (held == NULL) {
        return;
    }
    held->shard = shard->number;
    if (shard->role == 0) {
        return;
    }
    Gradus__V1__Standby *standby = &jobs->standbys[jobs->count - 1];
    gradus__v1__standby__init(standby);
    standby->role = (Gradus__V1__Standby__Role)shard->role;
    standby->records = shard->records;
    standby->received = shard->received;
    standby->waits_ms = shard->waits_ms;
    standby->backup = shard->backup;
    standby->follows = shard->follows;
    standby->state_sent = shard->state_sent;
    standby->state_bytes = shard->state_bytes;
    standby->problem = mem_strdup(shard->problem);
    held->standby = standby;
}

void membership_works_add(struct membership_works *works, const struct membership_work *work)
{
    if (works->count < MEMBERSHIP_WORKS_MAX) {
        Gradus__V1__Work *w = &works->items[works->count];
        gradus__v1__work__init(w);
        w->job = mem_strdup(work->job);
        w->what = mem_strdup(work->what);
        w->unit = mem_strdup(work->unit);
        w->done = work->done;
        w->total = work->total;
        w->age_ms = work->age_ms;
        works->list[works->count++] = w;
    }
}

void membership_held_release(struct membership_jobs *jobs, struct membership_works *works)
{
    for (size_t i = 0; i < jobs->count; i++) {
        free(jobs->items[i].job);
        if (jobs->items[i].standby != NULL) {
            free(jobs->items[i].standby->problem);
        }
    }
    for (size_t i = 0; i < works->count; i++) {
        free(works->items[i].job);
        free(works->items[i].what);
        free(works->items[i].unit);
    }
}
