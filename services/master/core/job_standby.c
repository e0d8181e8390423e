/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of a job's shards and their backups. Nothing is decided here. */
#include "master/core/core.h"

bool job_has_shard_on(const struct job *j, const struct node *n)
{
    for (size_t i = 0; i < j->shard_count; i++) {
        if (j->shards[i].node == n || j->shards[i].backup.node == n) {
            return true;
        }
    }
    return false;
}

bool job_has_opening(const struct job *j, const struct node *n, uint64_t opening)
{
    for (size_t i = 0; i < j->shard_count; i++) {
        const struct shard_state *s = &j->shards[i];
        if ((s->node == n && s->opening == opening) ||
            (s->backup.node == n && s->backup.opening == opening)) {
            return true;
        }
    }
    return false;
}

/* The job has its shards, and workers may be told where. */
bool job_stands(const struct job *j)
{
    bool waits = j->record.state == JOB_RECOVERING && (j->phase == PHASE_WAIT || j->adopts);
    return (j->record.state == JOB_RUNNING || waits) && !j->restartable && !job_is_ending(j);
}

bool standby_covers(const struct job *j, const struct node *n)
{
    for (size_t i = 0; i < j->shard_count; i++) {
        const struct shard_backup *b = &j->shards[i].backup;
        if (j->shards[i].node == n && (b->node == NULL || !b->node->alive || !b->answered)) {
            return false;
        }
    }
    return job_stands(j);
}
