/* SPDX-License-Identifier: Apache-2.0 */
/* How long a node may be silent, in fractions of --heartbeat-timeout-ms: a fifth of it between two
 * heartbeats; two that are missing make it late; the whole time-out makes it silent, and then it is
 * given up, or waited for as long as --ps-timeout-ms. The master looks at the clock after a sixth
 * at the latest, so that it knows when it has stood still itself. */
#include "base/mutant.h"
#include "master/core/core.h"

#define BEATS 5      /* heartbeats in the time-out, where no interval is set */
#define LATE_BEATS 2 /* so many are missing: the node is late */
#define WATCHES 6    /* looks at the clock in the time-out */
#define WATCH_MS_MAX 500
/* times that a node is judged later because the master was late; even a machine that is always late
 * gives up dead nodes */
#define OVERDUE_AGAIN_MAX 20

uint64_t master_beat_ms(const struct master_config *config)
{
    uint64_t ms = config->heartbeat_interval_ms;
    return ms > 0 ? ms : config->heartbeat_timeout_ms / BEATS;
}

uint64_t master_late_ms(const struct master_config *config)
{
    return LATE_BEATS * master_beat_ms(config);
}

uint64_t nodes_watch_ms(const struct master *m)
{
    uint64_t ms = m->config.heartbeat_timeout_ms / WATCHES;
    return ms < WATCH_MS_MAX ? ms : WATCH_MS_MAX;
}

/* The shards of @j on @n have backups on servers that speak, which will take over. */
static bool is_covered(const struct master *m, const struct job *j, const struct node *n)
{
    for (size_t i = 0; i < j->shard_count; i++) {
        const struct shard_backup *b = &j->shards[i].backup;
        const bool speaks = b->node != NULL && b->node->alive && b->stage == BACKUP_FOLLOWS &&
                            !b->node->unheard && !node_is_silent(m, b->node, m->now_ms);
        if (j->shards[i].node == n && (!speaks || j->record.state != JOB_RUNNING)) {
            return false;
        }
    }
    return true;
}

/* It has something that is nowhere else. */
static bool is_needed(const struct master *m, const struct node *n)
{
    for (size_t i = 0; i < n->job_count && n->shards_open > 0; i++) {
        if (!is_covered(m, n->jobs[i], n)) {
            return true;
        }
    }
    return false;
}

/* The batches of a lost worker are computed again by others at once, and a server without a shard,
 * or with backups elsewhere, has nothing to lose. What any other shard has since its last
 * checkpoint is nowhere else. */
uint64_t node_patience_ms(const struct master *m, const struct node *n)
{
    uint64_t beats_ms = m->config.heartbeat_timeout_ms;
    uint64_t ps_ms = is_needed(m, n) && !MUTANT(server_as_a_worker) ? m->config.ps_timeout_ms : 0;
    ps_ms = n->shards_open > 0 && MUTANT(waited_for_ever) ? UINT64_MAX / 2 : ps_ms;
    return ps_ms > beats_ms ? ps_ms : beats_ms;
}

/* The order in which they were heard stays. */
void nodes_late(struct master *m, uint64_t late_ms)
{
    for (size_t i = 0; i < m->node_count; i++) {
        struct node *n = m->nodes[i];
        uint64_t *at = &n->heartbeat_ms;
        if (n->shards_open > 0 && MUTANT(silence_of_the_master)) {
            continue;
        }
        bool marked = n->overdue_ms > *at;
        *at = m->now_ms - *at < late_ms ? m->now_ms : *at + late_ms;
        if (marked && n->overdue_again < OVERDUE_AGAIN_MAX && !MUTANT(late_while_it_reads)) {
            n->overdue_again++;
            n->overdue_ms = m->now_ms; /* the master has not read messages meanwhile */
        }
    }
}

bool node_is_seen_silent(const struct node *n, uint64_t limit_ms)
{
    return n->overdue_ms > n->heartbeat_ms && n->overdue_limit_ms >= limit_ms;
}

/* The time-out has a mark of its own, also where a node is waited for beyond it: then its name is
 * free for others. */
static uint64_t node_timer(const struct master *m, const struct node *n)
{
    uint64_t beats_ms = m->config.heartbeat_timeout_ms;
    uint64_t patience_ms = node_patience_ms(m, n);
    if (!node_is_seen_silent(n, beats_ms)) {
        return n->heartbeat_ms + beats_ms;
    }
    uint64_t due = n->heartbeat_ms + patience_ms;
    uint64_t judged = node_is_seen_silent(n, patience_ms) ? n->overdue_ms + NODE_READ_MS : due;
    return judged > due ? judged : due;
}

bool node_is_late(const struct master *m, const struct node *n, uint64_t now_ms)
{
    return n->unheard || now_ms >= n->heartbeat_ms + m->late_ms;
}

bool node_is_silent(const struct master *m, const struct node *n, uint64_t now_ms)
{
    return now_ms >= n->heartbeat_ms + m->config.heartbeat_timeout_ms;
}

bool node_is_given_up(const struct master *m, const struct node *n, uint64_t limit_ms)
{
    return m->now_ms - n->heartbeat_ms >= limit_ms && node_is_seen_silent(n, limit_ms) &&
           m->now_ms - n->overdue_ms >= NODE_READ_MS;
}

/* No node is looked at before the time-out is over, so nodes that were heard later need no look:
 * the walk ends at the first that is not silent. */
uint64_t nodes_timer(const struct master *m)
{
    uint64_t next = UINT64_MAX;
    for (const struct node *n = m->heard_first;
         n != NULL && n->heartbeat_ms + m->config.heartbeat_timeout_ms < next; n = n->heard_after) {
        uint64_t at = node_timer(m, n);
        next = at < next ? at : next;
    }
    return next;
}
