/* SPDX-License-Identifier: Apache-2.0 */
/* Deliberate bugs for the simulator: does it find them?
 *
 * MUTANT(name) is false, and nothing is left of it, unless the file is compiled with
 * GRADUS_MUTANTS, as only the simulator's own copy of the cores is. There it is true while the
 * mutant of that name is switched on. The names are the list in tests/sim/mutants.h. */
#ifndef GRADUS_BASE_MUTANT_H
#define GRADUS_BASE_MUTANT_H

#ifdef GRADUS_MUTANTS
#include "sim/mutants.h"
#define MUTANT(name) (mutant_active == MUTANT_##name)
#else
#define MUTANT(name) false
#endif

#endif
