/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of the queue: priorities, quotas, jobs that are paused or make way for others. */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FITS_US (20 * SIM_S)   /* after the faults, until who fits has begun */
#define PAUSED_US (70 * SIM_S) /* likewise, until nobody has what is paused */
#define UNPAUSE_US (500 * SIM_MS)

struct view { /* of a job, by the master */
    uint32_t job;
    const struct sim_job_plan *plan;
    enum job_state state;
    enum job_waiting waiting;
    bool over;
    bool holds, was; /* nodes, now and before this step */
    size_t workers;
    uint32_t ps; /* servers that it needs to start */
    bool moves;  /* it has priority over those that wait */
    uint64_t memory;
};

static bool waits(const struct view *v)
{
    return (v->state == JOB_PENDING || v->state == JOB_RECOVERING) && !v->holds && !v->over;
}

/* It has ended, and is shown as it was until that is stored. */
static bool is_over(const struct job_record *r)
{
    return job_state_is_final(r->state) || strstr(r->reason, " as soon as that is") != NULL;
}

static struct view look(struct world *w, uint32_t job, const struct job_record *r)
{
    bool over = is_over(r);
    return (struct view){.job = job,
                         .plan = &w->schedule->jobs[job],
                         .state = r->state,
                         .waiting = r->waiting,
                         .over = over,
                         .holds = !over && (r->state == JOB_STARTING || r->state == JOB_RUNNING ||
                                            (r->state == JOB_RECOVERING && r->ps.count > 0)),
                         .ps = servers_needed(r),
                         .moves = w->jobs[job].servers.moves_us > 0,
                         .workers = over ? 0 : r->workers.count,
                         .memory = r->ps_memory};
}

/* Workers that somebody wanted emptied: others may come in their place. One may have died since,
 * and the master not have heard of it. */
static size_t drained_workers(const struct world *w)
{
    struct master_node_info info;
    size_t count = 0;
    for (size_t k = 0; master_node_at(w->master, k, node_ms(w, 0), &info); k++) {
        const struct sim_node *n = &w->nodes[strtoul(info.address + 1, NULL, 10)];
        count += info.alive && info.role == MASTER_WORKER && n->drain.incarnation != 0 &&
                 n->drain.incarnation == info.incarnation;
    }
    return count;
}

static void check_quotas(struct world *w, const struct view *views, size_t count, uint32_t owner)
{
    const struct sim_fair *f = &w->schedule->fair;
    size_t running = 0;
    size_t workers = 0;
    uint64_t memory = 0;
    bool changed = false;
    for (size_t i = 0; i < count; i++) {
        if (views[i].plan->owner == owner) {
            running += views[i].holds;
            workers += views[i].workers;
            memory += views[i].holds ? views[i].memory : 0;
            changed = changed || w->jobs[views[i].job].changed; /* into a mode that needs more */
        }
    }
    if (f->running_max > 0 && running > f->running_max) {
        violated(w, INVARIANT_QUEUE, "owner %u has %zu running jobs of %u", owner, running,
                 f->running_max);
    }
    if (f->workers_max > 0 && workers > f->workers_max + drained_workers(w)) {
        violated(w, INVARIANT_QUEUE, "owner %u has %zu workers of %u", owner, workers,
                 f->workers_max);
    }
    if (f->memory_max > 0 && memory > f->memory_max && !changed) {
        violated(w, INVARIANT_QUEUE, "owner %u has %u bytes of %u", owner, (unsigned)memory,
                 f->memory_max);
    }
}

struct free_nodes {
    size_t workers, ps, workers_alive, ps_alive;
};

static struct free_nodes count_free(struct world *w)
{
    struct free_nodes n = {0};
    struct master_node_info info;
    for (size_t i = 0; master_node_at(w->master, i, 0, &info); i++) {
        if (info.alive && info.draining) {
            continue;
        }
        if (info.alive && info.role == MASTER_WORKER) {
            n.workers += info.job_count == 0;
            n.workers_alive++;
        } else if (info.alive) {
            n.ps++; /* nobody here has so many jobs that one would be full */
            n.ps_alive++;
        }
    }
    return n;
}

/* It waits for a quota, and its owner is not at it. */
static void check_at_quota(struct world *w, const struct view *v, const struct view *views,
                           size_t count)
{
    const struct sim_fair *f = &w->schedule->fair;
    size_t running = 0;
    size_t workers = 0;
    bool moves = false;
    for (size_t i = 0; i < count; i++) {
        if (views[i].job != v->job && views[i].plan->owner == v->plan->owner) {
            running += views[i].holds || views[i].moves || views[i].state == JOB_RECOVERING;
            moves = moves || views[i].moves; /* with workers that nobody shows */
            workers += views[i].workers;
        }
    }
    bool at = (f->running_max > 0 && running >= f->running_max) ||
              (f->workers_max > 0 && workers + v->plan->least > f->workers_max) ||
              f->memory_max > 0 || (f->workers_max > 0 && moves);
    if (!at) {
        violated(w, INVARIANT_QUEUE, "%s waits for a quota at which its owner is not",
                 w->jobs[v->job].id);
    }
}

static void check_waiting(struct world *w, const struct view *v, const struct view *views,
                          size_t count)
{
    struct sim_job *j = &w->jobs[v->job];
    bool behind = false;
    for (size_t i = 0; i < count; i++) {
        const struct view *o = &views[i];
        int32_t least = v->plan->priority + (w->schedule->fair.preemption ? 0 : 1);
        behind = behind || (waits(o) && o->job != v->job && o->waiting == JOB_WAITS_NODES &&
                            o->plan->priority >= least);
    }
    if (v->waiting == JOB_WAITS_TURN && !behind) {
        violated(w, INVARIANT_QUEUE, "%s waits for its turn behind nobody", j->id);
    }
    if (v->waiting == JOB_WAITS_QUOTA) {
        check_at_quota(w, v, views, count);
    }
    struct free_nodes n = count_free(w);
    bool fits =
        v->waiting == JOB_WAITS_NODES && w->quiet && n.workers >= v->plan->least && n.ps >= v->ps;
    if (!fits) {
        j->fits_us = 0;
    } else if (j->fits_us == 0) {
        j->fits_us = w->now_us;
    } else if (w->now_us > j->fits_us + FITS_US) {
        violated(w, INVARIANT_QUEUE, "%s waits for what is free: %s", j->id, j->reason);
    }
}

/* @v has just been given nodes, while others wait. */
static void check_order(struct world *w, const struct view *v, const struct view *views,
                        size_t count)
{
    const struct sim_knobs *k = &w->schedule->knobs;
    struct free_nodes n = count_free(w);
    if (v->moves || k->full_part > 0 || k->room_workers > 0 || k->full_modes_part > 0) {
        return; /* a server may be too small for a job, for good */
    }
    for (size_t i = 0; i < count; i++) {
        const struct view *o = &views[i];
        if (!waits(o) || (o->waiting != JOB_WAITS_NODES && o->waiting != JOB_WAITS_TURN)) {
            continue;
        }
        bool served = n.workers_alive >= o->plan->least && n.ps_alive >= o->ps;
        bool higher = o->plan->priority > v->plan->priority && served;
        bool older = o->plan->priority == v->plan->priority && o->state == v->state &&
                     o->plan->least <= v->plan->least && o->ps <= v->ps &&
                     w->jobs[o->job].submit_order < w->jobs[v->job].submit_order;
        if (higher || older) {
            violated(w, INVARIANT_QUEUE, "%s begins before %s", w->jobs[v->job].id,
                     w->jobs[o->job].id);
        }
    }
}

void check_fair(struct world *w)
{
    struct view views[SIM_JOBS_MAX];
    size_t count = 0;
    if (!w->schedule->fair.on || w->master == NULL) {
        return;
    }
    const struct job_record *r;
    for (size_t i = 0; (r = master_job_at(w->master, i, node_ms(w, 0))) != NULL; i++) {
        uint32_t job = job_index(w, r->id);
        views[count] = look(w, job, r);
        views[count].was = w->jobs[job].held;
        w->jobs[job].held = views[count++].holds;
        if (r->state == JOB_PAUSED && (r->workers.count > 0 || r->ps.count > 0)) {
            violated(w, INVARIANT_PAUSED, "%s is paused, and has nodes", r->id);
        }
    }
    for (uint32_t owner = 1; owner <= 2; owner++) {
        check_quotas(w, views, count, owner);
    }
    for (size_t i = 0; i < count; i++) {
        if (waits(&views[i])) {
            check_waiting(w, &views[i], views, count);
        } else {
            w->jobs[views[i].job].fits_us = 0;
        }
        if (views[i].holds && !views[i].was && views[i].state != JOB_RUNNING) {
            check_order(w, &views[i], views, count);
        }
    }
}

/* No shard has more than what is in the checkpoint. */
static void check_nothing_lost(struct world *w, uint32_t job, const char *path)
{
    const struct sim_job *j = &w->jobs[job];
    struct tensor values, slot;
    struct disk_cut cut;
    if (strncmp(path, "/c/", 3) != 0 || !disk_read(w, path + 3, &values, &slot, &cut)) {
        return; /* the disk is not there */
    }
    for (uint32_t i = 1; i <= w->schedule->ps_count; i++) {
        for (uint32_t k = 0; k < SIM_SHARDS_OF_PS; k++) {
            const struct sim_shard *s = w->nodes[i].shards[k];
            if (s != NULL && s->open && s->job == job && s->opened == j->opened &&
                standby_is_present(w, s) && !ids_equal(&s->applied, &cut.ids)) {
                violated(w, INVARIANT_PAUSED, "%s gave up its nodes with %s; shard %u had more",
                         j->id, path, s->number);
            }
        }
    }
}

/* A job has come to another state: one that yielded is to have a checkpoint of that moment. */
void check_yielded(struct world *w, uint32_t job, const struct job_record *r)
{
    struct sim_job *j = &w->jobs[job];
    unsigned long long step = 0;
    const char *at = strstr(r->reason, " at step ");
    bool yielded = j->state == JOB_RUNNING && (r->state == JOB_PAUSED || r->state == JOB_PENDING);
    if (r->state == JOB_RUNNING) {
        j->running_us = w->now_us;
    }
    if (!yielded || at == NULL || sscanf(at, " at step %llu", &step) != 1) {
        return;
    }
    char name[32];
    snprintf(name, sizeof name, "step-%09llu", step);
    if (strstr(r->checkpoint, name) == NULL) {
        violated(w, INVARIANT_PAUSED, "%s gave up its nodes at step %llu; its checkpoint is '%s'",
                 j->id, step, r->checkpoint);
    }
    check_nothing_lost(w, job, r->checkpoint);
}

/* Workers that are free, or of jobs of a lower priority than @plan's. */
static size_t could_have(struct world *w, const struct sim_job_plan *plan)
{
    struct master_node_info info;
    size_t count = 0;
    for (size_t i = 0; master_node_at(w->master, i, 0, &info); i++) {
        bool kept = false;
        for (size_t k = 0; k < info.job_count; k++) {
            uint32_t job = job_index(w, info.jobs[k]);
            const struct job_record *r = master_job(w->master, info.jobs[k], node_ms(w, 0));
            bool stays =
                r != NULL && !is_over(r) && (r->state == JOB_RUNNING || r->state == JOB_STARTING);
            kept = kept || (stays && !w->jobs[job].pausing &&
                            w->schedule->jobs[job].priority >= plan->priority);
        }
        count += info.alive && !info.draining && info.role == MASTER_WORKER && !kept;
    }
    return count;
}

void check_preempted(struct world *w, const char *text)
{
    char victim[64], by[64];
    int priority, of;
    if (sscanf(text, "job=%63s priority=%d by=%63s of=%d", victim, &priority, by, &of) != 4) {
        violated(w, INVARIANT_ORDER, "the event job_preempted is '%s'", text);
    }
    const struct sim_job *v = &w->jobs[job_index(w, victim)];
    const struct sim_job_plan *for_whom = &w->schedule->jobs[job_index(w, by)];
    const struct sim_job_plan *whom = &w->schedule->jobs[v - w->jobs];
    uint64_t ran_us = w->now_us - v->running_us;
    if (whom->priority >= for_whom->priority) {
        violated(w, INVARIANT_QUEUE, "%s of priority %d makes way for %s of %d", victim,
                 (int)whom->priority, by, (int)for_whom->priority);
    }
    if (ran_us * 10 / 8 < w->schedule->fair.preempt_after_ms * SIM_MS) { /* clocks differ */
        violated(w, INVARIANT_QUEUE, "%s makes way after %u ms", victim,
                 (unsigned)(ran_us / SIM_MS));
    }
    bool ran = w->jobs[job_index(w, by)].opened > 0; /* it may go on with fewer */
    if (could_have(w, for_whom) < (ran ? 1 : for_whom->least)) {
        violated(w, INVARIANT_QUEUE, "%s makes way for %s, which cannot begin all the same", victim,
                 by);
    }
}

static void check_nobody_has(struct world *w, uint32_t job)
{
    for (uint32_t i = 1; i < w->node_count; i++) {
        const struct sim_node *n = &w->nodes[i];
        bool has = n->job->there && n->job->job == job;
        for (uint32_t k = 0; k < SIM_SHARDS_OF_PS; k++) {
            has = has || (n->shards[k] != NULL && n->shards[k]->open && n->shards[k]->job == job);
        }
        if (n->up && has) {
            violated(w, INVARIANT_PAUSED, "node n%u still has %s, which is paused", i,
                     w->jobs[job].id);
        }
    }
}

/* What is paused when all faults are over comes to stand still and holds nothing; then it is
 * resumed. */
void check_unpause(struct world *w, uint32_t job)
{
    struct sim_job *j = &w->jobs[job];
    if (w->ended || job_state_is_final(j->state)) {
        return;
    }
    if (j->state == JOB_PAUSED) {
        j->pausing = true; /* whatever its client was told */
        j->paused_us = j->paused_us == 0 ? w->now_us : j->paused_us;
    } else if (j->paused && w->now_us > w->schedule->quiet_us + w->schedule->live_us / 2) {
        violated(w, INVARIANT_LIVE, "%s is not paused, but %s: %s", j->id, job_state_name(j->state),
                 j->reason);
    }
    bool stands = j->state == JOB_PAUSED && w->now_us > j->paused_us + PAUSED_US;
    if (stands) {
        check_nobody_has(w, job);
    }
    if (stands || !j->paused) {
        (void)master_resume(w, job);
    }
    world_at(w, w->now_us + UNPAUSE_US, EVENT_UNPAUSE, 0, job, 0);
}
