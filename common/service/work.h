/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps a thread busy, for others to read at any moment: a node tells its master in every
 * heartbeat (Work of cluster.proto).
 *
 * One thread at a time begins, advances and ends; any thread may read. Reading while the next work
 * begins may mix the numbers of both, which shows for one heartbeat and does no harm. */
#ifndef GRADUS_SERVICE_WORK_H
#define GRADUS_SERVICE_WORK_H

#include <stdatomic.h>
#include <stdint.h>

#include "service/membership.h"

/* Zeroed: nothing is done. */
struct work {
    _Atomic(const char *) what; /* NULL: nothing; else a constant */
    _Atomic(const char *) unit;
    atomic_uint_fast64_t since_ms, done, total;
};

/* @what and @unit are constants; @total 0: nobody can say how much of it is done. */
void work_begin(struct work *w, const char *what, uint64_t total, const char *unit);
void work_advance(struct work *w, uint64_t done);
void work_end(struct work *w);
/* Tell of it, for @job, when it has lasted for more than a moment. */
void work_tell(const struct work *w, const char *job, struct membership_works *out);

#endif
