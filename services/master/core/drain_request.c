/* SPDX-License-Identifier: Apache-2.0 */
/* An admin wants a node emptied, or takes that back, and hears what the node has still. */
#include "base/mutant.h"
#include "master/core/core.h"

/* What the node has of @j: nothing, while it is being told to drop that. */
static void say_held(struct master *m, struct job *j, const struct node *n, struct master_held *out)
{
    uint32_t *primaries = action_memory(m, j->shard_count, sizeof *primaries);
    uint32_t *backups = action_memory(m, j->shard_count, sizeof *backups);
    *out = (struct master_held){.job = action_printf(m, "%s", j->record.id),
                                .primaries = primaries,
                                .backups = backups,
                                .works = job_worker_of(j, n) != NULL};
    for (size_t i = 0; i < j->shard_count; i++) {
        if (j->shards[i].node == n) {
            primaries[out->primary_count++] = (uint32_t)i;
        } else if (j->shards[i].backup.node == n) {
            backups[out->backup_count++] = (uint32_t)i;
        }
    }
    out->problem = drain_problem(m, j, n);
}

static void say(struct master *m, const struct node *n, uint64_t request, bool changed)
{
    struct master_held *held = action_memory(m, n->job_count, sizeof *held);
    for (size_t i = 0; i < n->job_count; i++) {
        say_held(m, n->jobs[i], n, &held[i]);
    }
    struct master_reply *reply = reply_add(m, request);
    reply->node = action_printf(m, "%s", n->id);
    reply->was_alive = n->alive;
    reply->drained = (struct master_drained){n->draining, changed, held, n->job_count};
}

static void begin(struct master *m, struct node *n, bool drains)
{
    n->draining = drains;
    n->leaves = n->leaves && (drains || !MUTANT(leaves_until_undone));
    n->ends = n->ends && (drains || !MUTANT(leaves_until_undone));
    action_log(m, LOG_LEVEL_INFO, drains ? "node_drains" : "node_drains_not", "node=%s jobs=%zu",
               n->id, n->job_count);
    m->reschedule = true;
    if (!drains) {
        drain_taken_back(m, n);
    }
}

/* What had no place may have one by now. */
static void look_again(struct node *n)
{
    for (size_t i = 0; i < n->job_count; i++) {
        n->jobs[i]->refill = true;
        job_touch(n->jobs[i]);
    }
}

/* All of its shards have backups that will take over, on servers that speak, and stay. */
static bool is_covered(const struct master *m, const struct job *j, const struct node *n)
{
    for (size_t i = 0; i < j->shard_count; i++) {
        const struct node *b = j->shards[i].backup.node;
        if (j->shards[i].node == n &&
            (b == NULL || b->draining || (b->leaves && !MUTANT(leaves_covers)) ||
             node_is_late(m, b, m->now_ms))) {
            return MUTANT(ends_without_backup);
        }
    }
    return standby_covers(j, n) || MUTANT(ends_before_copied);
}

/* What waits for its move now is waited for, even if what holds it up will pass only later: the
 * server knows how long it has time. One that has begun to wait waits until its shards are gone. */
static bool would_lose(const struct master *m, const struct job *j, const struct node *n)
{
    return job_has_primary_on(j, n) && (n->lingers || !is_covered(m, j, n)) &&
           drain_may_move(m, j, n) && !job_is_ending(j) && !j->restartable &&
           !job_state_is_final(j->record.state);
}

/* Some server was told that it may end, for what is here takes over. */
static bool is_cover(const struct node *n)
{
    for (size_t i = 0; i < n->job_count; i++) {
        const struct job *j = n->jobs[i];
        for (size_t k = 0; k < j->shard_count; k++) {
            const struct node *p = j->shards[k].node;
            const struct shard_backup *b = &j->shards[k].backup;
            if (b->node == n && b->stage == BACKUP_FOLLOWS && p != NULL && p->leaves) {
                return true;
            }
        }
    }
    return false;
}

bool drain_leaves(struct master *m, struct node *n)
{
    bool some = false;
    if (n->role != MASTER_PS) {
        return false;
    }
    n->ends = true;
    if (!n->leaves && is_cover(n) && !MUTANT(cover_may_end)) {
        return true;
    }
    n->lingers = n->lingers || (n->draining && !n->leaves);
    n->leaves = true; /* from now on it is nobody's cover */
    for (size_t i = 0; i < n->job_count; i++) {
        some = some || would_lose(m, n->jobs[i], n);
    }
    n->lingers = n->lingers || some;
    if (some && !n->draining && !MUTANT(leaves_not_emptied)) {
        begin(m, n, true);
    }
    if (some) {
        look_again(n);
    }
    return some || MUTANT(leaves_for_ever);
}

void on_drain(struct master *m, const struct master_event *e)
{
    struct node *n = node_named(m, e->drain.node);
    if (n == NULL) {
        reply_error(m, e->request, ERR_NOT_FOUND, "no node %.128s", e->drain.node);
        return;
    }
    const bool wanted = !e->drain.undo || MUTANT(drained_for_good);
    const bool changes = n->alive && n->draining != wanted;
    if (changes) {
        begin(m, n, wanted);
    }
    if (n->alive) {
        look_again(n);
    }
    say(m, n, e->request, changes);
}
