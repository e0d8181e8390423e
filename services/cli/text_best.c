/* SPDX-License-Identifier: Apache-2.0 */
/* "best        accuracy 0.971 at step 400, 3 evaluations ago", below how a job had ended before. */
#include "cli/text_best.h"

#include <inttypes.h>
#include <string.h>

static void text_resumed(const Gradus__V1__Job *job, struct buf *out)
{
    if (job->resumes > 0) {
        buf_printf(out, "resumed     %" PRIu64 " %s after it had ended, the last time %s\n",
                   job->resumes, job->resumes == 1 ? "time" : "times", job->ended_before);
    }
}

void text_best(const Gradus__V1__Job *job, struct buf *out)
{
    const Gradus__V1__BestVersion *best = job->best;
    text_resumed(job, out);
    if (best == NULL) {
        return;
    }
    if (best->known) {
        buf_printf(out, "best        %s %.4g at step %" PRIu64, best->metric, best->value,
                   best->step);
    } else {
        buf_printf(out, "best        no %s that is a number", best->metric);
    }
    if (best->without > 0) {
        buf_printf(out, ", %" PRIu64 " evaluation%s %s", best->without,
                   best->without == 1 ? "" : "s", best->known ? "ago" : "so far");
    }
    buf_add_char(out, '\n');
    if (best->checkpoint[0] != '\0' && strcmp(best->checkpoint, job->checkpoint) != 0) {
        buf_printf(out, "best at     %s\n", best->checkpoint);
    }
}
