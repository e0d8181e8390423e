/* SPDX-License-Identifier: Apache-2.0 */
/* Orders of the master about a job of this worker, and orders that come late. */
#include <inttypes.h>
#include <string.h>

#include "base/mutant.h"
#include "worker/core/worker.h"

/* The entry of the job with @fence; NULL: none. */
static const struct worker_seen *find(const struct worker_starts *s, const struct fence *fence)
{
    size_t count = s->count < WORKER_STARTS_SEEN ? s->count : WORKER_STARTS_SEEN;
    for (size_t i = 0; i < count; i++) {
        if (memcmp(s->seen[i].secret, fence->secret, sizeof fence->secret) == 0) {
            return &s->seen[i];
        }
    }
    return NULL;
}

void worker_starts_note(struct worker_starts *s, const struct fence *fence, uint64_t start)
{
    const struct worker_seen *known = find(s, fence);
    struct worker_seen *seen =
        known != NULL ? &s->seen[known - s->seen] : &s->seen[s->count++ % WORKER_STARTS_SEEN];
    if (known == NULL) {
        memcpy(seen->secret, fence->secret, sizeof seen->secret);
        seen->start = 0;
    }
    seen->start = start > seen->start ? start : seen->start;
}

enum worker_start worker_start_decide(const struct worker_starts *starts,
                                      const struct worker_held *held, uint64_t start,
                                      const struct fence *asked, struct err *err)
{
    if (held != NULL && fence_check_secret(&held->fence, asked, err) != 0) {
        return WORKER_START_REFUSED;
    }
    if (start == 0) {
        (void)err_set(err, ERR_INVALID, "start 0; the first is 1");
        return WORKER_START_REFUSED;
    }
    if (held != NULL && held->start == start) {
        return WORKER_START_SAME;
    }
    const struct worker_seen *seen = find(starts, asked);
    if (seen != NULL && start <= seen->start) {
        (void)err_set(err, ERR_ABORTED,
                      "start %" PRIu64 " of the job is over: this worker has heard of %" PRIu64,
                      start, seen->start);
        return WORKER_START_REFUSED;
    }
    if (held == NULL || held->start == 0) {
        return WORKER_START_NEW;
    }
    return MUTANT(late_start) ? WORKER_START_SAME : WORKER_START_AGAIN;
}

int worker_held_check(const struct worker_held *held, uint64_t start, struct err *err)
{
    if (held->start == start || MUTANT(order_of_another_start)) {
        return 0;
    }
    return err_set(err, ERR_NOT_FOUND,
                   "this worker does not have start %" PRIu64 " of the job; it has %" PRIu64, start,
                   held->start);
}

bool worker_stop_decide(const struct worker_held *held, uint64_t start)
{
    return held->start <= start;
}

bool worker_drop_decide(const struct worker_held *held, uint64_t opening)
{
    return held->start == opening;
}
