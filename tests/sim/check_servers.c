/* SPDX-License-Identifier: Apache-2.0 */
/* What must hold of jobs that want another number of servers than those that they run with: they
 * move when these are there, and not before; nobody gets their workers meanwhile; and none waits
 * for them that could go on with those that it had. */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_US (5 * SIM_S) /* on a clock that is a little faster than ours */

uint32_t servers_wanted(const struct job_record *r)
{
    const char *section = strstr(r->text, "\ncluster:\n");
    const char *line = section == NULL ? NULL : strstr(section, "\n  ps: ");
    return line == NULL ? 0 : (uint32_t)strtoul(line + strlen("\n  ps: "), NULL, 10);
}

uint32_t servers_needed(const struct job_record *r)
{
    const uint32_t wanted = servers_wanted(r);
    return r->servers > 0 && r->servers < wanted ? r->servers : wanted;
}

static uint32_t count_alive(struct world *w)
{
    struct master_node_info info;
    uint32_t count = 0;
    for (size_t i = 0; master_node_at(w->master, i, node_ms(w, 0), &info); i++) {
        count += info.alive && info.role == MASTER_PS;
    }
    return count;
}

/* It gives up its nodes to move. */
static void check_begins(struct world *w, struct sim_job *j, const struct job_record *r)
{
    static const char begins[] = "moves from ", then[] = " to ";
    char *end = NULL;
    if (strncmp(r->reason, begins, sizeof begins - 1) != 0) {
        return;
    }
    const uint32_t from = (uint32_t)strtoul(r->reason + sizeof begins - 1, &end, 10);
    const uint32_t to = strncmp(end, then, sizeof then - 1) == 0
                            ? (uint32_t)strtoul(end + sizeof then - 1, NULL, 10)
                            : 0;
    if (count_alive(w) < to || from == to) {
        violated(w, INVARIANT_SERVERS, "%s moves from %u to %u servers, and %u are alive", r->id,
                 from, to, count_alive(w));
    }
    w->counts.moves++;
    j->servers.moves_us = w->now_us;
    j->servers.recoveries = r->recoveries;
    j->servers.life = w->nodes[0].life;
    for (uint32_t i = 0; i < w->node_count; i++) {
        j->servers.lives[i] = w->nodes[i].life;
    }
}

static bool is_named(const struct job_names *names, const char *id)
{
    bool named = false;
    for (size_t i = 0; i < names->count; i++) {
        named = named || strcmp(names->items[i], id) == 0;
    }
    return named;
}

/* Its workers, by their places in the world: who the master says has the name, for who had it
 * before the master was started again may not have heard yet that it is another's. */
static uint32_t workers_of(struct world *w, const struct job_record *r)
{
    struct master_node_info info;
    uint32_t mask = 0;
    for (size_t i = 0; master_node_at(w->master, i, 0, &info); i++) {
        if (info.alive && is_named(&r->workers, info.id)) {
            const uint32_t node = node_at(w, info.address);
            mask |= w->nodes[node].incarnation == info.incarnation ? 1U << node : 0;
        }
    }
    return mask;
}

void check_servers(struct world *w, uint32_t job, const struct job_record *r)
{
    struct sim_job *j = &w->jobs[job];
    j->servers.due = j->servers.due && r->state == JOB_RUNNING;
    if (j->state == JOB_RUNNING && r->state == JOB_PENDING) {
        check_begins(w, j, r);
    } else if (r->state == JOB_RUNNING) {
        j->servers.moves_us = 0;
        j->servers.workers = workers_of(w, r);
    } else if (r->state != JOB_PENDING && r->state != JOB_STARTING) {
        j->servers.moves_us = 0;
    }
    if (j->servers.moves_us > 0 && r->recoveries > j->servers.recoveries) {
        violated(w, INVARIANT_SERVERS, "%s moves, and that counts as a recovery", r->id);
    }
}

void check_moves_log(struct world *w, const char *text)
{
    char job[64] = "";
    if (sscanf(text, "job=%63s from=", job) == 1) {
        w->jobs[job_index(w, job)].servers.due = true;
    }
}

void check_worker_given(struct world *w, uint32_t job, uint32_t node)
{
    for (uint32_t i = 0; i < SIM_JOBS_MAX; i++) {
        const struct sim_job *o = &w->jobs[i];
        if (i != job && o->servers.moves_us > 0 && w->now_us < o->servers.moves_us + KEPT_US &&
            o->servers.life == w->nodes[0].life && (o->servers.workers >> node & 1U) != 0 &&
            o->servers.lives[node] == w->nodes[node].life) {
            violated(w, INVARIANT_SERVERS, "%s gets a worker of %s, which moves", w->jobs[job].id,
                     o->id);
        }
    }
}

/* Nothing befalls a server, and none is short of memory. */
static bool is_calm(const struct sim_schedule *s)
{
    const struct sim_knobs *k = &s->knobs;
    for (uint32_t i = 0; i < s->fault_count; i++) {
        const struct sim_fault *f = &s->faults[i];
        if ((f->node > 0 && f->node <= s->ps_count) || f->kind == FAULT_CUT ||
            f->kind == FAULT_SPLIT || f->kind == FAULT_PAUSE || f->kind == FAULT_COPY) {
            return false;
        }
    }
    return k->full_part == 0 && k->room_workers == 0 && k->full_modes_part == 0;
}

/* A master that was just started has not heard yet that nothing is left to be trained. */
static bool is_trained(const struct world *w, uint32_t job, uint64_t steps)
{
    bool trained = false;
    for (uint32_t n = 1; n <= w->schedule->ps_count; n++) {
        for (uint32_t i = 0; i < SIM_SHARDS_OF_PS; i++) {
            const struct sim_shard *s = w->nodes[n].shards[i];
            if (s != NULL && s->open && s->job == job && s->opened == w->jobs[job].opened) {
                struct shard_info info;
                shard_info(s->core, &info);
                trained = trained || info.version >= steps;
            }
        }
    }
    return trained;
}

/* A client hears that what it has set is in force: it was done, unless the servers are not there or
 * it is said why not. */
void check_told_servers(struct world *w, uint32_t job)
{
    const struct job_record *r = master_job(w->master, w->jobs[job].id, node_ms(w, 0));
    if (r != NULL && r->state == JOB_RUNNING && r->servers > 0 && is_calm(w->schedule) &&
        count_alive(w) == w->schedule->ps_count && servers_wanted(r) <= count_alive(w) &&
        r->servers != servers_wanted(r) && !w->jobs[job].servers.due && r->reason[0] == '\0' &&
        !r->paused && r->step < r->steps_total && !is_trained(w, job, r->steps_total)) {
        violated(w, INVARIANT_SERVERS, "a client is told that %s has %u servers; it has %u", r->id,
                 servers_wanted(r), r->servers);
    }
}

/* When faults are over, each job that runs comes to have what it wants. */
void check_wanted(struct world *w)
{
    const struct job_record *r;
    for (size_t i = 0; (r = master_job_at(w->master, i, node_ms(w, 0))) != NULL; i++) {
        struct sim_job *j = &w->jobs[job_index(w, r->id)];
        const bool wants =
            r->state == JOB_RUNNING && r->servers > 0 && r->servers != servers_wanted(r) &&
            servers_wanted(r) <= w->schedule->ps_count && w->quiet && r->step + 1 < r->steps_total;
        if (!wants) {
            j->servers.wants_us = 0;
        } else if (j->servers.wants_us == 0) {
            j->servers.wants_us = w->now_us;
        } else if (w->now_us > j->servers.wants_us + w->schedule->live_us / 2) {
            violated(w, INVARIANT_SERVERS, "%s wants %u servers, and has %u: %s", r->id,
                     servers_wanted(r), r->servers, r->reason);
        }
    }
}
