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
    action_log(m, LOG_LEVEL_INFO, drains ? "node_drains" : "node_drains_not", "node=%s jobs=%zu",
               n->id, n->job_count);
    m->reschedule = true;
    for (size_t i = 0; i < n->job_count; i++) {
        n->jobs[i]->refill = true;
        job_touch(n->jobs[i]);
    }
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
    say(m, n, e->request, changes);
}
