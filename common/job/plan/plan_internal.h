/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the plan share. */
#ifndef GRADUS_JOB_PLAN_PLAN_INTERNAL_H
#define GRADUS_JOB_PLAN_PLAN_INTERNAL_H

#include "job/plan/plan.h"

/* Names, shapes and limits of the variables of a plan. Errors: ERR_INVALID. */
int plan_check_variables(const struct variable_spec *variables, size_t count, struct err *err);

/* PARTITIONER_BALANCED: cuts the variables and places their parts. Fills partitions, but for their
 * offsets, and shard_elements. When there are not rows enough, shards stay empty, and there are
 * fewer partitions than shards; where they @may_be_empty, no variable is cut to fill them. */
void plan_balance(const struct cluster_spec *cluster, bool may_be_empty, struct plan *plan);

#endif
