/* SPDX-License-Identifier: Apache-2.0 */
/* A server does not open a shard: what becomes of the start. */
#include <stdlib.h>

#include "base/log_text.h"
#include "base/mem.h"
#include "base/mutant.h"
#include "master/core/core.h"

void start_avoid_clear(struct job *j)
{
    while (j->avoid_count > 0) {
        free(j->avoid[--j->avoid_count]);
    }
    free(j->avoid_why);
    j->avoid_why = NULL;
}

static void avoid(struct job *j, const char *directory, const char *why)
{
    if (j->avoid_count == AVOID_MAX) {
        start_avoid_clear(j);
    }
    if (j->avoid_count == 0) {
        job_record_set(&j->avoid_why, why);
    }
    if (!MUTANT(damage_forgotten)) {
        j->avoid[j->avoid_count++] = mem_strdup(directory);
    }
}

/* A shard that does not fit now may fit on other servers, or later, when other jobs have ended; one
 * that can never fit on any server is the user's to change, but a job that ran before is not lost
 * for it. A damaged checkpoint is avoided; one that cannot be read may be readable later. */
void start_open_refused(struct master *m, struct job *j, struct node *n, const struct err *err,
                        const char *why)
{
    bool too_small = err->code == ERR_RANGE;
    if (too_small || err->code == ERR_EXHAUSTED) {
        job_refuse(m, j, n, too_small);
    }
    if ((too_small || err->code == ERR_EXHAUSTED) && resize_withdraw(m, j, why)) {
        job_must_restart(j, why);
        return;
    }
    bool fits_later =
        err->code == ERR_EXHAUSTED || (too_small && (j->resume || placement_has_room(m, j)));
    bool reads_later =
        j->restore != NULL && err->code != ERR_INVALID && err->code != ERR_UNSUPPORTED;
    if (!fits_later && !reads_later) {
        job_must_end(j, JOB_FAILED, "%s", why);
        return;
    }
    if (err->code == ERR_CORRUPT) {
        char quoted[1200];
        action_log(m, LOG_LEVEL_ERROR, "checkpoint_damaged", "job=%s checkpoint=%s reason=%s",
                   j->record.id, j->restore, log_quote(why, quoted, sizeof quoted));
        avoid(j, j->restore, why);
    }
    job_must_restart(j, why);
}
