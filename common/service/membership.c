/* SPDX-License-Identifier: Apache-2.0 */
/* Does what membership_core.c decides: sends Join, Heartbeat and Leave to the master and sets
 * the timer, all on one event loop. Other threads reach it by messages. */
#include "service/membership.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "os/chrono.h"
#include "os/log_tail.h"
#include "base/mem.h"
#include "base/release.h"
#include "gradus/v1/cluster.pb-c.h"
#include "rpc/rpc.h"
#include "execution/loop.h"
#include "membership/membership_core.h"
#include "service/membership_held.h"
#include "service/membership_lines.h"
#include "service/pulse.h"
#include "service/tls_settings.h"

#define CALL_TIMEOUT_MS 2000
#define HOST_BYTES 256

struct membership {
    enum membership_role role;
    char *name;
    char *address;
    char *http_address;
    char host[HOST_BYTES];
    const struct membership_events *events;
    void *ctx;
    struct rpc_channel *channel;
    const struct rpc_credentials *credentials;
    struct loop *loop;

    /* For the loop's thread. */
    struct membership_core core;
    struct loop_timer timer;
    struct err last; /* why the last call failed */
    bool name_taken; /* node.id, that it had before */
    uint64_t told;   /* the number of the last log line in the heartbeat that is open */
    bool told_leave; /* in it */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct membership_node node;
    bool joined;
    bool leaving;
    bool left;
};

/* ---- calls ---- */

/* The answer to call number @call, on its way from the channel's thread to the loop. */
struct answer {
    struct membership *m;
    uint64_t call;
    struct err err;
    struct rpc_msg *reply;
};

static void step(struct membership *m, struct membership_event *e, struct answer *answer);

static void free_answer(struct answer *a)
{
    rpc_msg_unref(a->reply);
    free(a);
}

static void run_answer(void *ctx)
{
    struct answer *a = ctx;
    if (!loop_discarding(a->m->loop)) {
        struct membership_event e = {
            .kind = MEMBERSHIP_ON_ANSWER, .call = a->call, .code = a->err.code};
        step(a->m, &e, a);
    }
    free_answer(a);
}

static void call_done(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    struct answer *a = ctx;
    a->err = status->err;
    a->reply = reply == NULL ? NULL : rpc_msg_ref(reply);
    if (loop_post(a->m->loop, run_answer, a, NULL) != 0) {
        free_answer(a);
    }
}

static void start_call(struct membership *m, const char *method, const ProtobufCMessage *body)
{
    struct answer *a = mem_new(1, sizeof *a);
    a->m = m;
    a->call = m->core.call;
    struct rpc_request request = {.service = &gradus__v1__cluster__descriptor,
                                  .method = method,
                                  .body = body,
                                  .timeout_ms = CALL_TIMEOUT_MS};
    if (rpc_call_start(m->channel, &request, call_done, a, &a->err) == 0) {
        return;
    }
    if (loop_post(m->loop, run_answer, a, NULL) != 0) {
        free_answer(a);
    }
}

static void call_join(struct membership *m)
{
    Gradus__V1__JoinRequest r = GRADUS__V1__JOIN_REQUEST__INIT;
    char *version = mem_strdup(release_version());
    r.role = (Gradus__V1__NodeRole)m->role;
    r.incarnation = m->node.incarnation;
    r.name = m->name[0] != '\0' || m->name_taken ? m->name : m->node.id;
    r.address = m->address;
    r.http_address = m->http_address;
    r.version = version;
    r.host = m->host;
    r.pid = (uint64_t)getpid();
    r.protocol = RELEASE_PROTOCOL;
    start_call(m, "Join", &r.base);
    free(version);
}

static Gradus__V1__NodeRef node_ref(struct membership *m)
{
    Gradus__V1__NodeRef ref = GRADUS__V1__NODE_REF__INIT;
    ref.id = m->node.id;
    ref.incarnation = m->node.incarnation;
    return ref;
}

static void call_heartbeat(struct membership *m)
{
    Gradus__V1__HeartbeatRequest r = GRADUS__V1__HEARTBEAT_REQUEST__INIT;
    Gradus__V1__NodeRef ref = node_ref(m);
    struct membership_jobs jobs;
    struct membership_works works;
    jobs.count = works.count = 0;
    if (m->events->jobs != NULL) {
        m->events->jobs(m->ctx, &jobs);
    }
    if (m->events->works != NULL) {
        m->events->works(m->ctx, &works);
    }
    r.node = &ref;
    r.jobs = jobs.list;
    r.n_jobs = jobs.count;
    r.works = works.list;
    r.n_works = works.count;
    struct membership_lines *lines = membership_lines_new();
    r.lines = lines->list;
    r.n_lines = lines->count;
    m->told = lines->last;
    r.leaves = m->told_leave = m->events->leaves != NULL && m->events->leaves(m->ctx);
    start_call(m, "Heartbeat", &r.base);
    membership_lines_free(lines);
    membership_held_release(&jobs, &works);
}

static void call_leave(struct membership *m)
{
    Gradus__V1__LeaveRequest r = GRADUS__V1__LEAVE_REQUEST__INIT;
    Gradus__V1__NodeRef ref = node_ref(m);
    struct membership_lines *lines = membership_lines_new();
    r.node = &ref;
    r.lines = lines->list;
    r.n_lines = lines->count;
    start_call(m, "Leave", &r.base);
    membership_lines_free(lines);
}

/* ---- steps ---- */

static void run_timer(void *ctx)
{
    struct membership_event e = {.kind = MEMBERSHIP_ON_TIMER};
    step(ctx, &e, NULL);
}

static void set_joined(struct membership *m, const char *id)
{
    pthread_mutex_lock(&m->lock);
    m->joined = id != NULL;
    if (id != NULL) {
        size_t n = strnlen(id, sizeof m->node.id - 1);
        memcpy(m->node.id, id, n);
        m->node.id[n] = 0;
    }
    pthread_mutex_unlock(&m->lock);
}

/* An answer that says nothing useful is a failed call. */
static void read_answer(struct membership *m, struct membership_event *e, const struct answer *a)
{
    if (a->err.code == 0 && a->reply->body->descriptor == &gradus__v1__join_response__descriptor) {
        const Gradus__V1__JoinResponse *r = (const Gradus__V1__JoinResponse *)a->reply->body;
        e->interval_ms = r->heartbeat_interval_ms;
        size_t length = strlen(r->id);
        if (length == 0 || length >= MEMBERSHIP_ID_BYTES) {
            e->code = err_set(&m->last, ERR_INTERNAL, "%s gave this node an id of %zu bytes",
                              rpc_channel_target(m->channel), length);
        }
        return;
    }
    if (a->err.code != 0) {
        m->last = a->err;
        m->name_taken = m->name_taken || a->err.code == ERR_EXISTS;
    }
}

static void tell_unready(struct membership *m, const char *why)
{
    if (m->events->unready != NULL) {
        m->events->unready(m->ctx, why[0] == '\0' ? NULL : why);
    }
}

static void heard_back(struct membership *m, const struct answer *a)
{
    const struct membership_events *on = m->events;
    if (a->err.code != 0 && m->told_leave) {
        on->moves(m->ctx, a->err.code, false);
    }
    if (a->err.code != 0 || m->core.state != MEMBERSHIP_IN ||
        a->reply->body->descriptor != &gradus__v1__heartbeat_response__descriptor) {
        return;
    }
    const Gradus__V1__HeartbeatResponse *r = (const Gradus__V1__HeartbeatResponse *)a->reply->body;
    log_tail_told(m->told);
    if (m->told_leave) {
        on->moves(m->ctx, 0, r->moves != 0);
    }
    for (size_t i = 0; i < r->n_stop_jobs && on->stop_job != NULL; i++) {
        on->stop_job(m->ctx, r->stop_jobs[i]);
    }
    for (size_t i = 0; i < r->n_stop_openings && on->stop_opening != NULL; i++) {
        on->stop_opening(m->ctx, r->stop_openings[i]);
    }
    tell_unready(m, r->unready);
}

static void tell(struct membership *m, const struct membership_actions *todo,
                 const struct answer *answer, uint64_t now_ms)
{
    const struct membership_events *on = m->events;
    if (todo->lost) {
        set_joined(m, NULL);
        if (on->lost != NULL) {
            on->lost(m->ctx, &m->last);
        }
    }
    if (todo->well && on->trouble != NULL) {
        on->trouble(m->ctx, NULL, now_ms - m->core.failing_ms);
    }
    if (todo->joined) {
        assert(answer != NULL && answer->reply != NULL); /* only an answer makes a node join */
        const Gradus__V1__JoinResponse *r = (const Gradus__V1__JoinResponse *)answer->reply->body;
        set_joined(m, r->id);
        m->name_taken = false;
        if (on->joined != NULL) {
            on->joined(m->ctx, &m->node);
        }
        tell_unready(m, r->unready);
    }
    if (todo->trouble && on->trouble != NULL) {
        (void)tls_explain(m->credentials, rpc_channel_target(m->channel), &m->last);
        on->trouble(m->ctx, &m->last, now_ms - m->core.failing_ms);
    }
}

static void step(struct membership *m, struct membership_event *e, struct answer *answer)
{
    struct membership_actions todo;
    e->now_ms = chrono_now_ms();
    if (answer != NULL) {
        read_answer(m, e, answer);
    }
    membership_step(&m->core, e, &todo);
    tell(m, &todo, answer, e->now_ms);
    if (answer != NULL) {
        heard_back(m, answer);
    }
    switch (todo.call) {
    case MEMBERSHIP_NO_CALL:
        break;
    case MEMBERSHIP_JOIN:
        call_join(m);
        break;
    case MEMBERSHIP_HEARTBEAT:
        call_heartbeat(m);
        break;
    case MEMBERSHIP_LEAVE:
        call_leave(m);
        break;
    }
    if (todo.timer_ms != 0) {
        loop_timer_set(m->loop, &m->timer, todo.timer_ms, run_timer, m);
    }
    if (todo.left) {
        loop_timer_clear(m->loop, &m->timer);
        pthread_mutex_lock(&m->lock);
        m->joined = false;
        m->left = true;
        pthread_cond_broadcast(&m->changed);
        pthread_mutex_unlock(&m->lock);
    }
}

/* ---- life ---- */

static void free_memory(struct membership *m)
{
    rpc_channel_free(m->channel);
    loop_free(m->loop);
    pthread_cond_destroy(&m->changed);
    pthread_mutex_destroy(&m->lock);
    free(m->name);
    free(m->address);
    free(m->http_address);
    free(m);
}

static void init_sync(struct membership *m)
{
    pthread_mutex_init(&m->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&m->changed, &attr);
    pthread_condattr_destroy(&attr);
}

static uint64_t draw_incarnation(void)
{
    uint64_t n = 0;
    while (n == 0 && getrandom(&n, sizeof n, 0) != (ssize_t)sizeof n) {
        n = (uint64_t)chrono_wall_ms() << 20 ^ (uint64_t)getpid();
    }
    return n;
}

struct membership *membership_start(const struct membership_options *o, struct err *err)
{
    struct rpc_channel_options channel = {.target = o->master, .retries = true};
    if (o->master == NULL || o->master[0] == 0) {
        (void)err_set(err, ERR_INVALID, "master: no address");
        return NULL;
    }
    struct membership *m = mem_new(1, sizeof *m);
    init_sync(m);
    log_tail_begin();
    m->role = o->role;
    m->name = mem_strdup(o->name == NULL ? "" : o->name);
    m->address = mem_strdup(o->address);
    m->http_address = mem_strdup(o->http_address == NULL ? "" : o->http_address);
    m->events = o->events;
    m->ctx = o->ctx;
    m->credentials = channel.credentials = o->credentials;
    m->node.incarnation = draw_incarnation();
    m->core.seed = m->node.incarnation;
    (void)gethostname(m->host, sizeof m->host - 1);
    m->loop = loop_new(0);
    m->channel = rpc_channel_new(&channel, err);
    if (m->channel == NULL) {
        (void)err_wrap(err, "master %s", o->master);
        free_memory(m);
        return NULL;
    }
    loop_timer_set(m->loop, &m->timer, 0, run_timer, m);
    if (o->pulse != NULL) {
        pulse_begin(o->pulse, "membership", m->loop);
    }
    if (loop_start(m->loop, "membership", err) != 0) {
        free_memory(m);
        return NULL;
    }
    return m;
}

bool membership_node(struct membership *m, struct membership_node *out)
{
    pthread_mutex_lock(&m->lock);
    bool joined = m->joined;
    *out = m->node;
    pthread_mutex_unlock(&m->lock);
    out->id[0] = joined ? out->id[0] : '\0';
    return joined;
}

struct rpc_channel *membership_channel(struct membership *m)
{
    return m->channel;
}

static void run_hurry(void *ctx)
{
    struct membership *m = ctx;
    if (!loop_discarding(m->loop)) {
        struct membership_event e = {.kind = MEMBERSHIP_ON_HURRY};
        step(m, &e, NULL);
    }
}

void membership_hurry(struct membership *m)
{
    (void)loop_post(m->loop, run_hurry, m, NULL); /* or the next heartbeat does */
}

static void run_leave(void *ctx)
{
    struct membership *m = ctx;
    if (!loop_discarding(m->loop)) {
        struct membership_event e = {.kind = MEMBERSHIP_ON_LEAVE};
        step(m, &e, NULL);
    }
}

static void wait_left(struct membership *m, unsigned timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&m->lock);
    while (!m->left && pthread_cond_timedwait(&m->changed, &m->lock, &until) != ETIMEDOUT) {
        /* woken for nothing: wait again */
    }
    pthread_mutex_unlock(&m->lock);
}

void membership_leave(struct membership *m, unsigned timeout_ms)
{
    pthread_mutex_lock(&m->lock);
    bool first = !m->leaving;
    m->leaving = true;
    pthread_mutex_unlock(&m->lock);
    if (first && loop_post(m->loop, run_leave, m, NULL) == 0) {
        wait_left(m, timeout_ms);
    }
    loop_stop(m->loop);
    loop_join(m->loop);
}

void membership_free(struct membership *m)
{
    if (m == NULL) {
        return;
    }
    loop_stop(m->loop);
    loop_join(m->loop);
    free_memory(m);
}
