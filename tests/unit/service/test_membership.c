/* SPDX-License-Identifier: Apache-2.0 */
/* A node against a master of a few lines, over real gRPC. */
#include "support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "gradus/v1/cluster.pb-c.h"
#include "rpc/rpc.h"
#include "service/departure.h"
#include "service/membership.h"
#include "support/held_port.h"
#include "support/wait_until.h"

extern const unsigned char gradus_descriptors[];
extern const unsigned char gradus_descriptors_end[];

/* What happened so far, on both sides; waited for, never slept for. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned joins, heartbeats, leaves, joined, lost, stopped, closed, troubles, ready, unready;
    uint64_t incarnation;
    char jobs[64];
    char works[64];
    char trouble[256];
    bool forget; /* the next heartbeat gets NOT_FOUND */
    bool hold;   /* the next one is answered when the node leaves */
    unsigned holds;
    unsigned moves; /* so many heartbeats of one that leaves hear that something moves */
    struct rpc_call *held;
} seen = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void count(unsigned *n)
{
    pthread_mutex_lock(&seen.lock);
    (*n)++;
    pthread_cond_broadcast(&seen.changed);
    pthread_mutex_unlock(&seen.lock);
}

static void wait_for(const unsigned *n, unsigned least)
{
    pthread_mutex_lock(&seen.lock);
    wait_until_signalled(*n >= least, &seen.changed, &seen.lock);
    pthread_mutex_unlock(&seen.lock);
}

static unsigned value(const unsigned *n)
{
    pthread_mutex_lock(&seen.lock);
    unsigned v = *n;
    pthread_mutex_unlock(&seen.lock);
    return v;
}

/* ---- the master ---- */

static void on_join(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    const Gradus__V1__JoinRequest *r = (const Gradus__V1__JoinRequest *)msg->body;
    char id[] = "ps-1";
    Gradus__V1__JoinResponse reply = GRADUS__V1__JOIN_RESPONSE__INIT;
    char unready[] = "a backup joins";
    reply.id = id;
    reply.unready = unready;
    reply.heartbeat_interval_ms = 1;
    reply.heartbeat_timeout_ms = 60000;
    assert_int_equal(r->role, GRADUS__V1__NODE_ROLE__PS);
    assert_string_equal(r->address, "127.0.0.1:7");
    assert_string_equal(r->version, GRADUS_VERSION);
    pthread_mutex_lock(&seen.lock);
    seen.incarnation = r->incarnation;
    pthread_mutex_unlock(&seen.lock);
    (void)rpc_reply(call, &reply.base, NULL);
    count(&seen.joins);
}

static void answer_heartbeat(struct rpc_call *call, bool leaves)
{
    char job[] = "job-9";
    char *jobs[] = {job};
    Gradus__V1__HeartbeatResponse reply = GRADUS__V1__HEARTBEAT_RESPONSE__INIT;
    reply.stop_jobs = jobs;
    reply.n_stop_jobs = 1;
    uint64_t opening = 99;
    reply.stop_openings = &opening;
    reply.n_stop_openings = 1;
    pthread_mutex_lock(&seen.lock);
    reply.moves = leaves && seen.moves > 0;
    seen.moves -= reply.moves ? 1 : 0;
    pthread_mutex_unlock(&seen.lock);
    (void)rpc_reply(call, &reply.base, NULL);
}

static void on_heartbeat(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    const Gradus__V1__HeartbeatRequest *r = (const Gradus__V1__HeartbeatRequest *)msg->body;
    pthread_mutex_lock(&seen.lock);
    bool forget = seen.forget;
    uint64_t incarnation = seen.incarnation;
    seen.forget = false;
    bool hold = seen.hold;
    seen.hold = false;
    if (hold) {
        seen.held = rpc_call_ref(call);
    }
    if (r->n_jobs == 3) {
        const Gradus__V1__Standby *s = r->jobs[1]->standby;
        snprintf(seen.jobs, sizeof seen.jobs, "%s/%d/%d", r->jobs[0]->job,
                 (int)r->jobs[0]->generation, (int)r->jobs[0]->opening);
        assert_true(r->jobs[0]->standby == NULL && r->jobs[2]->standby == NULL);
        assert_true(r->jobs[1]->opening == 9 && r->jobs[1]->shard == 2 && s != NULL);
        assert_true(s->role == GRADUS__V1__STANDBY__ROLE__BACKUP && s->records == 3 &&
                    s->received == 4 && s->waits_ms == 5);
        assert_string_equal(s->problem, "no memory");
        assert_true(r->jobs[2]->opening == 10 && r->jobs[2]->shard == 3);
    }
    if (r->n_works == 1) {
        const Gradus__V1__Work *w = r->works[0];
        snprintf(seen.works, sizeof seen.works, "%s %s %d/%d %s %d", w->job, w->what, (int)w->done,
                 (int)w->total, w->unit, (int)w->age_ms);
    }
    pthread_mutex_unlock(&seen.lock);
    if (hold) {
        count(&seen.holds);
        return;
    }
    if (forget || strcmp(r->node->id, "ps-1") != 0 || r->node->incarnation != incarnation) {
        struct err err;
        (void)err_set(&err, ERR_NOT_FOUND, "no such node");
        (void)rpc_fail(call, &err);
    } else {
        answer_heartbeat(call, r->leaves != 0);
    }
    count(&seen.heartbeats);
}

static void on_leave(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    (void)msg;
    Gradus__V1__LeaveResponse reply = GRADUS__V1__LEAVE_RESPONSE__INIT;
    pthread_mutex_lock(&seen.lock);
    struct rpc_call *held = seen.held;
    seen.held = NULL;
    pthread_mutex_unlock(&seen.lock);
    if (held != NULL) {
        answer_heartbeat(held, false);
        rpc_call_unref(held);
    }
    (void)rpc_reply(call, &reply.base, NULL);
    count(&seen.leaves);
}

static void unused(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)msg;
    (void)service;
    struct err err;
    (void)err_set(&err, ERR_UNSUPPORTED, "not here");
    (void)rpc_fail(call, &err);
}

static const struct rpc_method METHODS[] = {
    {.name = "Join", .request = on_join},         {.name = "Heartbeat", .request = on_heartbeat},
    {.name = "Leave", .request = on_leave},       {.name = "LeaseSplit", .request = unused},
    {.name = "ReportSplit", .request = unused},   {.name = "ReportProgress", .request = unused},
    {.name = "ReportFailure", .request = unused},
};

static struct rpc_server *start_master(const char *address)
{
    const char *addresses[] = {address};
    struct rpc_server_options options = {.addresses = addresses,
                                         .address_count = 1,
                                         .grace_ms = 100,
                                         .descriptors = gradus_descriptors,
                                         .descriptors_bytes =
                                             (size_t)(gradus_descriptors_end - gradus_descriptors)};
    struct err err;
    struct rpc_server *s = rpc_server_new(&options, &err);
    assert_non_null(s);
    assert_int_equal(rpc_server_add(s, &gradus__v1__cluster__descriptor, METHODS,
                                    sizeof METHODS / sizeof METHODS[0], NULL, &err),
                     0);
    assert_int_equal(rpc_server_start(s, &err), 0);
    return s;
}

/* ---- the node ---- */

static void joined(void *ctx, const struct membership_node *node)
{
    (void)ctx;
    assert_string_equal(node->id, "ps-1");
    count(&seen.joined);
}

static void lost(void *ctx, const struct err *reason)
{
    (void)ctx;
    assert_int_equal(reason->code, ERR_NOT_FOUND);
    count(&seen.lost);
}

static void stop_job(void *ctx, const char *job)
{
    (void)ctx;
    assert_string_equal(job, "job-9");
    count(&seen.stopped);
}

static void stop_opening(void *ctx, uint64_t opening)
{
    (void)ctx;
    assert_int_equal(opening, 99);
    count(&seen.closed);
}

/* The answer to Join says why not, those to heartbeats that nothing is in the way. */
static void unready(void *ctx, const char *why)
{
    (void)ctx;
    if (why != NULL) {
        assert_string_equal(why, "a backup joins");
    }
    count(why != NULL ? &seen.unready : &seen.ready);
}

static void jobs(void *ctx, struct membership_jobs *list)
{
    (void)ctx;
    membership_jobs_add(list, "job-3", 7, 8);
    const struct membership_shard backup = {.opening = 9,
                                            .number = 2,
                                            .role = GRADUS__V1__STANDBY__ROLE__BACKUP,
                                            .records = 3,
                                            .received = 4,
                                            .waits_ms = 5,
                                            .problem = "no memory"};
    membership_jobs_add_shard(list, "job-3", &backup);
    const struct membership_shard alone = {.opening = 10, .number = 3};
    membership_jobs_add_shard(list, "job-3", &alone);
}

static void works(void *ctx, struct membership_works *list)
{
    (void)ctx;
    membership_works_add(list, &(struct membership_work){"job-3", "Pin", "bytes", 2, 5, 700});
}

static void trouble(void *ctx, const struct err *err, uint64_t tried_ms)
{
    (void)ctx;
    (void)tried_ms;
    if (err != NULL) {
        pthread_mutex_lock(&seen.lock);
        text_copy(seen.trouble, sizeof seen.trouble, err->msg);
        pthread_mutex_unlock(&seen.lock);
        count(&seen.troubles);
    }
}

static const struct membership_events EVENTS = {joined, lost,  stop_job, stop_opening, unready,
                                                jobs,   works, trouble,  NULL,         NULL};

static struct membership *start_node(const char *master)
{
    struct membership_options options = {
        .role = MEMBERSHIP_PS, .master = master, .address = "127.0.0.1:7", .events = &EVENTS};
    struct err err;
    struct membership *m = membership_start(&options, &err);
    assert_non_null(m);
    return m;
}

static void test_life_of_a_node(void **state)
{
    (void)state;
    struct rpc_server *master = start_master("127.0.0.1:0");
    struct membership *m = start_node(rpc_server_address(master, 0));
    wait_for(&seen.joined, 1);
    wait_for(&seen.stopped, 2);
    wait_for(&seen.ready, 2);
    assert_int_equal(value(&seen.unready), 1);
    wait_for(&seen.closed, 2);
    struct membership_node node;
    assert_true(membership_node(m, &node));
    assert_string_equal(node.id, "ps-1");

    pthread_mutex_lock(&seen.lock);
    assert_int_equal(node.incarnation, seen.incarnation);
    assert_string_equal(seen.jobs, "job-3/7/8");
    assert_string_equal(seen.works, "job-3 Pin 2/5 bytes 700");
    seen.forget = true;
    pthread_mutex_unlock(&seen.lock);
    wait_for(&seen.lost, 1);
    wait_for(&seen.joined, 2);
    membership_hurry(m);
    wait_for(&seen.heartbeats, value(&seen.heartbeats) + 2);
    membership_leave(m, 60000);
    wait_for(&seen.leaves, 1);
    assert_int_equal(value(&seen.lost), 1);
    membership_leave(m, 60000);
    assert_false(membership_node(m, &node));
    membership_free(m);
    rpc_server_free(master);
}

static bool leaves(void *ctx)
{
    return departure_has_begun(ctx);
}

static void moves(void *ctx, int code, bool more)
{
    departure_heard(ctx, code, more);
}

static struct membership *start_leaver(const char *master, struct departure *d)
{
    static const struct membership_events on = {.joined = joined, .leaves = leaves, .moves = moves};
    struct membership_options options = {
        .role = MEMBERSHIP_PS, .master = master, .address = "127.0.0.1:7", .events = &on, .ctx = d};
    struct err err;
    const unsigned before = value(&seen.joined);
    struct membership *m = membership_start(&options, &err);
    assert_non_null(m);
    wait_for(&seen.joined, before + 1);
    return m;
}

static void test_waits_while_something_moves(void **state)
{
    (void)state;
    struct rpc_server *master = start_master("127.0.0.1:0");
    struct departure d;
    departure_init(&d);
    struct membership *m = start_leaver(rpc_server_address(master, 0), &d);
    pthread_mutex_lock(&seen.lock);
    seen.moves = 5;
    pthread_mutex_unlock(&seen.lock);
    assert_true(departure_wait(&d, m, 600000));
    pthread_mutex_lock(&seen.lock);
    assert_int_equal(seen.moves, 0);
    seen.moves = 1000000000;
    pthread_mutex_unlock(&seen.lock);
    d.over = false;
    assert_false(departure_wait(&d, m, 20)); /* its time is over */
    d.answered_ms = 0;
    departure_heard(&d, ERR_TIMEOUT, false); /* it is slow */
    assert_false(d.over);
    departure_heard(&d, ERR_UNAVAILABLE, false);
    assert_true(d.over);
    membership_leave(m, 60000);
    membership_free(m);
    departure_release(&d);
    rpc_server_free(master);
}

/* With the master there is nobody who could move anything. */
static void test_does_not_wait_without_a_master(void **state)
{
    (void)state;
    struct rpc_server *master = start_master("127.0.0.1:0");
    struct departure d;
    departure_init(&d);
    struct membership *m = start_leaver(rpc_server_address(master, 0), &d);
    rpc_server_free(master);
    assert_true(departure_wait(&d, m, 600000));
    membership_free(m);
    departure_release(&d);
}

/* Who has begun to leave hears no more of what the master wants of it. */
static void test_an_answer_that_comes_after_leaving(void **state)
{
    (void)state;
    struct rpc_server *master = start_master("127.0.0.1:0");
    unsigned before = value(&seen.joined);
    struct membership *m = start_node(rpc_server_address(master, 0));
    wait_for(&seen.joined, before + 1);
    pthread_mutex_lock(&seen.lock);
    seen.hold = true;
    pthread_mutex_unlock(&seen.lock);
    wait_for(&seen.holds, 1);
    unsigned stopped = value(&seen.stopped), joins = value(&seen.joins);
    membership_leave(m, 60000);
    membership_free(m);
    assert_int_equal(value(&seen.stopped), stopped);
    assert_int_equal(value(&seen.joins), joins);
    rpc_server_free(master);
}

static void test_a_master_that_comes_later(void **state)
{
    (void)state;
    struct held_port port;
    held_port_take(&port);
    unsigned before = value(&seen.joined);
    struct membership *m = start_node(port.address);
    wait_for(&seen.troubles, 1);
    pthread_mutex_lock(&seen.lock);
    assert_non_null(strstr(seen.trouble, port.address));
    pthread_mutex_unlock(&seen.lock);
    struct rpc_server *master = start_master(port.address);
    wait_for(&seen.joined, before + 1);
    membership_free(m); /* without a word */
    rpc_server_free(master);
    held_port_release(&port);
}

static void test_needs_an_address(void **state)
{
    (void)state;
    struct err err;
    struct membership_options options = {
        .role = MEMBERSHIP_PS, .address = "x:1", .events = &EVENTS};
    assert_null(membership_start(&options, &err));
    assert_int_equal(err.code, ERR_INVALID);
}

static int setup(void **state)
{
    (void)state;
    rpc_init();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rpc_shutdown();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_life_of_a_node),
        cmocka_unit_test(test_an_answer_that_comes_after_leaving),
        cmocka_unit_test(test_waits_while_something_moves),
        cmocka_unit_test(test_does_not_wait_without_a_master),
        cmocka_unit_test(test_a_master_that_comes_later),
        cmocka_unit_test(test_needs_an_address),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
