/* SPDX-License-Identifier: Apache-2.0 */
/* Worker.Assign, and where shards are, from the wire to the core, checked. */
#ifndef GRADUS_WORKER_JOB_WORKER_JOB_ASSIGN_H
#define GRADUS_WORKER_JOB_WORKER_JOB_ASSIGN_H

#include "gradus/v1/worker.pb-c.h"
#include "worker/core/worker.h"

/* Reads and checks an assignment. @generation: the worker's; an assignment of another generation
 * must say everything, one of the same only a limit or a hold, and the core refuses an older one,
 * so nothing else of it is looked at. @data: the records and the batch size of this worker's data.
 * On success @out borrows @ledger, which the caller releases (zeroed: none came); on failure both
 * are unchanged. Errors: ERR_INVALID naming what cannot be. */
int worker_job_assign_from_proto(const Gradus__V1__AssignRequest *r, uint64_t generation,
                                 const struct ledger_shape *data, struct ledger *ledger,
                                 struct worker_assignment *out, struct err *err);

/* Where each of @shard_count shards is, into @out, which borrows from @list. Errors: ERR_INVALID
 * unless each is named once. */
int worker_job_places_from_proto(Gradus__V1__ShardLocation *const *list, size_t count,
                                 uint32_t shard_count, struct worker_place *out, struct err *err);

#endif
