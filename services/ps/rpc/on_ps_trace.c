/* SPDX-License-Identifier: Apache-2.0 */
/* Trace: what the shards of a job do is recorded from RECORD until TAKE. */
#include <stddef.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/text.h"
#include "os/chrono.h"
#include "ps/rpc/ps_shell.h"
#include "wire/wire.h"

static void reply(struct rpc_call *call, struct trace_spans *spans)
{
    struct wire_trace w;
    wire_trace_to_proto(spans, &w);
    (void)rpc_reply(call, &w.response.base, NULL);
    wire_trace_release(&w);
}

static int record(struct ps *ps, const Gradus__V1__TraceRequest *q, struct err *err)
{
    struct ps_shard *shards[PS_SHARDS_MAX];
    uint64_t now_ns = chrono_now_ns();
    size_t n = q->job[0] == '\0' ? 0 : ps_list(ps, q->job, shards);
    for (size_t i = 0; i < n; i++) {
        ps_shard_unref(shards[i]);
    }
    if (n == 0) {
        char shown[64];
        return err_set(err, ERR_NOT_FOUND, "job %s has no shard on this server",
                       text_shown(q->job, shown, sizeof shown));
    }
    return trace_begin(&ps->trace, q->id, q->job, q->spans_max, now_ns,
                       now_ns + (uint64_t)q->timeout_ms * 1000000, err);
}

/* A visit to every strand: what a shard is doing now belongs to the trace, so the trace is taken
 * when every strand has been visited. */
struct passing {
    struct strand_task task;
    struct taking *taking;
};
struct taking {
    struct ps *ps;
    struct rpc_call *call;
    uint64_t id;
    atomic_size_t missing;
    struct passing shards[PS_SHARDS_MAX];
};

static void take(struct taking *t)
{
    struct trace_spans spans = {0};
    struct err err = {0};
    if (atomic_fetch_sub(&t->missing, 1) != 1) {
        return;
    }
    if (trace_take(&t->ps->trace, t->id, &spans, &err) != 0) {
        (void)rpc_fail(t->call, &err);
    } else {
        reply(t->call, &spans);
    }
    trace_spans_release(&spans);
    rpc_call_unref(t->call);
    ps_unref(t->ps);
    free(t);
}

static void pass(struct strand_task *task)
{
    struct passing *p = (struct passing *)((char *)task - offsetof(struct passing, task));
    take(p->taking);
}

static void begin_taking(struct ps *ps, struct rpc_call *call, const Gradus__V1__TraceRequest *q)
{
    struct ps_shard *shards[PS_SHARDS_MAX];
    size_t n = ps_list(ps, q->job, shards);
    struct taking *t = mem_new(1, sizeof *t);
    *t = (struct taking){.ps = ps_ref(ps), .call = rpc_call_ref(call), .id = q->id};
    atomic_store(&t->missing, n + 1); /* one for this loop */
    for (size_t i = 0; i < n; i++) {
        t->shards[i].taking = t;
        (void)strand_post(&shards[i]->strand, &t->shards[i].task, pass);
        ps_shard_unref(shards[i]);
    }
    take(t);
}

void ps_on_trace(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct ps *ps = service;
    const Gradus__V1__TraceRequest *q = (const Gradus__V1__TraceRequest *)msg->body;
    struct err err = {0};
    int rc = 0;
    switch (q->action) {
    case GRADUS__V1__TRACE_REQUEST__ACTION__CLOCK:
        break;
    case GRADUS__V1__TRACE_REQUEST__ACTION__RECORD:
        rc = record(ps, q, &err);
        break;
    case GRADUS__V1__TRACE_REQUEST__ACTION__TAKE:
        begin_taking(ps, call, q);
        return;
    default:
        rc = err_set(&err, ERR_INVALID, "action %d of a trace is unknown", (int)q->action);
    }
    if (rc != 0) {
        (void)rpc_fail(call, &err);
    } else {
        reply(call, NULL);
    }
}
