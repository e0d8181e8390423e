/* SPDX-License-Identifier: Apache-2.0 */
/* Assertions that fail and memory that is not there end the run of a world, not the program. After
 * such a run the world leaks what its cores held. */
#ifndef GRADUS_SIM_GUARD_H
#define GRADUS_SIM_GUARD_H

#include "sim/sim.h"

void guard(struct world *w);

#endif
