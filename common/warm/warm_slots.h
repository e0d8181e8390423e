/* SPDX-License-Identifier: Apache-2.0 */
/* A core: whether the slots of a checkpoint can be those that a job begins with (from.slots). */
#ifndef GRADUS_WARM_WARM_SLOTS_H
#define GRADUS_WARM_WARM_SLOTS_H

#include "checkpoint/manifest.h"
#include "rule/update/update_spec.h"
#include "warm/warm_match.h"

/* Errors: ERR_INVALID with everything that is wrong: another rule, other slots, variables and
 * tables without values there, servers with different numbers of updates. */
int warm_slots_check(const struct manifest *m, const struct update_spec *update,
                     const struct warm_wanted *wanted, const struct warm_match *match,
                     struct err *err);

#endif
