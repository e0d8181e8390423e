/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of steps goes: the parts that all of a worker's time is divided into, and sums of
 * them. docs/trace.md defines them; services/worker/job/step_clock.h measures. Plain data. */
#ifndef GRADUS_JOB_PROGRESS_STEP_TIMES_H
#define GRADUS_JOB_PROGRESS_STEP_TIMES_H

#include <stdint.h>

enum step_part {
    STEP_LOAD,
    STEP_COMPUTE,
    STEP_WIRE,
    STEP_APPLY,
    STEP_WAIT,
    STEP_PART_COUNT,
};

struct step_times {
    uint64_t steps; /* sync: global steps; else batches */
    uint64_t ns[STEP_PART_COUNT];
};

const char *step_part_name(enum step_part part); /* "load" */
void step_times_add(struct step_times *to, const struct step_times *more);
uint64_t step_times_ns(const struct step_times *t); /* all parts */

#endif
