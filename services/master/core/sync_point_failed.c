/* SPDX-License-Identifier: Apache-2.0 */
/* An attempt at a sync point's work has failed: recorded, logged and shown; sync_point.c tries
 * again or goes on without. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "master/core/core.h"

static void say_failed(struct master *m, struct job *j, const char *what, const char *why)
{
    char quoted[1200];
    action_log(m, LOG_LEVEL_ERROR, action_printf(m, "%s_failed", what),
               "job=%s step=%" PRIu64 " reason=%s", j->record.id, j->sync_point.step,
               log_quote(why, quoted, sizeof quoted));
    if (!j->sync_point.attempt_failed) {
        free(j->sync_point.why);
        j->sync_point.why = mem_printf("%s at step %" PRIu64 ": %s", what, j->sync_point.step, why);
        job_say(j, j->sync_point.why);
    }
    j->sync_point.attempt_failed = true;
}

void sync_point_checkpoint_failed(struct master *m, struct job *j, const char *why)
{
    say_failed(m, j, "checkpoint", why);
}

void sync_point_evaluation_failed(struct master *m, struct job *j, const char *why)
{
    say_failed(m, j, "evaluation", why);
}

void sync_point_pin_failed(struct master *m, struct job *j, const char *why)
{
    say_failed(m, j, j->sync_point.checkpoint ? "checkpoint" : "evaluation", why);
}
