/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes a job gets: jobs that wait are started, in the order in which they came, as soon as
 * enough nodes are free; running ones are given workers that are free up to their most. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "master/core/core.h"

static bool is_free(const struct node *n)
{
    return n->alive && !n->doubted &&
           n->job_count < (n->role == MASTER_PS ? MASTER_JOBS_PER_PS_MAX : 1);
}

struct supply {
    size_t alive, free;
};

static struct supply supply_of(const struct master *m, enum master_role role)
{
    struct supply s = {0};
    for (size_t i = 0; i < m->node_count; i++) {
        const struct node *n = m->nodes[i];
        if (n->role == role && n->alive) {
            s.alive++;
            s.free += is_free(n);
        }
    }
    return s;
}

/* When @n may be asked again: UINT64_MAX: never; 0: it has refused nothing. */
static uint64_t refused_until(const struct job *j, const struct node *n)
{
    for (size_t i = 0; i < JOB_REFUSED_MAX; i++) {
        if (j->refused[i].node == n->number) {
            return j->refused[i].until_ms;
        }
    }
    return 0;
}

bool placement_has_room(const struct master *m, const struct job *j)
{
    size_t count = 0;
    for (size_t i = 0; i < m->node_count; i++) {
        const struct node *n = m->nodes[i];
        count += n->role == MASTER_PS && n->alive && refused_until(j, n) != UINT64_MAX;
    }
    return count >= (size_t)j->spec.cluster.ps;
}

/* A running job takes back what it lost before a waiting one begins. */
static void refill(struct master *m, struct job *j)
{
    for (size_t i = 0; i < m->node_count; i++) {
        struct node *n = m->nodes[i];
        if (j->worker_count >= (size_t)j->spec.cluster.workers.max ||
            (j->workers_fit > 0 && j->worker_count >= j->workers_fit)) {
            return;
        }
        if (n->role == MASTER_WORKER && is_free(n) && refused_until(j, n) == 0) {
            action_log(m, LOG_LEVEL_INFO, "worker_added", "job=%s node=%s", j->record.id, n->id);
            job_worker_add(j, n);
            call_start(m, j, n, MASTER_CALL_START, 0);
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
}

static bool is_better(const struct job *j, const struct node *a, const struct node *b)
{
    uint64_t until_a = refused_until(j, a);
    uint64_t until_b = refused_until(j, b);
    return until_a != until_b ? until_a < until_b : a->job_count < b->job_count;
}

/* The parameter server, not yet taken for this job, with the fewest jobs, the first of equals; one
 * that had no room for it only where there is no other. */
static struct node *pick_ps(struct master *m, const struct job *j)
{
    struct node *best = NULL;
    for (size_t i = 0; i < m->node_count; i++) {
        struct node *n = m->nodes[i];
        if (n->role == MASTER_PS && is_free(n) && !node_serves(n, j) &&
            (best == NULL || is_better(j, n, best))) {
            best = n;
        }
    }
    return best;
}

static void start(struct master *m, struct job *j)
{
    size_t ps = (size_t)j->spec.cluster.ps;
    j->shards = mem_new(ps, sizeof *j->shards);
    j->shard_count = ps;
    j->workers_fit = 0;
    job_names_clear(&j->record.ps);
    for (size_t i = 0; i < ps; i++) {
        struct node *n = pick_ps(m, j);
        j->shards[i].node = n;
        node_take(n, j);
        job_names_add(&j->record.ps, n->id);
    }
    size_t most = (size_t)j->spec.cluster.workers.max;
    for (size_t i = 0; i < m->node_count && j->worker_count < most; i++) {
        if (m->nodes[i]->role == MASTER_WORKER && is_free(m->nodes[i])) {
            job_worker_add(j, m->nodes[i]);
        }
    }
    j->chosen = true;
    job_touch(j);
}

/* Has its shards, and may use more workers. */
static bool runs(const struct job *j)
{
    return j->record.state == JOB_RUNNING || j->phase == PHASE_WAIT;
}

/* For the first time, or to recover. */
bool schedule_waits(const struct job *j)
{
    return !j->restartable && !j->chosen && j->row_stored > 0 && j->has_spec &&
           (j->record.state == JOB_PENDING ||
            (j->record.state == JOB_RECOVERING && j->phase == PHASE_NONE));
}

/* A job that was running goes on with fewer workers than its file says, as it does when it loses
 * them one by one; but first it gives those a moment that are being started again. */
static size_t least_workers(const struct master *m, const struct job *j)
{
    bool fewer = j->resume && m->now_ms >= j->resume_fewer_ms && !MUTANT(waits_for_all);
    return fewer ? 1 : (size_t)j->spec.cluster.workers.min;
}

/* A job that recovers was there before those that have not begun. */
static void start_all(struct master *m, bool resume)
{
    for (size_t i = 0; i < m->job_count; i++) {
        struct job *j = m->jobs[i];
        if (schedule_waits(j) && j->resume == resume && m->now_ms >= j->start_after_ms &&
            supply_of(m, MASTER_WORKER).free >= least_workers(m, j) &&
            supply_of(m, MASTER_PS).free >= (size_t)j->spec.cluster.ps) {
            start(m, j);
        }
    }
}

static void say_missing(struct master *m, struct job *j)
{
    struct buf words = {0};
    struct supply workers = supply_of(m, MASTER_WORKER);
    add_missing(&words, "worker", least_workers(m, j), workers);
    if (words.len > 0 && workers.free > 0 && j->resume) {
        buf_printf(&words, " (goes on with fewer after %d s)", RESUME_FEWER_MS / 1000);
    }
    add_missing(&words, "parameter server", (size_t)j->spec.cluster.ps, supply_of(m, MASTER_PS));
    if (words.len == 0 && m->now_ms < j->start_after_ms) {
        buf_printf(&words, "its start failed %u times; the next one is after a pause",
                   j->start_failures);
    }
    bool again = j->resume || (j->start_failures > 0 && j->resume_reason != NULL);
    job_say(j, again ? action_printf(m, "%s; %s", j->resume_reason, buf_str(&words))
                     : buf_str(&words));
    buf_release(&words);
}

void schedule(struct master *m)
{
    m->reschedule = false;
    for (size_t i = 0; i < m->job_count; i++) {
        struct job *j = m->jobs[i];
        if (runs(j) && !j->over && !j->hold_cancel) {
            refill(m, j);
        } else if (j->phase == PHASE_WAIT && j->worker_count == 0) {
            refill(m, j); /* only the evaluation at the end is left, but that needs somebody */
        }
    }
    start_all(m, true);
    start_all(m, false);
    for (size_t i = 0; i < m->job_count; i++) {
        if (schedule_waits(m->jobs[i])) {
            say_missing(m, m->jobs[i]);
        }
    }
}
