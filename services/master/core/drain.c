/* SPDX-License-Identifier: Apache-2.0 */
/* A node is taken out of service while its jobs go on: it gets nothing new, and what it has goes
 * elsewhere.
 *
 * A shard moves by having a backup on another server (standby_join.c), also where the job has none
 * otherwise: when that follows, the next generation has it as the primary, as when a server dies;
 * but this one lives, so there is nothing to wait for, and it is closed. A backup is closed, and
 * another one joins elsewhere. A worker goes when enough others have started; their shares and
 * leases are then as if it had died. Nothing of that loses a step or makes one again.
 *
 * What cannot go now is tried again with each event of its job. A job that ends, yields or goes
 * back leaves its nodes by itself. The master that was asked forgets it when it ends: whoever wants
 * the node empty asks again. */
#include <inttypes.h>

#include "base/mutant.h"
#include "master/core/core.h"

static bool drains(const struct node *n)
{
    return n != NULL && n->draining;
}

static bool stays(const struct node *n)
{
    return n != NULL && !n->draining && !n->leaves;
}

/* ---- shards ---- */

static bool may_take(const struct node *n)
{
    return stays(n) || (!n->draining && MUTANT(moved_to_leaving));
}

/* Its primaries are told of a new generation at once. While files are written of a version, each
 * shard has its own. */
static bool may_move(const struct job *j)
{
    const bool stands = j->phase == PHASE_TRAIN || j->phase == PHASE_QUIESCED;
    return standby_is_calm(j) && stands && (j->work == WORK_NONE || j->work == WORK_EVALUATE);
}

static bool follows(const struct shard_backup *b)
{
    const bool joins = b->stage == BACKUP_JOINS && MUTANT(moves_to_one_that_joins);
    return b->node != NULL && b->node->alive && (b->stage == BACKUP_FOLLOWS || joins);
}

/* A master that is started again goes back to a checkpoint for a shard that was closed, unless the
 * row says who follows. */
static bool row_has_follower(struct master *m, struct job *j, size_t shard)
{
    const struct job_handover *h = &j->record.handover;
    const bool noted = shard < h->server_count &&
                       (h->servers[shard].backup_follows || MUTANT(moves_to_one_that_joins)) &&
                       h->servers[shard].backup_opening == j->shards[shard].backup.opening;
    if (!noted && j->row == j->row_stored) {
        job_store(m, j);
    }
    return (noted && j->row == j->row_stored) || MUTANT(moved_before_stored);
}

static void move_shards(struct master *m, struct job *j)
{
    for (size_t i = 0; i < j->shard_count; i++) {
        const struct shard_backup *b = &j->shards[i].backup;
        if (drains(j->shards[i].node) && follows(b) && may_take(b->node) &&
            !node_is_late(m, b->node, m->now_ms) && row_has_follower(m, j, i)) {
            standby_moves(m, j, (uint32_t)i);
        }
    }
}

/* Its server was told that it may end, for this one takes over: it does so first. */
static bool is_counted_upon(const struct shard_state *s)
{
    const struct node *n = s->node;
    const bool may_end = n != NULL && n->leaves && !n->lingers;
    return s->backup.stage == BACKUP_FOLLOWS && may_end && !MUTANT(cover_drained_first);
}

/* Those on nodes that drain, and those that were wanted for one that does not drain any more. */
static void close_backups(struct master *m, struct job *j)
{
    for (size_t i = 0; i < j->shard_count; i++) {
        const struct node *n = j->shards[i].backup.node;
        const bool wanted = standby_is_wanted(j, i);
        if (!wanted && j->record.shards[i].backup_problem[0] != '\0') {
            job_record_set(&j->record.shards[i].backup_problem, "");
            job_changed(j);
        }
        if (n != NULL && (drains(n) || !wanted) && !is_counted_upon(&j->shards[i])) {
            action_log(m, LOG_LEVEL_INFO, "backup_closed", "job=%s shard=%zu node=%s", j->record.id,
                       i, n->id);
            standby_close(m, j, (uint32_t)i);
        }
    }
}

/* ---- workers ---- */

/* Workers that stay; @started: those that do not load data any more. */
static size_t others(const struct job *j, bool started)
{
    size_t count = 0;
    for (size_t i = 0; i < j->worker_count; i++) {
        const struct job_worker *w = &j->workers[i];
        count += (w->started || !started) && !drains(w->node);
    }
    return count;
}

static size_t room_up_to(const struct job *j, size_t most)
{
    return most > j->worker_count ? most - j->worker_count : 0;
}

/* Those that it would be given. */
static size_t free_workers(const struct master *m, const struct job *j)
{
    const size_t quota = room_up_to(j, drain_quota(m, j));
    const size_t fit = j->workers_fit > 0 ? room_up_to(j, j->workers_fit) : SIZE_MAX;
    size_t count = 0;
    for (size_t i = 0; i < m->node_count && count < quota && count < fit; i++) {
        const struct node *n = m->nodes[i];
        count +=
            n->role == MASTER_WORKER && placement_is_free(m, n, j) && job_refused_until(j, n) == 0;
    }
    return count;
}

static bool are_enough(const struct job *j, size_t workers)
{
    const size_t least = MUTANT(drains_last_worker) ? 0 : (size_t)j->spec.cluster.workers.min;
    return workers >= least;
}

/* The last one that stays, of those that still load data, if any. */
static struct node *one_too_many(const struct job *j)
{
    struct node *started = NULL;
    for (size_t i = j->worker_count; i-- > 0;) {
        const struct job_worker *w = &j->workers[i];
        if (!drains(w->node) && !w->started) {
            return w->node;
        }
        started = started == NULL && !drains(w->node) ? w->node : started;
    }
    return started;
}

/* Others came in the place of workers that do not drain any more. */
static void drop_surplus(struct master *m, struct job *j, size_t most)
{
    while (j->worker_count > most + drain_workers(j)) {
        job_drop_worker(m, j, one_too_many(j), "the job has enough workers without it");
    }
}

static bool may_drop(const struct job *j)
{
    return j->record.state == JOB_RUNNING && !j->over && !j->adopts;
}

static void move_workers(struct master *m, struct job *j)
{
    if (!may_drop(j)) {
        return;
    }
    for (size_t i = j->worker_count; i-- > 0 && are_enough(j, others(j, true));) {
        if (drains(j->workers[i].node)) {
            job_drop_worker(m, j, j->workers[i].node, "it is being drained");
        }
    }
    drop_surplus(m, j, (size_t)j->spec.cluster.workers.max);
}

void drain_taken_back(struct master *m, const struct node *n)
{
    struct job *j = n->role == MASTER_WORKER && n->job_count > 0 ? n->jobs[0] : NULL;
    if (j != NULL && may_drop(j)) {
        const size_t least = (size_t)j->spec.cluster.workers.min;
        const size_t most = (size_t)j->spec.cluster.workers.max;
        const size_t quota = quota_workers(m, j);
        drop_surplus(m, j, quota > most ? most : quota < least ? least : quota);
    }
}

void drain_job(struct master *m, struct job *j)
{
    move_workers(m, j);
    if (!may_move(j)) {
        return;
    }
    move_shards(m, j);
    close_backups(m, j);
}

/* ---- what cannot go ---- */

/* NULL: it can. */
static const char *problem_of_shard(struct master *m, const struct job *j, size_t shard)
{
    const struct shard_backup *b = &j->shards[shard].backup;
    const char *said = j->record.shards[shard].backup_problem;
    if ((b->node != NULL && !drains(b->node)) || standby_has_place(m, j, shard)) {
        return NULL;
    }
    return said[0] != '\0' ? action_printf(m, "%s", said) : "there is no other server for it";
}

/* Servers that the job's row does not name join the new master with their next heartbeats. */
static bool has_new_master(const struct master *m, const struct job *j)
{
    return j->adopts || (j->adopted_ms != 0 && m->now_ms - j->adopted_ms < m->late_ms);
}

bool drain_may_move(const struct master *m, const struct job *j, const struct node *n)
{
    if (j->over || has_new_master(m, j) || job_yields(j)) {
        return true;
    }
    bool may = j->record.state == JOB_RUNNING ||
               (j->record.state == JOB_RECOVERING && j->phase == PHASE_WAIT);
    for (size_t i = 0; may && i < j->shard_count; i++) {
        may = j->shards[i].node != n || stays(j->shards[i].backup.node) ||
              standby_may_have_place(m, j, i);
    }
    return may;
}

const char *drain_problem(struct master *m, struct job *j, const struct node *n)
{
    if (job_is_ending(j) || job_state_is_final(j->record.state) || j->restartable || j->over ||
        job_gives_up(j)) {
        return NULL; /* it gives its nodes up by itself */
    }
    if (j->record.state != JOB_RUNNING || j->adopts) {
        return action_printf(m, "the job is %s: what it has moves when it runs",
                             job_state_name(j->record.state));
    }
    for (size_t i = 0; i < j->shard_count; i++) {
        const char *why = j->shards[i].node == n ? problem_of_shard(m, j, i) : NULL;
        if (why != NULL) {
            return action_printf(m, "shard %zu: %s", i, why);
        }
    }
    if (job_worker_of(j, n) != NULL && !are_enough(j, others(j, false) + free_workers(m, j))) {
        return action_printf(m, "the job needs %" PRId64 " workers, and no other is free",
                             j->spec.cluster.workers.min);
    }
    return NULL;
}
