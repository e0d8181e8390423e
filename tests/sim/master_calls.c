/* SPDX-License-Identifier: Apache-2.0 */
/* What the master's calls to nodes say, as messages. */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void flatten(struct world *w, struct flat_ledger *to, const struct ledger *from)
{
    to->present = from != NULL;
    if (from == NULL) {
        return;
    }
    if (from->split_count > SIM_SPLITS_MAX) {
        violated(w, INVARIANT_ORDER, "a ledger of %u splits", from->split_count);
    }
    to->shape = from->shape;
    to->epoch = from->epoch;
    to->split_count = from->split_count;
    for (uint32_t i = 0; i < from->split_count; i++) {
        to->done[i] = from->done[i];
    }
}

uint32_t node_at(struct world *w, const char *address)
{
    uint32_t node = (uint32_t)strtoul(address + 1, NULL, 10); /* "n3" */
    if (node >= w->node_count) {
        violated(w, INVARIANT_ORDER, "the master calls '%s'", address);
    }
    return node;
}

/* With so many servers the plan of a job is always the same; the first one that is seen says where
 * its elements are. */
static void learn_plan(struct world *w, struct sim_job *j, const struct plan *plan)
{
    uint64_t offsets[64] = {0};
    uint64_t at = 0;
    for (size_t v = 0; v < plan->variable_count && v < 64; v++) {
        offsets[v] = at;
        uint64_t n =
            plan_rows(&plan->variables[v].shape) * plan_row_elements(&plan->variables[v].shape);
        at += n;
    }
    if (at > SIM_ELEMENTS_MAX || plan->shard_count > SIM_SHARDS_MAX) {
        violated(w, INVARIANT_ORDER, "a plan of %u shards and %u elements", plan->shard_count,
                 (unsigned)at);
    }
    struct sim_layout *l = &j->layouts[plan->shard_count];
    if (l->shard_count != 0) {
        return;
    }
    j->elements = (uint32_t)at;
    l->shard_count = plan->shard_count;
    for (uint32_t s = 0; s < plan->shard_count; s++) {
        size_t count;
        const struct partition *p = plan_shard(plan, s, &count);
        l->shard_elements[s] = (uint32_t)plan->shard_elements[s];
        for (size_t i = 0; i < count; i++) {
            for (uint64_t k = 0; k < p[i].count; k++) {
                l->map[s][p[i].offset + k] = (uint16_t)(offsets[p[i].variable] + p[i].first + k);
            }
        }
    }
}

/* Servers get other addresses: streams to the old ones break, or live until the workers leave. */
static void move_shards(struct world *w, struct sim_job *j, uint64_t generation)
{
    const uint32_t job = (uint32_t)(j - w->jobs);
    if (w->quiet || w->schedule->knobs.moved_part == 0 || generation <= j->moved) {
        return;
    }
    j->moved = generation;
    for (uint32_t s = 0; s < j->shard_count; s++) {
        if (world_draw(w, "moved", ++w->moves, 1000000) >= w->schedule->knobs.moved_part) {
            continue;
        }
        TRACE(w, 0, "shard %u of %s has another address from generation %llu on", s, j->id,
              (unsigned long long)generation);
        j->addresses[s]++;
        bool breaks = world_draw(w, "moved away", w->moves, 2) == 0;
        for (uint32_t i = 0; i < w->stream_count && breaks; i++) {
            if (w->streams[i].job == job && w->streams[i].shard == s) {
                stream_break(w, i);
            }
        }
    }
}

static void fill_places(struct world *w, struct sim_job *j, struct unary_request *q,
                        const struct master_call *c)
{
    bool brings = c->kind == MASTER_CALL_START && j->given;
    if (c->kind != MASTER_CALL_ASSIGN && c->kind != MASTER_CALL_EVALUATE && !brings) {
        return;
    }
    if (c->shard_count != j->shard_count) {
        violated(w, INVARIANT_ORDER, "a call says where %zu shards are", c->shard_count);
    }
    if (!brings) {
        move_shards(w, j, c->generation);
    }
    for (size_t i = 0; i < c->shard_count; i++) {
        const struct master_shard_location *l = &c->shards[i];
        q->places[l->shard] =
            (struct sim_place){(uint8_t)node_at(w, l->address), j->addresses[l->shard], l->opening};
    }
    q->shard_count = (uint32_t)c->shard_count;
}

void master_call_fill(struct world *w, struct unary_request *q, const struct master_call *c)
{
    struct sim_job *j = &w->jobs[job_index(w, c->job)];
    q->call = c->kind;
    q->number = c->number;
    q->incarnation = c->incarnation;
    q->fence = c->fence;
    q->job = (uint32_t)(j - w->jobs);
    q->shard = c->shard;
    q->generation = c->generation;
    q->start = c->start;
    q->version = c->version;
    q->step = c->step;
    q->step_limit = c->step_limit;
    q->ledger_step = c->ledger_step;
    q->replica_first = c->replica_first;
    q->replica_end = c->replica_end;
    q->hold = c->hold;
    q->slots = c->slots;
    q->forget_pins = c->forget_pins;
    q->is_backup = c->standby.is_backup;
    q->joins = c->standby.joins;
    q->promote = c->standby.promote;
    q->has_backup = c->standby.backup.node != NULL;
    if (q->has_backup) {
        const struct master_shard_location *l = &c->standby.backup;
        q->backup = (struct sim_place){(uint8_t)node_at(w, l->address), 0, l->opening};
    }
    snprintf(q->keep_pin, sizeof q->keep_pin, "%s", c->keep_pin == NULL ? "" : c->keep_pin);
    q->begins = c->begins;
    q->encoded = c->kind == MASTER_CALL_INSPECT && strcmp(c->encoding, GIVEN_ENCODING) == 0;
    given_asked(w, j, c);
    if (c->consistency != NULL) {
        q->consistency = *c->consistency;
        if (consistency_is_partial(c->consistency)) {
            j->partial = true;
        }
    }
    flatten(w, &q->ledger, c->ledger);
    q->era_count = eras_read(w, j, c->eras, c->era_count, q->eras);
    check_eras_told(w, j, q->eras, q->era_count);
    for (size_t i = 0; i < c->worker_count && i < SIM_WORKERS_MAX; i++) {
        q->workers[i] = name_of(w, c->workers[i]);
    }
    q->worker_count = (uint32_t)c->worker_count;
    for (size_t i = 0; i < c->lease_count && i < SIM_LEASES_MAX; i++) {
        q->leases[i] = c->leases[i];
    }
    q->lease_count = (uint32_t)c->lease_count;
    snprintf(q->pin_id, sizeof q->pin_id, "%s", c->pin_id == NULL ? "" : c->pin_id);
    const char *directory = c->kind == MASTER_CALL_OPEN ? c->restore : c->directory;
    snprintf(q->directory, sizeof q->directory, "%s", directory == NULL ? "" : directory);
    if (c->base.directory != NULL) {
        snprintf(q->base.directory, sizeof q->base.directory, "%s", c->base.directory);
        q->base.opened = strtoull(c->base.file, NULL, 10);
        q->base.checksum = c->base.checksum;
        q->base.version = c->base.version;
    }
    q->first = c->first;
    q->count = c->count;
    if (c->plan != NULL) {
        learn_plan(w, j, c->plan);
        q->planned = c->plan->shard_count;
        j->shard_count = c->kind == MASTER_CALL_OPEN ? q->planned : j->shard_count;
    }
    fill_places(w, j, q, c);
}
