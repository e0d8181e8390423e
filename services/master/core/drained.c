/* SPDX-License-Identifier: Apache-2.0 */
/* What a job has on nodes that are to be emptied. */
#include <stdint.h>

#include "master/core/core.h"

static bool drains(const struct node *n)
{
    return n != NULL && n->draining;
}

size_t drain_workers(const struct job *j)
{
    size_t count = 0;
    for (size_t i = 0; i < j->worker_count; i++) {
        count += drains(j->workers[i].node);
    }
    return count;
}

size_t drain_quota(const struct master *m, const struct job *j)
{
    const size_t most = quota_workers(m, j);
    return most == SIZE_MAX ? most : most + drain_workers(j);
}

bool drain_concerns(const struct job *j)
{
    bool some = drain_workers(j) > 0;
    for (size_t i = 0; i < j->shard_count; i++) {
        some = some || drains(j->shards[i].node) || drains(j->shards[i].backup.node);
    }
    return some;
}
