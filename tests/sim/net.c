/* SPDX-License-Identifier: Apache-2.0 */
/* The network: unary calls, which may be lost, come twice and overtake each other, and streams,
 * which keep their order until they break. */
#include "sim/sim.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

#define KEEPALIVE_US (20 * SIM_S) /* after so long without a sign a connection is given up */
#define CONNECT_AGAIN_US (100 * SIM_MS)
#define PART UINT64_C(1000000)
#define ATTEMPT_BROKEN 2
#define ATTEMPT_DEADLINE 3

/* A number for each thing that is decided about a message from one node to another. */
static uint64_t draw(struct world *w, uint32_t from, uint32_t to, uint64_t n)
{
    struct sim_node *s = &w->nodes[from];
    uint64_t key = rng_key_mix(w->key, 1000 + (uint64_t)from * SIM_NODES_MAX + to);
    return rng_below(key, s->link_count[to]++, n);
}

static bool happens(struct world *w, uint32_t from, uint32_t to, uint32_t part)
{
    return part > 0 && !w->quiet && draw(w, from, to, PART) < part;
}

static uint64_t travel_us(struct world *w, uint32_t from, uint32_t to)
{
    const struct sim_knobs *k = &w->schedule->knobs;
    if (k->even) {
        return k->delay_us;
    }
    uint64_t us = k->delay_us / 2 + draw(w, from, to, k->delay_us + 1) + 1;
    if (happens(w, from, to, k->tail_part)) {
        us += draw(w, from, to, k->tail_us + 1);
    }
    return us;
}

/* ---- unary calls ---- */

struct unary *unary_new(struct world *w, uint32_t from, uint32_t to, enum unary_kind kind,
                        uint64_t timeout_ms, uint32_t *index)
{
    if (w->unary_free != SIM_NONE) {
        *index = w->unary_free;
        w->unary_free = w->unaries[*index].next;
    } else {
        w->unaries =
            mem_grow(w->unaries, &w->unary_capacity, w->unary_count + 1, sizeof *w->unaries);
        *index = (uint32_t)w->unary_count++;
        w->unaries[*index].serial = 0;
    }
    struct unary *u = &w->unaries[*index];
    uint32_t serial = u->serial + 1;
    memset(u, 0, offsetof(struct unary, rsp));
    u->kind = kind;
    u->from = from;
    u->to = to;
    u->from_life = w->nodes[from].life;
    u->serial = serial;
    u->refs = 1; /* until it is sent */
    u->deadline_us = timeout_ms == 0 ? UINT64_MAX : w->now_us + timeout_ms * SIM_MS;
    return u;
}

void unary_unref(struct world *w, uint32_t index)
{
    struct unary *u = &w->unaries[index];
    assert(u->refs > 0);
    if (--u->refs == 0) {
        u->next = w->unary_free;
        w->unary_free = index;
    }
}

static void unary_event(struct world *w, uint64_t us, enum event_kind kind, uint32_t node,
                        uint32_t index, uint32_t attempt)
{
    w->unaries[index].refs++;
    world_at(w, us, kind, node, index << 2 | attempt, w->unaries[index].serial);
}

/* The connection is no more: the caller learns of it at once (a reset), or when nothing came for
 * long. */
static void unary_lost(struct world *w, uint32_t index)
{
    struct unary *u = &w->unaries[index];
    if (u->lost || u->done) {
        return;
    }
    u->lost = true;
    uint64_t us = w->now_us + KEEPALIVE_US;
    if (draw(w, u->from, u->to, 2) == 0) {
        us = w->now_us + draw(w, u->from, u->to, 100 * SIM_MS) + 1;
    } else if (u->from == 0) {
        struct sim_node *to = &w->nodes[u->to];
        to->lost_us[0] = to->lost_us[1];
        to->lost_us[1] = w->now_us;
    }
    if (us < u->deadline_us) {
        unary_event(w, us, EVENT_REPLY, u->from, index, ATTEMPT_BROKEN);
    }
}

/* Send one copy of a request or of its answer. */
static void unary_travel(struct world *w, uint32_t index, enum event_kind kind, uint32_t from,
                         uint32_t to, uint32_t attempt)
{
    uint64_t us = w->now_us + travel_us(w, from, to);
    uint64_t until = w->blocked_until[from][to];
    w->counts.messages++;
    if (until > w->now_us) {
        if (until - w->now_us > KEEPALIVE_US || draw(w, from, to, 2) == 0) {
            unary_lost(w, index);
            return;
        }
        us = until + travel_us(w, from, to);
    }
    if (happens(w, from, to, w->schedule->knobs.loss_part)) {
        unary_lost(w, index);
        return;
    }
    unary_event(w, us, kind, to, index, attempt);
}

void unary_send(struct world *w, uint32_t index)
{
    struct unary *u = &w->unaries[index];
    uint32_t from = u->from, to = u->to;
    if (w->tracing) {
        char text[600];
        trace(w, from, "→ %s", trace_unary(w, u, text, sizeof text));
    }
    if (u->deadline_us != UINT64_MAX) {
        unary_event(w, u->deadline_us, EVENT_REPLY, from, index, ATTEMPT_DEADLINE);
    }
    unary_travel(w, index, EVENT_REQUEST, from, to, 0);
    if (happens(w, from, to, w->schedule->knobs.twice_part)) {
        unary_travel(w, index, EVENT_REQUEST, from, to, 1);
    } else if (happens(w, from, to, w->schedule->knobs.late_part)) {
        uint64_t us = travel_us(w, from, to) + draw(w, from, to, w->schedule->knobs.late_us);
        unary_event(w, w->now_us + us, EVENT_REQUEST, to, index, 1);
    }
    unary_unref(w, index);
}

struct unary_reply *unary_reply(struct world *w, uint32_t index, uint32_t attempt)
{
    struct unary_reply *r = &w->unaries[index].rsp[attempt];
    memset(r, 0, sizeof *r);
    return r;
}

void unary_answer(struct world *w, uint32_t index, uint32_t attempt)
{
    struct unary *u = &w->unaries[index];
    u->served_life[attempt] = 0;
    unary_travel(w, index, EVENT_REPLY, u->to, u->from, attempt);
    unary_unref(w, index);
}

void unary_refuse(struct world *w, uint32_t index, uint32_t attempt, int code, const char *why)
{
    struct unary_reply *r = unary_reply(w, index, attempt);
    r->code = code;
    snprintf(r->message, sizeof r->message, "%s", why);
    unary_answer(w, index, attempt);
}

static void refused_connection(struct world *w, uint32_t index, uint32_t attempt)
{
    struct unary *u = &w->unaries[index];
    if (u->wait_for_ready && w->now_us + CONNECT_AGAIN_US < u->deadline_us && !u->done) {
        unary_event(w, w->now_us + CONNECT_AGAIN_US, EVENT_REQUEST, u->to, index, attempt);
        return;
    }
    if (!u->lost) {
        u->lost = true;
        unary_event(w, w->now_us + travel_us(w, u->to, u->from), EVENT_REPLY, u->from, index,
                    ATTEMPT_BROKEN);
    }
}

void on_request(struct world *w, const struct event *e)
{
    uint32_t index = e->arg >> 2;
    uint32_t attempt = e->arg & 3;
    struct unary *u = &w->unaries[index];
    struct sim_node *n = &w->nodes[u->to];
    if (!n->up || n->leaving) {
        refused_connection(w, index, attempt);
        unary_unref(w, index);
        return;
    }
    if (w->tracing) {
        char text[600];
        trace(w, u->to, "⇒ %s%s", trace_unary(w, u, text, sizeof text),
              attempt == 1 ? " (again)" : "");
    }
    /* The event's hold becomes the server's, until it answers. */
    u->served_life[attempt] = n->life;
    if (n->role == ROLE_MASTER) {
        master_called(w, index, attempt);
    } else if (n->role == ROLE_PS) {
        ps_called(w, u->to, index, attempt);
    } else {
        worker_called(w, u->to, index, attempt);
    }
}

static void deliver(struct world *w, uint32_t index, uint32_t attempt, const struct unary_reply *r)
{
    struct unary *u = &w->unaries[index];
    if (w->tracing) {
        char text[600];
        trace(w, u->from, "⇐ %s: %s%s", trace_unary(w, u, text, sizeof text),
              r->code == 0 ? "ok" : err_code_name(r->code),
              attempt == ATTEMPT_DEADLINE ? " (deadline)" : "");
    }
    switch (u->kind) {
    case UNARY_CALL:
        master_answered(w, u, r);
        break;
    case UNARY_STRANGER:
        if (r->code == 0) {
            violated(w, INVARIANT_FENCE, "%s obeys a stranger's %s", w->names[w->nodes[u->to].name],
                     master_call_name(u->req.call));
        }
        break;
    case UNARY_TRACE:
        rounds_answered(w, u, r);
        break;
    case UNARY_FILL:
        worker_filled(w, u->from, index, attempt);
        break;
    case UNARY_RECORD:
        standby_answered(w, u, r);
        break;
    case UNARY_JOIN:
    case UNARY_HEARTBEAT:
    case UNARY_LEAVE:
        member_answer(w, u->from, u, r);
        break;
    default:
        worker_master(w, u->from, index, attempt);
        break;
    }
}

void on_reply(struct world *w, const struct event *e)
{
    uint32_t index = e->arg >> 2;
    uint32_t attempt = e->arg & 3;
    struct unary *u = &w->unaries[index];
    if (u->done || e->life != w->nodes[e->node].life || u->from_life != e->life) {
        unary_unref(w, index);
        return;
    }
    u->done = true;
    if (attempt >= 2) {
        /* rsp[0] may be on its way, but nobody will look at it. */
        struct unary_reply *r = unary_reply(w, index, 0);
        r->code = attempt == ATTEMPT_DEADLINE ? ERR_TIMEOUT : ERR_UNAVAILABLE;
        snprintf(r->message, sizeof r->message, "%s",
                 attempt == ATTEMPT_DEADLINE ? "no answer in time" : "the connection broke");
        deliver(w, index, attempt == ATTEMPT_DEADLINE ? ATTEMPT_DEADLINE : 0, r);
    } else {
        deliver(w, index, attempt, &u->rsp[attempt]);
    }
    unary_unref(w, index);
}

/* ---- streams ---- */

uint32_t exchange_new(struct world *w)
{
    uint32_t index = w->exchange_free;
    if (index != SIM_NONE) {
        w->exchange_free = w->exchanges[index].next;
    } else {
        w->exchanges = mem_grow(w->exchanges, &w->exchange_capacity, w->exchange_count + 1,
                                sizeof *w->exchanges);
        index = (uint32_t)w->exchange_count++;
    }
    memset(&w->exchanges[index], 0, offsetof(struct exchange, rows));
    w->exchanges[index].next = SIM_NONE;
    return index;
}

void exchange_free(struct world *w, uint32_t index)
{
    w->exchanges[index].next = w->exchange_free;
    w->exchange_free = index;
}

uint32_t stream_open(struct world *w, uint32_t worker, uint32_t ps, uint32_t job, uint32_t shard)
{
    w->streams = mem_grow(w->streams, &w->stream_capacity, w->stream_count + 1, sizeof *w->streams);
    struct stream *s = &w->streams[w->stream_count];
    const struct sim_worker_job *j = w->nodes[worker].job;
    *s = (struct stream){.worker = worker,
                         .worker_life = w->nodes[worker].life,
                         .ps = ps,
                         .ps_life = w->nodes[ps].life,
                         .job = job,
                         .shard = shard,
                         .serial = j->serial,
                         .nowhere = j->links[shard].place.address != w->jobs[job].addresses[shard]};
    return (uint32_t)w->stream_count++;
}

static void tell_worker(struct world *w, uint32_t index, uint64_t us)
{
    if (!w->streams[index].broken) {
        world_at(w, us, EVENT_BROKEN, w->streams[index].worker, index, 0);
    }
}

static void tell_server(struct world *w, uint32_t index, uint64_t us)
{
    struct stream *s = &w->streams[index];
    if (!s->gone) {
        /* What was sent before is read before. */
        us = us < s->request_us ? s->request_us : us;
        world_at(w, us, EVENT_GONE, s->ps, index, 0);
    }
}

/* Both ends learn of it, each in its time. */
void stream_break(struct world *w, uint32_t index)
{
    struct stream *s = &w->streams[index];
    if (s->broken && s->gone) {
        return;
    }
    TRACE(w, s->worker, "stream to shard %u breaks", s->shard);
    tell_worker(w, index, w->now_us + draw(w, s->ps, s->worker, 50 * SIM_MS) + 1);
    tell_server(w, index, w->now_us + draw(w, s->worker, s->ps, 50 * SIM_MS) + 1);
}

/* What is open on it ends at once, and the server learns of it. */
void stream_leave(struct world *w, uint32_t index)
{
    struct stream *s = &w->streams[index];
    tell_worker(w, index, w->now_us);
    tell_server(w, index, w->now_us + travel_us(w, s->worker, s->ps));
}

void stream_close(struct world *w, uint32_t index)
{
    struct stream *s = &w->streams[index];
    s->broken = true;
    tell_server(w, index, w->now_us + travel_us(w, s->worker, s->ps));
}

/* The worker gives the connection up and opens another, but what it has sent is read; later. */
static uint64_t stream_linger(struct world *w, uint32_t index, uint64_t us)
{
    struct stream *s = &w->streams[index];
    us += draw(w, s->worker, s->ps, w->schedule->knobs.late_us);
    s->request_us = us < s->request_us ? s->request_us : us;
    tell_worker(w, index, w->now_us + draw(w, s->ps, s->worker, 50 * SIM_MS) + 1);
    tell_server(w, index, s->request_us);
    return s->request_us;
}

/* When a message of the stream arrives; 0: the connection does not live to see it. */
static uint64_t stream_travel(struct world *w, uint32_t index, bool forward, uint64_t *last_us)
{
    struct stream *s = &w->streams[index];
    uint32_t from = forward ? s->worker : s->ps;
    uint32_t to = forward ? s->ps : s->worker;
    uint64_t us = w->now_us + travel_us(w, from, to);
    uint64_t until = w->blocked_until[from][to];
    w->counts.messages++;
    if (happens(w, from, to, w->schedule->knobs.break_part)) {
        stream_break(w, index);
        return draw(w, from, to, 2) == 0 ? 0 : us; /* sent just before, or just too late */
    }
    if (until > w->now_us) {
        if (until - w->now_us > KEEPALIVE_US) {
            tell_worker(w, index, w->now_us + KEEPALIVE_US);
            tell_server(w, index, w->now_us + KEEPALIVE_US);
            return 0;
        }
        us = until + travel_us(w, from, to);
    }
    if (forward && happens(w, from, to, w->schedule->knobs.late_part)) {
        return stream_linger(w, index, us);
    }
    us = us < *last_us ? *last_us : us;
    *last_us = us;
    return us;
}

void stream_send(struct world *w, uint32_t exchange)
{
    struct exchange *x = &w->exchanges[exchange];
    struct stream *s = &w->streams[x->stream];
    if (w->tracing) {
        char text[600];
        trace(w, s->worker, "→ %s", trace_exchange(w, x, text, sizeof text));
    }
    uint64_t us = stream_travel(w, x->stream, true, &s->request_us);
    if (us == 0) {
        exchange_free(w, exchange);
        return;
    }
    world_at(w, us, EVENT_EXCHANGE, s->ps, exchange, 0);
}

void stream_answer(struct world *w, uint32_t exchange)
{
    struct exchange *x = &w->exchanges[exchange];
    struct stream *s = &w->streams[x->stream];
    uint64_t us = stream_travel(w, x->stream, false, &s->answer_us);
    if (us == 0) {
        exchange_free(w, exchange);
        return;
    }
    world_at(w, us, EVENT_ANSWER, s->worker, exchange, 0);
}

void on_exchange(struct world *w, const struct event *e)
{
    struct exchange *x = &w->exchanges[e->arg];
    struct stream *s = &w->streams[x->stream];
    struct sim_node *n = &w->nodes[s->ps];
    if (s->gone || s->nowhere || !n->up || n->life != s->ps_life) {
        if (!s->gone) {
            s->gone = true; /* nobody there, or another process */
            tell_worker(w, x->stream, w->now_us + travel_us(w, s->ps, s->worker));
        }
        exchange_free(w, e->arg);
        return;
    }
    if (w->tracing) {
        char text[600];
        trace(w, s->ps, "⇒ %s", trace_exchange(w, x, text, sizeof text));
    }
    ps_arrives(w, s->ps, e->arg);
}

void on_answer(struct world *w, const struct event *e)
{
    struct exchange *x = &w->exchanges[e->arg];
    struct stream *s = &w->streams[x->stream];
    struct sim_node *n = &w->nodes[s->worker];
    if (s->broken || n->life != s->worker_life || n->job->serial != s->serial || !n->job->there) {
        exchange_free(w, e->arg);
        return;
    }
    if (w->tracing) {
        char text[600];
        trace(w, s->worker, "⇐ %s", trace_exchange(w, x, text, sizeof text));
    }
    worker_exchanged(w, s->worker, e->arg);
}

void on_broken(struct world *w, const struct event *e)
{
    struct stream *s = &w->streams[e->arg];
    struct sim_node *n = &w->nodes[s->worker];
    if (s->broken || e->life != n->life) {
        return;
    }
    s->broken = true;
    if (n->job->there && n->job->serial == s->serial) {
        TRACE(w, s->worker, "stream to shard %u is broken", s->shard);
        worker_broken(w, s->worker, e->arg);
    }
}

void on_gone(struct world *w, const struct event *e)
{
    struct stream *s = &w->streams[e->arg];
    if (s->gone || e->life != w->nodes[s->ps].life) {
        s->gone = true;
        return;
    }
    s->gone = true;
    budget_gone(w, s->ps, e->arg);
    ps_gone(w, s->ps, e->arg);
}

/* A process has died: its connections are reset, or hang until somebody notices. */
void net_killed(struct world *w, uint32_t node)
{
    uint32_t life = w->nodes[node].life;
    for (uint32_t i = 0; i < w->unary_count; i++) {
        struct unary *u = &w->unaries[i];
        if (u->refs == 0 || u->to != node) {
            continue;
        }
        for (uint32_t k = 0; k < 2; k++) {
            if (u->served_life[k] == life) {
                u->served_life[k] = 0;
                unary_lost(w, i);
                unary_unref(w, i);
            }
        }
    }
    for (uint32_t i = 0; i < w->stream_count; i++) {
        struct stream *s = &w->streams[i];
        uint64_t us = w->now_us + draw(w, node, 0, 4 * 50 * SIM_MS) + 1;
        if (s->worker == node && s->worker_life == life) {
            s->broken = true;
            tell_server(w, i, us);
        } else if (s->ps == node && s->ps_life == life) {
            s->gone = true;
            tell_worker(w, i, us);
        }
    }
}
