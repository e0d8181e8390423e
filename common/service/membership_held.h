/* SPDX-License-Identifier: Apache-2.0 */
/* What a node says in a heartbeat that it holds and does. */
#ifndef GRADUS_SERVICE_MEMBERSHIP_HELD_H
#define GRADUS_SERVICE_MEMBERSHIP_HELD_H

#include "gradus/v1/cluster.pb-c.h"
#include "service/membership.h"

struct membership_jobs {
    Gradus__V1__HeldJob items[MEMBERSHIP_JOBS_MAX], *list[MEMBERSHIP_JOBS_MAX];
    size_t count;
};
struct membership_works {
    Gradus__V1__Work items[MEMBERSHIP_WORKS_MAX], *list[MEMBERSHIP_WORKS_MAX];
    size_t count;
};

/* Frees what membership_jobs_add() and membership_works_add() copied. */
void membership_held_release(struct membership_jobs *jobs, struct membership_works *works);

#endif
