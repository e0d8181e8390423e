/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_call_rig.h"

#include <stdio.h>
#include <string.h>

#include "gradus/v1/ps.pb-c.h"
#include "gradus/v1/worker.pb-c.h"
#include "job/progress/exchange.h"
#include "master/shell/trace_calls.h"
#include "os/chrono.h"
#include "support/wait_until.h"

struct trace_call_rig rig;
struct rpc_server *trace_rig_server;
char own_boot[TRACE_BOOT_BYTES];
char worker_id[] = "w-1", ps_id[] = "ps-1", lost_id[] = "w-2", other_job[] = "other-2";
char *worker_ids[] = {worker_id, lost_id};
static char *ps_ids[] = {ps_id};
char *one_server[] = {ps_id};

/* ---- the nodes ---- */

/* A worker computes, 2 ms unless a test says otherwise, again and again, and sends what the last
 * one made; the trace_rig_server applies that as version 9, and drops nothing. */
static size_t fill_spans(const struct heard *h, Gradus__V1__Span *spans)
{
    const uint64_t from = 1000000000;
    size_t n = 0;
    for (size_t i = 0; h->who == WORKER && i < rig.spans; i++) {
        spans[n++] = (Gradus__V1__Span){.kind = GRADUS__V1__SPAN_KIND__SPAN_COMPUTE,
                                        .begin_ns = from + rig.apart_ns * i,
                                        .ns = rig.apart_ns / 3 * 2,
                                        .step = 40 + i};
    }
    if (h->who == WORKER && rig.spans > 0) {
        spans[n++] = (Gradus__V1__Span){.kind = GRADUS__V1__SPAN_KIND__SPAN_SEND,
                                        .begin_ns = from + 2000000,
                                        .ns = 100000,
                                        .exchange = 5};
    } else if (rig.spans > 0) {
        spans[n++] = (Gradus__V1__Span){.kind = GRADUS__V1__SPAN_KIND__SPAN_QUEUE,
                                        .begin_ns = from + 2100000,
                                        .ns = 50000,
                                        .exchange = 5,
                                        .worker = 1,
                                        .push = PUSH_APPLIED,
                                        .base_version = 6,
                                        .made_version = 9};
        spans[n++] = (Gradus__V1__Span){.kind = GRADUS__V1__SPAN_KIND__SPAN_APPLY,
                                        .begin_ns = from + 2200000,
                                        .ns = 300000,
                                        .step = 9};
    }
    for (size_t i = 0; i < n; i++) {
        spans[i].base = (ProtobufCMessage)PROTOBUF_C_MESSAGE_INIT(&gradus__v1__span__descriptor);
    }
    return n;
}

static void answer(struct rpc_call *call, const struct heard *h)
{
    static Gradus__V1__Span spans[SPANS_MAX + 1], *list[SPANS_MAX + 1];
    char boot[TRACE_BOOT_BYTES], who[] = {h->who, '\0'};
    char *workers[] = {rig.spans > 0 ? worker_id : who};
    Gradus__V1__TraceResponse r = GRADUS__V1__TRACE_RESPONSE__INIT;
    (void)snprintf(boot, sizeof boot, "%s", rig.boot);
    r.boot = boot;
    r.clock_ns = chrono_now_ns() + (strcmp(boot, own_boot) == 0 ? 0 : (uint64_t)AHEAD_NS);
    r.workers = workers;
    r.n_workers = 1;
    r.steps = h->steps;
    r.lost = (uint64_t)h->action;
    r.n_spans = h->action == CLOCK ? 0 : fill_spans(h, spans);
    r.spans = list;
    for (size_t i = 0; i < r.n_spans; i++) {
        list[i] = &spans[i];
    }
    (void)rpc_reply(call, &r.base, NULL);
}

static void on_node(char who, struct rpc_call *call, struct rpc_msg *msg)
{
    const Gradus__V1__TraceRequest *q = (const Gradus__V1__TraceRequest *)msg->body;
    struct heard h = {.who = who,
                      .action = (int)q->action,
                      .id = q->id,
                      .steps = q->steps,
                      .timeout_ms = q->timeout_ms,
                      .spans_max = q->spans_max};
    (void)snprintf(h.job, sizeof h.job, "%s", q->job);
    pthread_mutex_lock(&job_rig.lock);
    assert_in_range(rig.count, 0, HEARD_MAX - 1);
    rig.heard[rig.count++] = h;
    if (rig.fails[(int)who] == h.action) {
        struct err err;
        (void)err_set(&err, rig.refusal, "no room");
        (void)rpc_fail(call, &err);
    } else if (rig.holds && who == WORKER && h.action == RECORD) {
        rig.held = rpc_call_ref(call);
    } else {
        answer(call, &h);
    }
    if (rig.held != NULL && who == WORKER && h.action == TAKE) {
        answer(rig.held, &h);
        rpc_call_unref(rig.held);
        rig.held = NULL;
    }
    pthread_cond_broadcast(&job_rig.changed);
    pthread_mutex_unlock(&job_rig.lock);
}

static void on_ps(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    on_node(PS, call, msg);
}

static void on_worker(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    on_node(WORKER, call, msg);
}

/* ---- the rig ---- */

void set_node(size_t i, enum master_role role, const char *id, uint64_t pid)
{
    job_rig.nodes[i] = (struct master_node_info){.id = id,
                                                 .address = rpc_server_address(trace_rig_server, 0),
                                                 .host = role == MASTER_PS ? "north" : "south",
                                                 .role = role,
                                                 .alive = true,
                                                 .pid = pid};
}

int set_up(void **state)
{
    (void)state;
    trace_boot(own_boot);
    trace_rig_server = job_rig_server();
    const struct rpc_method jobs = {
        .name = "Trace", .request = on_trace_call, .done = on_trace_done};
    job_rig_serve(trace_rig_server, &gradus__v1__jobs__descriptor, jobs, &job_rig.shell);
    job_rig_serve(trace_rig_server, &gradus__v1__parameter_server__descriptor,
                  (struct rpc_method){.name = "Trace", .request = on_ps}, NULL);
    job_rig_serve(trace_rig_server, &gradus__v1__worker__descriptor,
                  (struct rpc_method){.name = "Trace", .request = on_worker}, NULL);
    job_rig_start(&trace_rig_server, 1);
    return 0;
}

int tear_down(void **state)
{
    (void)state;
    job_rig_stop(&trace_rig_server, 1);
    return 0;
}

/* A running job of one worker and one trace_rig_server, both well. */
int begin(void **state)
{
    (void)state;
    job_rig.record = (struct job_record){.id = job_rig_job,
                                         .state = JOB_RUNNING,
                                         .workers = {.items = worker_ids, .count = 1},
                                         .ps = {.items = ps_ids, .count = 1}};
    set_node(0, MASTER_PS, ps_id, 22);
    set_node(1, MASTER_WORKER, worker_id, 21);
    set_node(2, MASTER_WORKER, lost_id, 23);
    job_rig.node_count = 3;
    job_rig.other.id = NULL;
    job_rig.shell.pictures = (struct picture_times){.call_ms = 60000, .all_ms = 600000};
    rig.count = 0;
    rig.fails[(int)PS] = rig.fails[(int)WORKER] = -1;
    rig.refusal = ERR_EXHAUSTED;
    rig.holds = false;
    rig.spans = 0;
    rig.apart_ns = 3000000;
    rig.boot = own_boot;
    return 0;
}

void begin_other(char **ps)
{
    job_rig.other = (struct job_record){.id = other_job,
                                        .state = JOB_RUNNING,
                                        .workers = {.items = &worker_ids[1], .count = 1},
                                        .ps = {.items = ps, .count = 1}};
}

/* ---- what is looked at ---- */

size_t times(char who, int action)
{
    size_t n = 0;
    for (size_t i = 0; i < rig.count; i++) {
        n += rig.heard[i].who == who && rig.heard[i].action == action;
    }
    return n;
}

size_t asked_to_record(char who, const char *job)
{
    size_t i = 0;
    while (i < rig.count && (rig.heard[i].who != who || rig.heard[i].action != RECORD ||
                             strcmp(rig.heard[i].job, job) != 0)) {
        i++;
    }
    return i;
}

static void count_clients(void *ctx)
{
    const struct tracing *t = job_rig.shell.traces;
    *(size_t *)ctx = t == NULL ? 0 : t->client_count;
}

size_t clients(void)
{
    size_t n = 0;
    assert_int_equal(loop_call(job_rig.shell.loop, count_clients, &n, NULL), 0);
    return n;
}

static void look(void *ctx)
{
    *(size_t *)ctx = job_rig.shell.trace_count + (job_rig.shell.traces != NULL);
}

size_t under_way(void)
{
    size_t n = 0;
    assert_int_equal(loop_call(job_rig.shell.loop, look, &n, NULL), 0);
    return n;
}

void wait_until_held(void)
{
    pthread_mutex_lock(&job_rig.lock);
    wait_until_signalled(rig.held != NULL, &job_rig.changed, &job_rig.lock);
    pthread_mutex_unlock(&job_rig.lock);
}

void start_held(struct rpc_channel *from)
{
    Gradus__V1__TraceJobRequest q = GRADUS__V1__TRACE_JOB_REQUEST__INIT;
    q.job = job_rig_job;
    q.steps = 7;
    q.timeout_ms = 60000; /* nobody waits for it */
    rig.holds = true;
    job_rig_ask_nobody(from, "Trace", &q.base);
    wait_until_held();
}

void wait_until_none(void)
{
    wait_until(under_way() == 0);
}

void release(void)
{
    pthread_mutex_lock(&job_rig.lock);
    rig.holds = false;
    answer(rig.held, &(struct heard){.who = WORKER, .action = RECORD});
    rpc_call_unref(rig.held);
    rig.held = NULL;
    pthread_mutex_unlock(&job_rig.lock);
}

static void end_traces(void *ctx)
{
    (void)ctx;
    atomic_store(&job_rig.shell.ending, true);
    traces_end(&job_rig.shell, "the master is stopping");
}

static void end_no_more(void *ctx)
{
    (void)ctx;
    atomic_store(&job_rig.shell.ending, false);
}

void end_master(void)
{
    assert_int_equal(loop_call(job_rig.shell.loop, end_traces, NULL, NULL), 0);
}

void go_on(void)
{
    assert_int_equal(loop_call(job_rig.shell.loop, end_no_more, NULL, NULL), 0);
}
