/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of a lower priority make way for a job that waits: as few as will do, the lowest priority
 * first and of equals the youngest, and none where all together would not do. They yield (pause.c)
 * and wait for their turn.
 *
 * Nothing goes to and fro: a job that made way has the lower priority, so it cannot come back the
 * same way, and a job that has just begun is left alone for a while. */
#include <inttypes.h>
#include <stdlib.h>

#include "base/mutant.h"
#include "master/core/core.h"

/* True if the job keeps its nodes: it neither yields nor is a victim, and is not ending. */
static bool stays(const struct job *j)
{
    return job_holds_nodes(j) && !j->victim && !job_leaves(j);
}

struct room {
    size_t workers, ps;
};

/* The nodes that are free when all jobs that give up theirs have done so. */
static struct room room_then(const struct master *m)
{
    struct room room = {0};
    for (size_t i = 0; i < m->node_count; i++) {
        const struct node *n = m->nodes[i];
        size_t kept = 0;
        for (size_t k = 0; k < n->job_count; k++) {
            kept += stays(n->jobs[k]);
        }
        if (n->alive && !n->doubted && !n->draining && n->role == MASTER_WORKER) {
            room.workers += kept == 0;
        } else if (n->alive && !n->doubted && !n->draining) {
            room.ps += kept < MASTER_JOBS_PER_PS_MAX;
        }
    }
    return room;
}

static bool will_do(const struct master *m, const struct job *j, size_t workers)
{
    struct room room = room_then(m);
    return room.workers >= workers && room.ps >= job_servers_to_start(j, room.ps);
}

static bool is_lower(const struct job *victim, const struct job *j)
{
    return MUTANT(preempts_equals) ? victim->record.priority <= j->record.priority
                                   : victim->record.priority < j->record.priority;
}

static uint64_t ripe_ms(const struct master *m, const struct job *j)
{
    return j->running_since_ms + m->config.preempt_after_ms;
}

static bool may_make_way(const struct master *m, const struct job *v, const struct job *j)
{
    return v->record.state == JOB_RUNNING && !v->over && !v->hold_cancel && stays(v) &&
           is_lower(v, j) && (m->now_ms >= ripe_ms(m, v) || MUTANT(preempts_at_once));
}

/* The next to make way; NULL: none is left. The later in the list, the younger. */
static struct job *next_victim(const struct master *m, const struct job *j)
{
    struct job *next = NULL;
    for (size_t i = 0; i < m->live_count; i++) {
        struct job *v = m->live[i];
        if (may_make_way(m, v, j) &&
            (next == NULL || v->record.priority <= next->record.priority)) {
            next = v;
        }
    }
    return next;
}

/* One that was taken before it was seen that another one would do alone: the highest first. */
static void spare_some(const struct master *m, const struct job *j, size_t workers)
{
    for (int32_t p = JOB_PRIORITY_MAX; p >= -JOB_PRIORITY_MAX; p--) {
        for (size_t i = 0; i < m->live_count; i++) {
            struct job *v = m->live[i];
            if (v->victim && v->record.priority == p) {
                v->victim = false;
                v->victim = !will_do(m, j, workers);
            }
        }
    }
}

static void make_way(struct master *m, struct job *v, const struct job *j)
{
    v->victim = false;
    job_record_set(&v->preempted_by, j->record.id);
    action_log(m, LOG_LEVEL_INFO, "job_preempted", "job=%s priority=%d by=%s of=%d ran_ms=%" PRIu64,
               v->record.id, (int)v->record.priority, j->record.id, (int)j->record.priority,
               m->now_ms - v->running_since_ms);
    job_say(v, action_printf(m, "makes way for job %s of priority %d: stops at the next step",
                             j->record.id, (int)j->record.priority));
    job_touch(v);
}

bool preempt_for(struct master *m, struct job *j, size_t workers)
{
    if (!m->config.preemption) {
        return false;
    }
    m->preempt_waits = true;
    struct job *v = NULL;
    while (!will_do(m, j, workers) && (v = next_victim(m, j)) != NULL) {
        v->victim = true;
    }
    bool enough = will_do(m, j, workers);
    if (enough) {
        spare_some(m, j, workers);
    }
    for (size_t i = 0; i < m->live_count; i++) {
        if (m->live[i]->victim && (enough || MUTANT(preempts_in_vain))) {
            make_way(m, m->live[i], j);
        }
        m->live[i]->victim = false;
    }
    return enough;
}

static bool waits_above(const struct master *m, const struct job *v)
{
    for (size_t i = 0; i < m->live_count; i++) {
        const struct job *j = m->live[i];
        if (j->record.priority > v->record.priority && !job_state_is_final(j->record.state) &&
            (!job_holds_nodes(j) || job_waits_to_start(j)) && !j->record.paused &&
            j->record.waiting != JOB_WAITS_QUOTA) {
            return true;
        }
    }
    return false;
}

void preempt_review(struct master *m)
{
    for (size_t i = 0; i < m->live_count; i++) {
        struct job *v = m->live[i];
        if (v->preempted_by != NULL && job_holds_nodes(v) && !waits_above(m, v)) {
            free(v->preempted_by);
            v->preempted_by = NULL;
            job_say(v, "");
            yield_take_back(v);
        }
    }
}

uint64_t preempt_time(const struct master *m, const struct job *j)
{
    bool counts = m->preempt_waits && j->record.state == JOB_RUNNING && !job_leaves(j);
    return counts ? ripe_ms(m, j) : 0;
}
