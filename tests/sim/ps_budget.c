/* SPDX-License-Identifier: Apache-2.0 */
/* Servers whose memory for gradients is tight: what arrives on a stream is read as on_exchange.c
 * and gradient_memory.c of services/ps do it. A gradient takes its memory before it is read, and
 * who gets none is read no further; it comes in slowly, and has its memory until the shard's core
 * releases it.
 *
 * The limit of a server is what its shards have reserved, and a few gradients more, at any time. */
#include "sim/sim.h"

#include <stdlib.h>

#include "base/mem.h"
#include "job/plan/plan_memory.h"

#define TELL_US 5000 /* until a task of the pool tells who waited */

static struct sim_shard *shard_of(struct gradient_share *s)
{
    return (struct sim_shard *)((char *)s - offsetof(struct sim_shard, share));
}

static struct sim_inlet *inlet_of(struct gradient_waiter *w)
{
    return (struct sim_inlet *)w; /* the first member */
}

/* ---- the limit ---- */

/* Never less than what was given away when there was more of it. */
static void fit_limit(struct world *w, struct sim_node *n)
{
    uint64_t bytes = 0, unit_max = 0;
    for (const struct gradient_share *s = n->budget.shares; s != NULL; s = s->next) {
        bytes += s->reserve;
        unit_max = s->unit > unit_max ? s->unit : unit_max;
    }
    bytes += w->schedule->knobs.memory_more * unit_max;
    n->budget.bytes_max = bytes > n->budget.promised ? bytes : n->budget.promised;
}

/* Counted anew, from what is where. */
static void check_share(struct world *w, const struct gradient_share *s, uint64_t *bytes)
{
    const struct sim_shard *shard = shard_of((struct gradient_share *)(uintptr_t)s);
    uint64_t gradients = shard->taken;
    for (const struct sim_inlet *i = w->all_inlets; i != NULL; i = i->all) {
        gradients += i->used && i->waiter.share == s && i->waiter.granted ? 1 : 0;
    }
    if (s->held != gradients * s->unit) {
        violated(w, INVARIANT_MEMORY, "shard %u holds %llu gradients, and memory for %llu",
                 shard->number, (unsigned long long)gradients,
                 (unsigned long long)(s->held / s->unit));
    }
    *bytes += gradients * s->unit > s->reserve ? gradients * s->unit : s->reserve;
    *bytes += shard->lent * s->unit;
}

/* Nobody waits for memory that nobody else may have: his own, or what is common for the first who
 * waits for that. */
static void check_waiters(struct world *w, const struct gradient_budget *b)
{
    bool first = true;
    for (const struct gradient_waiter *i = b->first; i != NULL; i = i->next) {
        const struct gradient_share *s = i->share;
        uint64_t held = s->held + s->unit;
        if (held > s->held_max && held > s->reserve) {
            continue;
        }
        uint64_t more = held - (s->held > s->reserve ? s->held : s->reserve);
        if (s->closed || held <= s->reserve || (first && b->promised + more <= b->bytes_max)) {
            violated(w, INVARIANT_MEMORY, "shard %u waits for memory that it may have",
                     shard_of(i->share)->number);
        }
        first = false;
    }
}

/* After every change: what is told to whom, and whether all is well. */
static void settle(struct world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    struct gradient_budget *b = &n->budget;
    uint64_t bytes = 0;
    for (const struct gradient_share *s = b->shares; s != NULL; s = s->next) {
        check_share(w, s, &bytes);
    }
    if (bytes > b->bytes_max || bytes != b->promised) {
        violated(w, INVARIANT_MEMORY,
                 "%llu floats are held or reserved, there are %llu, and %llu are promised",
                 (unsigned long long)bytes, (unsigned long long)b->bytes_max,
                 (unsigned long long)b->promised);
    }
    check_waiters(w, b);
    fit_limit(w, n);
    if (b->ready != NULL && !n->telling) {
        n->telling = true;
        world_at(w, w->now_us + world_takes(w, "tell", TELL_US), EVENT_ROOM, node, 0, 0);
    }
}

/* ---- shards ---- */

bool budget_is_tight(const struct world *w)
{
    return w->schedule->knobs.memory_tight;
}

void budget_begin(struct world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    gradient_budget_init(&n->budget, 0);
    n->budget.bytes_max = 0;
    n->telling = false;
}

/* The operator has given the server as much. */
static void reserve(struct world *w, struct sim_shard *s, size_t gradients)
{
    struct gradient_share *share = &s->share;
    struct gradient_budget *b = share->budget;
    uint64_t own = share->held > share->reserve ? share->held : share->reserve;
    uint64_t wanted = b->promised - own + gradients * share->unit;
    uint64_t before = share->reserve;
    struct err err;
    b->bytes_max = wanted > b->bytes_max ? wanted : b->bytes_max;
    if (gradient_share_reserve(share, gradients, &err) != 0) {
        violated(w, INVARIANT_MEMORY, "%s", err.msg);
    }
    fit_limit(w, &w->nodes[s->node]);
    gradient_share_reserved(share, true, before);
    settle(w, s->node);
}

static uint32_t rounds_of(const struct sim_shard *s)
{
    return eras_rounds_max(s->layout, s->eras, s->era_count);
}

void budget_open(struct world *w, struct sim_shard *s, const struct consistency *c, size_t workers)
{
    if (budget_is_tight(w)) {
        gradient_share_join(&s->share, &w->nodes[s->node].budget, s->elements);
        reserve(w, s, plan_memory_gradients(c, workers, rounds_of(s)));
    }
}

/* As ps_shard_step_membership() has it: more is reserved before, less after. */
void budget_membership(struct world *w, struct sim_shard *s, const struct shard_event *e)
{
    struct shard_info info;
    struct err err;
    s->reserve_before = s->share.reserve;
    if (!budget_is_tight(w) || shard_check_fence(s->core, e, &err) != 0) {
        return;
    }
    shard_info(s->core, &info);
    bool changes = e->ledger != NULL && e->consistency != NULL;
    const struct consistency *next = changes ? e->consistency : &info.consistency;
    uint32_t rounds = rounds_of(s);
    if (e->era_count > 0) {
        rounds = era_rounds_max(e->eras, e->era_count);
    }
    size_t gradients = plan_memory_gradients(next, e->worker_count, rounds);
    if (gradients * s->share.unit > s->share.reserve) {
        reserve(w, s, gradients);
    }
}

void budget_membership_done(struct world *w, struct sim_shard *s, uint64_t generation_before,
                            size_t workers)
{
    struct shard_info info;
    if (!budget_is_tight(w)) {
        return;
    }
    shard_info(s->core, &info);
    size_t gradients = (size_t)(s->reserve_before / s->share.unit);
    if (info.generation != generation_before) {
        gradients = plan_memory_gradients(&info.consistency, workers, rounds_of(s));
    }
    reserve(w, s, gradients);
    snapshots_trim(w, s);
}

void gradient_memory_back(struct world *w, struct sim_shard *s)
{
    if (s->taken == 0) {
        violated(w, INVARIANT_MEMORY, "shard %u returns memory that it does not have", s->number);
    }
    s->taken--;
    gradient_share_return(&s->share);
    settle(w, s->node);
}

bool budget_lend(struct world *w, struct sim_shard *s)
{
    struct gradient_budget *b = &w->nodes[s->node].budget;
    if (!gradient_budget_lend(b, s->share.unit)) {
        return false;
    }
    s->lent++;
    settle(w, s->node);
    return true;
}

void budget_take_back(struct world *w, struct sim_shard *s)
{
    s->lent--;
    gradient_budget_take_back(&w->nodes[s->node].budget, s->share.unit);
    settle(w, s->node);
}

/* ---- streams ---- */

static struct sim_inlet *inlet_new(struct world *w, uint32_t node, uint32_t stream)
{
    struct sim_inlet *i = w->inlets;
    if (i == NULL) {
        i = mem_new(1, sizeof *i);
        i->all = w->all_inlets;
        w->all_inlets = i;
    } else {
        w->inlets = i->next;
    }
    *i = (struct sim_inlet){.all = i->all,
                            .used = true,
                            .node = node,
                            .stream = stream,
                            .serial = ++w->inlet_serials,
                            .first = SIM_NONE,
                            .last = SIM_NONE};
    if (stream != SIM_NONE) {
        w->streams[stream].inlet = i;
    }
    return i;
}

static void inlet_free(struct world *w, struct sim_inlet *i)
{
    if (i->stream != SIM_NONE) {
        w->streams[i->stream].inlet = NULL;
    }
    i->used = false;
    i->next = w->inlets;
    w->inlets = i;
}

static uint32_t pop(struct world *w, struct sim_inlet *i)
{
    uint32_t exchange = i->first;
    i->first = w->exchanges[exchange].next;
    i->last = i->first == SIM_NONE ? SIM_NONE : i->last;
    w->exchanges[exchange].next = SIM_NONE;
    i->at = INLET_READS;
    i->shard = NULL;
    return exchange;
}

/* Memory beyond the reserve that the machine has not. */
static bool machine_refuses(struct world *w, const struct sim_shard *s)
{
    const uint32_t part = w->schedule->knobs.memory_refused_part;
    return part > 0 && s->share.held > s->share.reserve &&
           world_draw(w, "refuses", w->serials++, 1000000) < part;
}

static int take_memory(struct world *w, struct sim_shard *s, struct sim_inlet *i)
{
    struct err err;
    int rc = gradient_share_take(&s->share, &i->waiter, &err);
    i->shard = s;
    if (rc == 0 && machine_refuses(w, s)) {
        rc = gradient_share_refused(&s->share) ? 1 : ERR_EXHAUSTED;
    } else if (rc == 0) {
        s->taken++;
    }
    if (rc == 1) {
        i->at = INLET_WAITS;
        w->counts.memory_waits++;
        gradient_share_wait(&s->share, &i->waiter);
    } else if (rc != 0) {
        violated(w, INVARIANT_MEMORY, "shard %u refuses memory: %s", s->number, err.msg);
    }
    settle(w, s->node);
    return rc;
}

/* Memory for the gradient that begins. False: there is none for a shard that is not there. */
static bool begin_gradient(struct world *w, uint32_t node, struct sim_inlet *i, uint64_t number)
{
    const struct stream *stream = &w->streams[i->stream];
    struct sim_shard *s = ps_shard_there(w, node, stream->job, stream->shard);
    if (s == NULL) {
        return false;
    }
    if (take_memory(w, s, i) == 1) {
        TRACE(w, node, "exchange %llu waits for memory of shard %u", (unsigned long long)number,
              s->number);
    } else {
        i->at = INLET_COMES_IN;
        world_at(w, w->now_us + world_takes(w, "comes in", w->schedule->knobs.memory_us),
                 EVENT_TAKEN, node, i->stream, (uint32_t)i->serial);
    }
    return true;
}

/* Until something is to be waited for. The server may die of what is read. */
static void read_on(struct world *w, uint32_t node, uint32_t stream)
{
    struct sim_inlet *i;
    while ((i = w->streams[stream].inlet) != NULL && i->at == INLET_READS) {
        if (i->first == SIM_NONE) {
            inlet_free(w, i);
            return;
        }
        const struct exchange *x = &w->exchanges[i->first];
        if (x->elements == 0 || !begin_gradient(w, node, i, x->number)) {
            ps_exchange(w, node, pop(w, i));
        }
    }
}

void ps_arrives(struct world *w, uint32_t node, uint32_t exchange)
{
    const uint32_t stream = w->exchanges[exchange].stream;
    struct sim_inlet *i = w->streams[stream].inlet;
    if (!budget_is_tight(w) || (i == NULL && w->exchanges[exchange].elements == 0)) {
        ps_exchange(w, node, exchange);
        return;
    }
    i = i != NULL ? i : inlet_new(w, node, stream);
    if (i->last == SIM_NONE) {
        i->first = exchange;
    } else {
        w->exchanges[i->last].next = exchange;
    }
    i->last = exchange;
    w->exchanges[exchange].next = SIM_NONE;
    read_on(w, node, stream);
}

/* ---- pushes in calls of their own ---- */

/* All of it came with the call; it waits for the memory into which it is read. */
static void push_on(struct world *w, struct sim_inlet *i)
{
    struct sim_shard *s = i->shard;
    const uint32_t fault = i->fault;
    if (take_memory(w, s, i) == 0) {
        inlet_free(w, i);
        stranger_pushes(w, s, fault);
    }
}

void budget_push(struct world *w, struct sim_shard *s, uint32_t fault)
{
    if (!budget_is_tight(w)) {
        stranger_pushes(w, s, fault);
        return;
    }
    struct sim_inlet *i = inlet_new(w, s->node, SIM_NONE);
    const uint64_t serial = i->serial;
    i->fault = fault;
    i->shard = s;
    push_on(w, i);
    if (i->used && i->serial == serial && world_draw(w, "gives up", w->serials++, 2) == 0) {
        world_at(w, w->now_us + world_takes(w, "patience", w->schedule->knobs.memory_us),
                 EVENT_TAKEN, s->node, SIM_NONE, (uint32_t)serial);
    }
}

static void give_up(struct world *w, uint32_t serial)
{
    for (struct sim_inlet *i = w->all_inlets; i != NULL; i = i->all) {
        if (i->used && i->stream == SIM_NONE && (uint32_t)i->serial == serial) {
            const uint32_t node = i->node;
            (void)gradient_waiter_cancel(&i->waiter);
            inlet_free(w, i);
            settle(w, node);
        }
    }
}

/* ---- time ---- */

/* The last of a gradient is there, or who waits does so no longer. */
void budget_taken(struct world *w, const struct event *e)
{
    if (e->arg == SIM_NONE) {
        give_up(w, e->more);
        return;
    }
    struct sim_inlet *i = w->streams[e->arg].inlet;
    const struct stream *stream = &w->streams[e->arg];
    const struct sim_node *worker = &w->nodes[stream->worker];
    if (i == NULL || (uint32_t)i->serial != e->more || i->at != INLET_COMES_IN) {
        return;
    }
    if (worker->life != stream->worker_life) {
        if (world_draw(w, "half", w->serials++, 2) == 0) {
            return; /* nothing more comes, and the connection will be found broken */
        }
    } else if (worker->paused && !worker->frozen) { /* in the middle of it */
        world_at(w, worker->resume_us + 1, EVENT_TAKEN, e->node, e->arg, (uint32_t)i->serial);
        return;
    }
    ps_exchange(w, e->node, pop(w, i));
    read_on(w, e->node, e->arg);
}

/* The pool's task. */
void budget_tell(struct world *w, uint32_t node)
{
    struct sim_node *n = &w->nodes[node];
    struct gradient_waiter *ready;
    n->telling = false;
    while ((ready = gradient_budget_ready(&n->budget)) != NULL) {
        struct sim_inlet *i = inlet_of(ready);
        i->at = INLET_READS;
        if (i->stream == SIM_NONE) {
            push_on(w, i);
        } else {
            read_on(w, node, i->stream);
        }
    }
}

/* Nothing more is read of it. */
static void inlet_drop(struct world *w, uint32_t node, struct sim_inlet *i)
{
    struct sim_shard *s = i->shard;
    const bool comes_in = i->at == INLET_COMES_IN;
    (void)gradient_waiter_cancel(&i->waiter);
    while (i->first != SIM_NONE) {
        exchange_free(w, pop(w, i));
    }
    inlet_free(w, i);
    if (comes_in) {
        gradient_memory_back(w, s);
    } else {
        settle(w, node);
    }
}

void budget_gone(struct world *w, uint32_t node, uint32_t stream)
{
    if (w->streams[stream].inlet != NULL) {
        inlet_drop(w, node, w->streams[stream].inlet);
    }
}

/* ---- the end ---- */

/* Who waits for a shard that closes is told so; what comes in is not taken. */
static void end_inlet(struct world *w, struct sim_shard *s, struct sim_inlet *i)
{
    if (i->waiter.share == &s->share && i->waiter.state == GRADIENT_WAITER_WAITS) {
        violated(w, INVARIANT_MEMORY, "shard %u is closed, and somebody waits for its memory",
                 s->number);
    }
    const bool comes_in = i->at == INLET_COMES_IN;
    (void)gradient_waiter_cancel(&i->waiter);
    i->waiter = (struct gradient_waiter){0};
    i->serial = ++w->inlet_serials;
    if (i->stream == SIM_NONE) {
        inlet_free(w, i);
        settle(w, s->node);
        return;
    }
    uint32_t exchange = pop(w, i);
    if (comes_in) {
        gradient_memory_back(w, s);
    } else {
        settle(w, s->node);
    }
    ps_refuse(w, exchange, ERR_NOT_FOUND, "closed");
}

void budget_close(struct world *w, struct sim_shard *s)
{
    if (!budget_is_tight(w)) {
        return;
    }
    const uint32_t node = s->node;
    uint32_t streams[SIM_NODES_MAX * 4];
    uint32_t count = 0;
    gradient_share_close(&s->share);
    while (s->lent > 0) {
        budget_take_back(w, s);
    }
    for (struct sim_inlet *i = w->all_inlets; i != NULL; i = i->all) {
        if (i->used && i->shard == s) {
            uint32_t stream = i->stream;
            end_inlet(w, s, i);
            if (stream != SIM_NONE && count < sizeof streams / sizeof *streams) {
                streams[count++] = stream;
            }
        } else if (i->used && i->waiter.share == &s->share) {
            i->waiter = (struct gradient_waiter){0};
        }
    }
    if (s->share.held != 0) {
        violated(w, INVARIANT_MEMORY, "a closed shard has memory for %llu gradients left",
                 (unsigned long long)(s->share.held / s->share.unit));
    }
    gradient_share_leave(&s->share);
    settle(w, node);
    for (uint32_t k = 0; k < count; k++) {
        read_on(w, node, streams[k]);
    }
}

/* The process has ended: its memory is gone with it. */
void budget_end(struct world *w, uint32_t node)
{
    for (struct sim_inlet *i = w->all_inlets; i != NULL; i = i->all) {
        if (i->used && i->node == node) {
            while (i->first != SIM_NONE) {
                exchange_free(w, pop(w, i));
            }
            inlet_free(w, i);
        }
    }
    budget_begin(w, node);
}

void budget_clear(struct world *w)
{
    w->inlets = NULL;
    for (struct sim_inlet *i = w->all_inlets; i != NULL; i = i->all) {
        i->used = false;
        i->next = w->inlets;
        w->inlets = i;
    }
}

void budget_free(struct world *w)
{
    while (w->all_inlets != NULL) {
        struct sim_inlet *i = w->all_inlets;
        w->all_inlets = i->all;
        free(i);
    }
}
