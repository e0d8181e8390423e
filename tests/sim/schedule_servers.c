/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that want another number of parameter servers for jobs that train, wait or have ended. */
#include <stdio.h>

#include "sim/schedule_maker.h"

/* With draws of their own, so that all else of a seed is as it was. */
void maker_servers(const struct maker *of, struct sim_schedule *s, uint32_t percent)
{
    struct maker m = *of;
    m.key = rng_key(s->seed, "servers");
    m.draws = 0;
    if (!chance(&m, percent)) {
        return;
    }
    for (uint64_t i = between(&m, 1, 4); i > 0 && s->fault_count < SIM_FAULTS_MAX; i--) {
        struct sim_fault *f = maker_fault(&m, FAULT_SET, 0);
        uint32_t n = 0;
        f->number = (uint32_t)below(&m, s->job_count);
        snprintf(f->change[n++], SIM_SET_BYTES, "cluster.ps=%u",
                 (unsigned)between(&m, 1, SIM_SHARDS_MAX));
        if (chance(&m, 20)) { /* what the others must hear of, too */
            snprintf(f->change[n++], SIM_SET_BYTES, "update.learning_rate=0.%s",
                     chance(&m, 50) ? "25" : "5");
        }
    }
    if (schedule_freezes(s) || s->mode == SIM_STILL) {
        return;
    }
    for (uint64_t i = below(&m, 3); i > 0 && s->fault_count < SIM_FAULTS_MAX; i--) {
        maker_crash(&m, chance(&m, 50) ? 0 : maker_any_ps(&m));
    }
}
