/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers that keep a job's nodes from taking orders of others (job/fence.h). */
#include <string.h>

#include "base/rng.h"
#include "master/core/core.h"

void fence_draw_secret(struct master *m, struct job *j)
{
    static const uint8_t NONE[FENCE_SECRET_BYTES];
    uint64_t words[2];
    if (memcmp(j->record.secret, NONE, sizeof NONE) != 0) {
        return;
    }
    for (size_t i = 0; i < 2; i++) {
        words[i] = rng_u64(m->config.seeds[i], m->secrets_drawn);
    }
    m->secrets_drawn++;
    _Static_assert(sizeof words == FENCE_SECRET_BYTES, "a secret is two words");
    memcpy(j->record.secret, words, sizeof words);
}

uint64_t fence_draw_opening(struct master *m)
{
    uint64_t opening;
    do {
        opening = rng_u64(m->config.seeds[2], m->openings_drawn++);
    } while (opening == 0);
    return opening;
}

void fence_draw_openings(struct master *m, struct job *j)
{
    const bool backups = j->spec.cluster.standby == STANDBY_FOLLOWER;
    j->opening = fence_draw_opening(m);
    j->backup_opening = backups ? fence_draw_opening(m) : 0;
    for (size_t i = 0; i < j->shard_count; i++) {
        j->shards[i].opening = j->opening;
        j->shards[i].backup.opening = j->backup_opening;
    }
}

struct fence fence_of(const struct job *j, uint64_t opening)
{
    struct fence f = {.opening = opening != 0 ? opening : j->opening};
    memcpy(f.secret, j->record.secret, sizeof f.secret);
    return f;
}
