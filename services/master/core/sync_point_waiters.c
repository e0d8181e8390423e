/* SPDX-License-Identifier: Apache-2.0 */
/* The requests of clients that wait for a checkpoint, and their answers. */
#include "master/core/core.h"

void sync_point_waiters(struct master *m, struct job *j, bool all, int code, const char *message)
{
    size_t kept = 0;
    for (size_t i = 0; i < j->waiter_count; i++) {
        struct waiter w = j->waiters[i];
        if (!all && !w.served) {
            j->waiters[kept++] = w;
        } else if (code != ERR_OK) {
            reply_error(m, w.request, code, "%s", message);
        } else {
            struct master_reply *reply = reply_add(m, w.request);
            reply->path = action_printf(m, "%s", j->record.checkpoint);
            reply->step = j->sync_point.step;
        }
    }
    j->waiter_count = kept;
}
