/* SPDX-License-Identifier: Apache-2.0 */
/* Carries out what the rounds of a trace (trace_rounds.h of the core) say: calls to nodes, whose
 * answers go back to them on the master's loop. */
#include "master/shell/trace_calls.h"

#include <stdlib.h>
#include <string.h>

#include "gradus/v1/ps.pb-c.h"
#include "gradus/v1/worker.pb-c.h"
#include "os/chrono.h"

static void trace_free(struct tracing *t)
{
    for (size_t i = 0; i < t->count; i++) {
        struct traced_node *n = &t->nodes[i];
        rpc_msg_unref(n->answer);
        free(n->id);
        free(n->address);
        free(n->host);
    }
    trace_rounds_release(&t->rounds);
    free(t->nodes);
    free(t->job);
    free(t);
}

static void trace_unlink(struct tracing *t)
{
    struct shell *s = t->shell;
    if (t->prev != NULL) {
        t->prev->next = t->next;
    } else {
        s->traces = t->next;
    }
    if (t->next != NULL) {
        t->next->prev = t->prev;
    }
    s->trace_count--;
}

/* The message has no pointers to const; nobody writes through it. */
Gradus__V1__TraceResponse *trace_response(const struct traced_node *n)
{
    union {
        const ProtobufCMessage *in;
        Gradus__V1__TraceResponse *out;
    } u = {.in = n->answer->body};
    return u.out;
}

/* The clock there, as of the middle of the trip. */
static void take_clock(struct traced_node *n)
{
    const Gradus__V1__TraceResponse *r = trace_response(n);
    uint64_t trip_ns = n->received_ns - n->sent_ns + 1;
    if (n->trip_ns == 0 || trip_ns < n->trip_ns) {
        n->trip_ns = trip_ns;
        n->offset_ns = (int64_t)(n->sent_ns + trip_ns / 2 - r->clock_ns);
    }
    n->same_boot = r->boot[0] != '\0' && strcmp(r->boot, n->trace->boot) == 0;
}

/* When the mailbox is gone, the master is gone, too: the last call frees. */
static void drop(struct tracing *t)
{
    if (atomic_fetch_sub(&t->refs, 1) == 1) {
        trace_free(t);
    }
}

static void carry_out(struct tracing *t);

/* ---- calls ---- */

static void post(struct tracing *t, void (*run)(void *ctx), void *ctx)
{
    if (loop_post(t->shell->loop, run, ctx, NULL) != 0) {
        drop(t);
    }
}

/* On the loop: @n has answered, or failed. */
static void deliver(void *ctx)
{
    struct traced_node *n = ctx;
    struct tracing *t = n->trace;
    if (!loop_discarding(t->shell->loop)) {
        bool failed = n->err.code != 0;
        if (!failed && t->rounds.round <= TRACE_ROUND_CLOCK_LAST) {
            take_clock(n);
        }
        trace_rounds_answered(&t->rounds, (size_t)(n - t->nodes), failed);
        carry_out(t);
    }
    drop(t);
}

static void on_done(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    struct traced_node *n = ctx;
    n->received_ns = chrono_now_ns();
    n->err = status->err;
    if (n->err.code == 0) {
        n->answer = rpc_msg_ref(reply);
    }
    post(n->trace, deliver, n);
}

static void deliver_told(void *ctx)
{
    struct tracing *t = ctx;
    if (!loop_discarding(t->shell->loop)) {
        trace_rounds_told(&t->rounds);
        carry_out(t);
    }
    drop(t);
}

static void on_told(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    (void)status; /* a node that is gone records nothing */
    (void)reply;
    post(ctx, deliver_told, ctx);
}

/* With a deadline the calls are given less: those to workers leave some time for taking what the
 * servers have. */
static struct trace_ask within(const struct tracing *t, struct trace_ask ask)
{
    const uint64_t now_ns = chrono_now_ns();
    if (t->deadline_ns == 0) {
        return ask;
    }
    uint64_t left_ms = t->deadline_ns > now_ns ? (t->deadline_ns - now_ns) / 1000000 : 0;
    if (t->rounds.round == TRACE_ROUND_WORKERS) {
        const uint64_t take_ms = t->rounds.call_ms;
        left_ms = left_ms > 2 * take_ms ? left_ms - take_ms : left_ms / 2;
    }
    left_ms = left_ms > 0 ? left_ms : 1; /* 0 would be for ever */
    if (ask.timeout_ms > left_ms) {
        ask.timeout_ms = (uint32_t)left_ms;
    }
    if (t->rounds.round == TRACE_ROUND_WORKERS && ask.record_ms > left_ms - left_ms / 4) {
        ask.record_ms = (uint32_t)(left_ms - left_ms / 4);
    }
    return ask;
}

static int call(struct tracing *t, const struct traced_node *n, const struct trace_ask *wanted,
                void (*done)(void *ctx, const struct rpc_status *status, struct rpc_msg *reply),
                void *ctx, struct err *err)
{
    static const Gradus__V1__TraceRequest__Action ACTIONS[] = {
        [TRACE_ASK_CLOCK] = GRADUS__V1__TRACE_REQUEST__ACTION__CLOCK,
        [TRACE_ASK_RECORD] = GRADUS__V1__TRACE_REQUEST__ACTION__RECORD,
        [TRACE_ASK_TAKE] = GRADUS__V1__TRACE_REQUEST__ACTION__TAKE,
    };
    const struct trace_ask ask = within(t, *wanted);
    Gradus__V1__TraceRequest q = GRADUS__V1__TRACE_REQUEST__INIT;
    q.action = ACTIONS[ask.kind];
    q.job = t->job;
    q.id = t->id;
    q.steps = ask.steps;
    q.timeout_ms = ask.record_ms;
    q.spans_max = t->spans_max;
    struct rpc_request request = {
        .service = n->role == MASTER_PS ? &gradus__v1__parameter_server__descriptor
                                        : &gradus__v1__worker__descriptor,
        .method = "Trace",
        .body = &q.base,
        .timeout_ms = ask.timeout_ms,
    };
    struct rpc_channel *channel = peer_channel(t->shell, n->address, 0, err);
    return channel == NULL ? err->code : rpc_call_start(channel, &request, done, ctx, err);
}

static void ask_node(struct tracing *t, struct traced_node *n, const struct trace_ask *ask)
{
    rpc_msg_unref(n->answer);
    n->answer = NULL;
    n->sent_ns = chrono_now_ns();
    if (call(t, n, ask, on_done, n, &n->err) < 0) {
        post(t, deliver, n);
    }
}

static void tell_node(struct tracing *t, const struct traced_node *n, const struct trace_ask *ask)
{
    struct err err;
    if (call(t, n, ask, on_told, t, &err) < 0) {
        post(t, deliver_told, t);
    }
}

/* ---- the rounds ---- */

/* Carries out actions; the caller holds @t. */
static void carry_out(struct tracing *t)
{
    for (size_t i = 0; i < t->rounds.action_count; i++) {
        const struct trace_action *a = &t->rounds.actions[i];
        switch (a->kind) {
        case TRACE_DO_ASK:
            atomic_fetch_add(&t->refs, 1);
            ask_node(t, &t->nodes[a->node], &a->ask);
            break;
        case TRACE_DO_TELL:
            atomic_fetch_add(&t->refs, 1);
            tell_node(t, &t->nodes[a->node], &a->ask);
            break;
        case TRACE_DO_END:
            trace_unlink(t);
            t->answer(t);
            break;
        }
    }
}

void tracing_begin(struct tracing *t)
{
    atomic_store(&t->refs, 1);
    trace_rounds_begin(&t->rounds);
    carry_out(t);
    drop(t);
}

void tracing_gone(struct tracing *t)
{
    atomic_fetch_add(&t->refs, 1);
    trace_rounds_gone(&t->rounds);
    carry_out(t);
    drop(t);
}
