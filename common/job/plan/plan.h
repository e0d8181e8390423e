/* SPDX-License-Identifier: Apache-2.0 */
/* Which partition lives on which parameter server. Made by the master, the same on every node.
 *
 * A variable is cut along axis 0 by the partitioner. The balanced one cuts what is large so that
 * all shards hold as many bytes (plan_balance.c); the parts of the others are placed greedily by
 * bytes, largest first, on the least loaded shard (ties: lowest shard). Deterministic. Immutable
 * after plan_make(). Rows of tables are in no plan: they lie on all shards by their keys.
 *
 * Nothing but speed and memory depends on how variables are cut (decision 43). Outside of sync,
 * rules with sums need whole variables, so their plans cut none, and a job with cut variables stays
 * in sync: a new plan would be a recovery. */
#ifndef GRADUS_JOB_PLAN_PLAN_H
#define GRADUS_JOB_PLAN_PLAN_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "job/spec/job_spec.h"
#include "tensor/init.h"

/* Limits: what a file or a message may ask for before it is refused. */
#define PLAN_VARIABLES_MAX 4096
#define PLAN_PARTITIONS_MAX 65536
#define PLAN_SHARDS_MAX 1024
#define PLAN_ELEMENTS_MAX (UINT64_C(1) << 40) /* elements of all variables: 4 TiB of floats */

struct partition {
    uint32_t variable; /* index into plan.variables */
    uint32_t shard;
    uint64_t row_first, row_count;
    uint64_t first;  /* first element in the flat variable */
    uint64_t count;  /* elements */
    uint64_t offset; /* first element in the shard's flat buffer */
};

struct plan {
    struct variable_spec *variables;
    size_t variable_count;
    struct partition *partitions; /* ordered by shard, then offset */
    size_t partition_count;
    uint32_t shard_count;
    uint64_t *shard_elements; /* [shard_count] */
};

/* @plan is zeroed by the caller. Errors: ERR_INVALID (more shards than elements, a shard left
 * empty, …). */
int plan_make(const struct variable_spec *variables, size_t count,
              const struct cluster_spec *cluster, struct plan *plan, struct err *err);
/* plan_make() for @spec's cluster. A job with tables has rows on every server, so shards may be
 * without elements where the variables are too small for all of them. */
int plan_make_job(const struct variable_spec *variables, size_t count, const struct job_spec *spec,
                  struct plan *plan, struct err *err);
/* The plan of another node, rebuilt from its parts, which are copied. Nothing is believed: every
 * element of every variable must lie in exactly one partition, and each shard's offsets must run on
 * without a gap. Shards may be empty: plan_check_shards() knows whether these may. Errors:
 * ERR_INVALID, says which part is wrong. */
int plan_from_parts(const struct variable_spec *variables, size_t variable_count,
                    const struct partition *partitions, size_t partition_count,
                    uint32_t shard_count, struct plan *plan, struct err *err);
/* Has each shard something to do in a job with so many tables? Errors: ERR_INVALID, names one that
 * has not. */
int plan_check_shards(const struct plan *plan, size_t tables, struct err *err);
void plan_release(struct plan *plan);
/* True if a variable is in more than one partition. */
bool plan_cuts(const struct plan *plan);
/* True if workers bring the initial values. They bring all elements as soon as those of any
 * variable are known to workers alone (INIT_GIVEN). */
bool plan_is_given(const struct plan *plan);
/* The partition in which element @at of @shard's flat buffer lies. */
const struct partition *plan_at(const struct plan *plan, uint32_t shard, uint64_t at);
/* The number of rows along which partitions are cut: the first dimension; a scalar is one row. */
uint64_t plan_rows(const struct shape *shape);
uint64_t plan_row_elements(const struct shape *shape);
/* The partitions of one shard: a borrowed run of plan->partitions. */
const struct partition *plan_shard(const struct plan *plan, uint32_t shard, size_t *count);
void plan_format(const struct plan *plan, struct buf *out); /* the table of `gradus plan` */

#endif
