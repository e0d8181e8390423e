/* Which partition lives on which parameter server. Made by the master, the same on every node.
 *
 * A variable is cut along axis 0 by the partitioner; partitions are placed greedily by bytes, largest
 * first, on the least loaded shard (ties: lowest shard). Deterministic. Immutable after plan_make(). */
#ifndef GRADUS_JOB_PLAN_H
#define GRADUS_JOB_PLAN_H

#include "base/buf.h"
#include "base/err.h"
#include "job/job_spec.h"
#include "tensor/init.h"

struct partition {
    uint32_t variable;  /* index into plan.variables */
    uint32_t shard;
    uint64_t row_first, row_count;
    uint64_t first;     /* first element in the flat variable */
    uint64_t count;     /* elements */
    uint64_t offset;    /* first element in the shard's flat buffer */
};

struct plan {
    struct variable_spec *variables;
    size_t variable_count;
    struct partition *partitions; /* ordered by shard, then offset */
    size_t partition_count;
    uint32_t shard_count;
    uint64_t *shard_elements;     /* [shard_count] */
};

/* @plan is zeroed by the caller. Errors: ERR_INVALID (more shards than elements, a shard left empty, …). */
int plan_make(const struct variable_spec *variables, size_t count, const struct cluster_spec *cluster,
              struct plan *plan, struct err *err);
void plan_release(struct plan *plan);
/* The partitions of one shard: a borrowed run of plan->partitions. */
const struct partition *plan_shard(const struct plan *plan, uint32_t shard, size_t *count);
void plan_format(const struct plan *plan, struct buf *out); /* the table of `gradus plan` */

#endif
