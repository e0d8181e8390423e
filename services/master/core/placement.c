/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes a job gets, and when. Waiting jobs are started in the order of their priorities, then
 * of their age, as soon as enough nodes are free; running jobs get free workers, up to the most
 * that they may have. While a job waits that the nodes could serve, jobs of lower priorities get no
 * more than they need. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "master/core/core.h"

/* True if the node may be given something. A silent node that is waited for keeps what it has, and
 * gets nothing. */
static bool is_free(const struct master *m, const struct node *n)
{
    const bool drains =
        (n->draining || (n->ends && !MUTANT(leaves_is_free))) && !MUTANT(drained_is_free);
    return n->alive && !n->doubted && !drains && !node_is_silent(m, n, m->now_ms) &&
           n->job_count < (n->role == MASTER_PS ? MASTER_JOBS_PER_PS_MAX : 1);
}

/* A job that moves to other servers gets the workers again that it had, for as long as it waits for
 * all of them. */
static bool is_kept(const struct master *m, const struct node *n, const struct job *from)
{
    return n->kept_for != NULL && n->kept_for != from && n->role == MASTER_WORKER &&
           m->now_ms < n->kept_for->resume_fewer_ms;
}

bool placement_is_free(const struct master *m, const struct node *n, const struct job *j)
{
    return is_free(m, n) && !is_kept(m, n, j);
}

/* Counted once, and again after somebody was given a node: not for each job that waits. */
static void count_supply(struct master *m)
{
    memset(m->supply, 0, sizeof m->supply);
    for (size_t i = 0; i < m->node_count; i++) {
        const struct node *n = m->nodes[i];
        m->supply[n->role].alive += n->alive && !n->draining;
        m->supply[n->role].draining += n->alive && n->draining;
        m->supply[n->role].free += placement_is_free(m, n, NULL);
    }
}

static struct supply supply_of(const struct master *m, const struct job *j, enum master_role role)
{
    struct supply s = m->supply[role];
    for (size_t i = 0; j->moves && i < m->node_count; i++) {
        const struct node *n = m->nodes[i];
        s.free += n->role == role && placement_is_free(m, n, j) && !placement_is_free(m, n, NULL);
    }
    return s;
}

static size_t servers_to_start(const struct master *m, const struct job *j)
{
    return job_servers_to_start(j, supply_of(m, j, MASTER_PS).free);
}

bool placement_has_room(const struct master *m, const struct job *j)
{
    size_t count = j->refused_count == 0 ? m->alive[MASTER_PS] : 0;
    for (size_t i = 0; j->refused_count > 0 && i < m->node_count; i++) {
        const struct node *n = m->nodes[i];
        count += n->role == MASTER_PS && n->alive && job_refused_until(j, n) != UINT64_MAX;
    }
    return count >= job_servers_to_start(j, count);
}

/* Lets a running job take back the workers that it lost, before a waiting job begins; @most: up to
 * so many. */
static void refill(struct master *m, struct job *j, size_t most)
{
    most += drain_workers(j); /* others in their place */
    if (m->supply[MASTER_WORKER].free == 0 || j->worker_count >= most) {
        return;
    }
    size_t quota = drain_quota(m, j);
    most = quota < most ? quota : most;
    for (size_t i = 0; i < m->node_count; i++) {
        struct node *n = m->nodes[i];
        if (j->worker_count >= most || (j->workers_fit > 0 && j->worker_count >= j->workers_fit)) {
            return;
        }
        if (n->role == MASTER_WORKER && placement_is_free(m, n, j) &&
            job_refused_until(j, n) == 0) {
            action_log(m, LOG_LEVEL_INFO, "worker_added", "job=%s node=%s", j->record.id, n->id);
            job_worker_add(j, n);
            m->supply[MASTER_WORKER].free--;
            if (j->has_plan) {
                call_start(m, j, n, MASTER_CALL_START, 0);
            } else if (j->phase == PHASE_INSPECT) { /* the job is being adopted */
                call_start(m, j, n, MASTER_CALL_INSPECT, 0);
            }
            job_changed(j);
        }
    }
}

static void add_missing(struct buf *text, const char *one, size_t want, struct supply s)
{
    if (s.free >= want) {
        return;
    }
    size_t missing = want - s.free;
    buf_printf(text, "%s%zu more %s%s: %zu of %zu free", text->len == 0 ? "waits for " : "; ",
               missing, one, missing == 1 ? "" : "s", s.free, want);
    if (s.alive > s.free) {
        buf_printf(text, ", %zu busy", s.alive - s.free);
    }
    if (s.draining > 0) {
        buf_printf(text, ", %zu being drained", s.draining);
    }
}

static bool is_better(const struct master *m, const struct job *j, const struct node *a,
                      const struct node *b)
{
    if ((a->kept_for == j) != (b->kept_for == j)) {
        return a->kept_for == j;
    }
    bool late_a = node_is_late(m, a, m->now_ms);
    bool late_b = node_is_late(m, b, m->now_ms);
    if (late_a != late_b) {
        return late_b;
    }
    uint64_t until_a = job_refused_until(j, a);
    uint64_t until_b = job_refused_until(j, b);
    return until_a != until_b ? until_a < until_b : a->job_count < b->job_count;
}

/* The parameter server with the fewest jobs, the first of equals, that was not yet taken for this
 * job; one that had no memory for it, or whose heartbeat is late, only where there is no other. */
static struct node *pick_ps(struct master *m, const struct job *j)
{
    struct node *best = NULL;
    for (size_t i = 0; i < m->node_count; i++) {
        struct node *n = m->nodes[i];
        if (n->role == MASTER_PS && placement_is_free(m, n, j) && !node_serves(n, j) &&
            (best == NULL || is_better(m, j, n, best))) {
            best = n;
        }
    }
    return best;
}

/* Gives @j workers, up to @most: first those that are kept for it. */
static void take_workers(struct master *m, struct job *j, size_t most)
{
    for (int kept = 1; kept >= 0; kept--) {
        for (size_t i = 0; i < m->node_count && j->worker_count < most; i++) {
            struct node *n = m->nodes[i];
            if (n->role == MASTER_WORKER && placement_is_free(m, n, j) &&
                (n->kept_for == j) == (kept == 1)) {
                job_worker_add(j, n);
            }
        }
    }
}

static void start(struct master *m, struct job *j)
{
    size_t ps = servers_to_start(m, j);
    j->shards = mem_new(ps, sizeof *j->shards);
    j->shard_count = ps;
    j->workers_fit = 0;
    for (size_t i = 0; i < ps; i++) {
        struct node *n = pick_ps(m, j);
        j->shards[i].node = n;
        node_take(n, j);
    }
    standby_place(j);
    standby_show(j);
    size_t most = (size_t)j->spec.cluster.workers.max;
    size_t quota = quota_workers(m, j);
    most = quota < most ? quota : most;
    take_workers(m, j, most);
    count_supply(m);
    j->chosen = true;
    job_touch(j);
}

/* True if the job has its shards, and may use more workers. */
static bool runs(const struct job *j)
{
    return j->record.state == JOB_RUNNING || j->phase == PHASE_WAIT || j->adopts;
}

/* Those that it had, as far as they live; after a while any. */
static size_t least_to_move(const struct master *m, const struct job *j, size_t least)
{
    size_t had = resize_kept(m, j);
    had = had == 0 || m->now_ms >= j->resume_fewer_ms ? 1 : had;
    return had < least ? had : least;
}

/* The least number of workers to start with. A job that was running goes on with fewer workers than
 * its file says, as it does when it loses them one by one; but first it waits a moment for workers
 * that are being started again. A job that yielded does so where there are no more free ones: those
 * that other jobs have come back. */
static size_t least_workers(const struct master *m, const struct job *j)
{
    size_t least = (size_t)j->spec.cluster.workers.min;
    if (j->moves) {
        return least_to_move(m, j, least);
    }
    if (!j->resume || m->now_ms < j->resume_fewer_ms || MUTANT(waits_for_all)) {
        return least;
    }
    size_t alive = supply_of(m, j, MASTER_WORKER).alive;
    size_t there = j->record.state == JOB_RECOVERING || alive == 0 ? 1 : alive;
    return there < least ? there : least;
}

/* ---- the queue ---- */

/* One job of the queue: jobs that wait, and running jobs that may take more workers, in the order
 * in which they are served: by priority; of equals first running jobs, then those that recover,
 * which were there before the ones that have not begun; then by submission. */
struct entry {
    struct job *j;
    int rank;
    size_t place;
};
struct queue {
    struct entry *items;
    size_t count;
};

static int compare(const void *x, const void *y)
{
    const struct entry *a = x;
    const struct entry *b = y;
    int32_t of_a = a->j->record.priority;
    int32_t of_b = b->j->record.priority;
    if (of_a != of_b && !MUTANT(queue_by_age)) {
        return of_a > of_b ? -1 : 1;
    }
    return a->rank != b->rank ? (a->rank < b->rank ? -1 : 1) : a->place < b->place ? -1 : 1;
}

/* True if the job waits for nodes, and nothing else decides when it goes on. */
static bool is_queued(const struct job *j)
{
    return j->record.state == JOB_PENDING ||
           (j->record.state == JOB_RECOVERING && j->phase == PHASE_NONE);
}

static struct queue queue_make(const struct master *m)
{
    struct queue q = {mem_new(m->live_count + 1, sizeof *q.items), 0};
    for (size_t i = 0; i < m->live_count; i++) {
        struct job *j = m->live[i];
        if (runs(j) || is_queued(j)) {
            int rank = runs(j) ? 0 : j->moves || j->record.state == JOB_RECOVERING ? 1 : 2;
            q.items[q.count++] = (struct entry){j, rank, i};
        }
    }
    qsort(q.items, q.count, sizeof *q.items, compare);
    return q;
}

/* It will, when no more come: with what there is, where nobody else has some of it. */
static bool goes_on_with_fewer(const struct master *m, const struct job *j, struct supply workers)
{
    return workers.free > 0 && j->resume &&
           (j->record.state == JOB_RECOVERING ||
            (m->now_ms < j->resume_fewer_ms && workers.free == workers.alive));
}

static void say_missing(struct master *m, struct job *j, struct buf *words)
{
    struct supply workers = supply_of(m, j, MASTER_WORKER);
    add_missing(words, "worker", least_workers(m, j), workers);
    if (words->len > 0 && goes_on_with_fewer(m, j, workers)) {
        buf_printf(words, " (goes on with fewer after %d s)", RESUME_FEWER_MS / 1000);
    }
    add_missing(words, "parameter server", servers_to_start(m, j), supply_of(m, j, MASTER_PS));
}

static void wait_for(struct master *m, struct job *j, enum job_waiting what, const char *words)
{
    bool again = j->resume || (j->start_failures > 0 && j->resume_reason != NULL);
    if (j->record.waiting != what) {
        j->record.waiting = what;
        job_changed(j);
    }
    job_say(j, again ? action_printf(m, "%s; %s", j->resume_reason, words) : words);
}

static bool has_nodes(const struct master *m, const struct job *j)
{
    return supply_of(m, j, MASTER_WORKER).free >= least_workers(m, j) &&
           supply_of(m, j, MASTER_PS).free >= servers_to_start(m, j);
}

/* The nodes that there are would do, if others did not have them. */
static bool could_be_served(const struct master *m, const struct job *j)
{
    const size_t servers = supply_of(m, j, MASTER_PS).alive;
    return supply_of(m, j, MASTER_WORKER).alive >= least_workers(m, j) &&
           placement_has_room(m, j) && servers >= job_servers_to_start(j, servers);
}

/* @first: a job of a higher priority that waits, for which the next nodes are kept; NULL: none.
 * Returns that job for the jobs behind. */
static const struct job *serve_waiting(struct master *m, struct job *j, const struct job *first)
{
    struct buf words = {0};
    bool after = first != NULL && (first->record.priority > j->record.priority || first->awaited);
    j->awaited = false;
    if (m->now_ms < j->start_after_ms) {
        say_missing(m, j, &words);
        if (words.len == 0) {
            buf_printf(&words, "its start failed %u times; the next one is after a pause",
                       j->start_failures);
        }
        wait_for(m, j, JOB_WAITS_PAUSE, buf_str(&words));
    } else if (!j->moves && quota_is_reached(m, j, least_workers(m, j), &words)) {
        wait_for(m, j, JOB_WAITS_QUOTA, buf_str(&words));
        first = first == NULL && MUTANT(quota_blocks_others) ? j : first;
    } else if (after && !j->moves) {
        buf_printf(&words, "waits behind job %s of priority %d%s", first->record.id,
                   (int)first->record.priority,
                   first->awaited ? ", for which others make way" : "");
        wait_for(m, j, JOB_WAITS_TURN, buf_str(&words));
    } else if (has_nodes(m, j)) {
        start(m, j);
    } else {
        j->awaited = preempt_for(m, j, least_workers(m, j));
        say_missing(m, j, &words);
        wait_for(m, j, JOB_WAITS_NODES, buf_str(&words));
        first = j->awaited || (first == NULL && could_be_served(m, j)) ? j : first;
    }
    buf_release(&words);
    return first;
}

/* @awaited: the job for which others make way; NULL: none. */
static void serve_running(struct master *m, struct job *j, const struct job *first,
                          const struct job *awaited)
{
    bool after = (first != NULL && first->record.priority > j->record.priority) ||
                 (awaited != NULL && awaited->record.priority >= j->record.priority);
    if (!j->over && !j->hold_cancel && !job_gives_up(j)) {
        refill(m, j, (size_t)(after ? j->spec.cluster.workers.min : j->spec.cluster.workers.max));
    } else if ((j->phase == PHASE_WAIT || j->adopts) && j->worker_count == 0) {
        /* what it needs to bring its work to an end */
        refill(m, j, (size_t)j->spec.cluster.workers.max);
    }
}

/* Says of each waiting job which place it has, and of the others what they wait for. */
static void say_positions(struct master *m, const struct queue *q)
{
    uint64_t position = 0;
    for (size_t i = 0; i < q->count; i++) {
        struct job *j = q->items[i].j;
        uint64_t place = is_queued(j) && !j->chosen ? ++position : 0;
        if (j->record.queue_position != place) {
            j->record.queue_position = place;
            job_changed(j);
        }
    }
    for (size_t i = 0; i < m->live_count; i++) {
        struct job *j = m->live[i];
        bool queued = is_queued(j) && !j->chosen;
        enum job_waiting what = j->record.state == JOB_PAUSED ? JOB_WAITS_RESUME
                                : !queued                     ? JOB_WAITS_NOT
                                : !j->has_spec                ? JOB_WAITS_READABLE
                                                              : j->record.waiting;
        if (j->record.waiting != what || (!queued && j->record.queue_position != 0)) {
            j->record.waiting = what;
            j->record.queue_position = queued ? j->record.queue_position : 0;
            job_changed(j);
        }
    }
}

void schedule(struct master *m)
{
    struct queue q = queue_make(m);
    const struct job *first = NULL;
    const struct job *awaited = NULL;
    m->reschedule = false;
    m->preempt_waits = false;
    preempt_review(m);
    count_supply(m);
    for (size_t i = q.count; i-- > 0;) {
        awaited =
            q.items[i].j->awaited && job_waits_to_start(q.items[i].j) ? q.items[i].j : awaited;
    }
    for (size_t i = 0; i < q.count; i++) {
        struct job *j = q.items[i].j;
        const bool wants = j->spec.cluster.standby != STANDBY_NONE || drain_concerns(j);
        if (wants && j->record.state == JOB_RUNNING) {
            j->refill = true; /* there may be another server now */
            job_touch(j);
        }
        if (q.items[i].rank == 0) {
            serve_running(m, j, first, awaited);
        } else if (job_waits_to_start(j)) {
            first = serve_waiting(m, j, first);
        }
    }
    say_positions(m, &q);
    free(q.items);
}
