/* SPDX-License-Identifier: Apache-2.0 */
#include "service/membership_held.h"

#include <stdlib.h>

#include "base/mem.h"

void membership_jobs_add(struct membership_jobs *jobs, const char *job, uint64_t generation,
                         uint64_t opening)
{
    if (jobs->count < MEMBERSHIP_JOBS_MAX) {
        Gradus__V1__HeldJob *held = &jobs->items[jobs->count];
        gradus__v1__held_job__init(held);
        held->job = mem_strdup(job);
        held->generation = generation;
        held->opening = opening;
        jobs->list[jobs->count++] = held;
    }
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
    }
    for (size_t i = 0; i < works->count; i++) {
        free(works->items[i].job);
        free(works->items[i].what);
        free(works->items[i].unit);
    }
}
