/* SPDX-License-Identifier: Apache-2.0 */
/* Scenarios: schedules that people wrote, with the trace that is expected of them, or checks.
 *
 *     # what this is about
 *     ps 2
 *     workers 3
 *     training mode: async          any line of the job's `training` section
 *     records 24
 *     at 60 crash worker1 for 2000  what goes wrong when, in ms (see scenario.c)
 *     expect
 *        60.000 worker1  FAULT crash
 *        …
 *
 * Without `expect` no trace is compared: what must hold (check.c) holds, and what is checked:
 *
 *     for MODE in sync async        one run for each value, and for each combination
 *     training mode: $MODE
 *     when PIN crash worker1 for 2000    moments: see moment.h
 *     check state SUCCEEDED              in the end
 *
 * `SIM_TRACE=1 sim SCENARIO` shows the trace of a run in which something does not hold. The network
 * is even: every message takes one millisecond, a batch five. Messages that repeat themselves
 * without end (heartbeats) are left out of the trace. */
#ifndef GRADUS_SIM_SCENARIO_H
#define GRADUS_SIM_SCENARIO_H

#include "base/buf.h"
#include "sim/sim.h"

/* Run the scenario in file @path; @update: write the trace that came into it. Returns 0 when it is
 * the expected one and all checks hold, 1 when not (said on stdout), 2 when the file cannot be
 * read. */
int scenario_run(struct world *w, const char *path, bool update);

#endif
