/* SPDX-License-Identifier: Apache-2.0 */
/* Writes whose a job is, its priority and its place in the queue: as lines, or in a few words. */
#include "cli/text_queue.h"

#include <inttypes.h>

void text_queue(const Gradus__V1__Job *job, struct buf *out)
{
    if (job->owner[0] != '\0') {
        buf_printf(out, "owner       %s\n", job->owner);
    }
    if (job->priority != 0) {
        buf_printf(out, "priority    %d\n", (int)job->priority);
    }
    if (job->queue_position > 0) {
        buf_printf(out, "queue       place %" PRIu64 "\n", job->queue_position);
    }
}

static void separate(struct buf *out)
{
    buf_add_str(out, out->len > 0 ? "  " : "");
}

void text_queue_brief(const Gradus__V1__Job *job, struct buf *out)
{
    if (job->owner[0] != '\0') {
        separate(out);
        buf_printf(out, "of %s", job->owner);
    }
    if (job->priority != 0) {
        separate(out);
        buf_printf(out, "priority %d", (int)job->priority);
    }
    if (job->queue_position > 0) {
        separate(out);
        buf_printf(out, "place %" PRIu64, job->queue_position);
    }
}
