/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps a thread busy, for others to read at any moment: a node tells its master in every
 * heartbeat (Work of cluster.proto).
 *
 * One thread at a time begins, advances and ends; any thread may read. Reading while the next work
 * begins may mix the numbers of both, which shows for one heartbeat and does no harm.
 *
 * Calls of the master have no deadlines (decision 40). How long a load, a copy, a file or a batch
 * takes grows with the job, so any number is wrong for somebody: a node that is given up over a
 * slow Pin takes the job back to its last checkpoint, for ever. A node that is alive beats on a
 * thread of its own, and says what keeps it busy and how far it is. The master asks once and waits,
 * and gives up a node that is silent or does not get on. */
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

/* @what and @unit are constants; @total 0: it is not known how much of it is done. */
void work_begin(struct work *w, const char *what, uint64_t total, const char *unit);
void work_advance(struct work *w, uint64_t done);
void work_end(struct work *w);
/* Tell of it, for @job, when it has lasted for more than a moment. */
void work_tell(const struct work *w, const char *job, struct membership_works *out);

#endif
