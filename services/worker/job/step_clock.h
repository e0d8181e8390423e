/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a worker's job thread goes: all of it, from the first computation on, is given
 * to one part of a step (step_times.h). Times are monotonic and come from the caller.
 *
 * Owner: the job's thread.
 *
 * One thread makes a step as long as it is, so each of its moments belongs to one part and the
 * parts add up (decision 32). An exchange that overlaps with another or with computing counts as
 * far as this thread waited for it. Shards say in their answers how long they waited and applied,
 * so no clocks of two machines are compared. */
#ifndef GRADUS_WORKER_JOB_STEP_CLOCK_H
#define GRADUS_WORKER_JOB_STEP_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "job/progress/step_times.h"

struct step_clock {
    bool begun;
    uint64_t until_ns; /* time is given away up to here */
    uint64_t step;     /* of the last computation */
    struct step_times times;
};

/* An exchange whose answer the thread has in hand. */
struct step_exchange {
    uint64_t sent_ns, answered_ns;
    uint64_t waited_ns, applied_ns; /* as the shard says; not trusted */
};

/* A computation of @step begins: nothing is measured before the first. */
void step_clock_begin(struct step_clock *c, uint64_t step, uint64_t now_ns);
/* The thread did one thing from @begin_ns to @end_ns; what it did before, it waited. */
void step_clock_busy(struct step_clock *c, enum step_part part, uint64_t begin_ns, uint64_t end_ns);
/* Shares out the time since the exchange was sent, as far as it was not given away yet: to apply,
 * wait and wire in the proportions of the exchange. An exchange behind a computation costs what is
 * left of it. Returns the beginning of the time that it cost; answered_ns when it cost none. */
uint64_t step_clock_answered(struct step_clock *c, const struct step_exchange *x);

#endif
