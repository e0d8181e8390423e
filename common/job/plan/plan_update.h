/* SPDX-License-Identifier: Apache-2.0 */
/* The update of a job over what a plan says lies where: of one shard, or of everything. */
#ifndef GRADUS_JOB_PLAN_PLAN_UPDATE_H
#define GRADUS_JOB_PLAN_PLAN_UPDATE_H

#include "job/plan/plan.h"
#include "rule/update/update.h"

/* Makes the update for the arrays of @shard. @spec and @plan are borrowed for the life of the
 * update. Errors: those of update_new(). */
int plan_update_shard(const struct plan *plan, const struct update_spec *spec, uint32_t shard,
                      struct update **out, struct err *err);
/* For all variables in one array, in the order of the plan: for norms of whole gradients. */
int plan_update_whole(const struct plan *plan, const struct update_spec *spec, struct update **out,
                      struct err *err);
/* Checks a job's update against the variables of its plan: each pattern must match one. For
 * programs that accept or show a job. Errors: ERR_INVALID, names the pattern. */
int plan_update_check(const struct plan *plan, const struct update_spec *spec, struct err *err);
/* Partial sums that servers exchange in a step of sync: none when there is one shard. */
uint32_t plan_update_rounds(const struct plan *plan, const struct update *update);

#endif
