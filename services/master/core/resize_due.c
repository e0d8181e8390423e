/* SPDX-License-Identifier: Apache-2.0 */
/* When a job moves to the number of parameter servers that its file says: as soon as so many could
 * serve it. Until then it trains on with those that it has. */
#include <inttypes.h>

#include "base/mutant.h"
#include "master/core/core.h"

static void begin(struct master *m, struct job *j)
{
    j->resizing = true;
    action_log(m, LOG_LEVEL_INFO, "job_moves", "job=%s from=%zu to=%" PRId64, j->record.id,
               j->shard_count, j->spec.cluster.ps);
    job_say(j, action_printf(m, "moves to %" PRId64 " parameter servers: stops at the next step",
                             j->spec.cluster.ps));
    job_touch(j);
}

static void end(struct job *j)
{
    j->resizing = false;
    if (j->record.state == JOB_RUNNING && !job_yields(j)) {
        job_say(j, "");
    }
    yield_take_back(j);
}

/* It has a plan for so many; one that was told before its data were known may have none. */
static bool is_possible(struct master *m, struct job *j)
{
    struct err err = {0};
    if (j->train.records == 0 || start_fits(j, (size_t)j->spec.cluster.ps, &err)) {
        return true;
    }
    resize_take_back(m, j, err.msg);
    return false;
}

static void look(struct master *m, struct job *j)
{
    const bool moves =
        resize_is_wanted(j) && !job_is_ending(j) && !j->cannot_save &&
        (resize_servers(m, j) >= (size_t)j->spec.cluster.ps || MUTANT(resize_before_servers)) &&
        !MUTANT(resize_never);
    if (moves && !j->resizing && !job_leaves(j)) {
        if (is_possible(m, j)) {
            begin(m, j);
        }
    } else if (j->resizing && !moves) {
        end(j);
    }
    const bool comes = j->resizing || j->moves || j->adopts || job_is_starting(j);
    if (!comes && !job_is_ending(j)) {
        resize_answer(m, j);
    }
}

void resizes_look(struct master *m)
{
    for (size_t i = 0; i < m->live_count; i++) {
        look(m, m->live[i]);
    }
}
