/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs.Trace: asks all nodes of a job what they do in the next steps, and for the time on their
 * clocks.
 *
 * It goes in rounds, each over when every node that takes part has answered or failed: the clocks,
 * a few times; the servers begin; the workers record their steps, which they answer when these are
 * over; the servers hand out what they have. So what a server did for a recorded step is recorded.
 * A node that fails takes no part in later rounds, and the client is told. When the client goes
 * away the nodes are told to stop. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/chrono.h"
#include "base/mem.h"
#include "gradus/v1/jobs.pb-c.h"
#include "gradus/v1/ps.pb-c.h"
#include "gradus/v1/worker.pb-c.h"
#include "master/shell/shell.h"
#include "trace/trace.h"

#define TRACES_MAX 8
#define STEPS_MAX 1000
#define TIMEOUT_MS_MAX 600000
#define SPANS_MAX (16 * TRACE_SPANS_MAX) /* of all nodes: some 20 MB on the wire */
#define CALL_MS 10000                    /* of an answer that waits for nothing */
#define TAKE_MS 20000

enum round {
    ROUND_CLOCK, /* the first trip also connects */
    ROUND_CLOCK_LAST = 3,
    ROUND_PS,
    ROUND_WORKERS,
    ROUND_TAKE,
    ROUND_OVER,
};

struct traced_node {
    struct tracing *trace;
    enum master_role role;
    char *id, *address, *host;
    uint64_t pid;
    bool failed;
    struct err err;
    uint64_t sent_ns, received_ns;
    uint64_t trip_ns; /* the shortest there and back; 0: none */
    int64_t offset_ns;
    bool same_boot;
    struct rpc_msg *answer; /* to the last call */
};

struct tracing {
    struct tracing *prev, *next;
    struct shell *shell;
    struct rpc_call *call; /* NULL: the client was answered, or is gone */
    bool stopped;          /* it is gone, and what was begun must end */
    char *job;
    char boot[TRACE_BOOT_BYTES];
    uint64_t id;
    uint32_t steps, timeout_ms, spans_max;
    unsigned round;
    atomic_size_t open; /* calls, and one for who starts them */
    struct traced_node *nodes;
    size_t count;
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

static void trace_fail(struct tracing *t, const struct err *err)
{
    if (t->call != NULL) {
        (void)rpc_fail(t->call, err);
        rpc_call_unref(t->call);
        t->call = NULL;
    }
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

void traces_end(struct shell *s, const char *why)
{
    struct err err = {0};
    err_set(&err, ERR_UNAVAILABLE, "%s", why);
    for (struct tracing *t = s->traces; t != NULL; t = t->next) {
        trace_fail(t, &err); /* it is freed when its calls are over */
    }
}

/* ---- the answer ---- */

/* The message has no pointers to const; nobody writes through it. */
static Gradus__V1__TraceResponse *response_of(const struct traced_node *n)
{
    union {
        const ProtobufCMessage *in;
        Gradus__V1__TraceResponse *out;
    } u = {.in = n->answer->body};
    return u.out;
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
    if (n->failed) {
        memcpy(problem, n->err.msg, ERR_MESSAGE_BYTES);
        to->problem = problem;
    } else {
        to->trace = response_of(n);
    }
}

/* Without anything of a worker there is nothing to show. */
static bool is_empty(const struct tracing *t, struct err *err)
{
    const struct traced_node *first = NULL;
    for (size_t i = 0; i < t->count; i++) {
        const struct traced_node *n = &t->nodes[i];
        if (n->role == MASTER_WORKER && !n->failed) {
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

static void answer(struct tracing *t)
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

/* ---- rounds ---- */

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
    const Gradus__V1__TraceResponse *r = response_of(n);
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

static void begin_round(struct tracing *t)
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
        begin_round(t);
        return;
    }
    answer(t);
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
        t->stopped = true;
        for (size_t i = 0; t->round == ROUND_WORKERS && i < t->count; i++) {
            if (takes_part(t, &t->nodes[i])) {
                tell_worker(t, &t->nodes[i]);
            }
        }
    }
    rpc_call_unref(gone->call);
    free(gone);
}

/* ---- the request ---- */

static bool find_node(struct shell *s, const char *id, struct master_node_info *out)
{
    bool found = false;
    struct master_node_info info;
    for (size_t i = 0; master_node_at(s->master, i, chrono_now_ms(), &info); i++) {
        if (strcmp(info.id, id) == 0 && (!found || info.alive)) {
            *out = info;
            found = true;
        }
    }
    return found;
}

static void add_nodes(struct tracing *t, const struct job_names *names, enum master_role role)
{
    for (size_t i = 0; i < names->count; i++) {
        struct traced_node *n = &t->nodes[t->count++];
        struct master_node_info info;
        bool found = find_node(t->shell, names->items[i], &info);
        *n = (struct traced_node){.trace = t, .role = role, .id = mem_strdup(names->items[i])};
        n->address = mem_strdup(found ? info.address : "");
        n->host = mem_strdup(found ? info.host : "");
        n->pid = found ? info.pid : 0;
        n->failed = !found || !info.alive;
        if (n->failed) {
            err_set(&n->err, ERR_UNAVAILABLE, "the master has lost this node");
        }
    }
}

/* Why there is nothing to trace. */
static int check_job(struct shell *s, const Gradus__V1__TraceJobRequest *q,
                     const struct job_record *record, struct err *err)
{
    if (q->steps == 0 || q->steps > STEPS_MAX) {
        return err_set(err, ERR_INVALID, "%" PRIu32 " steps; from 1 to %d are possible", q->steps,
                       STEPS_MAX);
    }
    if (q->timeout_ms == 0 || q->timeout_ms > TIMEOUT_MS_MAX) {
        return err_set(err, ERR_INVALID, "a timeout of %" PRIu32 " ms; 1 to %d are possible",
                       q->timeout_ms, TIMEOUT_MS_MAX);
    }
    if (record == NULL) {
        struct buf packed = {0};
        int rc = s->store->ops->get(s->store, q->job, &packed, err);
        buf_release(&packed);
        return rc == 0               ? err_set(err, ERR_STATE, "job %s has ended", q->job)
               : rc == ERR_NOT_FOUND ? err_set(err, rc, "no job %.128s", q->job)
                                     : rc;
    }
    if (record->state != JOB_RUNNING) {
        return err_set(err, ERR_STATE, "job %s is %s; only a running job can be traced", record->id,
                       job_state_name(record->state));
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
    const struct job_record *record = master_job(s->master, q->job, chrono_now_ms());
    struct err err = {0};
    if (check_job(s, q, record, &err) != 0) {
        request_fail(r, &err);
        return;
    }
    struct tracing *t = mem_new(1, sizeof *t);
    t->shell = s;
    t->call = rpc_call_ref(r->call);
    t->job = mem_strdup(q->job);
    t->id = chrono_now_ns(); /* of one master; nodes have one job of this name */
    t->steps = q->steps;
    t->timeout_ms = q->timeout_ms;
    trace_boot(t->boot);
    size_t count = record->workers.count + record->ps.count;
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
    begin_round(t);
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
