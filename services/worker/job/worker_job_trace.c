/* SPDX-License-Identifier: Apache-2.0 */
/* Records the steps and exchanges of a job while `gradus trace` asks for them. When a recording
 * begins and ends is decided in trace/recording.h; here are its clock, its call and its spans. */
#include "worker/job/worker_job_trace.h"

#include "gradus/v1/worker.pb-c.h"
#include "os/chrono.h"
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
    recording_end(&t->recording);
    (void)trace_take(&t->recorder, t->recording.id, &spans, NULL); /* no spans: no step has begun */
    wire_trace_to_proto(&spans, &reply);
    reply.response.steps = t->recording.steps;
    (void)rpc_reply(t->call, &reply.response.base, NULL);
    wire_trace_release(&reply);
    trace_spans_release(&spans);
    rpc_call_unref(t->call);
    t->call = NULL;
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
    uint64_t now_ns = chrono_now_ns();
    if (t->call != NULL && (rpc_cancelled(t->call) || now_ns >= t->recording.deadline_ns)) {
        worker_job_trace_end(j); /* the master that asked is gone, or the timer is late */
    }
    if (q->steps == 0) {
        worker_job_fail_call(call, ERR_INVALID, "a trace of 0 steps");
        return;
    }
    uint64_t deadline_ns = now_ns + (uint64_t)q->timeout_ms * NS_PER_MS;
    switch (recording_ask(&t->recording, q->id, q->steps, now_ns, deadline_ns)) {
    case RECORDING_AGAIN: /* the answer is for who asked first */
    case RECORDING_OTHER:
        worker_job_fail_call(call, ERR_EXISTS, "a trace of this job is being recorded already");
        return;
    case RECORDING_OVER:
        worker_job_fail_call(call, ERR_CANCELLED, "this trace was stopped before it began");
        return;
    case RECORDING_BEGUN:
        break;
    }
    t->call = rpc_call_ref(call);
    t->spans_max = q->spans_max;
    loop_timer_set(j->loop, &t->timer, deadline_ns / NS_PER_MS, on_deadline, j);
}

void worker_job_trace_stop(struct worker_job *j, struct rpc_call *call,
                           const Gradus__V1__TraceRequest *q)
{
    struct worker_job_trace *t = &j->trace;
    struct wire_trace reply;
    if (recording_take(&t->recording, q->id)) {
        worker_job_trace_end(j);
    }
    wire_trace_to_proto(NULL, &reply);
    (void)rpc_reply(call, &reply.response.base, NULL);
    wire_trace_release(&reply);
}

/* The first step after it was asked for: from here on. */
static void open_window(struct worker_job *j, uint64_t now_ns)
{
    struct worker_job_trace *t = &j->trace;
    const struct recording *r = &t->recording;
    struct err err;
    t->begin_ns = now_ns;
    if (trace_begin(&t->recorder, r->id, j->id, t->spans_max, now_ns, r->deadline_ns, &err) != 0) {
        recording_end(&t->recording);
        (void)rpc_fail(t->call, &err);
        rpc_call_unref(t->call);
        t->call = NULL;
        loop_timer_clear(j->loop, &t->timer);
    }
}

void worker_job_trace_step(struct worker_job *j, uint64_t step, uint64_t now_ns)
{
    struct worker_job_trace *t = &j->trace;
    struct recording_step what = recording_step(&t->recording, step);
    if (what.begins) {
        open_window(j, now_ns);
    }
    if (what.completes) {
        const struct trace_span span = {
            .kind = TRACE_STEP, .step = t->step, .begin_ns = t->step_begin_ns, .end_ns = now_ns};
        add(j, &span);
    }
    if (what.begins || what.completes) {
        t->step = step;
        t->step_begin_ns = now_ns;
    }
    if (what.ends) {
        worker_job_trace_end(j);
    }
}

/* ---- exchanges ---- */

void worker_job_trace_sending(struct worker_job *j, uint64_t exchange)
{
    recording_sending(&j->trace.recording, exchange);
}

/* The step that a request is about; 0 outside of sync. */
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
    case EXCHANGE_ROWS:
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
    struct recording *r = &j->trace.recording;
    if (recording_is_on(r) && a->sent_ns != 0) {
        add_answer(j, a, x, begin_ns);
    }
    if (recording_answered(r, a->exchange)) {
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
