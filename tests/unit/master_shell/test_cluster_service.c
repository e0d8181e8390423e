/* SPDX-License-Identifier: Apache-2.0 */
/* What nodes tell the master: each field of their requests in the event that the core gets, and
 * each field of the core's reply in their answer. Over real gRPC, with a core that is told what to
 * say. */
#include "support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "gradus/v1/cluster.pb-c.h"
#include "gradus/v1/jobs.pb-c.h"
#include "master/shell/shell.h"
#include "support/wait_until.h"

static struct shell shell;
static const struct master_settings settings = {.heartbeat_timeout_ms = 3000};
static struct rpc_server *server;
static struct rpc_channel *channel;

/* What the core does with the next event: look at it, and answer. */
static void (*look)(const struct master_event *e);
static struct master_reply answer;
static bool parks; /* no answer yet */
static size_t events;

void shell_event(struct shell *s, struct master_event *e)
{
    assert_ptr_equal(s, &shell);
    events++;
    look(e);
    if (!parks) {
        struct master_reply reply = answer;
        reply.request = e->request;
        assert_int_equal(s->waiting_count, 1);
        request_answered(s, &reply);
        assert_int_equal(s->waiting_count, 0);
    }
}

static int set_up(void **state)
{
    (void)state;
    struct err err;
    const char *addresses[] = {"127.0.0.1:0"};
    const struct rpc_server_options options = {
        .addresses = addresses, .address_count = 1, .grace_ms = 200};
    rpc_init();
    shell.settings = &settings;
    shell.loop = loop_new(64);
    server = rpc_server_new(&options, &err);
    assert_non_null(server);
    assert_int_equal(rpc_server_add(server, &gradus__v1__cluster__descriptor, cluster_methods,
                                    cluster_method_count, &shell, &err),
                     0);
    assert_int_equal(rpc_server_start(server, &err), 0);
    assert_int_equal(loop_start(shell.loop, "test", &err), 0);
    const struct rpc_channel_options to = {.target = rpc_server_address(server, 0)};
    channel = rpc_channel_new(&to, &err);
    assert_non_null(channel);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rpc_channel_free(channel);
    rpc_server_free(server);
    loop_stop(shell.loop);
    loop_join(shell.loop);
    loop_free(shell.loop);
    rpc_shutdown();
    return 0;
}

static struct err failure;

/* The answer; NULL with `failure`. */
static struct rpc_msg *call(const char *method, const ProtobufCMessage *body)
{
    const struct rpc_request request = {.service = &gradus__v1__cluster__descriptor,
                                        .method = method,
                                        .body = body,
                                        .timeout_ms = 60000,
                                        .wait_for_ready = true};
    struct rpc_msg *reply = NULL;
    failure = (struct err){0};
    (void)rpc_call_blocking(channel, &request, &reply, &failure);
    return reply;
}

static const void *well(const char *method, const ProtobufCMessage *body, struct rpc_msg **reply)
{
    *reply = call(method, body);
    if (*reply == NULL) {
        fail_msg("%s: %s", method, failure.msg);
    }
    return (*reply)->body;
}

static void refused(const char *method, const ProtobufCMessage *body, int code, const char *says)
{
    assert_null(call(method, body));
    assert_int_equal(failure.code, code);
    if (strstr(failure.msg, says) == NULL) {
        fail_msg("'%s' does not say '%s'", failure.msg, says);
    }
}

static char ID[] = "worker-1", JOB[] = "demo-1", OTHER[] = "demo-2";
static Gradus__V1__NodeRef node = {PROTOBUF_C_MESSAGE_INIT(&gradus__v1__node_ref__descriptor), ID,
                                   11};

static void check_node(const struct master_worker_event *e)
{
    assert_string_equal(e->node, "worker-1");
    assert_int_equal(e->incarnation, 11);
    assert_string_equal(e->job, "demo-1");
    assert_int_equal(e->generation, 12);
}

/* ---- Join, Heartbeat, Leave ---- */

static void look_join(const struct master_event *e)
{
    assert_int_equal(e->kind, MASTER_JOIN);
    assert_int_equal(e->join.role, MASTER_WORKER);
    assert_int_equal(e->join.incarnation, 21);
    assert_string_equal(e->join.name, "the name");
    assert_string_equal(e->join.address, "a:1");
    assert_string_equal(e->join.http_address, "b:2");
    assert_string_equal(e->join.version, "9.8");
    assert_string_equal(e->join.host, "h");
    assert_int_equal(e->join.pid, 22);
}

static void nodes_join(void **state)
{
    (void)state;
    char name[] = "the name", address[] = "a:1", http[] = "b:2", version[] = "9.8", host[] = "h";
    Gradus__V1__JoinRequest q = GRADUS__V1__JOIN_REQUEST__INIT;
    q.role = GRADUS__V1__NODE_ROLE__WORKER;
    q.incarnation = 21;
    q.name = name;
    q.address = address;
    q.http_address = http;
    q.version = version;
    q.host = host;
    q.pid = 22;
    look = look_join;
    answer = (struct master_reply){.node = "worker-7"};
    struct rpc_msg *reply;
    const Gradus__V1__JoinResponse *r = well("Join", &q.base, &reply);
    assert_string_equal(r->id, "worker-7");
    assert_int_equal(r->heartbeat_timeout_ms, 3000);
    assert_int_equal(r->heartbeat_interval_ms, 600);
    rpc_msg_unref(reply);
    answer.err = (struct err){ERR_EXHAUSTED, "no place"};
    refused("Join", &q.base, ERR_EXHAUSTED, "no place");
}

static void look_heartbeat(const struct master_event *e)
{
    assert_int_equal(e->kind, MASTER_HEARTBEAT);
    assert_string_equal(e->node.node, "worker-1");
    assert_int_equal(e->node.incarnation, 11);
    assert_int_equal(e->node.job_count, 2);
    assert_string_equal(e->node.jobs[0], "demo-1");
    assert_string_equal(e->node.jobs[1], "demo-2");
    assert_int_equal(e->node.generations[0], 31);
    assert_int_equal(e->node.generations[1], 32);
    assert_int_equal(e->node.openings[0], 41);
    assert_int_equal(e->node.openings[1], 42);
    assert_int_equal(e->node.standbys[0].waits_ms, 0);
    assert_null(e->node.standbys[0].problem);
    assert_int_equal(e->node.standbys[1].waits_ms, 51);
    assert_int_equal(e->node.standbys[0].behind, 0);
    assert_int_equal(e->node.standbys[1].behind, 4);
    assert_string_equal(e->node.standbys[1].problem, "no memory");
    assert_int_equal(e->node.standbys[1].backup, 52);
    assert_true(e->node.standbys[1].follows && !e->node.standbys[0].follows);
    assert_int_equal(e->node.standbys[1].state_sent, 53);
    assert_int_equal(e->node.standbys[1].state_bytes, 54);
    assert_int_equal(e->node.work_count, MASTER_WORKS_MAX); /* of more */
    const struct master_work *w = &e->node.works[MASTER_WORKS_MAX - 1];
    assert_string_equal(w->job, "demo-2");
    assert_string_equal(w->what, "Pin");
    assert_string_equal(w->unit, "bytes");
    assert_int_equal(w->done, 33);
    assert_int_equal(w->total, 34);
    assert_int_equal(w->age_ms, 35);
}

static void heartbeats_say_what_is_held_and_done(void **state)
{
    (void)state;
    char what[] = "Pin", unit[] = "bytes";
    Gradus__V1__HeldJob held[2];
    Gradus__V1__HeldJob *jobs[2] = {&held[0], &held[1]};
    Gradus__V1__Work work = GRADUS__V1__WORK__INIT, *works[MASTER_WORKS_MAX + 2];
    Gradus__V1__HeartbeatRequest q = GRADUS__V1__HEARTBEAT_REQUEST__INIT;
    for (size_t i = 0; i < 2; i++) {
        gradus__v1__held_job__init(&held[i]);
        held[i].job = i == 0 ? JOB : OTHER;
        held[i].generation = 31 + i;
        held[i].opening = 41 + i;
    }
    for (size_t i = 0; i < MASTER_WORKS_MAX + 2; i++) {
        works[i] = &work;
    }
    char problem[] = "no memory";
    Gradus__V1__Standby standby = GRADUS__V1__STANDBY__INIT;
    standby.waits_ms = 51;
    standby.role = GRADUS__V1__STANDBY__ROLE__PRIMARY;
    standby.records = 90;
    standby.received = 86;
    standby.problem = problem;
    standby.backup = 52;
    standby.follows = 1;
    standby.state_sent = 53;
    standby.state_bytes = 54;
    held[1].standby = &standby;
    work.job = OTHER;
    work.what = what;
    work.unit = unit;
    work.done = 33;
    work.total = 34;
    work.age_ms = 35;
    q.node = &node;
    q.jobs = jobs;
    q.n_jobs = 2;
    q.works = works;
    q.n_works = MASTER_WORKS_MAX + 2;
    const char *const stop[] = {"old-1", "old-2"};
    look = look_heartbeat;
    const uint64_t openings[] = {4, UINT64_MAX};
    answer = (struct master_reply){
        .stop_jobs = stop, .stop_job_count = 2, .stop_openings = openings, .stop_opening_count = 2};
    struct rpc_msg *reply;
    const Gradus__V1__HeartbeatResponse *r = well("Heartbeat", &q.base, &reply);
    assert_int_equal(r->n_stop_jobs, 2);
    assert_string_equal(r->stop_jobs[0], "old-1");
    assert_string_equal(r->stop_jobs[1], "old-2");
    assert_int_equal(r->n_stop_openings, 2);
    assert_true(r->stop_openings[0] == 4 && r->stop_openings[1] == UINT64_MAX);
    rpc_msg_unref(reply);
}

static void look_leave(const struct master_event *e)
{
    assert_int_equal(e->kind, MASTER_LEAVE);
    assert_string_equal(e->node.node, "worker-1");
    assert_int_equal(e->node.incarnation, 11);
}

static void nodes_leave(void **state)
{
    (void)state;
    Gradus__V1__LeaveRequest q = GRADUS__V1__LEAVE_REQUEST__INIT;
    q.node = &node;
    look = look_leave;
    answer = (struct master_reply){0};
    struct rpc_msg *reply;
    (void)well("Leave", &q.base, &reply);
    rpc_msg_unref(reply);
}

/* ---- LeaseSplit, ReportSplit ---- */

static size_t held_count;
static bool waits;

static void look_lease(const struct master_event *e)
{
    assert_int_equal(e->kind, MASTER_LEASE_SPLIT);
    check_node(&e->worker);
    assert_int_equal(e->worker.held_count, held_count);
    for (size_t i = 0; i < held_count; i++) {
        const struct lease *l = &e->worker.held[i];
        assert_int_equal(l->epoch, 41);
        assert_int_equal(l->split, i);
        assert_int_equal(l->batch_end, 43);
        assert_int_equal(l->fresh, i % 2 == 0);
    }
    if (waits) { /* the deadline of 60 s, which gRPC rounds up, less what the way back takes */
        assert_true(e->worker.wait_ms > 30000 && e->worker.wait_ms <= 59900);
    }
}

static void splits_are_leased(void **state)
{
    (void)state;
    enum { HELD = 65 };
    Gradus__V1__Lease items[HELD], *held[HELD];
    Gradus__V1__LeaseSplitRequest q = GRADUS__V1__LEASE_SPLIT_REQUEST__INIT;
    for (size_t i = 0; i < HELD; i++) {
        gradus__v1__lease__init(&items[i]);
        items[i].epoch = 41;
        items[i].split = (uint32_t)i;
        items[i].batch_end = 43;
        items[i].fresh = i % 2 == 0;
        held[i] = &items[i];
    }
    q.node = &node;
    q.job = JOB;
    q.generation = 12;
    q.held = held;
    look = look_lease;
    waits = true;
    struct rpc_msg *reply;
    for (size_t n = 0; n < HELD; n += 32) { /* none, some, as many as may be */
        q.n_held = held_count = n;
        answer =
            (struct master_reply){.lease_kind = MASTER_LEASE_GRANTED, .lease = {51, 52, 53, n > 0}};
        const Gradus__V1__LeaseSplitResponse *r = well("LeaseSplit", &q.base, &reply);
        assert_int_equal(r->kind, GRADUS__V1__LEASE_SPLIT_RESPONSE__KIND__LEASE);
        assert_int_equal(r->lease->epoch, 51);
        assert_int_equal(r->lease->split, 52);
        assert_int_equal(r->lease->batch_end, 53);
        assert_int_equal(r->lease->fresh != 0, n > 0);
        rpc_msg_unref(reply);
    }
    static const struct {
        enum master_lease_kind kind;
        Gradus__V1__LeaseSplitResponse__Kind said;
    } KINDS[] = {{MASTER_LEASE_WAIT, GRADUS__V1__LEASE_SPLIT_RESPONSE__KIND__WAIT},
                 {MASTER_LEASE_DONE, GRADUS__V1__LEASE_SPLIT_RESPONSE__KIND__DONE}};
    for (size_t i = 0; i < 2; i++) {
        answer.lease_kind = KINDS[i].kind;
        const Gradus__V1__LeaseSplitResponse *r = well("LeaseSplit", &q.base, &reply);
        assert_int_equal(r->kind, KINDS[i].said);
        assert_null(r->lease);
        rpc_msg_unref(reply);
    }
    q.n_held = HELD; /* one too many */
    size_t before = events;
    refused("LeaseSplit", &q.base, ERR_INVALID, "65 leases held; at most 64");
    assert_int_equal(events, before);
}

static void look_split(const struct master_event *e)
{
    assert_int_equal(e->kind, MASTER_REPORT_SPLIT);
    check_node(&e->worker);
    assert_int_equal(e->worker.epoch, 61);
    assert_int_equal(e->worker.split, 62);
    assert_int_equal(e->worker.batch_end, 63);
}

static void splits_are_reported(void **state)
{
    (void)state;
    Gradus__V1__ReportSplitRequest q = GRADUS__V1__REPORT_SPLIT_REQUEST__INIT;
    q.node = &node;
    q.job = JOB;
    q.generation = 12;
    q.epoch = 61;
    q.split = 62;
    q.batch_end = 63;
    look = look_split;
    answer = (struct master_reply){0};
    struct rpc_msg *reply;
    (void)well("ReportSplit", &q.base, &reply);
    rpc_msg_unref(reply);
    q.batch_end = 0;
    size_t before = events;
    refused("ReportSplit", &q.base, ERR_INVALID, "batch_end is missing");
    assert_int_equal(events, before);
}

/* ---- ReportProgress, ReportFailure ---- */

static bool is_idle;

static void look_progress(const struct master_event *e)
{
    const struct master_worker_event *w = &e->worker;
    assert_int_equal(e->kind, MASTER_REPORT_PROGRESS);
    check_node(w);
    assert_int_equal(w->sequence, 71);
    assert_int_equal(w->position, 72);
    assert_int_equal(w->dropped, 73);
    assert_int_equal(w->speculated, 74);
    assert_int_equal(w->idle, is_idle);
    assert_int_equal(w->epoch_count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(w->epochs[i].epoch, 75 + i);
        assert_int_equal(w->epochs[i].batches, 77);
        assert_int_equal(w->epochs[i].examples, 78);
    }
    assert_int_equal(w->epochs[0].sum_count, 2);
    assert_true(w->epochs[0].sums[1] == 2.5);
    assert_int_equal(w->epochs[1].sum_count, 0);
    assert_int_equal(w->staleness_count, 3);
    assert_int_equal(w->staleness[2], 83);
    assert_int_equal(w->times.steps, 84);
    assert_int_equal(w->times.ns[STEP_COMPUTE], 85000);
}

static void progress_is_reported(void **state)
{
    (void)state;
    double sums[] = {1.5, 2.5};
    uint64_t staleness[] = {81, 82, 83};
    Gradus__V1__MetricSums metric = GRADUS__V1__METRIC_SUMS__INIT;
    Gradus__V1__StepTimes times = GRADUS__V1__STEP_TIMES__INIT;
    Gradus__V1__EpochProgress epochs[2], *list[2] = {&epochs[0], &epochs[1]};
    Gradus__V1__ReportProgressRequest q = GRADUS__V1__REPORT_PROGRESS_REQUEST__INIT;
    metric.values = sums;
    metric.n_values = 2;
    for (size_t i = 0; i < 2; i++) {
        gradus__v1__epoch_progress__init(&epochs[i]);
        epochs[i].epoch = 75 + i;
        epochs[i].batches = 77;
        epochs[i].examples = 78;
        epochs[i].sums = i == 0 ? &metric : NULL;
    }
    times.steps = 84;
    times.compute_us = 85;
    q.node = &node;
    q.job = JOB;
    q.generation = 12;
    q.sequence = 71;
    q.position = 72;
    q.dropped = 73;
    q.speculated = 74;
    q.epochs = list;
    q.n_epochs = 2;
    q.staleness = staleness;
    q.n_staleness = 3;
    q.times = &times;
    look = look_progress;
    answer = (struct master_reply){0};
    struct rpc_msg *reply;
    for (int idle = 0; idle < 2; idle++) {
        q.idle = idle;
        is_idle = idle != 0;
        (void)well("ReportProgress", &q.base, &reply);
        rpc_msg_unref(reply);
    }
}

static int reported;

static void look_failure(const struct master_event *e)
{
    assert_int_equal(e->kind, MASTER_REPORT_FAILURE);
    check_node(&e->worker);
    assert_int_equal(e->worker.code, reported);
    assert_string_equal(e->worker.message, "too hot");
}

static void failures_are_reported(void **state)
{
    (void)state;
    static const struct {
        int32_t said;
        int heard;
    } CODES[] = {{1, ERR_CANCELLED}, {-ERR_CORRUPT, ERR_CORRUPT}, {16, ERR_UNAUTHENTICATED},
                 {0, ERR_UNKNOWN},   {17, ERR_UNKNOWN},           {-3, ERR_UNKNOWN}};
    char message[] = "too hot";
    Gradus__V1__ReportFailureRequest q = GRADUS__V1__REPORT_FAILURE_REQUEST__INIT;
    q.node = &node;
    q.job = JOB;
    q.generation = 12;
    q.message = message;
    look = look_failure;
    answer = (struct master_reply){0};
    for (size_t i = 0; i < sizeof CODES / sizeof *CODES; i++) {
        struct rpc_msg *reply;
        q.code = CODES[i].said;
        reported = CODES[i].heard;
        (void)well("ReportFailure", &q.base, &reply);
        rpc_msg_unref(reply);
    }
}

/* ---- what is wrong ---- */

static void a_node_must_be_named(void **state)
{
    (void)state;
    Gradus__V1__HeartbeatRequest heartbeat = GRADUS__V1__HEARTBEAT_REQUEST__INIT;
    Gradus__V1__LeaveRequest leave = GRADUS__V1__LEAVE_REQUEST__INIT;
    Gradus__V1__LeaseSplitRequest lease = GRADUS__V1__LEASE_SPLIT_REQUEST__INIT;
    Gradus__V1__ReportSplitRequest split = GRADUS__V1__REPORT_SPLIT_REQUEST__INIT;
    Gradus__V1__ReportProgressRequest progress = GRADUS__V1__REPORT_PROGRESS_REQUEST__INIT;
    Gradus__V1__ReportFailureRequest failed = GRADUS__V1__REPORT_FAILURE_REQUEST__INIT;
    size_t before = events;
    refused("Heartbeat", &heartbeat.base, ERR_INVALID, "node is missing");
    refused("Leave", &leave.base, ERR_INVALID, "node is missing");
    refused("LeaseSplit", &lease.base, ERR_INVALID, "node is missing");
    refused("ReportSplit", &split.base, ERR_INVALID, "node is missing");
    refused("ReportProgress", &progress.base, ERR_INVALID, "node is missing");
    refused("ReportFailure", &failed.base, ERR_INVALID, "node is missing");
    assert_int_equal(events, before);
}

/* Calls that the core has not answered are, when the master stops: all of them. */
static void look_at_nothing(const struct master_event *e)
{
    (void)e;
}

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t done, unavailable;
} ended = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void on_done(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    (void)ctx;
    (void)reply;
    pthread_mutex_lock(&ended.lock);
    ended.done++;
    ended.unavailable += status->err.code == ERR_UNAVAILABLE &&
                         strstr(status->err.msg, "the master is stopping") != NULL;
    pthread_cond_broadcast(&ended.changed);
    pthread_mutex_unlock(&ended.lock);
}

static bool all_wait;

static void are_three(void *ctx)
{
    (void)ctx;
    all_wait = shell.waiting_count == 3;
}

static void end_all(void *ctx)
{
    (void)ctx;
    struct request *last = shell.waiting; /* the one in the middle goes first */
    struct request *middle = last->next;
    struct master_reply reply = {.request = (uint64_t)(uintptr_t)middle,
                                 .err = {ERR_UNAVAILABLE, "the master is stopping"}};
    request_answered(&shell, &reply);
    assert_ptr_equal(shell.waiting, last);
    assert_ptr_equal(last->next->prev, last);
    atomic_store(&shell.ending, true);
    requests_end(&shell, "the master is stopping");
    assert_int_equal(shell.waiting_count, 0);
    assert_null(shell.waiting);
}

static void who_waits_is_told_of_the_end(void **state)
{
    (void)state;
    Gradus__V1__LeaveRequest q = GRADUS__V1__LEAVE_REQUEST__INIT;
    struct err err;
    q.node = &node;
    look = look_at_nothing;
    parks = true;
    const struct rpc_request request = {.service = &gradus__v1__cluster__descriptor,
                                        .method = "Leave",
                                        .body = &q.base,
                                        .timeout_ms = 60000};
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(rpc_call_start(channel, &request, on_done, NULL, &err), 0);
    }
    while (!all_wait) {
        assert_int_equal(loop_call(shell.loop, are_three, NULL, NULL), 0);
    }
    assert_int_equal(loop_call(shell.loop, end_all, NULL, NULL), 0);
    pthread_mutex_lock(&ended.lock);
    wait_until_signalled(ended.done >= 3, &ended.changed, &ended.lock);
    assert_int_equal(ended.unavailable, 3);
    pthread_mutex_unlock(&ended.lock);
    size_t before = events;
    refused("Leave", &q.base, ERR_UNAVAILABLE, "the master is stopping"); /* nor does one begin */
    assert_int_equal(events, before);
    atomic_store(&shell.ending, false);
    parks = false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_join),
        cmocka_unit_test(heartbeats_say_what_is_held_and_done),
        cmocka_unit_test(nodes_leave),
        cmocka_unit_test(splits_are_leased),
        cmocka_unit_test(splits_are_reported),
        cmocka_unit_test(progress_is_reported),
        cmocka_unit_test(failures_are_reported),
        cmocka_unit_test(a_node_must_be_named),
        cmocka_unit_test(who_waits_is_told_of_the_end),
    };
    return cmocka_run_group_tests_name("cluster_service", tests, set_up, tear_down);
}
