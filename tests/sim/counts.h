/* SPDX-License-Identifier: Apache-2.0 */
/* What happened in schedules, counted. */
#ifndef SIM_COUNTS_H
#define SIM_COUNTS_H

#include <stdint.h>

#include "master/core/job_record.h"
#include "sim/plans.h"

struct sim_counts {
    uint64_t events, messages, steps, dropped, recoveries, checkpoints, duplicates, old, speculated,
        stopped, resumed;
    uint64_t given_up, memory_waits, records_received, takeovers, joined, joined_takeovers;
    uint64_t drained, drained_running, shards_moved,
        workers_drained;                 /* the second: of jobs that ran on */
    uint64_t departed, departed_covered; /* were told that they may end; for others take over */
    uint64_t rows_admitted, rows_evicted, rows_dropped, pins_given_up, tables_restored, deltas_read;
    uint64_t rows_ahead, moves, versions_read;      /* with values, to compute; by followers */
    uint64_t traces, traces_answered, traces_whole; /* the last: of every node */
    uint64_t faults[FAULT_KIND_COUNT], states[JOB_STATE_END];
};

#endif
