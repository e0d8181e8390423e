/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs.Trace: asks all nodes of a job what they do in the next steps, and for the time on their
 * clocks. The order is that of trace_rounds.h of the core. The client is told of nodes that failed.
 * When it goes away the nodes are told to stop.
 *
 * The page asks for a picture of a few steps, again and again while somebody looks. Viewers of one
 * job share it. A server records for one job at a time: what is asked for meanwhile of the same job
 * or of another one on its servers waits until that is over, first come, first served; a trace for
 * so long as it may take itself. Only viewers do not wait for a trace, which may take minutes. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/shell/page_asked.h"
#include "master/shell/shell.h"
#include "master/shell/timeline_wire.h"
#include "master/shell/trace_calls.h"
#include "os/chrono.h"

#define TRACES_MAX 8
#define PICTURES_MAX (TRACES_MAX / 2) /* of the page: the others are for who asks for a trace */
#define PICTURE_LANES 64
#define PICTURE_CALL_MS 1500
#define PICTURE_ALL_MS 7000 /* from request to answer; the page pauses for 2 s before it */
#define PICTURE_SPANS_MAX 65536
#define VIEWERS_MAX 32  /* of a job, that wait for one picture */
#define RECORDERS_MAX 8 /* traces that wait for one picture or trace */
#define STEPS_MAX 1000
#define TIMEOUT_MS_MAX 600000
#define SPANS_MAX (16 * TRACE_SPANS_MAX) /* of all nodes: some 20 MB on the wire */

_Static_assert(PICTURE_ALL_MS + 2000 < HTTP_REQUEST_MS_MAX, "the answer finds its connection");

void traces_init(struct shell *s)
{
    s->pictures = (struct picture_times){.call_ms = PICTURE_CALL_MS, .all_ms = PICTURE_ALL_MS};
}

/* ---- clients ---- */

static const Gradus__V1__TraceJobRequest *wanted(const struct request *r)
{
    return (const Gradus__V1__TraceJobRequest *)r->msg->body;
}

/* Until when a trace waits that has to; its request's data. */
struct turn {
    struct loop_timer timer; /* set while it does */
    uint64_t until_ms;
};

/* It waits for another one as long as it may take itself, and a picture comes to its end. */
static uint32_t turn_ms(const struct request *r)
{
    return wanted(r)->timeout_ms + r->shell->pictures.all_ms;
}

static void add_client(struct tracing *t, struct request *r)
{
    struct request **at = &t->clients;
    while (*at != NULL) {
        at = &(*at)->next;
    }
    r->next = NULL;
    *at = r;
    t->client_count++;
}

static struct request *take_client(struct tracing *t, struct request **at)
{
    struct request *r = *at;
    *at = r->next;
    t->client_count--;
    t->asks = t->asks == r ? NULL : t->asks;
    if (r->data != NULL) {
        struct turn *turn = r->data;
        loop_timer_clear(r->shell->loop, &turn->timer);
    }
    return r;
}

/* Did @r ask for what @t records, or does it wait until that is over? */
static bool is_for(const struct tracing *t, const struct request *r)
{
    return t->picture ? r->page != NULL && strcmp(wanted(r)->job, t->job) == 0 : r == t->asks;
}

/* Who waited until it is over has its turn now; @body NULL: all others hear of @err. */
static void answer_clients(struct tracing *t, const ProtobufCMessage *body, const struct err *err)
{
    struct buf json = {0}; /* for all viewers */
    while (t->clients != NULL) {
        const bool waits = !is_for(t, t->clients);
        struct request *r = take_client(t, &t->clients);
        if (waits && !atomic_load(&t->shell->ending)) {
            r->run(r);
        } else if (body == NULL) {
            request_fail(r, err);
        } else if (r->page == NULL) {
            request_reply(r, body);
        } else {
            if (json.len == 0) {
                page_json(body, &json);
            }
            request_reply_json(r, &json);
        }
    }
    buf_release(&json);
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
    const bool gone = t->picture ? t->clients == NULL : t->asks == NULL;
    if (gone || is_empty(t, &err)) {
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
        timeline_wire_init(&w, &r);
        w.timeline.workers_more = (uint32_t)t->workers_more;
        w.timeline.servers_more = (uint32_t)t->servers_more;
    }
    answer_clients(t, t->picture ? &w.timeline.base : &r.base, NULL);
    timeline_wire_release(&w);
    free(problems);
    free(list);
    free(nodes);
}

/* The client that called: where it is in the list of the trace that it asks or waits for. */
static struct request **find_client(struct shell *s, const struct rpc_call *call,
                                    struct tracing **in)
{
    for (struct tracing *t = s->traces; t != NULL; t = t->next) {
        for (struct request **at = &t->clients; *at != NULL; at = &(*at)->next) {
            if ((*at)->call == call) {
                *in = t;
                return at;
            }
        }
    }
    return NULL;
}

struct gone {
    struct shell *shell;
    struct rpc_call *call;
};

static void stop(void *ctx)
{
    struct gone *gone = ctx;
    struct shell *s = gone->shell;
    struct tracing *t = NULL;
    struct request **at = loop_discarding(s->loop) ? NULL : find_client(s, gone->call, &t);
    if (at != NULL) {
        const bool asks = t->asks == *at;
        request_free(take_client(t, at));
        if (asks) {
            tracing_gone(t);
        }
    }
    rpc_call_unref(gone->call);
    free(gone);
}

/* ---- a turn ---- */

static void no_turn(void *ctx)
{
    struct request *r = ctx;
    struct tracing *t = NULL;
    struct err err = {0};
    struct request **at = find_client(r->shell, r->call, &t);
    assert(at != NULL); /* the timer is set while it waits */
    const bool same = strcmp(t->job, wanted(r)->job) == 0;
    err_set(&err, ERR_EXHAUSTED,
            "%sjob %s is being recorded already, and that was not over within %" PRIu32 " ms",
            same ? "" : "another job on the servers of ", wanted(r)->job, turn_ms(r));
    request_fail(take_client(t, at), &err);
}

/* @r waits until @t is over. */
static void wait_turn(struct tracing *t, struct request *r)
{
    add_client(t, r);
    if (r->page == NULL) {
        struct turn *turn = r->data;
        if (turn == NULL) {
            turn = r->data = mem_new(1, sizeof *turn);
            turn->until_ms = chrono_now_ms() + turn_ms(r);
            r->free_data = free;
        }
        loop_timer_set(r->shell->loop, &turn->timer, turn->until_ms, no_turn, r);
    }
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

/* Pictures are of the first workers and servers alone. */
static size_t lanes_max(const struct request *r)
{
    return r->page != NULL ? PICTURE_LANES : SIZE_MAX;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

static bool shares_server(const struct tracing *t, const struct job_names *ps, size_t count)
{
    for (size_t i = 0; i < t->count; i++) {
        for (size_t k = 0; t->nodes[i].role == MASTER_PS && k < count; k++) {
            if (strcmp(t->nodes[i].id, ps->items[k]) == 0) {
                return true;
            }
        }
    }
    return false;
}

/* What has to be over before @r can begin. */
static struct tracing *in_the_way(const struct request *r, const struct job_record *record)
{
    const size_t ps = least(record->ps.count, lanes_max(r));
    struct tracing *t = r->shell->traces;
    while (t != NULL && strcmp(t->job, record->id) != 0 && !shares_server(t, &record->ps, ps)) {
        t = t->next;
    }
    return t;
}

/* May @r wait for @t? */
static int check_queue(const struct request *r, const struct tracing *t, struct err *err)
{
    size_t n = 0;
    for (const struct request *c = t->clients; c != NULL; c = c->next) {
        n += r->page == NULL ? c->page == NULL && !is_for(t, c)
                             : c->page != NULL && strcmp(wanted(c)->job, wanted(r)->job) == 0;
    }
    if (r->page != NULL && n >= VIEWERS_MAX) {
        return err_set(err, ERR_EXHAUSTED, "%d viewers wait for this picture already", VIEWERS_MAX);
    }
    return n >= RECORDERS_MAX && r->page == NULL
               ? err_set(err, ERR_EXHAUSTED, "%d traces wait already until a %s is over",
                         RECORDERS_MAX, t->picture ? "picture" : "trace")
               : 0;
}

/* Time until the answer of a viewer is due, who may have waited for others. */
static uint32_t picture_ms_left(struct request *r)
{
    const uint64_t now_ms = chrono_now_ns() / 1000000;
    if (r->asked->since_ms == 0) {
        r->asked->since_ms = now_ms;
    }
    const uint64_t waited_ms = now_ms - r->asked->since_ms, all_ms = r->shell->pictures.all_ms;
    return waited_ms < all_ms ? (uint32_t)(all_ms - waited_ms) : 0;
}

/* @t is in the way; NULL: nothing is. */
static int check_room(struct request *r, const struct tracing *t, struct err *err)
{
    const struct shell *s = r->shell;
    const size_t most = r->page != NULL ? PICTURES_MAX : TRACES_MAX;
    if (r->page != NULL && picture_ms_left(r) <= s->pictures.all_ms / 4) {
        return err_set(err, ERR_EXHAUSTED,
                       "other jobs on its servers are looked at; the picture of job %s goes on in "
                       "a moment",
                       wanted(r)->job);
    }
    if (t != NULL && (t->picture || r->page == NULL)) {
        return check_queue(r, t, err);
    }
    if (t != NULL) {
        const bool same = strcmp(t->job, wanted(r)->job) == 0;
        return err_set(err, ERR_STATE,
                       "somebody records %sjob %s with gradus trace or timeline; the picture goes "
                       "on when that is over",
                       same ? "" : "another job on the servers of ", wanted(r)->job);
    }
    return s->trace_count < most
               ? 0
               : err_set(err, ERR_EXHAUSTED, "%zu traces are being recorded", s->trace_count);
}

static struct tracing *tracing_new(struct request *r, const struct job_record *record, size_t count)
{
    struct shell *s = r->shell;
    struct tracing *t = mem_new(1, sizeof *t);
    t->shell = s;
    t->picture = r->page != NULL;
    t->answer = trace_answer;
    t->job = mem_strdup(record->id);
    t->id = chrono_now_ns(); /* unique for one master; nodes have one job of this name */
    trace_boot(t->boot);
    trace_rounds_init(&t->rounds, wanted(r)->steps, wanted(r)->timeout_ms, count);
    t->spans_max = (t->picture ? PICTURE_SPANS_MAX : SPANS_MAX) / (uint32_t)(count + 1);
    if (t->picture) {
        t->rounds.call_ms = s->pictures.call_ms;
        t->deadline_ns = chrono_now_ns() + UINT64_C(1000000) * picture_ms_left(r);
    }
    t->nodes = mem_new(count + 1, sizeof *t->nodes);
    return t;
}

static void begin(struct request *r, const struct job_record *record)
{
    struct shell *s = r->shell;
    const size_t workers = least(record->workers.count, lanes_max(r));
    const size_t ps = least(record->ps.count, lanes_max(r));
    struct tracing *t = tracing_new(r, record, workers + ps);
    t->workers_more = record->workers.count - workers;
    t->servers_more = record->ps.count - ps;
    add_nodes(t, &record->workers, workers, MASTER_WORKER);
    add_nodes(t, &record->ps, ps, MASTER_PS);
    add_client(t, r);
    t->asks = t->picture ? NULL : r;
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
    const struct job_record *record = NULL;
    struct tracing *t = NULL;
    struct err err = {0};
    if (!request_may_change(r, "trace", wanted(r)->job)) {
        return;
    }
    int rc = check_job(r->shell, wanted(r), &record, &err);
    if (rc == 0) {
        t = in_the_way(r, record);
        rc = check_room(r, t, &err);
    }
    if (rc != 0) {
        request_fail(r, &err);
    } else if (t != NULL) {
        wait_turn(t, r);
    } else {
        begin(r, record);
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
