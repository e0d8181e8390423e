/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for gradients that is tight: who waits for some. Only sim.h includes this. */
#ifndef GRADUS_SIM_BUDGET_H
#define GRADUS_SIM_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#include "ps/core/gradient_budget.h"

/* Of a stream at a server whose memory for gradients is tight: what has arrived and is not read,
 * because a gradient waits for memory, or comes in. Or a push of a stranger, in a call of its own,
 * which waits for memory. */
struct sim_inlet {
    struct gradient_waiter waiter; /* the first member */
    struct sim_inlet *next, *all;  /* free ones; all that were ever made */
    bool used;
    enum { INLET_READS, INLET_WAITS, INLET_COMES_IN } at;
    uint32_t node;
    uint32_t stream, first, last; /* exchanges, in order; stream SIM_NONE: a stranger's push */
    uint32_t fault;               /* which is this one's */
    struct sim_shard *shard;      /* of the first one, unless it is at INLET_READS */
    uint64_t serial;
};

#endif
