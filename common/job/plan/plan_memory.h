/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that a shard takes on its server: what a server reserves when a job is opened, and
 * what `gradus plan` shows.
 *
 * A shard reserves at its opening all that it may need, the copy for checkpoints included (decision
 * 44). Whoever does not fit later (a worker, a change) is left out or undone, and no job ends for
 * it. */
#ifndef GRADUS_JOB_PLAN_PLAN_MEMORY_H
#define GRADUS_JOB_PLAN_PLAN_MEMORY_H

#include "job/plan/plan.h"
#include "job/progress/consistency.h"
#include "rule/update/update.h"
#include "tensor/half.h"

/* Versions that are kept for workers, one for each: for staleness policies and rules that want what
 * the worker read. */
size_t plan_memory_bases(const struct update_spec *spec, const struct consistency *c,
                         size_t workers);
/* Copies of slot 0 with @bases versions, for a rule that wants it: one more while a worker is sent
 * the next. */
size_t plan_memory_base_slots(const struct update_spec *spec, size_t bases);
/* The number of gradients that a shard must hold to go on, whatever comes first, and one that comes
 * in. In async and bounded modes nothing waits for anything else. In sync a sum waits for its
 * sibling in the tree; a worker pushes no more nodes than its share, which is contiguous, is made
 * of. Where fewer than all replicas make up a step, every replica may wait until it is known which
 * ones do. Where a complete step waits for totals (@rounds > 0), what comes before them on their
 * stream must find room. */
size_t plan_memory_gradients(const struct consistency *c, size_t workers, uint32_t rounds);

struct plan_memory { /* floats */
    uint64_t values; /* of two versions */
    uint64_t slots[UPDATE_SLOTS_MAX];
    uint64_t bases;     /* versions and slots */
    uint64_t gradients; /* at least; one more that is empty where one is needed */
    uint64_t pins;      /* the copy of the slots that goes with a version for a checkpoint */
    uint64_t tables;    /* and copies of their rows */
    uint64_t standby;   /* its backup, on another server, and a gradient that is sent there */
    uint64_t total;
};
/* Bytes of one version: its values, and the values as they travel, if those are other bytes. */
uint64_t plan_memory_version(uint64_t elements, enum value_type type);
/* The memory of shard @shard of @plan under @u. */
void plan_memory_of(const struct update *u, const struct job_spec *spec,
                    const struct consistency *c, const struct plan *plan, uint32_t shard,
                    size_t workers, uint32_t rounds, struct plan_memory *out);

#endif
