/* SPDX-License-Identifier: Apache-2.0 */
/* The shell of a parameter server: requests find their shard, streams keep theirs. */
#include "sim/sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sim_shard **find(struct world *w, uint32_t node, uint32_t job, uint32_t shard)
{
    struct sim_node *n = &w->nodes[node];
    for (uint32_t i = 0; i < SIM_SHARDS_OF_PS; i++) {
        if (n->shards[i] != NULL && n->shards[i]->job == job && n->shards[i]->number == shard) {
            return &n->shards[i];
        }
    }
    return NULL;
}

struct sim_shard *ps_shard_there(struct world *w, uint32_t node, uint32_t job, uint32_t shard)
{
    struct sim_shard **there = find(w, node, job, shard);
    return there == NULL ? NULL : *there;
}

void ps_sweep(struct world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    for (uint32_t i = 0; i < SIM_SHARDS_OF_PS && n->up; i++) {
        struct sim_shard *s = n->shards[i];
        if (s != NULL && !s->open) {
            n->shards[i] = NULL;
            shard_drop(w, s);
        }
    }
}

/* ---- OpenShard ---- */

static void answer_state(struct world *w, struct sim_shard *s, uint32_t unary, uint32_t attempt)
{
    const struct unary_request *q = &w->unaries[unary].req;
    struct shard_event e = {.kind = SHARD_STATE, .generation = q->generation, .fence = q->fence};
    struct sim_request *r = request_new(w, s);
    r->unary = unary;
    r->attempt = attempt;
    e.tag = request_tag(w, r);
    shard_take(w, s, &e);
}

/* ---- memory that there is not ---- */

/* Somebody else's is not free yet. */
static bool is_full(struct world *w)
{
    const uint32_t part = w->schedule->knobs.full_part;
    return part > 0 && !w->quiet && world_draw(w, "full", w->serials++, 1000000) < part;
}

static bool has_room_for_mode(struct world *w, struct sim_shard *s, enum training_mode mode)
{
    const uint32_t part = w->schedule->knobs.full_modes_part;
    const uint64_t what = (uint64_t)s->node << 8 | (uint64_t)mode;
    if ((s->modes >> mode & 1U) == 0 && part > 0 &&
        world_draw(w, "full mode", what, 1000000) < part) {
        return false;
    }
    s->modes |= 1U << mode;
    return true;
}

/* One era more may take sums over variables, and memory for them. */
static bool has_room_for_eras(struct world *w, const struct sim_shard *s,
                              const struct unary_request *q)
{
    const uint32_t part = w->schedule->knobs.full_modes_part;
    const uint64_t what = (uint64_t)s->node << 32 | q->version;
    return q->era_count <= s->era_count || part == 0 ||
           world_draw(w, "full era", what, 1000000) >= part;
}

/* For a membership that it has not taken yet? What it had room for once it always has. */
static bool has_room(struct world *w, struct sim_shard *s, const struct unary_request *q)
{
    const uint32_t most = w->schedule->knobs.room_workers;
    struct shard_info info;
    shard_info(s->core, &info);
    if (q->call != MASTER_CALL_MEMBERSHIP || q->generation <= info.generation) {
        return true;
    }
    uint32_t room = most == 0 ? UINT32_MAX : most + s->node % 2;
    if (q->worker_count > (room > s->room ? room : s->room)) {
        return false;
    }
    return !q->ledger.present ||
           (has_room_for_mode(w, s, q->consistency.mode) && has_room_for_eras(w, s, q));
}

/* ---- closings that overtake openings ---- */

static void note_closing(struct sim_node *n, const struct unary_request *q)
{
    struct sim_closing *c = &n->closings[n->closing_count++ % SIM_CLOSINGS_KEPT];
    *c = (struct sim_closing){q->fence.opening, q->shard};
}

static void check_closings(struct world *w, const struct sim_node *n, const struct unary_request *q)
{
    for (uint32_t i = 0; i < n->closing_count && i < SIM_CLOSINGS_KEPT; i++) {
        if (n->closings[i].opening == q->fence.opening && n->closings[i].shard == q->shard) {
            violated(w, INVARIANT_ORDER, "shard %u is opened after it was closed", q->shard);
        }
    }
}

/* The one thread that makes shards has come to this request. */
void ps_open(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt)
{
    struct sim_node *n = &w->nodes[node];
    const struct unary_request *q = &w->unaries[unary].req;
    struct err err = {0};
    struct sim_shard **there = find(w, node, q->job, q->shard);
    enum shard_open what =
        shard_open_decide(there == NULL ? NULL : (*there)->core,
                          there == NULL ? 0 : (*there)->opened, q->generation, &q->fence, &err);
    if (what == SHARD_OPEN_REFUSED) {
        unary_refuse(w, unary, attempt, err.code, err.msg);
        return;
    }
    if (what == SHARD_OPEN_SAME) {
        answer_state(w, *there, unary, attempt);
        ps_sweep(w, node);
        return;
    }
    uint32_t life = n->life;
    if (what == SHARD_OPEN_REPLACE) {
        struct sim_shard *old = *there;
        *there = NULL;
        shard_drop(w, old);
        if (n->life != life) {
            return;
        }
    }
    if (shard_closed_check(&n->closed, q->fence.opening, q->shard, &err) != 0) {
        unary_refuse(w, unary, attempt, err.code, err.msg);
        return;
    }
    if (is_full(w)) {
        unary_refuse(w, unary, attempt, ERR_EXHAUSTED, "the memory is in use");
        return;
    }
    struct sim_shard *s = shard_make(w, node, q, &err);
    if (s == NULL) {
        unary_refuse(w, unary, attempt, err.code, err.msg);
        return;
    }
    check_closings(w, n, q);
    uint32_t i = 0;
    while (i < SIM_SHARDS_OF_PS && n->shards[i] != NULL) {
        i++;
    }
    if (i == SIM_SHARDS_OF_PS) {
        violated(w, INVARIANT_ORDER, "a server has more than %d shards", SIM_SHARDS_OF_PS);
    }
    n->shards[i] = s;
    answer_state(w, s, unary, attempt);
    ps_sweep(w, node);
}

static void open_later(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt)
{
    struct sim_node *n = &w->nodes[node];
    uint64_t us = n->open_free_us > w->now_us ? n->open_free_us : w->now_us;
    us += world_takes(w, "open", w->schedule->knobs.load_us);
    n->open_us = n->open_free_us > w->now_us ? n->open_us : w->now_us;
    n->open_job = w->unaries[unary].req.job;
    n->open_free_us = us;
    world_at(w, us, EVENT_OPENED, node, unary << 2 | attempt, 0);
}

/* ---- the others ---- */

static enum shard_event_kind kind_of(enum master_call_kind call)
{
    switch (call) {
    case MASTER_CALL_MEMBERSHIP:
        return SHARD_MEMBERSHIP;
    case MASTER_CALL_PIN:
        return SHARD_PIN;
    case MASTER_CALL_UNPIN:
        return SHARD_UNPIN;
    case MASTER_CALL_CHECKPOINT:
        return SHARD_CHECKPOINT;
    default:
        return SHARD_CLOSE;
    }
}

void ps_membership(struct world *w, const struct sim_layout *layout, const struct unary_request *q,
                   struct ps_told *told, struct shard_event *e)
{
    for (uint32_t i = 0; i < q->worker_count; i++) {
        told->workers[i] = w->names[q->workers[i]];
    }
    e->workers = told->workers;
    e->worker_count = q->worker_count;
    e->version = q->version;
    e->forget_pins = q->forget_pins;
    e->keep_pin = q->keep_pin;
    if (q->ledger.present) { /* otherwise nothing but the membership changes */
        e->consistency = &q->consistency;
        memcpy(told->done, q->ledger.done, sizeof told->done);
        told->ledger =
            (struct ledger){q->ledger.shape, q->ledger.epoch, q->ledger.split_count, told->done};
        e->ledger = &told->ledger;
        e->eras = told->eras;
        e->era_count = eras_for_core(layout, q->eras, q->era_count, told->eras);
    }
}

/* @q may be overwritten when the server dies in the middle. */
void ps_take_membership(struct world *w, struct sim_shard *s, const struct unary_request *q,
                        struct shard_event *e)
{
    const struct sim_node *n = &w->nodes[s->node];
    const uint32_t life = n->life;
    struct shard_info before;
    shard_info(s->core, &before);
    budget_membership(w, s, e);
    for (size_t i = 0; i < before.pins && e->forget_pins; i++) {
        if (strcmp(before.pinned[i].id, e->keep_pin) != 0) {
            evaluation_dropped(w, s->job, before.pinned[i].id);
        }
    }
    shard_take(w, s, e);
    if (n->life != life) {
        return;
    }
    struct shard_info after;
    shard_info(s->core, &after);
    if (after.generation != before.generation && e->era_count > 0) {
        memcpy(s->eras, q->eras, sizeof s->eras);
        s->era_count = q->era_count;
    }
    budget_membership_done(w, s, before.generation, q->worker_count);
}

/* Room for the slots that a backup which joins is sent, if there is some. */
static void bring_copy(struct world *w, struct sim_shard *s, struct shard_event *e)
{
    if (shard_joins(s->core, e) && w->pins_us <= w->now_us) {
        e->slots_buffer = gradient_new(w);
        s->gradients++;
    }
}

void ps_called(struct world *w, uint32_t node, uint32_t unary, uint32_t attempt)
{
    const struct unary_request *q = &w->unaries[unary].req;
    const struct sim_knobs *k = &w->schedule->knobs;
    struct sim_node *n = &w->nodes[node];
    if (w->unaries[unary].kind == UNARY_TRACE) {
        recorder_server_called(w, node, unary, attempt);
        return;
    }
    if (q->call == MASTER_CALL_OPEN && q->incarnation != w->nodes[node].incarnation) {
        unary_refuse(w, unary, attempt, ERR_ABORTED, "this was meant for another process");
        return;
    }
    if (q->call == MASTER_CALL_OPEN) {
        open_later(w, node, unary, attempt);
        return;
    }
    struct sim_shard **there = find(w, node, q->job, q->shard);
    if (w->unaries[unary].kind == UNARY_FILL && there != NULL) {
        given_called(w, *there, unary, attempt);
        return;
    }
    if (w->unaries[unary].kind == UNARY_RECORD && there != NULL) {
        standby_heard(w, *there, unary, attempt);
        ps_sweep(w, node);
        return;
    }
    if (w->unaries[unary].kind == UNARY_FILL || w->unaries[unary].kind == UNARY_RECORD) {
        unary_refuse(w, unary, attempt, ERR_NOT_FOUND, "the shard is not on this server");
        return;
    }
    if (q->call == MASTER_CALL_CLOSE &&
        (there == NULL || (*there)->fence.opening != q->fence.opening)) {
        shard_closed_early(&n->closed, q->fence.opening, q->shard);
        note_closing(n, q);
    }
    if (there != NULL && q->call == MASTER_CALL_PIN && q->slots && w->pins_us > w->now_us) {
        unary_refuse(w, unary, attempt, ERR_EXHAUSTED, "no memory for a copy of the slots");
        return;
    }
    if (there == NULL) {
        if (q->call == MASTER_CALL_CLOSE) {
            (void)unary_reply(w, unary, attempt);
            unary_answer(w, unary, attempt);
        } else {
            unary_refuse(w, unary, attempt, ERR_NOT_FOUND, "the shard is not on this server");
        }
        return;
    }
    struct sim_shard *s = *there;
    if (!has_room(w, s, q)) {
        unary_refuse(w, unary, attempt, ERR_EXHAUSTED, "there is no memory for that");
        return;
    }
    struct sim_request *r = request_new(w, s);
    r->unary = unary;
    r->attempt = attempt;
    struct shard_event e = {
        .kind = kind_of(q->call), .generation = q->generation, .tag = request_tag(w, r)};
    e.fence = q->fence;
    struct ps_told told;
    if (e.kind == SHARD_MEMBERSHIP) {
        ps_membership(w, s->layout, q, &told, &e);
        e.promote = q->promote;
        e.has_backup = q->has_backup;
        e.backup = q->backup.opening;
        bring_copy(w, s, &e);
    }
    e.pin_id = q->pin_id;
    e.slots = q->slots;
    if (e.kind == SHARD_PIN && q->slots) {
        e.slots_buffer = gradient_new(w);
        s->gradients++;
    }
    uint32_t gradients = s->gradients;
    const bool copies = e.slots_buffer != NULL;
    const uint32_t job = q->job;
    if (e.kind == SHARD_MEMBERSHIP) {
        const struct unary_request told_by = *q; /* the list of calls may move */
        ps_take_membership(w, s, &told_by, &e);
    } else {
        shard_take(w, s, &e);
    }
    if (copies && n->up && s->gradients == gradients && k->copy_us > 0) {
        n->copy_job = job; /* it kept the buffer: the copy is made now */
        n->copy_us = w->now_us;
        n->copied_us = w->now_us + world_takes(w, "copy", k->copy_us);
    }
    ps_sweep(w, node);
}

/* ---- exchanges ---- */

void ps_refuse(struct world *w, uint32_t exchange, int code, const char *why)
{
    const struct exchange q = w->exchanges[exchange];
    exchange_free(w, exchange);
    uint32_t index = exchange_new(w);
    struct exchange *x = &w->exchanges[index];
    x->stream = q.stream;
    x->number = q.number;
    x->code = code;
    snprintf(x->message, sizeof x->message, "%s", why);
    stream_answer(w, index);
}

void ps_exchange(struct world *w, uint32_t node, uint32_t exchange)
{
    struct exchange *x = &w->exchanges[exchange];
    const struct stream *stream = &w->streams[x->stream];
    struct sim_shard **there = find(w, node, stream->job, stream->shard);
    recorder_check(w, node, x->stream, x->number);
    if (there == NULL) {
        ps_refuse(w, exchange, ERR_NOT_FOUND, "the shard is not on this server");
        return;
    }
    struct sim_shard *s = *there;
    struct sim_request *r = request_new(w, s);
    r->exchange = exchange;
    struct shard_event e = {.kind = SHARD_EXCHANGE,
                            .generation = x->generation,
                            .fence = {.opening = x->opening},
                            .tag = request_tag(w, r),
                            .worker = w->names[x->name],
                            .ask = x->ask,
                            .elements = x->elements};
    uint8_t decision[8];
    memcpy(decision, &x->decision, sizeof decision);
    e.ask.decision.replicas = decision;
    const struct sim_sums totals = x->sums;
    if (x->ask.kind == EXCHANGE_TOTALS) {
        e.ask.totals.data = &totals;
        e.ask.totals.bytes = sizeof totals;
    }
    if (x->elements > 0) {
        struct gradient *g = gradient_new(w);
        g->t = x->values;
        g->ids = x->ids;
        g->generation = x->generation;
        g->counted = budget_is_tight(w);
        tables_take(w, s, x, g);
        e.gradient = g;
        s->gradients++;
    }
    shard_take(w, s, &e);
    ps_sweep(w, node);
}

void ps_gone(struct world *w, uint32_t node, uint32_t stream)
{
    struct sim_node *n = &w->nodes[node];
    for (size_t i = 0; i < w->request_count && n->up; i++) {
        struct sim_request *r = &w->requests[i];
        if (!r->used || r->exchange == SIM_NONE || w->exchanges[r->exchange].stream != stream) {
            continue;
        }
        struct shard_event e = {.kind = SHARD_GONE, .tag = request_tag(w, r)};
        struct sim_shard *s = r->shard;
        uint32_t life = n->life;
        shard_take(w, s, &e);
        if (n->life == life) {
            request_drop(w, &w->requests[i]);
        }
    }
}

/* ---- the end ---- */

void ps_drop(struct world *w, uint32_t node, uint32_t job)
{
    struct sim_node *n = &w->nodes[node];
    for (uint32_t i = 0; i < SIM_SHARDS_OF_PS && n->up; i++) {
        struct sim_shard *s = n->shards[i];
        if (s != NULL && (job == SIM_NONE || s->job == job)) {
            n->shards[i] = NULL;
            shard_drop(w, s);
        }
    }
}

void ps_drop_opening(struct world *w, uint32_t node, uint64_t opening)
{
    struct sim_node *n = &w->nodes[node];
    for (uint32_t i = 0; i < SIM_SHARDS_OF_PS && n->up; i++) {
        struct sim_shard *s = n->shards[i];
        if (s != NULL && s->fence.opening == opening) {
            TRACE(w, node, "is told by a heartbeat to close a shard of %s", w->jobs[s->job].id);
            n->shards[i] = NULL;
            shard_drop(w, s);
        }
    }
}

void ps_end(struct world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    for (uint32_t i = 0; i < SIM_SHARDS_OF_PS; i++) {
        if (n->shards[i] != NULL) {
            shard_release(w, n->shards[i]);
            n->shards[i] = NULL;
        }
    }
    budget_end(w, node);
}
