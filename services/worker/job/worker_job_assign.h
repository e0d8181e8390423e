/* SPDX-License-Identifier: Apache-2.0 */
/* Worker.Assign, and where shards are, from the wire to the core, checked. */
#ifndef GRADUS_WORKER_JOB_WORKER_JOB_ASSIGN_H
#define GRADUS_WORKER_JOB_WORKER_JOB_ASSIGN_H

#include "gradus/v1/worker.pb-c.h"
#include "worker/core/worker.h"

/* @generation: the worker's; a request of another must say everything, one of the same only a
 * limit or a hold, and an older one is the core's to refuse: nothing else of them is looked at.
 * @data: the records and the batch size of this worker's data. On success @out borrows @ledger,
 * which is the caller's to release (zeroed: none came); on failure both are unchanged.
 * Errors: ERR_INVALID naming what cannot be. */
int worker_job_assign_from_proto(const Gradus__V1__AssignRequest *r, uint64_t generation,
                                 const struct ledger_shape *data, struct ledger *ledger,
                                 struct worker_assignment *out, struct err *err);

/* Where each of @shard_count shards is, into @out, which borrows from @list. Errors: ERR_INVALID
 * unless each is named once. */
int worker_job_places_from_proto(Gradus__V1__ShardLocation *const *list, size_t count,
                                 uint32_t shard_count, struct worker_place *out, struct err *err);

#endif
