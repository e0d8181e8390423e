/* SPDX-License-Identifier: Apache-2.0 */
/* How long requests waited, and the spans of a trace. */
#include "os/chrono.h"
#include "ps/rpc/ps_shell.h"

struct ps_request_time ps_request_time(const struct ps_request *r)
{
    const struct ps_update_time *update = &r->shard->update_time;
    struct ps_request_time t = {0};
    uint64_t waited_until_ns = update->began_ns;
    if (update->ended_ns == 0) {
        uint64_t now_ns = chrono_now_ns();
        t.applied_ns = update->began_ns == 0 ? 0 : now_ns - update->began_ns;
        waited_until_ns = update->began_ns == 0 ? now_ns : update->began_ns;
    } else {
        t.applied_ns = update->ended_ns - update->began_ns;
    }
    t.waited_ns = waited_until_ns > r->arrived_ns ? waited_until_ns - r->arrived_ns : 0;
    return t;
}

void ps_trace_request(struct ps_request *r, enum trace_kind kind, uint64_t begin_ns,
                      uint64_t end_ns, uint64_t bytes)
{
    struct ps_request_time t = {0};
    if (kind != TRACE_CHUNK) {
        t = ps_request_time(r);
    }
    const struct trace_span span = {
        .kind = kind,
        .shard = r->shard->number,
        .begin_ns = begin_ns,
        .end_ns = end_ns,
        .exchange = r->exchange,
        .bytes = bytes,
        .waited_ns = t.waited_ns,
        .applied_ns = t.applied_ns,
    };
    trace_add(&r->shard->ps->trace, r->shard->job, &span, r->worker);
}

void ps_trace_queue(struct ps_request *r, const struct exchange_trained *trained)
{
    const struct ps_request_time t = ps_request_time(r);
    const struct exchange_push *push = &r->event.ask.push;
    struct trace_span span = {
        .kind = TRACE_QUEUE,
        .shard = r->shard->number,
        .begin_ns = r->arrived_ns,
        .end_ns = r->arrived_ns + t.waited_ns,
        .exchange = r->exchange,
        .waited_ns = t.waited_ns,
        .applied_ns = t.applied_ns,
    };
    if (r->event.ask.has_push) {
        bool sync = r->shard->consistency.mode == TRAINING_SYNC;
        bool in = trained->push == PUSH_ACCEPTED || trained->push == PUSH_APPLIED;
        span.push = (uint32_t)trained->push;
        span.spare = push->spare;
        span.base = sync ? push->step : push->base_version;
        span.made = in ? span.base + trained->staleness + 1 : 0;
    }
    trace_add(&r->shard->ps->trace, r->shard->job, &span, r->worker);
}

void ps_trace_shard(struct ps_shard *s, enum trace_kind kind, uint64_t begin_ns, uint64_t version)
{
    const struct trace_span span = {.kind = kind,
                                    .shard = s->number,
                                    .begin_ns = begin_ns,
                                    .end_ns = chrono_now_ns(),
                                    .step = version};
    trace_add(&s->ps->trace, s->job, &span, NULL);
}
