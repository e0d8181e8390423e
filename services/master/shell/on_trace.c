/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs.Trace: asks all nodes of a job what they do in the next steps, and for the time on their
 * clocks. The order is that of trace_rounds.h of the core. The client is told of nodes that failed.
 * When it goes away the nodes are told to stop.
 *
 * The page asks for a picture of a few steps, again and again while somebody looks. Viewers of one
 * job share it, and a trace that is asked for meanwhile begins when it is over. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/chrono.h"
#include "base/mem.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/shell/shell.h"
#include "master/shell/timeline_wire.h"
#include "master/shell/trace_calls.h"

#define TRACES_MAX 8
#define PICTURES_MAX (TRACES_MAX / 2) /* of the page: the others are for who asks for a trace */
#define PICTURE_LANES 64
#define PICTURE_CALL_MS 1500
#define VIEWERS_MAX 32 /* of a picture */
#define STEPS_MAX 1000
#define TIMEOUT_MS_MAX 600000
#define SPANS_MAX (16 * TRACE_SPANS_MAX) /* of all nodes: some 20 MB on the wire */

/* ---- clients ---- */

static void add_client(struct tracing *t, struct request *r)
{
    r->next = t->clients;
    t->clients = r;
    t->client_count++;
}

static struct request *take_client(struct tracing *t, struct request **at)
{
    struct request *r = *at;
    *at = r->next;
    t->client_count--;
    return r;
}

/* Who records when a picture is over does so now; @body NULL: all others hear of @err. */
static void answer_clients(struct tracing *t, const ProtobufCMessage *body, const struct err *err)
{
    while (t->clients != NULL) {
        struct request *r = take_client(t, &t->clients);
        if (t->picture && r->page == NULL && !atomic_load(&t->shell->ending)) {
            r->run(r);
        } else if (body != NULL) {
            request_reply(r, body);
        } else {
            request_fail(r, err);
        }
    }
}

void traces_end(struct shell *s, const char *why)
{
    struct err err = {0};
    err_set(&err, ERR_UNAVAILABLE, "%s", why);
    for (struct tracing *t = s->traces; t != NULL; t = t->next) {
        answer_clients(t, NULL, &err);
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
    if (t->clients == NULL || is_empty(t, &err)) {
        answer_clients(t, NULL, &err);
        return;
    }
    Gradus__V1__TraceJobResponse r = GRADUS__V1__TRACE_JOB_RESPONSE__INIT;
    Gradus__V1__NodeTrace *nodes = mem_new(t->count, sizeof *nodes);
    Gradus__V1__NodeTrace **list = mem_new(t->count, sizeof(Gradus__V1__NodeTrace *));
    char(*problems)[ERR_MESSAGE_BYTES] = mem_new(t->count, sizeof *problems);
    struct timeline_wire w = {0};
    for (size_t i = 0; i < t->count; i++) {
        fill_node(&t->nodes[i], &nodes[i], problems[i]);
        list[i] = &nodes[i];
    }
    r.job = t->job;
    r.nodes = list;
    r.n_nodes = t->count;
    r.clock_ns = chrono_now_ns();
    r.wall_ms = chrono_wall_ms();
    if (t->picture) {
        timeline_wire_init(&w, &r, (uint32_t)t->workers_more);
    }
    answer_clients(t, t->picture ? &w.timeline.base : &r.base, NULL);
    timeline_wire_release(&w);
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
    struct request **at = NULL;
    for (; t != NULL; t = t->next) {
        for (at = &t->clients; *at != NULL && (*at)->call != gone->call;) {
            at = &(*at)->next;
        }
        if (*at != NULL) {
            break;
        }
    }
    if (t != NULL) {
        request_free(take_client(t, at));
    }
    if (t != NULL && !t->picture) {
        tracing_gone(t);
    }
    rpc_call_unref(gone->call);
    free(gone);
}

/* ---- the request ---- */

static void add_nodes(struct tracing *t, const struct job_names *names, size_t count,
                      enum master_role role)
{
    for (size_t i = 0; i < count; i++) {
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
    return shell_running_job(s, q->job, "traced", record, err);
}

static struct tracing *find_trace(struct shell *s, const char *job)
{
    struct tracing *t = s->traces;
    while (t != NULL && strcmp(t->job, job) != 0) {
        t = t->next;
    }
    return t;
}

/* @t records the job already; NULL: nobody does. */
static int check_room(const struct shell *s, const struct request *r, const struct tracing *t,
                      struct err *err)
{
    const size_t most = r->page != NULL ? PICTURES_MAX : TRACES_MAX;
    if (t != NULL && t->picture) {
        return t->client_count < VIEWERS_MAX
                   ? 0
                   : err_set(err, ERR_EXHAUSTED, "%d viewers wait for this picture already",
                             VIEWERS_MAX);
    }
    if (t != NULL && r->page != NULL) {
        return err_set(err, ERR_STATE,
                       "somebody records job %s with gradus trace or timeline; its picture goes on "
                       "when that is over",
                       t->job);
    }
    return s->trace_count < most
               ? 0
               : err_set(err, ERR_EXHAUSTED, "%zu traces are being recorded", s->trace_count);
}

/* A picture has the first workers and shards: nobody could tell more of them apart. */
static void begin(struct request *r, const struct job_record *record, uint32_t steps,
                  uint32_t timeout_ms)
{
    struct shell *s = r->shell;
    struct tracing *t = mem_new(1, sizeof *t);
    const size_t most = r->page != NULL ? PICTURE_LANES : SIZE_MAX;
    const size_t workers = record->workers.count < most ? record->workers.count : most;
    const size_t ps = record->ps.count < most ? record->ps.count : most, count = workers + ps;
    t->shell = s;
    t->picture = r->page != NULL;
    t->workers_more = record->workers.count - workers;
    t->answer = trace_answer;
    t->job = mem_strdup(record->id);
    t->id = chrono_now_ns(); /* unique for one master; nodes have one job of this name */
    trace_boot(t->boot);
    trace_rounds_init(&t->rounds, steps, timeout_ms, count);
    t->rounds.call_ms = t->picture ? PICTURE_CALL_MS : t->rounds.call_ms;
    t->nodes = mem_new(count + 1, sizeof *t->nodes);
    t->spans_max = SPANS_MAX / (uint32_t)(count + 1);
    add_nodes(t, &record->workers, workers, MASTER_WORKER);
    add_nodes(t, &record->ps, ps, MASTER_PS);
    add_client(t, r);
    t->next = s->traces;
    if (s->traces != NULL) {
        s->traces->prev = t;
    }
    s->traces = t;
    s->trace_count++;
    tracing_begin(t);
}

void run_trace(struct request *r)
{
    const Gradus__V1__TraceJobRequest *q = (const Gradus__V1__TraceJobRequest *)r->msg->body;
    const struct job_record *record = NULL;
    struct err err = {0};
    if (!request_may_change(r, "trace", q->job)) {
        return;
    }
    struct tracing *t = find_trace(r->shell, q->job);
    int rc = check_job(r->shell, q, &record, &err);
    rc = rc != 0 ? rc : check_room(r->shell, r, t, &err);
    if (rc != 0) {
        request_fail(r, &err);
    } else if (t != NULL && t->picture) {
        add_client(t, r);
    } else {
        begin(r, record, q->steps, q->timeout_ms);
    }
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
