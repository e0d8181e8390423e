/* SPDX-License-Identifier: Apache-2.0 */
/* Records the steps and exchanges of a job while `gradus trace` asks for them. There is one
 * recording at a time, and it ends at its deadline even if no step does. */
#include "worker/job/worker_job_trace.h"

#include "base/chrono.h"
#include "gradus/v1/worker.pb-c.h"
#include "wire/wire.h"
#include "worker/job/worker_job_state.h"

#define NS_PER_MS 1000000
#define WAIT_NS_MIN 1000 /* shorter ones say nothing */

static void add(struct worker_job *j, const struct trace_span *span)
{
    trace_add(&j->trace.recorder, j->id, span, NULL);
}

static bool traced(const struct worker_job *j)
{
    return trace_on(&j->trace.recorder);
}

/* ---- begin and end ---- */

void worker_job_trace_end(struct worker_job *j)
{
    struct worker_job_trace *t = &j->trace;
    if (t->call == NULL) {
        return;
    }
    struct trace_spans spans = {0};
    struct wire_trace reply;
    (void)trace_take(&t->recorder, t->id, &spans, NULL); /* none: no step has begun */
    wire_trace_to_proto(&spans, &reply);
    reply.response.steps = t->steps;
    (void)rpc_reply(t->call, &reply.response.base, NULL);
    wire_trace_release(&reply);
    trace_spans_release(&spans);
    rpc_call_unref(t->call);
    t->call = NULL;
    t->begun = false;
    t->closing = false;
    loop_timer_clear(j->loop, &t->timer);
}

static void on_deadline(void *ctx)
{
    worker_job_trace_end(ctx);
}

void worker_job_trace_begin(struct worker_job *j, struct rpc_call *call,
                            const Gradus__V1__TraceRequest *q)
{
    struct worker_job_trace *t = &j->trace;
    if (t->call != NULL && rpc_cancelled(t->call)) {
        worker_job_trace_end(j); /* the master that asked is gone */
    }
    if (t->call != NULL) {
        worker_job_fail_call(call, ERR_EXISTS, "a trace of this job is being recorded already");
        return;
    }
    if (q->steps == 0) {
        worker_job_fail_call(call, ERR_INVALID, "a trace of 0 steps");
        return;
    }
    if (q->id != 0 && q->id == t->stopped) {
        worker_job_fail_call(call, ERR_CANCELLED, "this trace was stopped before it began");
        return;
    }
    t->call = rpc_call_ref(call);
    t->id = q->id;
    t->spans_max = q->spans_max;
    t->deadline_ns = chrono_now_ns() + (uint64_t)q->timeout_ms * NS_PER_MS;
    t->steps_wanted = q->steps;
    t->steps = 0;
    t->open = 0;
    loop_timer_set(j->loop, &t->timer, t->deadline_ns / NS_PER_MS, on_deadline, j);
}

void worker_job_trace_stop(struct worker_job *j, struct rpc_call *call,
                           const Gradus__V1__TraceRequest *q)
{
    struct worker_job_trace *t = &j->trace;
    struct wire_trace reply;
    if (t->id == q->id) {
        worker_job_trace_end(j);
    }
    t->stopped = q->id;
    wire_trace_to_proto(NULL, &reply);
    (void)rpc_reply(call, &reply.response.base, NULL);
    wire_trace_release(&reply);
}

/* The first step after it was asked for: from here on. */
static void open_window(struct worker_job *j, uint64_t now_ns)
{
    struct worker_job_trace *t = &j->trace;
    struct err err;
    if (trace_begin(&t->recorder, t->id, j->id, t->spans_max, now_ns, t->deadline_ns, &err) != 0) {
        (void)rpc_fail(t->call, &err);
        rpc_call_unref(t->call);
        t->call = NULL;
        loop_timer_clear(j->loop, &t->timer);
        return;
    }
    t->begun = true;
    t->begin_ns = now_ns;
    t->exchange_first = UINT64_MAX;
    t->exchange_last = 0;
}

void worker_job_trace_step(struct worker_job *j, uint64_t step, uint64_t now_ns)
{
    struct worker_job_trace *t = &j->trace;
    bool goes_on = t->seen && t->seen_step == step; /* with another of its replicas */
    t->seen = true;
    t->seen_step = step;
    if (t->call == NULL || t->closing || goes_on) {
        return;
    }
    if (!t->begun) {
        open_window(j, now_ns);
    } else {
        const struct trace_span span = {
            .kind = TRACE_STEP, .step = t->step, .begin_ns = t->step_begin_ns, .end_ns = now_ns};
        add(j, &span);
        t->closing = ++t->steps == t->steps_wanted;
    }
    t->step = step;
    t->step_begin_ns = now_ns;
    if (t->closing && t->open == 0) {
        worker_job_trace_end(j);
    }
}

/* ---- exchanges: their numbers rise, and one that is sent again keeps its own ---- */

static bool in_window(const struct worker_job_trace *t, uint64_t exchange)
{
    return t->begun && exchange >= t->exchange_first && exchange <= t->exchange_last;
}

void worker_job_trace_sending(struct worker_job *j, uint64_t exchange)
{
    struct worker_job_trace *t = &j->trace;
    if (!t->begun) {
        return;
    }
    if (!t->closing) {
        t->exchange_first = exchange < t->exchange_first ? exchange : t->exchange_first;
        t->exchange_last = exchange > t->exchange_last ? exchange : t->exchange_last;
    }
    t->open += in_window(t, exchange);
}

/* That a request is about; 0 outside of sync. */
static uint64_t step_of(const struct exchange_request *ask)
{
    switch (ask->kind) {
    case EXCHANGE_TRAIN:
        return ask->push.step;
    case EXCHANGE_SPARE:
        return ask->spare_step;
    case EXCHANGE_SUMS:
        return ask->sums.step;
    case EXCHANGE_TOTALS:
        return ask->totals.of.step;
    case EXCHANGE_PINNED:
    case EXCHANGE_NONE:
        break;
    }
    return 0;
}

void worker_job_trace_sent(struct worker_job *j, const struct worker_request *r, uint64_t begin_ns,
                           uint64_t end_ns)
{
    if (traced(j)) {
        const struct trace_span span = {.kind = TRACE_SEND,
                                        .shard = r->shard,
                                        .exchange = r->exchange,
                                        .step = step_of(&r->ask),
                                        .begin_ns = begin_ns,
                                        .end_ns = end_ns};
        add(j, &span);
    }
}

static void add_answer(struct worker_job *j, const struct ps_answer *a,
                       const struct step_exchange *x, uint64_t begin_ns)
{
    struct trace_span span = {.kind = TRACE_EXCHANGE,
                              .shard = a->shard,
                              .exchange = a->exchange,
                              .step = a->version,
                              .begin_ns = a->begun_ns,
                              .end_ns = x->answered_ns,
                              .waited_ns = x->waited_ns,
                              .applied_ns = x->applied_ns};
    add(j, &span);
    if (begin_ns < x->answered_ns) {
        span.kind = TRACE_WAIT;
        span.begin_ns = begin_ns;
        add(j, &span);
    }
}

void worker_job_trace_answered(struct worker_job *j, const struct ps_answer *a,
                               const struct step_exchange *x, uint64_t begin_ns)
{
    struct worker_job_trace *t = &j->trace;
    if (!t->begun) {
        return;
    }
    if (a->sent_ns != 0) {
        add_answer(j, a, x, begin_ns);
    }
    if (in_window(t, a->exchange) && t->open > 0) {
        t->open--;
    }
    if (t->closing && t->open == 0) {
        worker_job_trace_end(j);
    }
}

/* ---- the rest of the job's thread ---- */

void worker_job_busy(struct worker_job *j, enum step_part part, enum trace_kind kind,
                     uint64_t begin_ns, uint64_t end_ns)
{
    uint64_t waits_ns = j->clock.until_ns;
    step_clock_busy(&j->clock, part, begin_ns, end_ns);
    if (!traced(j)) {
        return;
    }
    struct trace_span span = {.kind = TRACE_WAIT, .begin_ns = waits_ns, .end_ns = begin_ns};
    if (waits_ns >= j->trace.begin_ns && begin_ns > waits_ns + WAIT_NS_MIN) {
        add(j, &span);
    }
    if (end_ns > begin_ns + (kind == TRACE_WAIT ? WAIT_NS_MIN : 0)) {
        span.kind = kind;
        span.step = j->clock.step;
        span.begin_ns = begin_ns;
        span.end_ns = end_ns;
        add(j, &span);
    }
}
