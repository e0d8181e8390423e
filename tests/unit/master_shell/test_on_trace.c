/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs.Trace over real gRPC: which nodes are asked what and in which order, what the client gets of
 * their answers, and what is ended when it goes away. One server is all nodes; the core is a table.
 */
#include "calls/trace_call_rig.h"

#include <string.h>

#include "os/chrono.h"
#include "support/wait_until.h"

static const Gradus__V1__TraceJobResponse *trace(char *job, uint32_t steps, uint32_t timeout_ms,
                                                 struct rpc_msg **reply)
{
    Gradus__V1__TraceJobRequest q = GRADUS__V1__TRACE_JOB_REQUEST__INIT;
    q.job = job;
    q.steps = steps;
    q.timeout_ms = timeout_ms;
    return job_rig_ask("Trace", &q.base, reply);
}

static const Gradus__V1__TraceJobResponse *traced(struct rpc_msg **reply)
{
    const Gradus__V1__TraceJobResponse *r = trace(job_rig_job, 7, 1500, reply);
    if (r == NULL) {
        fail_msg("%s", job_rig_failed()->msg);
    }
    assert_string_equal(r->job, job_rig_job);
    return r;
}

static void refused(char *job, uint32_t steps, uint32_t timeout_ms, int code, const char *says)
{
    struct rpc_msg *reply;
    job_rig_assert_refused(trace(job, steps, timeout_ms, &reply), code, says);
}

/* ---- tests ---- */

static void all_nodes_are_asked_in_rounds(void **state)
{
    (void)state;
    struct rpc_msg *reply;
    uint64_t before_ns = chrono_now_ns();
    int64_t before_ms = chrono_wall_ms();
    const Gradus__V1__TraceJobResponse *r = traced(&reply);
    assert_true(r->clock_ns >= before_ns && r->clock_ns <= chrono_now_ns());
    assert_true(r->wall_ms >= before_ms && r->wall_ms <= chrono_wall_ms());
    assert_int_equal(rig.count, 2 * CLOCKS + 3);
    for (size_t i = 0; i < rig.count; i++) {
        const struct heard *h = &rig.heard[i];
        assert_string_equal(h->job, job_rig_job);
        assert_true(h->id == rig.heard[0].id && h->id != 0);
        assert_int_equal(h->spans_max, 16 * TRACE_SPANS_MAX / 3); /* and one for the answer */
        assert_true(i >= 2 * CLOCKS || (h->action == CLOCK && h->steps == 0));
    }
    assert_int_equal(times(PS, CLOCK), CLOCKS);
    const struct heard *ps = &rig.heard[2 * CLOCKS], *worker = ps + 1, *take = ps + 2;
    assert_true(ps->who == PS && ps->action == RECORD);
    assert_int_equal(ps->timeout_ms, 1500 + 20000); /* longer than the workers need */
    assert_true(worker->who == WORKER && worker->action == RECORD);
    assert_int_equal(worker->steps, 7);
    assert_int_equal(worker->timeout_ms, 1500);
    assert_true(take->who == PS && take->action == TAKE);

    assert_int_equal(r->n_nodes, 2);
    const Gradus__V1__NodeTrace *of_worker = r->nodes[0], *of_ps = r->nodes[1];
    assert_string_equal(of_worker->node, worker_id);
    assert_int_equal(of_worker->role, MASTER_WORKER);
    assert_string_equal(of_worker->host, "south");
    assert_int_equal(of_worker->pid, 21);
    assert_string_equal(of_worker->problem, "");
    assert_int_equal(of_worker->offset_ns, 0); /* the same clock */
    assert_int_equal(of_worker->offset_error_ns, 0);
    assert_int_equal(of_worker->trace->steps, 7);
    assert_string_equal(of_worker->trace->workers[0], "w");
    assert_string_equal(of_ps->node, ps_id);
    assert_int_equal(of_ps->role, MASTER_PS);
    assert_string_equal(of_ps->host, "north");
    assert_int_equal(of_ps->pid, 22);
    assert_int_equal(of_ps->trace->lost, TAKE);
    assert_string_equal(of_ps->trace->workers[0], "p");
    rpc_msg_unref(reply);
    assert_int_equal(under_way(), 0);
}

static void another_clock_is_measured(void **state)
{
    (void)state;
    struct rpc_msg *reply;
    static const char *const boots[] = {"another one", ""};
    for (size_t b = 0; b < 2; b++) {
        rig.boot = boots[b];
        uint64_t before_ns = chrono_now_ns();
        const Gradus__V1__TraceJobResponse *r = traced(&reply);
        int64_t took_ns = (int64_t)(chrono_now_ns() - before_ns);
        for (size_t i = 0; i < r->n_nodes; i++) {
            int64_t ahead_ns = -r->nodes[i]->offset_ns, error_ns = ahead_ns - AHEAD_NS;
            int64_t error_ns_max = (int64_t)r->nodes[i]->offset_error_ns;
            assert_true(error_ns_max > 0 && error_ns_max <= took_ns / 2 + 1);
            assert_true(error_ns <= error_ns_max && error_ns >= -error_ns_max);
        }
        rpc_msg_unref(reply);
    }
}

/* Who fails takes no part in what follows, and the others' traces are worth having. */
static void nodes_may_fail(void **state)
{
    (void)state;
    struct rpc_msg *reply;
    job_rig.record.workers.count = 2;
    job_rig.nodes[2].alive = false;
    rig.fails[(int)PS] = CLOCK;
    const Gradus__V1__TraceJobResponse *r = traced(&reply);
    assert_int_equal(r->n_nodes, 3);
    assert_string_equal(r->nodes[0]->problem, "");
    assert_non_null(r->nodes[0]->trace);
    assert_string_equal(r->nodes[1]->node, lost_id);
    assert_string_equal(r->nodes[1]->problem, "the master has lost this node");
    assert_null(r->nodes[1]->trace);
    assert_non_null(strstr(r->nodes[2]->problem, "no room"));
    assert_null(r->nodes[2]->trace);
    rpc_msg_unref(reply);
    assert_int_equal(times(PS, CLOCK), 1);
    assert_int_equal(times(PS, RECORD) + times(PS, TAKE), 0);
    assert_int_equal(times(WORKER, CLOCK), CLOCKS);

    job_rig.nodes[1].id = lost_id; /* an old one of this name; the one that lives is asked */
    job_rig.nodes[1].alive = false;
    set_node(2, MASTER_WORKER, lost_id, 24);
    rig.fails[(int)PS] = -1;
    r = traced(&reply);
    assert_string_equal(r->nodes[0]->problem, "the master has lost this node");
    assert_string_equal(r->nodes[0]->host, "");
    assert_int_equal(r->nodes[0]->pid, 0);
    assert_string_equal(r->nodes[1]->problem, "");
    assert_int_equal(r->nodes[1]->pid, 24);
    rpc_msg_unref(reply);
}

static void nothing_of_a_worker_is_nothing(void **state)
{
    (void)state;
    rig.fails[(int)WORKER] = RECORD;
    refused(job_rig_job, 7, 1500, ERR_EXHAUSTED, "no worker of job demo-1 could be traced: w-1: ");
    assert_int_equal(times(PS, TAKE), 1);
    job_rig.record.workers.count = 0;
    refused(job_rig_job, 7, 1500, ERR_STATE, "job demo-1 has no worker now");
    job_rig.record.workers.count = 1;
    job_rig.nodes[1].address = "no address";
    refused(job_rig_job, 7, 1500, ERR_INVALID, "no worker of job demo-1 could be traced: w-1: ");
    assert_int_equal(under_way(), 0);
}

static void what_cannot_be_traced_is_refused(void **state)
{
    (void)state;
    struct rpc_msg *reply;
    char none[] = "none-1", old[] = "old-1", bad[] = "bad-1";
    refused(job_rig_job, 0, 1, ERR_INVALID, "0 steps; from 1 to 1000");
    refused(job_rig_job, 1001, 1, ERR_INVALID, "1001 steps");
    refused(job_rig_job, 1, 0, ERR_INVALID, "a timeout of 0 ms; 1 to 600000");
    refused(job_rig_job, 1, 600001, ERR_INVALID, "a timeout of 600001 ms");
    refused(none, 1, 1, ERR_NOT_FOUND, "no job none-1");
    refused(old, 1, 1, ERR_STATE, "job old-1 has ended");
    refused(bad, 1, 1, ERR_CORRUPT, "a torn page");
    job_rig.record.state = JOB_PENDING;
    refused(job_rig_job, 1, 1, ERR_STATE, "job demo-1 is PENDING; only a running job");
    job_rig.record.state = JOB_RUNNING;
    assert_int_equal(rig.count, 0);
    for (uint32_t i = 0; i < 2; i++) { /* the least and the most */
        assert_non_null(trace(job_rig_job, i == 0 ? 1 : 1000, i == 0 ? 1 : 600000, &reply));
        rpc_msg_unref(reply);
    }
}

/* ---- calls that nobody waits for ---- */

static void who_goes_away_ends_it(void **state)
{
    (void)state;
    struct rpc_channel *from = job_rig_client(trace_rig_server);
    start_held(from);
    assert_int_equal(under_way(), 2);
    rpc_channel_free(from);
    assert_int_equal(job_rig.end.code, ERR_CANCELLED);
    wait_until_none();
    assert_int_equal(times(WORKER, TAKE), 1);
    assert_int_equal(times(PS, TAKE), 1); /* nor does it go on recording */
    const struct heard *last = &rig.heard[rig.count - 1], *before = last - 1;
    assert_true(last->who == PS && before->who == WORKER && before->action == TAKE);
    assert_int_equal(before->id, rig.heard[0].id);
    assert_string_equal(before->job, job_rig_job);
}

static void the_master_may_end(void **state)
{
    (void)state;
    start_held(job_rig.channel);
    end_master();
    pthread_mutex_lock(&job_rig.lock);
    wait_until_signalled(job_rig.ended, &job_rig.changed, &job_rig.lock);
    assert_int_equal(job_rig.end.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(job_rig.end.msg, "the master is stopping"));
    pthread_mutex_unlock(&job_rig.lock);
    release();
    wait_until_none();
    assert_int_equal(times(PS, TAKE), 0); /* there is nobody to ask it */
    go_on();
}

/* ---- turns ---- */

/* A trace of @job that nobody waits for; returns when @count clients are there. */
static void begin_to_wait(struct rpc_channel *from, char *job, size_t count)
{
    Gradus__V1__TraceJobRequest q = GRADUS__V1__TRACE_JOB_REQUEST__INIT;
    q.job = job;
    q.steps = 5;
    q.timeout_ms = 60000;
    job_rig_ask_nobody(from, "Trace", &q.base);
    wait_until(clients() == count);
}

/* @ends: calls that nobody waited for have ended so often, the last one well. */
static void wait_for_answers(size_t ends)
{
    pthread_mutex_lock(&job_rig.lock);
    wait_until_signalled(job_rig.ends == ends, &job_rig.changed, &job_rig.lock);
    pthread_mutex_unlock(&job_rig.lock);
    if (job_rig.end.code != 0) {
        fail_msg("%s", job_rig.end.msg);
    }
}

static void jobs_on_one_server_take_turns(void **state)
{
    (void)state;
    char *jobs[] = {job_rig_job, other_job};
    for (size_t i = 0; i < 2; i++) {
        struct rpc_channel *from = job_rig_client(trace_rig_server);
        const size_t ends = job_rig.ends;
        rig.count = 0;
        begin_other(one_server);
        start_held(from);
        begin_to_wait(job_rig.channel, jobs[i], 2);
        assert_int_equal(times(PS, RECORD) + times(WORKER, RECORD), 2);
        assert_int_equal(under_way(), 2); /* one, that is */
        release();
        wait_for_answers(ends + 2);
        wait_until_none();
        assert_int_equal(rig.count, 2 * (2 * CLOCKS + 3));
        const struct heard *first = &rig.heard[2 * CLOCKS + 2], *second = first + 1;
        assert_int_equal(first->action, TAKE); /* all of one, then all of the other */
        for (size_t h = 0; h < 2 * CLOCKS + 3; h++) {
            assert_true(second[h].id == second->id && second->id != first->id);
            assert_string_equal(second[h].job, jobs[i]);
        }
        rpc_channel_free(from);
    }
}

static void jobs_on_other_servers_do_not(void **state)
{
    (void)state;
    struct rpc_msg *reply;
    static char elsewhere[] = "ps-2", *servers[] = {elsewhere};
    struct rpc_channel *from = job_rig_client(trace_rig_server);
    begin_other(servers);
    start_held(from);
    rig.holds = false;
    assert_non_null(trace(other_job, 7, 1500, &reply));
    rpc_msg_unref(reply);
    assert_int_equal(under_way(), 2);
    release();
    wait_until_none();
    rpc_channel_free(from);
}

static void who_waits_may_go_away(void **state)
{
    (void)state;
    struct rpc_channel *from = job_rig_client(trace_rig_server);
    const size_t ends = job_rig.ends;
    start_held(job_rig.channel);
    begin_to_wait(from, job_rig_job, 2);
    rpc_channel_free(from);
    wait_until(clients() == 1);
    assert_int_equal(times(WORKER, TAKE), 0); /* the other one records on */
    release();
    wait_for_answers(ends + 2);
    wait_until_none();
    assert_int_equal(times(WORKER, RECORD), 1);
}

static void it_is_the_next_ones_turn_when_one_goes_away(void **state)
{
    (void)state;
    struct rpc_channel *from = job_rig_client(trace_rig_server);
    const size_t ends = job_rig.ends;
    start_held(from);
    begin_to_wait(job_rig.channel, job_rig_job, 2);
    rig.holds = false;
    rpc_channel_free(from);
    wait_for_answers(ends + 2);
    wait_until_none();
    assert_int_equal(times(WORKER, TAKE), 1);
    assert_int_equal(times(PS, TAKE), 2);
}

static void nobody_waits_for_ever(void **state)
{
    (void)state;
    struct rpc_channel *from = job_rig_client(trace_rig_server);
    job_rig.shell.pictures.all_ms = 1;
    begin_other(one_server);
    start_held(from);
    refused(job_rig_job, 7, 1, ERR_EXHAUSTED,
            "job demo-1 is being recorded already, and that was not over within 2 ms");
    refused(other_job, 7, 1, ERR_EXHAUSTED,
            "another job on the servers of job other-2 is being recorded already");
    assert_int_equal(times(PS, RECORD), 1);
    assert_int_equal(clients(), 1);
    release();
    wait_until_none();
    rpc_channel_free(from);
}

static void only_so_many_wait(void **state)
{
    (void)state;
    struct rpc_channel *from = job_rig_client(trace_rig_server);
    start_held(from);
    for (size_t i = 0; i < 8; i++) {
        begin_to_wait(from, job_rig_job, 2 + i);
    }
    refused(job_rig_job, 7, 1500, ERR_EXHAUSTED, "8 traces wait already until a trace is over");
    rig.holds = false;
    rpc_channel_free(from);
    wait_until_none();
    assert_int_equal(times(WORKER, RECORD), 1);
}

static void only_so_many_at_once(void **state)
{
    (void)state;
    job_rig.shell.trace_count = 8;
    refused(job_rig_job, 7, 1500, ERR_EXHAUSTED, "8 traces are being recorded");
    job_rig.shell.trace_count = 0;
    assert_int_equal(rig.count, 0);
}

#define TEST(f) cmocka_unit_test_setup(f, begin)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(all_nodes_are_asked_in_rounds),
        TEST(another_clock_is_measured),
        TEST(nodes_may_fail),
        TEST(nothing_of_a_worker_is_nothing),
        TEST(what_cannot_be_traced_is_refused),
        TEST(who_goes_away_ends_it),
        TEST(the_master_may_end),
        TEST(jobs_on_one_server_take_turns),
        TEST(jobs_on_other_servers_do_not),
        TEST(who_waits_may_go_away),
        TEST(it_is_the_next_ones_turn_when_one_goes_away),
        TEST(nobody_waits_for_ever),
        TEST(only_so_many_wait),
        TEST(only_so_many_at_once),
    };
    return cmocka_run_group_tests_name("on_trace", tests, set_up, tear_down);
}
