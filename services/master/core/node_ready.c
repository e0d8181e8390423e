/* SPDX-License-Identifier: Apache-2.0 */
/* May a server be ended now? Not while it has a shard without a backup that its job wants, has a
 * backup that joins, or is about to get one: with the next server that is ended the job would go
 * back to its newest checkpoint. Servers are told with each answer and say so at /readyz, where
 * Kubernetes looks before it replaces the next one; `gradus nodes --wait` looks here.
 *
 * A job that can never get a backup must not stop an upgrade for ever: servers are told only while
 * less than READY_PATIENCE_MS have passed since the shard lost its backup, or since more of the
 * shard's state has left for a new one than ever before. */
#include <string.h>

#include "base/buf.h"
#include "base/mutant.h"
#include "base/text.h"
#include "master/core/core.h"

#define READY_PATIENCE_MS 600000

static bool wants_backups(const struct job *j)
{
    return j->spec.cluster.standby == STANDBY_FOLLOWER && !job_state_is_final(j->record.state);
}

/* While a job is taken over its servers are those of its row, and may have ended. */
static bool is_backed(const struct job *j, const struct shard_state *s)
{
    const bool there = s->backup.node != NULL && !j->adopts;
    return there && (s->backup.stage == BACKUP_FOLLOWS || MUTANT(joining_is_ready));
}

/* Measures for how long nothing has got better. */
static void look(const struct master *m, struct job *j)
{
    for (size_t i = 0; i < j->shard_count; i++) {
        struct shard_state *s = &j->shards[i];
        const uint64_t sent = i < j->record.shard_count ? j->record.shards[i].state_sent : 0;
        if (is_backed(j, s)) {
            s->alone_ms = s->alone_sent = 0;
        } else if (s->alone_ms == 0 || sent > s->alone_sent) {
            s->alone_ms = m->now_ms;
            s->alone_sent = sent;
        }
    }
}

/* Would the shard's backup be put there? A server that has just joined is told before it is. */
static bool may_be_given(const struct job *j, const struct shard_state *s, const struct node *n)
{
    const bool has_room = node_serves(n, j) || n->job_count < MASTER_JOBS_PER_PS_MAX;
    return s->backup.node == NULL && has_room && !n->draining && !n->ends &&
           job_refused_until(j, n) == 0;
}

static bool is_concerned(const struct job *j, const struct shard_state *s, const struct node *n)
{
    return s->node == n || (s->backup.node == n && !MUTANT(backup_is_ready)) ||
           may_be_given(j, s, n);
}

/* The first shard of @j for which @n should stay; NULL: none. */
static const struct shard_state *first_alone(const struct master *m, const struct job *j,
                                             const struct node *n, uint64_t patience_ms)
{
    for (size_t i = 0; i < j->shard_count; i++) {
        const struct shard_state *s = &j->shards[i];
        if (!is_backed(j, s) && is_concerned(j, s, n) && m->now_ms - s->alone_ms < patience_ms) {
            return s;
        }
    }
    return NULL;
}

static const struct shard_state *find(const struct master *m, const struct node *n,
                                      uint64_t patience_ms, struct job **of)
{
    const struct shard_state *found = NULL;
    for (size_t i = 0; n->role == MASTER_PS && n->alive && i < m->job_count && found == NULL; i++) {
        if (m->jobs[i]->shard_count > 0 && wants_backups(m->jobs[i])) {
            look(m, m->jobs[i]);
            found = first_alone(m, m->jobs[i], n, patience_ms);
            *of = m->jobs[i];
        }
    }
    return found;
}

static void say(const struct job *j, const struct shard_state *s, struct buf *out)
{
    const size_t shard = (size_t)(s - j->shards);
    if (j->adopts) {
        buf_printf(out, "this master is taking over job %s", j->record.id);
    } else if (s->backup.node != NULL) {
        buf_printf(out, "the backup of shard %zu of job %s joins on %s", shard, j->record.id,
                   s->backup.node->id);
    } else {
        buf_printf(out, "shard %zu of job %s has no backup", shard, j->record.id);
    }
}

const char *node_waits_for_backups(struct master *m, const struct node *n)
{
    struct job *j = NULL;
    struct buf text = {0};
    const struct shard_state *s = find(m, n, READY_PATIENCE_MS, &j);
    if (s == NULL) {
        return NULL;
    }
    say(j, s, &text);
    const char *why = action_printf(m, "%s", buf_str(&text));
    buf_release(&text);
    return why;
}

void node_unready(const struct master *m, const struct node *n, char *out, size_t bytes)
{
    struct job *j = NULL;
    struct buf text = {0};
    const struct shard_state *s = find(m, n, UINT64_MAX, &j);
    if (s != NULL) {
        say(j, s, &text);
    }
    text_copy(out, bytes, s == NULL ? "" : buf_str(&text));
    buf_release(&text);
}
