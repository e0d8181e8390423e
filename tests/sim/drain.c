/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that empty nodes: what they ask, and what must hold of a node that drains. A client asks
 * again and again, so a master that was started again hears of it, too. */
#include "sim/sim.h"

#include <stdio.h>
#include <string.h>

#define ASK_US (300 * SIM_MS)

void drain_begin(struct world *w, uint32_t fault)
{
    const struct sim_fault *f = &w->schedule->faults[fault];
    struct sim_node *n = &w->nodes[f->node];
    if (!n->up || n->drain.wanted || n->role == ROLE_MASTER) {
        return;
    }
    n->drain.wanted = true;
    n->drain.taken_back = false;
    n->drain.fault = fault;
    n->drain.incarnation = n->incarnation;
    n->drain.has = true;
    w->drains++;
    n->drain.life = 0; /* what was seen in an earlier drain counts no more */
    world_at(w, w->now_us, EVENT_DRAIN, 0, f->node, 0);
}

static void over(struct world *w, struct sim_node *n)
{
    n->drain.wanted = false;
    w->drains--;
}

/* The master has not given the name of this process to another one since it was started. */
static bool is_known(struct world *w, const struct sim_node *n)
{
    struct master_node_info info;
    bool known = false;
    for (size_t i = 0; n->name != 0 && master_node_at(w->master, i, 0, &info); i++) {
        known = known || (info.incarnation == n->incarnation && info.alive &&
                          strcmp(info.id, w->names[n->name]) == 0);
    }
    return known;
}

void drain_ask(struct world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    if (!n->drain.wanted) {
        return;
    }
    if (!n->up || n->leaving || n->incarnation != n->drain.incarnation) {
        over(w, n);
        return;
    }
    const struct sim_fault *f = &w->schedule->faults[n->drain.fault];
    n->drain.taken_back = n->drain.taken_back || w->quiet || w->now_us >= f->until_us;
    if (w->master != NULL && !w->nodes[0].paused && is_known(w, n)) {
        struct master_event e = {.kind = MASTER_DRAIN,
                                 .request = CLIENT_REQUEST + ++w->client_request};
        e.drain = (struct master_drain_event){w->names[n->name], n->drain.taken_back};
        n->drain.request = e.request;
        TRACE(w, 0, "is asked to drain %s%s", e.drain.node, e.drain.undo ? " no longer" : "");
        master_event(w, &e);
    }
    if (n->drain.wanted) {
        world_at(w, w->now_us + ASK_US, EVENT_DRAIN, 0, node, 0);
    }
}

/* The shards of running jobs are elsewhere. */
static void check_empty(struct world *w, const struct sim_node *n, const char *name)
{
    for (uint32_t k = 0; k < SIM_SHARDS_OF_PS; k++) {
        const struct sim_shard *s = n->shards[k];
        if (s != NULL && s->open && s->opened == w->jobs[s->job].opened &&
            standby_is_present(w, s) && w->jobs[s->job].state == JOB_RUNNING) {
            violated(w, INVARIANT_DRAIN, "%s is drained, and has shard %u of %s", name, s->number,
                     w->jobs[s->job].id);
        }
    }
}

static void is_empty(struct world *w, uint32_t node, const char *name)
{
    struct sim_node *n = &w->nodes[node];
    const struct sim_fault *f = &w->schedule->faults[n->drain.fault];
    check_empty(w, n, name);
    for (uint32_t i = 0; i < SIM_JOBS_MAX && n->drain.has; i++) {
        w->counts.drained_running += w->jobs[i].state == JOB_RUNNING;
    }
    w->counts.drained += n->drain.has;
    n->drain.has = false;
    if (f->number == 1 && !n->paused && !w->quiet) {
        over(w, n);
        TRACE(w, node, "leaves, and has nothing");
        node_leaves(w, node);
        world_at(w, w->now_us + 100 * SIM_MS, EVENT_FAULT_END, 0,
                 (uint32_t)(f - w->schedule->faults), 0);
    }
}

void drain_answered(struct world *w, const struct master_reply *r)
{
    for (uint32_t i = 1; i < w->node_count; i++) {
        struct sim_node *n = &w->nodes[i];
        const struct master_drained *d = &r->drained;
        if (!n->drain.wanted || n->drain.request != r->request || r->err.code != 0) {
            continue; /* a master that was started again does not know it yet */
        }
        if (d->draining == n->drain.taken_back && r->was_alive) {
            violated(w, INVARIANT_DRAIN, "%s is %sdraining, and its client wants it otherwise",
                     r->node, d->draining ? "" : "not ");
        }
        if (n->drain.taken_back) {
            over(w, n);
        } else if (d->count == 0) {
            is_empty(w, i, r->node);
        }
    }
}

static bool is_draining(struct world *w, const char *name)
{
    struct master_node_info info;
    const bool some = w->drains + w->departures > 0;
    for (size_t i = 0; some && master_node_at(w->master, i, 0, &info); i++) {
        if (info.draining && strcmp(info.id, name) == 0) {
            return true;
        }
    }
    return false;
}

/* Sometimes while it tells who is the primary now. */
static void master_dies(struct world *w)
{
    struct sim_node *master = &w->nodes[0];
    uint32_t i = 0;
    while (i < w->schedule->fault_count && w->schedule->faults[i].kind != FAULT_DRAIN &&
           w->schedule->faults[i].kind != FAULT_END) {
        i++;
    }
    if (w->schedule->mode != SIM_DRAIN || w->quiet || master->armed || w->schedule->faults[i].off ||
        world_draw(w, "moves and dies", w->event_count, 3) > 0) {
        return;
    }
    master->armed = true;
    master->armed_actions = (uint32_t)world_draw(w, "dies after", w->event_count, 16);
    world_at(w, w->now_us + 1 + world_takes(w, "is started again", 500 * SIM_MS), EVENT_FAULT_END,
             0, i, 1);
}

/* A master that is started again knows that the backup follows: the shard is about to be closed. */
static void check_moved(struct world *w, const char *text)
{
    char id[64];
    uint32_t shard = 0;
    w->counts.shards_moved++;
    if (sscanf(text, "job=%63s shard=%u", id, &shard) != 2) {
        violated(w, INVARIANT_ORDER, "the event shard_moved is '%s'", text);
    }
    const struct job_record *row = disk_row(w, job_index(w, id));
    if (shard >= row->handover.server_count || !row->handover.servers[shard].backup_follows) {
        violated(w, INVARIANT_STORED,
                 "shard %u of %s moves to a backup that its row says nothing of", shard, id);
    }
}

/* Where the master has chosen to open a backup. */
static void check_backup(struct world *w, const char *text)
{
    const char *at = strstr(text, " node=");
    if (at == NULL || is_draining(w, at + strlen(" node="))) {
        violated(w, INVARIANT_DRAIN, "a server that drains gets a backup: %s", text);
    }
}

/* Whom a client has taken from a job; the others are enough. */
void drain_logged(struct world *w, const char *event, const char *text)
{
    if (strcmp(event, "shard_moved") == 0) {
        check_moved(w, text);
        master_dies(w);
    }
    if (strcmp(event, "backup_opens") == 0) {
        check_backup(w, text);
    }
    if (strcmp(event, "worker_lost") != 0 || strstr(text, "drained") == NULL) {
        return;
    }
    char id[64];
    w->counts.workers_drained++;
    if (sscanf(text, "job=%63s", id) != 1) {
        violated(w, INVARIANT_ORDER, "the event worker_lost is '%s'", text);
    }
    const struct job_record *r = master_job(w->master, id, node_ms(w, 0));
    const uint32_t job = job_index(w, id);
    if (r != NULL && r->workers.count < w->schedule->jobs[job].least) {
        violated(w, INVARIANT_DRAIN, "%s needs %u workers, and has %zu when one is drained", id,
                 w->schedule->jobs[job].least, r->workers.count);
    }
}

void drain_check(struct world *w)
{
    struct master_node_info info;
    const bool some = w->drains + w->departures > 0 && w->master != NULL;
    for (size_t i = 0; some && master_node_at(w->master, i, 0, &info); i++) {
        if (!info.alive) {
            continue;
        }
        uint32_t jobs = 0;
        struct sim_drain *d = &w->nodes[node_at(w, info.address)].drain;
        for (size_t k = 0; k < info.job_count; k++) {
            jobs |= 1u << job_index(w, info.jobs[k]);
        }
        const bool before =
            info.draining && d->life == w->nodes[0].life && d->of == info.incarnation;
        if (before && (jobs & ~d->jobs) != 0) {
            violated(w, INVARIANT_DRAIN, "%s is given a job, and drains", info.id);
        }
        d->life = info.draining ? w->nodes[0].life : 0;
        d->of = info.incarnation;
        d->jobs = jobs;
    }
}
