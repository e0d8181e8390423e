/* SPDX-License-Identifier: Apache-2.0 */
/* The rounds of a trace, each over when every node that takes part has answered or failed: the
 * clocks, a few times; the servers begin; the workers record their steps, which they answer when
 * these are over; the servers hand out what they have. So what a server did for a recorded step is
 * recorded. A node that fails takes no part in later rounds. */
#include "master/shell/trace_rounds.h"

#include <stdlib.h>
#include <string.h>

#include "base/chrono.h"
#include "gradus/v1/ps.pb-c.h"
#include "gradus/v1/worker.pb-c.h"

#define CALL_MS 10000 /* of an answer that waits for nothing */
#define TAKE_MS 20000

enum round {
    ROUND_CLOCK, /* the first trip also connects */
    ROUND_CLOCK_LAST = 3,
    ROUND_PS,
    ROUND_WORKERS,
    ROUND_TAKE,
    ROUND_OVER,
};

static void trace_free(struct tracing *t)
{
    for (size_t i = 0; i < t->count; i++) {
        struct traced_node *n = &t->nodes[i];
        rpc_msg_unref(n->answer);
        free(n->id);
        free(n->address);
        free(n->host);
    }
    if (t->call != NULL) {
        rpc_call_unref(t->call);
    }
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

static bool takes_part(const struct tracing *t, const struct traced_node *n)
{
    switch (t->round) {
    case ROUND_PS:
    case ROUND_TAKE:
        return n->role == MASTER_PS && !n->failed;
    case ROUND_WORKERS:
        return n->role == MASTER_WORKER && !n->failed;
    default:
        return !n->failed;
    }
}

static void round_over(struct tracing *t);

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

static void call_over(struct tracing *t)
{
    if (atomic_fetch_sub(&t->open, 1) == 1) {
        round_over(t);
    }
}

static void call_lost(struct tracing *t)
{
    if (atomic_fetch_sub(&t->open, 1) == 1) {
        trace_free(t);
    }
}

static void deliver(void *ctx)
{
    struct traced_node *n = ctx;
    struct tracing *t = n->trace;
    if (loop_discarding(t->shell->loop)) {
        call_lost(t);
        return;
    }
    if (!n->failed && t->round <= ROUND_CLOCK_LAST) {
        take_clock(n);
    }
    call_over(t);
}

/* When the mailbox is gone, so is the master: the last call frees. */
static void post(struct tracing *t, void (*run)(void *ctx), void *ctx)
{
    if (loop_post(t->shell->loop, run, ctx, NULL) != 0) {
        call_lost(t);
    }
}

static void on_done(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    struct traced_node *n = ctx;
    n->received_ns = chrono_now_ns();
    n->err = status->err;
    n->failed = n->err.code != 0;
    if (!n->failed) {
        n->answer = rpc_msg_ref(reply);
    }
    post(n->trace, deliver, n);
}

static void ask(struct tracing *t, struct traced_node *n)
{
    Gradus__V1__TraceRequest q = GRADUS__V1__TRACE_REQUEST__INIT;
    unsigned timeout_ms = CALL_MS;
    q.job = t->job;
    q.id = t->id;
    q.spans_max = t->spans_max;
    if (t->round == ROUND_PS) {
        q.action = GRADUS__V1__TRACE_REQUEST__ACTION__RECORD;
        q.timeout_ms = t->timeout_ms + 2 * CALL_MS;
    } else if (t->round == ROUND_WORKERS) {
        q.action = GRADUS__V1__TRACE_REQUEST__ACTION__RECORD;
        q.steps = t->steps;
        q.timeout_ms = t->timeout_ms;
        timeout_ms = t->timeout_ms + CALL_MS;
    } else if (t->round == ROUND_TAKE) {
        q.action = GRADUS__V1__TRACE_REQUEST__ACTION__TAKE;
        timeout_ms = TAKE_MS;
    }
    struct rpc_request request = {
        .service = n->role == MASTER_PS ? &gradus__v1__parameter_server__descriptor
                                        : &gradus__v1__worker__descriptor,
        .method = "Trace",
        .body = &q.base,
        .timeout_ms = timeout_ms,
    };
    rpc_msg_unref(n->answer);
    n->answer = NULL;
    struct rpc_channel *channel = peer_channel(t->shell, n->address, &n->err);
    n->sent_ns = chrono_now_ns();
    if (channel == NULL || rpc_call_start(channel, &request, on_done, n, &n->err) < 0) {
        n->failed = true;
        post(t, deliver, n);
    }
}

void trace_rounds_begin(struct tracing *t)
{
    atomic_store(&t->open, 1);
    for (size_t i = 0; i < t->count; i++) {
        if (takes_part(t, &t->nodes[i])) {
            atomic_fetch_add(&t->open, 1);
            ask(t, &t->nodes[i]);
        }
    }
    call_over(t);
}

/* Without a client: what the servers began is taken from them, and thrown away. */
static unsigned next_round(const struct tracing *t)
{
    if (t->call != NULL) {
        return t->round + 1;
    }
    bool begun = t->round == ROUND_PS || t->round == ROUND_WORKERS;
    return t->stopped && begun && !atomic_load(&t->shell->ending) ? ROUND_TAKE : ROUND_OVER;
}

static void round_over(struct tracing *t)
{
    t->round = next_round(t);
    if (t->round < ROUND_OVER) {
        trace_rounds_begin(t);
        return;
    }
    trace_answer(t);
    trace_unlink(t);
    trace_free(t);
}

/* ---- the client goes away ---- */

static void deliver_told(void *ctx)
{
    struct tracing *t = ctx;
    if (loop_discarding(t->shell->loop)) {
        call_lost(t);
    } else {
        call_over(t);
    }
}

static void on_told(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    (void)status; /* who is not there records nothing */
    (void)reply;
    post(ctx, deliver_told, ctx);
}

/* A worker that records answers now. */
static void tell_worker(struct tracing *t, const struct traced_node *n)
{
    Gradus__V1__TraceRequest q = GRADUS__V1__TRACE_REQUEST__INIT;
    struct err err;
    q.action = GRADUS__V1__TRACE_REQUEST__ACTION__TAKE;
    q.job = t->job;
    q.id = t->id;
    struct rpc_request request = {.service = &gradus__v1__worker__descriptor,
                                  .method = "Trace",
                                  .body = &q.base,
                                  .timeout_ms = CALL_MS};
    struct rpc_channel *channel = peer_channel(t->shell, n->address, &err);
    atomic_fetch_add(&t->open, 1);
    if (channel == NULL || rpc_call_start(channel, &request, on_told, t, &err) < 0) {
        post(t, deliver_told, t);
    }
}

void trace_rounds_stop(struct tracing *t)
{
    t->stopped = true;
    for (size_t i = 0; t->round == ROUND_WORKERS && i < t->count; i++) {
        if (takes_part(t, &t->nodes[i])) {
            tell_worker(t, &t->nodes[i]);
        }
    }
}
