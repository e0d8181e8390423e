/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs.Trace: asks all nodes of a job what they do in the next steps, and for the time on their
 * clocks. The order is that of trace_rounds.h of the core. The client is told of nodes that failed.
 * When it goes away the nodes are told to stop. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/chrono.h"
#include "base/mem.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/shell/shell.h"
#include "master/shell/trace_calls.h"

#define TRACES_MAX 8
#define STEPS_MAX 1000
#define TIMEOUT_MS_MAX 600000
#define SPANS_MAX (16 * TRACE_SPANS_MAX) /* of all nodes: some 20 MB on the wire */

static void trace_fail(struct tracing *t, const struct err *err)
{
    if (t->call != NULL) {
        (void)rpc_fail(t->call, err);
        rpc_call_unref(t->call);
        t->call = NULL;
    }
}

void traces_end(struct shell *s, const char *why)
{
    struct err err = {0};
    err_set(&err, ERR_UNAVAILABLE, "%s", why);
    for (struct tracing *t = s->traces; t != NULL; t = t->next) {
        trace_fail(t, &err);
        trace_rounds_stop(&t->rounds); /* it is freed when its calls are over */
    }
}

/* ---- the answer ---- */

static bool has_failed(const struct traced_node *n)
{
    return n->err.code != 0;
}

static void fill_node(const struct traced_node *n, Gradus__V1__NodeTrace *to, char *problem)
{
    gradus__v1__node_trace__init(to);
    to->node = n->id;
    to->role = (Gradus__V1__NodeRole)n->role;
    to->host = n->host;
    to->pid = n->pid;
    uint64_t apart_ns = n->offset_ns < 0 ? 0 - (uint64_t)n->offset_ns : (uint64_t)n->offset_ns;
    bool same_clock = n->same_boot && apart_ns <= n->trip_ns;
    to->offset_ns = same_clock ? 0 : n->offset_ns;
    to->offset_error_ns = same_clock ? 0 : n->trip_ns / 2 + 1;
    if (has_failed(n)) {
        memcpy(problem, n->err.msg, ERR_MESSAGE_BYTES);
        to->problem = problem;
    } else {
        to->trace = trace_response(n);
    }
}

/* True if no worker sent anything: there is nothing to show. */
static bool is_empty(const struct tracing *t, struct err *err)
{
    const struct traced_node *first = NULL;
    for (size_t i = 0; i < t->count; i++) {
        const struct traced_node *n = &t->nodes[i];
        if (n->role == MASTER_WORKER && !has_failed(n)) {
            return false;
        }
        first = first == NULL && n->role == MASTER_WORKER ? n : first;
    }
    if (first == NULL) {
        err_set(err, ERR_STATE, "job %s has no worker now", t->job);
    } else {
        err_set(err, first->err.code, "no worker of job %s could be traced: %s: %s", t->job,
                first->id, first->err.msg);
    }
    return true;
}

static void trace_answer(struct tracing *t)
{
    struct err err = {0};
    if (t->call == NULL || is_empty(t, &err)) {
        trace_fail(t, &err);
        return;
    }
    Gradus__V1__TraceJobResponse r = GRADUS__V1__TRACE_JOB_RESPONSE__INIT;
    Gradus__V1__NodeTrace *nodes = mem_new(t->count, sizeof *nodes);
    Gradus__V1__NodeTrace **list = mem_new(t->count, sizeof(Gradus__V1__NodeTrace *));
    char(*problems)[ERR_MESSAGE_BYTES] = mem_new(t->count, sizeof *problems);
    for (size_t i = 0; i < t->count; i++) {
        fill_node(&t->nodes[i], &nodes[i], problems[i]);
        list[i] = &nodes[i];
    }
    r.job = t->job;
    r.nodes = list;
    r.n_nodes = t->count;
    r.clock_ns = chrono_now_ns();
    r.wall_ms = chrono_wall_ms();
    (void)rpc_reply(t->call, &r.base, NULL);
    free(problems);
    free(list);
    free(nodes);
}

struct gone {
    struct shell *shell;
    struct rpc_call *call;
};

static void stop(void *ctx)
{
    struct gone *gone = ctx;
    struct shell *s = gone->shell;
    struct tracing *t = loop_discarding(s->loop) ? NULL : s->traces;
    while (t != NULL && t->call != gone->call) {
        t = t->next;
    }
    if (t != NULL) {
        rpc_call_unref(t->call);
        t->call = NULL;
        tracing_gone(t);
    }
    rpc_call_unref(gone->call);
    free(gone);
}

/* ---- the request ---- */

static void add_nodes(struct tracing *t, const struct job_names *names, enum master_role role)
{
    for (size_t i = 0; i < names->count; i++) {
        struct traced_node *n = &t->nodes[t->count++];
        struct master_node_info info;
        bool found = shell_find_node(t->shell, names->items[i], &info);
        *n = (struct traced_node){.trace = t, .role = role, .id = mem_strdup(names->items[i])};
        n->address = mem_strdup(found ? info.address : "");
        n->host = mem_strdup(found ? info.host : "");
        n->pid = found ? info.pid : 0;
        bool lost = !found || !info.alive;
        (void)trace_rounds_add(&t->rounds, role, lost);
        if (lost) {
            err_set(&n->err, ERR_UNAVAILABLE, "the master has lost this node");
        }
    }
}

/* Says why there is nothing to trace. */
static int check_job(struct shell *s, const Gradus__V1__TraceJobRequest *q,
                     const struct job_record **record, struct err *err)
{
    if (q->steps == 0 || q->steps > STEPS_MAX) {
        return err_set(err, ERR_INVALID, "%" PRIu32 " steps; from 1 to %d are possible", q->steps,
                       STEPS_MAX);
    }
    if (q->timeout_ms == 0 || q->timeout_ms > TIMEOUT_MS_MAX) {
        return err_set(err, ERR_INVALID, "a timeout of %" PRIu32 " ms; 1 to %d are possible",
                       q->timeout_ms, TIMEOUT_MS_MAX);
    }
    int rc = shell_running_job(s, q->job, "traced", record, err);
    if (rc != 0) {
        return rc;
    }
    if (s->trace_count == TRACES_MAX) {
        return err_set(err, ERR_EXHAUSTED, "%d traces are being recorded", TRACES_MAX);
    }
    return 0;
}

static void run_trace(struct request *r)
{
    struct shell *s = r->shell;
    const Gradus__V1__TraceJobRequest *q = (const Gradus__V1__TraceJobRequest *)r->msg->body;
    const struct job_record *record = NULL;
    struct err err = {0};
    if (!request_may_change(r, "trace", q->job)) {
        return;
    }
    if (check_job(s, q, &record, &err) != 0) {
        request_fail(r, &err);
        return;
    }
    struct tracing *t = mem_new(1, sizeof *t);
    t->shell = s;
    t->answer = trace_answer;
    t->call = rpc_call_ref(r->call);
    t->job = mem_strdup(q->job);
    t->id = chrono_now_ns(); /* unique for one master; nodes have one job of this name */
    trace_boot(t->boot);
    size_t count = record->workers.count + record->ps.count;
    trace_rounds_init(&t->rounds, q->steps, q->timeout_ms, count);
    t->nodes = mem_new(count + 1, sizeof *t->nodes);
    t->spans_max = SPANS_MAX / (uint32_t)(count + 1);
    add_nodes(t, &record->workers, MASTER_WORKER);
    add_nodes(t, &record->ps, MASTER_PS);
    request_free(r);
    t->next = s->traces;
    if (s->traces != NULL) {
        s->traces->prev = t;
    }
    s->traces = t;
    s->trace_count++;
    tracing_begin(t);
}

void on_trace_call(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    request_begin(service, call, msg, run_trace);
}

void on_trace_done(struct rpc_call *call, bool cancelled, void *service)
{
    struct shell *s = service;
    if (!cancelled) {
        return;
    }
    struct gone *gone = mem_new(1, sizeof *gone);
    *gone = (struct gone){s, rpc_call_ref(call)};
    if (loop_post(s->loop, stop, gone, NULL) != 0) { /* the master ends */
        rpc_call_unref(gone->call);
        free(gone);
    }
}
