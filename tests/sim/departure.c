/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that are told to end (SIGTERM), and what must hold of these. As one of services/ps does
 * (common/service/departure.c), it says so with each heartbeat, ten a second, until the master's
 * answer says that nothing of it is about to move, or nobody is there to say that, or its drain
 * time-out is over; then it leaves, and is started again later. Unlike that one it asks, too, when
 * it has no shard.
 *
 * A server that the master has told that it may end
 * - has no primary of a running job that could go elsewhere, and no shard of a running job that
 *   another one, which was told so before, counts upon;
 * - costs no job a step: where others take its shards over the job does not go back for its end,
 *   unless a backup was lost meanwhile, or the master, whose rows did not say yet who follows.
 * One that it has heard to be ending is given no job, no backup and no shard, but one that counts
 * upon it already; is told to wait only while it has a shard or is counted upon; and is emptied
 * within DEPARTS_US for each of its shards, and the time of some batches, where nothing else goes
 * on and another server could have them. */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_US (100 * SIM_MS)
#define AWAY_US (1000 * SIM_MS) /* nobody is at the master's address: it has ended, too */
#define AGAIN_US (5 * SIM_S)    /* until it is started again */
#define DEPARTS_US (10 * SIM_S) /* a report that was lost comes again after 3 s */
#define BATCHES 10
#define LOST_US (25 * SIM_S) /* until a call that was lost in silence is made again */

/* ---- the server ---- */

bool departure_waits(const struct sim_node *n)
{
    return n->departure.waits && n->departure.life == n->life && !n->leaving;
}

void departure_begin(struct world *w, uint32_t fault)
{
    const struct sim_fault *f = &w->schedule->faults[fault];
    struct sim_node *n = &w->nodes[f->node];
    struct sim_departure *d = &n->departure;
    if (!n->up || n->role != ROLE_PS || n->leaving || departure_waits(n)) {
        return;
    }
    d->waits = true;
    d->life = n->life;
    d->fault = fault;
    d->until_us = w->now_us + (f->until_us - f->at_us);
    d->answered_us = w->now_us;
    for (uint32_t i = 0; i < w->node_count && w->departures == 0; i++) {
        w->nodes[i].drain.life = 0; /* nobody has looked since the last drain */
    }
    w->departures++;
    world_at(w, w->now_us, EVENT_DEPART, 0, f->node, n->life);
}

static void leave(struct world *w, uint32_t node, const char *why)
{
    const uint64_t later_us = world_draw(w, "departed", w->serials++, AGAIN_US);
    TRACE(w, node, "leaves: %s", why);
    w->nodes[node].departure.waits = false;
    node_leaves(w, node);
    world_at(w, w->now_us + 1 + later_us, EVENT_DEPART, 0, node, 0);
}

static void start_again(struct world *w, uint32_t node)
{
    if (w->nodes[node].up && w->nodes[node].leaving) { /* it is not gone yet */
        world_at(w, w->now_us + ASK_US, EVENT_DEPART, 0, node, 0);
    }
    node_start(w, node);
}

void departure_goes_on(struct world *w, uint32_t node, uint32_t life)
{
    struct sim_node *n = &w->nodes[node];
    if (life == 0) {
        start_again(w, node);
        return;
    }
    if (life != n->life || !departure_waits(n)) {
        return;
    }
    if (!n->paused && n->member.state != MEMBERSHIP_IN) {
        leave(w, node, "no master knows it");
    } else if (!n->paused && w->now_us >= n->departure.until_us) {
        leave(w, node, "its drain time-out is over");
    } else {
        if (!n->paused) {
            member_hurry(w, node);
        }
        world_at(w, w->now_us + ASK_US, EVENT_DEPART, 0, node, life);
    }
}

/* The answer to a heartbeat that said it. */
void departure_heard(struct world *w, uint32_t node, int code, bool moves)
{
    struct sim_node *n = &w->nodes[node];
    struct sim_departure *d = &n->departure;
    if (!departure_waits(n)) {
        return;
    }
    const bool away = code == ERR_UNAVAILABLE && w->now_us >= d->answered_us + AWAY_US;
    d->answered_us = code == 0 ? w->now_us : d->answered_us;
    if (away || code == ERR_NOT_FOUND) {
        leave(w, node, away ? "the master is away" : "no master knows it");
    } else if (code == 0 && !moves) {
        leave(w, node, "it may");
    }
}

/* ---- the cluster as the master sees it ---- */

static bool find_info(struct world *w, const char *id, struct master_node_info *out)
{
    for (size_t i = 0; master_node_at(w->master, i, node_ms(w, 0), out); i++) {
        if (out->alive && strcmp(out->id, id) == 0) {
            return true;
        }
    }
    return false;
}

/* The departure of that node, if this life of the master has heard of it. A Join that comes late
 * makes another node of its process. */
static struct sim_departure *known(struct world *w, const struct master_node_info *info)
{
    struct sim_departure *d = &w->nodes[node_at(w, info->address)].departure;
    const bool is = d->known == w->nodes[0].life && d->of == info->incarnation &&
                    strcmp(w->names[d->name], info->id) == 0;
    return info->alive && info->role == MASTER_PS && is ? d : NULL;
}

/* It does not end before those who count upon it. */
static bool stays(struct world *w, const struct master_node_info *info)
{
    const struct sim_departure *d = known(w, info);
    return info->alive && !info->draining && (d == NULL || d->stays);
}

static bool has_place(struct world *w, const char *but)
{
    struct master_node_info info;
    for (size_t i = 0; master_node_at(w->master, i, node_ms(w, 0), &info); i++) {
        if (info.role == MASTER_PS && stays(w, &info) && known(w, &info) == NULL &&
            strcmp(info.id, but) != 0) {
            return true;
        }
    }
    return false;
}

/* Of a job that has ended, and is shown as it was until that is stored, it has none. */
static uint32_t primaries(const struct job_record *r, const char *id)
{
    const bool over =
        job_state_is_final(r->state) || strstr(r->reason, " as soon as that is") != NULL;
    uint32_t mask = 0;
    for (size_t i = 0; i < r->shard_count && !over; i++) {
        mask |= strcmp(r->shards[i].ps, id) == 0 ? 1U << i : 0;
    }
    return mask;
}

/* They have backups that follow, on servers that speak, and stay. */
static bool are_covered(struct world *w, const struct job_record *r, uint32_t shards)
{
    struct master_node_info info;
    bool all = true;
    for (size_t i = 0; i < r->shard_count; i++) {
        const bool covered = r->shards[i].follows && find_info(w, r->shards[i].backup, &info) &&
                             stays(w, &info) && !info.late;
        all = all && ((shards >> i & 1) == 0 || covered);
    }
    return all;
}

/* A server that is to end, of whose shards it has a backup that follows; @owed: it was told that it
 * may for that. */
static const char *counts_upon(struct world *w, const char *id, bool owed)
{
    const struct job_record *r;
    struct master_node_info info;
    for (size_t i = 0; (r = master_job_at(w->master, i, node_ms(w, 0))) != NULL; i++) {
        for (size_t k = 0; k < r->shard_count && !job_state_is_final(r->state); k++) {
            const bool follows = r->shards[k].follows && strcmp(r->shards[k].backup, id) == 0;
            const struct sim_departure *d =
                follows && find_info(w, r->shards[k].ps, &info) ? known(w, &info) : NULL;
            const uint32_t job = job_index(w, r->id);
            if (d != NULL && (!owed || (d->may && d->opened[job] == w->jobs[job].opened &&
                                        (d->owed[job] >> k & 1) != 0))) {
                return r->shards[k].ps;
            }
        }
    }
    return NULL;
}

/* ---- what the master says ---- */

/* What it answers counts for what was before this step. */
static bool has_something(struct world *w, const char *id)
{
    const struct job_record *r;
    bool has = counts_upon(w, id, false) != NULL;
    for (size_t i = 0; !has && (r = master_job_at(w->master, i, node_ms(w, 0))) != NULL; i++) {
        has = primaries(r, id) != 0;
    }
    return has;
}

static void owes(struct world *w, struct sim_departure *d, const struct job_record *r,
                 uint32_t shards)
{
    const uint32_t job = job_index(w, r->id);
    const struct job_handover *row = &disk_row(w, job)->handover;
    d->owed[job] = d->stored[job] = shards;
    d->opened[job] = w->jobs[job].opened;
    for (size_t i = 0; i < r->shard_count; i++) {
        const bool said = i < row->server_count && row->servers[i].backup_follows;
        d->stored[job] = said || (shards >> i & 1) == 0 ? d->stored[job] : 0;
    }
}

static void told_that_it_may(struct world *w, struct sim_departure *d, const char *id)
{
    const struct job_record *r;
    const bool place = has_place(w, id);
    const char *other = counts_upon(w, id, true);
    bool covered = false;
    for (size_t i = 0; (r = master_job_at(w->master, i, node_ms(w, 0))) != NULL; i++) {
        const uint32_t shards = r->state == JOB_RUNNING ? primaries(r, id) : 0;
        if (shards != 0 && are_covered(w, r, shards)) {
            owes(w, d, r, shards);
            covered = true;
        } else if (shards != 0 && place) {
            violated(w, INVARIANT_DEPART,
                     "%s is told that it may end, and has shards %#x of %s, which others could "
                     "have",
                     id, shards, r->id);
        }
    }
    if (other != NULL) {
        violated(w, INVARIANT_DEPART, "%s is told that it may end, and so was %s, which it covers",
                 id, other);
    }
    w->counts.departed += !d->may;
    w->counts.departed_covered += !d->may && covered;
    d->may = true;
}

void departure_asks(struct world *w, const struct unary *u)
{
    if (u->req.leaves && w->master != NULL) {
        struct sim_departure *d = &w->nodes[u->from].departure;
        d->upon = counts_upon(w, w->names[u->req.name], false) != NULL;
    }
}

void departure_told(struct world *w, const struct unary *u, bool moves)
{
    struct sim_departure *d = &w->nodes[u->from].departure;
    const char *id = w->names[u->req.name];
    if (d->known != w->nodes[0].life || d->of != u->req.incarnation || d->name != u->req.name) {
        d->known = w->nodes[0].life;
        d->of = u->req.incarnation;
        d->name = u->req.name;
        d->may = d->seen = d->stays = false;
    }
    d->stays = (d->stays || !d->seen) && moves && d->upon;
    memset(d->owed, 0, sizeof d->owed);
    memset(d->stored, 0, sizeof d->stored);
    TRACE(w, u->from, "is told that it %s", moves ? "has to wait" : "may end");
    if (!moves) {
        told_that_it_may(w, d, id);
        return;
    }
    d->may = false;
    if (d->seen && !d->had) {
        violated(w, INVARIANT_DEPART, "%s is told to wait, and has nothing", id);
    }
}

/* ---- what becomes of it ---- */

static bool is_named(const char *text, const char *key, const char *id)
{
    const char *at = strstr(text, key);
    const size_t n = strlen(id);
    return at != NULL && strncmp(at + strlen(key), id, n) == 0 &&
           (at[strlen(key) + n] == '\0' || at[strlen(key) + n] == ' ');
}

/* A backup was lost, or (@taken) they have a shard more: that is no promise of the master's. */
static void forgive(struct world *w, const char *text, uint32_t job, uint32_t shard, bool taken)
{
    for (uint32_t i = 1; i <= w->schedule->ps_count; i++) {
        struct sim_departure *d = &w->nodes[i].departure;
        const bool gets = taken && is_named(text, " to=", w->names[d->name]);
        if (gets || (!taken && (d->owed[job] >> shard & 1) != 0)) {
            d->owed[job] = d->stored[job] = 0;
        }
    }
}

static void check_gets(struct world *w, const char *text, bool moved)
{
    struct master_node_info info;
    for (size_t i = 0; master_node_at(w->master, i, 0, &info); i++) {
        const struct sim_departure *d = known(w, &info);
        if (d != NULL && is_named(text, moved ? " to=" : " node=", info.id) &&
            !(moved && d->stays)) {
            violated(w, INVARIANT_DEPART, "%s is to end, and gets a %s: %s", info.id,
                     moved ? "shard" : "backup", text);
        }
    }
}

void departure_logged(struct world *w, const char *event, const char *text)
{
    const bool taken = strcmp(event, "shard_taken_over") == 0;
    const bool moved = strcmp(event, "shard_moved") == 0;
    char id[64] = "";
    uint32_t shard = 0;
    if (w->departures == 0) {
        return;
    }
    if (moved || strcmp(event, "backup_opens") == 0) {
        check_gets(w, text, moved);
    } else if ((taken || strcmp(event, "backup_lost") == 0) &&
               sscanf(text, "job=%63s shard=%u", id, &shard) == 2) {
        forgive(w, text, job_index(w, id), shard, taken);
    }
}

/* A job goes back; those that a client or a change stops say so otherwise. */
void departure_record(struct world *w, uint32_t job, const struct job_record *r)
{
    const bool back = w->jobs[job].state == JOB_RUNNING && r->state == JOB_RECOVERING;
    for (uint32_t i = 1; i <= w->schedule->ps_count && back; i++) {
        const struct sim_departure *d = &w->nodes[i].departure;
        const bool same = d->known == w->nodes[0].life;
        const bool again = w->nodes[i].incarnation != d->of && !same; /* another process */
        if (again || !d->may || (same ? d->owed[job] : d->stored[job]) == 0 ||
            d->opened[job] != w->jobs[job].opened) {
            continue;
        }
        if (is_named(r->reason, "parameter server ", w->names[d->name])) {
            violated(w, INVARIANT_DEPART, "%s was told that it may end, and %s goes back: %s",
                     w->names[d->name], r->id, r->reason);
        }
    }
}

/* ---- after each step of the master ---- */

static bool has_trouble(const struct world *w)
{
    const struct sim_knobs *k = &w->schedule->knobs;
    bool some = (!w->quiet && (k->full_part > 0 || k->loss_part > 0)) || k->room_workers > 0 ||
                k->full_modes_part > 0 || k->memory_tight;
    some = some || w->rows_full_us > w->now_us || w->full_us > w->now_us ||
           w->gone_us > w->now_us || w->pins_us > w->now_us || w->tests_us > w->now_us;
    for (uint32_t i = 0; i < w->node_count && !some; i++) {
        const struct sim_node *n = &w->nodes[i];
        some = n->life > 0 && (!n->up || n->paused || n->leaving || n->slow > 1);
        some = some || (n->lost_us[1] > 0 && n->lost_us[1] + LOST_US > w->now_us);
        for (uint32_t k2 = 0; k2 < w->node_count && !some; k2++) {
            some = w->blocked_until[i][k2] > w->now_us;
        }
    }
    return some;
}

/* Nothing keeps them where they are but the master. */
static bool is_possible(struct world *w, const char *id, uint32_t *shards)
{
    const struct job_record *r;
    bool possible = has_place(w, id) && !has_trouble(w);
    *shards = 0;
    for (size_t i = 0; possible && (r = master_job_at(w->master, i, node_ms(w, 0))) != NULL; i++) {
        const struct sim_job *j = &w->jobs[job_index(w, r->id)];
        const uint32_t has = primaries(r, id);
        *shards += (uint32_t)__builtin_popcount(has);
        possible = has == 0 || (r->state == JOB_RUNNING && !j->pausing && j->update.waiting == 0 &&
                                r->steps_total > r->step + 1);
    }
    return possible && *shards > 0;
}

static void check_time(struct world *w, uint32_t node, struct sim_departure *d, const char *id)
{
    const struct sim_knobs *k = &w->schedule->knobs;
    const uint64_t batch_us = k->compute_us + k->load_us + k->file_us + k->copy_us + k->tail_us +
                              k->early_us + k->reader_us;
    uint32_t shards;
    if (!departure_waits(&w->nodes[node]) || d->may || d->stays || !is_possible(w, id, &shards)) {
        d->possible_us = 0;
    } else if (d->possible_us == 0 || d->troubles != w->troubles) {
        d->possible_us = w->now_us;
        d->troubles = w->troubles;
    } else if (w->now_us > d->possible_us + shards * (DEPARTS_US + BATCHES * batch_us)) {
        violated(w, INVARIANT_DEPART, "%s is to end, and has had its %u shards for %llu ms", id,
                 shards, (unsigned long long)((w->now_us - d->possible_us) / SIM_MS));
    }
}

/* The master has seen that they are gone. */
static void forget_gone(struct world *w)
{
    struct master_node_info info;
    for (uint32_t i = 1; i <= w->schedule->ps_count; i++) {
        struct sim_departure *d = &w->nodes[i].departure;
        if (d->known == w->nodes[0].life &&
            !(find_info(w, w->names[d->name], &info) && info.incarnation == d->of)) {
            d->may = false;
        }
    }
}

void departure_check(struct world *w)
{
    struct master_node_info info;
    const bool some = w->departures > 0 && w->master != NULL;
    if (some) {
        forget_gone(w);
    }
    for (size_t i = 0; some && master_node_at(w->master, i, 0, &info); i++) {
        struct sim_departure *d = known(w, &info);
        uint32_t jobs = 0;
        if (d == NULL) {
            continue;
        }
        for (size_t k = 0; k < info.job_count; k++) {
            jobs |= 1U << job_index(w, info.jobs[k]);
        }
        if (d->seen && (jobs & ~d->jobs) != 0) {
            violated(w, INVARIANT_DEPART, "%s is to end, and is given a job", info.id);
        }
        d->seen = true;
        d->jobs = jobs;
        const uint32_t node = node_at(w, info.address);
        char id[SIM_NAME_BYTES];
        snprintf(id, sizeof id, "%s", info.id); /* the rest of it ends with the next look */
        d->had = has_something(w, id);
        check_time(w, node, d, id);
    }
}
