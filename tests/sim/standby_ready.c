/* SPDX-License-Identifier: Apache-2.0 */
/* A server that is told that it may be ended leaves no shard without a backup that follows. */
#include "sim/sim.h"

#include <stdlib.h>

#include "master/core/job_follow.h"

/* @shard as the master knows it. */
static void check_covered(struct world *w, uint32_t job, const struct master_follow *told,
                          uint32_t shard, uint32_t name)
{
    const struct master_shard_location *at = &told->shards[shard];
    const char *backup = told->job->shards[shard].backup;
    const struct sim_shard *s = ps_shard_there(w, node_at(w, at->address), job, shard);
    struct shard_info info;
    const bool has = backup[0] != '\0' && name_of(w, backup) == name;
    if (s == NULL || s->fence.opening != at->opening || (!has && name_of(w, at->node) != name)) {
        return;
    }
    shard_info(s->core, &info);
    if (!has && info.role == SHARD_BACKUP) {
        return; /* it moved there after the answer was made, in the same step */
    }
    if (!info.follows) {
        violated(w, INVARIANT_READY,
                 "a server may be ended that has %s shard %u of job %u, whose "
                 "backup does not follow",
                 has ? "the backup of" : "", shard, job + 1);
    }
}

/* For ten minutes in which no backup gets further somebody is told to stay, and no longer. */
#define READY_US (600 * SIM_S)

void standby_told_ready(struct world *w, uint32_t name)
{
    for (uint32_t i = 0; w->now_us < READY_US && i < w->schedule->job_count; i++) {
        const struct sim_job *j = &w->jobs[i];
        struct master_follow told = {0};
        struct err err = {0};
        if (!w->schedule->jobs[i].standby || !j->known ||
            master_follow(w->master, j->id, &told, &err) != 0) {
            continue;
        }
        for (uint32_t k = 0; k < told.shard_count; k++) {
            check_covered(w, i, &told, k, name);
        }
        free(told.shards);
    }
}
