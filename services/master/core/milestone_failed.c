/* SPDX-License-Identifier: Apache-2.0 */
/* An attempt at a milestone's work has failed: recorded, logged and shown; milestone.c tries again
 * or goes on without. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "master/core/core.h"

static void say_failed(struct master *m, struct job *j, const char *what, const char *why)
{
    char quoted[1200];
    action_log(m, LOG_LEVEL_ERROR, action_printf(m, "%s_failed", what),
               "job=%s step=%" PRIu64 " reason=%s", j->record.id, j->milestone.step,
               log_quote(why, quoted, sizeof quoted));
    if (!j->milestone.attempt_failed) {
        free(j->milestone.why);
        j->milestone.why = mem_printf("%s at step %" PRIu64 ": %s", what, j->milestone.step, why);
        job_say(j, j->milestone.why);
    }
    j->milestone.attempt_failed = true;
}

void milestone_checkpoint_failed(struct master *m, struct job *j, const char *why)
{
    say_failed(m, j, "checkpoint", why);
}

void milestone_evaluation_failed(struct master *m, struct job *j, const char *why)
{
    say_failed(m, j, "evaluation", why);
}

void milestone_pin_failed(struct master *m, struct job *j, const char *why)
{
    say_failed(m, j, j->milestone.checkpoint ? "checkpoint" : "evaluation", why);
}
