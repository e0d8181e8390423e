/* SPDX-License-Identifier: Apache-2.0 */
/* The names of the parts of a step, as shown by the CLI and in metrics, and their sums. */
#include "job/progress/step_times.h"

const char *step_part_name(enum step_part part)
{
    static const char *const names[STEP_PART_COUNT] = {
        [STEP_LOAD] = "load",   [STEP_COMPUTE] = "compute", [STEP_WIRE] = "wire",
        [STEP_APPLY] = "apply", [STEP_WAIT] = "wait",
    };
    return names[part];
}

void step_times_add(struct step_times *to, const struct step_times *more)
{
    to->steps += more->steps;
    for (int part = 0; part < STEP_PART_COUNT; part++) {
        to->ns[part] += more->ns[part];
    }
}

uint64_t step_times_ns(const struct step_times *t)
{
    uint64_t sum = 0;
    for (int part = 0; part < STEP_PART_COUNT; part++) {
        sum += t->ns[part];
    }
    return sum;
}
