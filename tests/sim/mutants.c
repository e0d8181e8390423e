/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/mutants.h"

#include "sim/sim.h"

enum mutant mutant_active;

const struct mutant_info mutant_infos[MUTANT_COUNT] = {[MUTANT_NONE] = {"none", "", SIM_ANY},
#define X(name, mode, text) [MUTANT_##name] = {#name, text, SIM_##mode},
                                                       SIM_MUTANTS(X)
#undef X
};
