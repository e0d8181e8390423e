/* SPDX-License-Identifier: Apache-2.0 */
/* Which checkpoints are deltas, and of which base.
 *
 * A delta is one of the last full checkpoint, so that restoring reads two files at most, and a
 * damaged file costs no more than the deltas that need it. Servers know a base only as long as
 * their shards are open: each start of a job begins with a full checkpoint. A server that cannot
 * write a delta writes everything, and says so; the next checkpoint is a full one then. */
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "master/core/core.h"

void base_forget(struct job *j)
{
    j->base.directory[0] = '\0';
    j->base.deltas = 0;
}

void base_choose(struct job *j)
{
    struct sync_point *s = &j->sync_point;
    const uint64_t every = (uint64_t)j->spec.training.checkpoint_full_every;
    /* The last one of a job has everything: it can be copied and kept by itself. */
    s->delta = j->base.directory[0] != '\0' && j->base.deltas + 1 < every && !s->last &&
               !s->cancel && strcmp(j->base.directory, s->directory) != 0;
}

static void keep(struct job *j)
{
    (void)snprintf(j->base.directory, sizeof j->base.directory, "%s", j->sync_point.directory);
    for (size_t i = 0; i < j->shard_count; i++) {
        struct shard_state *s = &j->shards[i];
        job_record_set(&s->base_file, s->file);
        s->base_checksum = s->checksum;
        s->base_version = s->file_version;
    }
}

static size_t count_deltas(const struct job *j)
{
    size_t deltas = 0;
    for (size_t i = 0; i < j->shard_count; i++) {
        deltas += j->shards[i].delta;
    }
    return deltas;
}

const char *base_used(const struct job *j)
{
    return count_deltas(j) > 0 ? j->base.directory : NULL;
}

void base_written(struct job *j)
{
    const size_t deltas = count_deltas(j);
    if (deltas == 0) {
        keep(j);
        j->base.deltas = 0;
        return;
    }
    j->base.deltas++;
    if (MUTANT(base_is_the_last)) {
        keep(j);
    }
    if (deltas < j->shard_count) {
        base_forget(j);
    }
}
