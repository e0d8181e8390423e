/* SPDX-License-Identifier: Apache-2.0 */
/* A job that runs gets backups for shards that have none: their server was lost, or the job is to
 * have backups from now on.
 *
 * Any server that is alive may have one, whether it serves the job or not. First the backup is
 * opened there, beside training; when all that were asked for have answered, the next generation
 * names them to their primaries, which say them what they are. Until such a backup follows it is
 * none. What cannot be placed is said in the record of the job and looked at again when nodes come
 * or go, or one that had no memory may be asked again. */
#include <inttypes.h>
#include <string.h>

#include "base/mutant.h"
#include "master/core/core.h"

/* Nothing of the job is about to change. */
bool standby_is_calm(const struct job *j)
{
    const bool runs = j->record.state == JOB_RUNNING && !j->over && !j->adopts && !j->hold_cancel;
    const bool stays = j->change == NULL && !j->changing && !j->regroup_needed && !j->standby_moved;
    return runs && stays && !job_gives_up(j) && !job_is_ending(j);
}

static size_t parts_of(const struct job *j, const struct node *n)
{
    size_t count = 0;
    for (size_t i = 0; i < j->shard_count; i++) {
        count += (size_t)(j->shards[i].node == n) + (size_t)(j->shards[i].backup.node == n);
    }
    return count;
}

/* Now, or when what passes by itself has passed: it is alive, not full, and not too small. */
static bool may_have(const struct job *j, const struct node *n, size_t shard)
{
    const bool ends = n->ends && !MUTANT(leaves_gets_backup);
    const bool stays = (!n->draining && !ends) || MUTANT(backup_on_drained);
    const bool serves = node_serves(n, j) || n->job_count < MASTER_JOBS_PER_PS_MAX;
    return n->role == MASTER_PS && n != j->shards[shard].node && n->alive && serves && stays &&
           job_refused_until(j, n) != UINT64_MAX;
}

/* A server that is being told to close something would close the new one instead. */
static bool can_have(const struct master *m, const struct job *j, const struct node *n,
                     size_t shard)
{
    const bool speaks = !n->doubted && !n->unheard && !node_is_silent(m, n, m->now_ms);
    return may_have(j, n, shard) && job_refused_until(j, n) == 0 && speaks &&
           !calls_open_of(&m->calls, j, n);
}

/* On another host than the shard, where there is one; then where there is least of this job, and of
 * others. */
static bool is_better(const struct master *m, const struct job *j, size_t shard,
                      const struct node *a, const struct node *b)
{
    const char *host = j->shards[shard].node->host;
    const size_t of_a[] = {node_is_late(m, a, m->now_ms), strcmp(a->host, host) == 0,
                           parts_of(j, a), a->job_count};
    const size_t of_b[] = {node_is_late(m, b, m->now_ms), strcmp(b->host, host) == 0,
                           parts_of(j, b), b->job_count};
    for (size_t i = 0; i < sizeof of_a / sizeof *of_a; i++) {
        if (of_a[i] != of_b[i]) {
            return of_a[i] < of_b[i];
        }
    }
    return false;
}

/* NULL: none can have it now. */
static struct node *choose(const struct master *m, const struct job *j, size_t shard)
{
    struct node *best = NULL;
    for (size_t i = 0; i < m->node_count; i++) {
        struct node *n = m->nodes[i];
        if (can_have(m, j, n, shard) && (best == NULL || is_better(m, j, shard, n, best))) {
            best = n;
        }
    }
    return best;
}

/* What a server said that refused it stays as the reason, while that is alive. */
static void say_problem(struct master *m, struct job *j, size_t shard)
{
    const struct job_shard *shown = &j->record.shards[shard];
    bool refused = false;
    for (size_t i = 0; i < m->node_count; i++) {
        const struct node *n = m->nodes[i];
        refused = refused || (n->alive && n->role == MASTER_PS && n != j->shards[shard].node &&
                              job_refused_until(j, n) != 0);
    }
    if (!refused || shown->backup_problem[0] == '\0') {
        job_record_set(&j->record.shards[shard].backup_problem, "there is no other server for it");
    }
    job_changed(j);
}

static void place(struct master *m, struct job *j, size_t shard)
{
    struct node *n = choose(m, j, shard);
    if (n == NULL) {
        say_problem(m, j, shard);
        return;
    }
    j->shards[shard].backup = (struct shard_backup){
        .node = n, .opening = fence_draw_opening(m), .joins = true, .stage = BACKUP_OPENS};
    node_take(n, j);
    action_log(m, LOG_LEVEL_INFO, "backup_opens", "job=%s shard=%zu node=%s", j->record.id, shard,
               n->id);
    job_record_set(&j->record.shards[shard].backup_problem, "");
    j->record.shards[shard].state_sent = 0;
    j->record.shards[shard].state_bytes = 0;
    call_start_backup(m, j, (uint32_t)shard);
    standby_show(j);
}

bool standby_is_wanted(const struct job *j, size_t shard)
{
    return j->spec.cluster.standby == STANDBY_FOLLOWER ||
           (j->shards[shard].node != NULL && j->shards[shard].node->draining);
}

bool standby_may_have_place(const struct master *m, const struct job *j, size_t shard)
{
    bool may = false;
    for (size_t i = 0; i < m->node_count; i++) {
        may = may || may_have(j, m->nodes[i], shard);
    }
    return may;
}

bool standby_has_place(const struct master *m, const struct job *j, size_t shard)
{
    return j->refill_after_ms <= m->now_ms && choose(m, j, shard) != NULL;
}

void standby_refill(struct master *m, struct job *j)
{
    if (!j->refill || !standby_is_calm(j) || j->refill_after_ms > m->now_ms) {
        return;
    }
    j->refill = false;
    for (size_t i = 0; i < j->shard_count; i++) {
        if (j->shards[i].backup.node == NULL && standby_is_wanted(j, i)) {
            place(m, j, i);
        }
    }
}

bool standby_names(struct master *m, struct job *j)
{
    const bool stands = j->phase == PHASE_TRAIN || j->phase == PHASE_QUIESCED;
    bool some = false;
    for (size_t i = 0; i < j->shard_count; i++) {
        some =
            some || (j->shards[i].backup.node != NULL && j->shards[i].backup.stage == BACKUP_OPEN);
    }
    if (!some || !stands || j->work != WORK_NONE || !standby_is_calm(j) ||
        calls_open(&m->calls, j, MASTER_CALL_OPEN) > 0) {
        return false;
    }
    for (size_t i = 0; i < j->shard_count; i++) {
        struct shard_backup *b = &j->shards[i].backup;
        b->stage = b->node != NULL && b->stage == BACKUP_OPEN ? BACKUP_NAMED : b->stage;
    }
    return true;
}

/* Others may have it; or this one, when it has had time to get memory. */
void standby_open_refused(struct master *m, struct job *j, uint32_t shard, const char *why)
{
    char quoted[512];
    struct node *n = j->shards[shard].backup.node;
    action_log(m, LOG_LEVEL_WARN, "backup_refused", "job=%s shard=%" PRIu32 " node=%s reason=%s",
               j->record.id, shard, n->id, log_quote(why, quoted, sizeof quoted));
    job_refuse(m, j, n, false);
    job_record_set(&j->record.shards[shard].backup_problem, why);
    standby_close(m, j, shard);
}

bool standby_not_taken(struct master *m, struct job *j, uint32_t shard, bool again, const char *why)
{
    if (j->shards[shard].backup.node == NULL || j->shards[shard].backup.stage != BACKUP_NAMED) {
        return false;
    }
    const bool moved = j->standby_moved || again;
    standby_back_off(m, j, shard, why);
    standby_close(m, j, shard);
    j->standby_moved = moved;
    job_store(m, j);
    call_start(m, j, j->shards[shard].node, MASTER_CALL_MEMBERSHIP, shard);
    return true;
}
