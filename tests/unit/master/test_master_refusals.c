/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that refuse what they are asked for, or fail: what that costs a job, and what is tried
 * again. */
#include "cluster.h"

static void errors_of_nodes_fail_the_job_with_a_reason(void **state)
{
    (void)state;
    static const struct {
        enum master_call_kind kind;
        enum master_role role;
        const char *reason;
    } cases[] = {
        {MASTER_CALL_INSPECT, MASTER_WORKER, "InspectData on worker-1: refused by the test"},
        {MASTER_CALL_START, MASTER_WORKER, "StartJob on worker-1: refused by the test"},
        {MASTER_CALL_OPEN, MASTER_PS, "OpenShard on ps-1: refused by the test"},
        {MASTER_CALL_PIN, MASTER_PS, "Pin on ps-1: refused by the test"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct cluster *c = cluster_new(600, 2, 2);
        for (size_t k = 0; k < c->node_count; k++) {
            if (c->nodes[k].role == cases[i].role) {
                c->nodes[k].refuse = ERR_INVALID;
                c->nodes[k].refuse_kind = cases[i].kind;
                break;
            }
        }
        char id[64];
        cluster_submit(c, "demo", id, NULL, 0);
        const struct job_record *r = cluster_until(c, id, JOB_FAILED, 300000);
        assert_string_equal(r->reason, cases[i].reason);
        cluster_free(c);
    }
}

/* It was started for another time of the job, or has not the memory: the others go on. */
static void an_assign_that_is_refused_costs_one_worker(void **state)
{
    (void)state;
    static const int CODES[] = {ERR_STATE, ERR_EXHAUSTED, ERR_INVALID};
    for (size_t i = 0; i < sizeof CODES / sizeof *CODES; i++) {
        struct cluster *c = cluster_new(620, 2, 2);
        struct fake_node *n = cluster_node(c, "worker-1");
        char id[64];
        cluster_submit(c, "demo", id, SETS("training.epochs=300"));
        cluster_until_in(c, id, "START");
        n->refuse = CODES[i];
        n->refuse_kind = MASTER_CALL_ASSIGN;
        cluster_run_ms(c, 3000);
        const struct job_record *r = cluster_job(c, id);
        assert_int_equal(r->state, JOB_RUNNING);
        uint64_t generation = r->generation;
        if (CODES[i] != ERR_STATE) { /* it is not asked all the time */
            assert_int_equal(r->workers.count, 1);
            assert_true(generation < 4);
        }
        n->refuse = 0;
        cluster_run_ms(c, 12000);
        assert_int_equal(cluster_job(c, id)->workers.count, 2);
        cluster_run_to_end(c, id);
        cluster_free(c);
    }
}

static void the_last_worker_without_memory_is_asked_again(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(630, 2, 1);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=300", "cluster.workers=1"));
    cluster_until_in(c, id, "TRAIN");
    struct master_event e = fake_event(c, cluster_node(c, "worker-1"), MASTER_REPORT_FAILURE);
    e.worker.code = ERR_EXHAUSTED;
    e.worker.message = "no memory for the parameters";
    cluster_event(c, &e);
    const struct job_record *r = cluster_until(c, id, JOB_RECOVERING, 1);
    assert_non_null(strstr(r->reason, "no memory for the parameters"));
    cluster_run_ms(c, 5000);
    assert_int_equal(cluster_job(c, id)->state, JOB_RECOVERING);
    cluster_until(c, id, JOB_RUNNING, 8000);
    cluster_run_to_end(c, id);
    cluster_free(c);
}

static void a_chunk_that_fails_goes_to_another_worker(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(700, 2, 2);
    c->nodes[2].refuse = ERR_INTERNAL;
    c->nodes[2].refuse_kind = MASTER_CALL_EVALUATE;
    char id[64];
    cluster_submit(c, "demo", id, NULL, 0);
    const struct job_record *r = cluster_run_to_end(c, id);
    assert_int_equal(r->evaluation_count, 3);
    cluster_free(c);
}

/* A worker that was started again, say, and the master has not heard of it: nothing is lost. */
static void a_worker_that_has_lost_the_job_evaluates_nothing(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(702, 2, 1);
    struct fake_node *n = &c->nodes[2];
    n->refuse = ERR_NOT_FOUND;
    n->refuse_kind = MASTER_CALL_EVALUATE;
    char id[64];
    cluster_submit(c, "demo", id, SETS("cluster.workers=1"));
    cluster_until_in(c, id, "EVALUATE");
    cluster_run_ms(c, 5000);
    assert_int_equal(cluster_job(c, id)->recoveries, 0);
    n->refuse = 0;
    const struct job_record *r = cluster_run_to_end(c, id);
    assert_int_equal(r->recoveries, 0);
    assert_int_equal(r->evaluation_count, 3);
    cluster_free(c);
}

/* Training goes on without an evaluation that nobody can make; at the end the job waits for one. */
static void an_evaluation_that_fails_ends_no_job(void **state)
{
    (void)state;
    for (int cancels = 0; cancels < 2; cancels++) {
        struct cluster *c = cluster_new(701, 2, 2);
        for (size_t i = 2; i <= 3; i++) {
            c->nodes[i].refuse = ERR_CORRUPT;
            c->nodes[i].refuse_kind = MASTER_CALL_EVALUATE;
        }
        char id[64];
        cluster_submit(c, "demo", id, NULL, 0);
        cluster_until_in(c, id, "FINISH");
        cluster_run_ms(c, 300000);
        cluster_assert_reason(c, id, "evaluation at step 21: test records from ");
        cluster_assert_reason(c, id, "refused by the test; attempt ");
        cluster_assert_reason(c, id, " s, its shards are kept");
        const struct job_record *r = cluster_job(c, id);
        assert_int_equal(r->state, JOB_RUNNING);
        assert_int_equal(r->evaluation_count, 0);
        if (cancels != 0) {
            assert_int_equal(cluster_cancel(c, id, false), 0);
            r = cluster_until(c, id, JOB_CANCELLED, 10000);
            assert_non_null(strstr(r->reason, "by request, at step 21; the newest checkpoint is "));
            assert_non_null(strstr(r->checkpoint, "step-000000021"));
        } else {
            c->nodes[2].refuse = c->nodes[3].refuse = 0;
            r = cluster_run_to_end(c, id);
            assert_int_equal(r->evaluation_count, 1);
            assert_int_equal(r->evaluations[0].step, 21);
            assert_string_equal(r->reason, "");
        }
        cluster_free(c);
    }
}

static void an_old_failure_report_changes_nothing(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(976, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, NULL, 0);
    cluster_until_in(c, id, "TRAIN");
    struct master_event e = fake_event(c, cluster_node(c, "worker-2"), MASTER_REPORT_FAILURE);
    e.worker.code = ERR_CORRUPT;
    e.worker.message = "record 7 changed";
    e.worker.generation = cluster_job(c, id)->generation - 1;
    cluster_event(c, &e);
    assert_int_equal(c->reply.err.code, ERR_ABORTED);
    assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
    cluster_run_to_end(c, id);
    cluster_free(c);
}

static void a_failure_report_fails_the_job(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(975, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, NULL, 0);
    cluster_until_in(c, id, "TRAIN");
    struct master_event e = fake_event(c, cluster_node(c, "worker-2"), MASTER_REPORT_FAILURE);
    e.worker.code = ERR_CORRUPT;
    e.worker.message = "record 7 changed";
    cluster_event(c, &e);
    const struct job_record *r = cluster_until(c, id, JOB_FAILED, 1);
    assert_string_equal(r->reason, "worker-2: record 7 changed");
    assert_int_equal(r->workers.count, 2); /* who served it is still shown */
    cluster_free(c);
}

/* The batch that it was to end after failed: it ends as it was asked to, and says so. */
static void a_failure_report_ends_a_cancelled_job(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(974, 2, 2);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.epochs=300"));
    cluster_until_in(c, id, "TRAIN");
    cluster_run_ms(c, 300);
    assert_int_equal(cluster_cancel(c, id, false), 0);
    struct master_event e = fake_event(c, cluster_node(c, "worker-2"), MASTER_REPORT_FAILURE);
    e.worker.code = ERR_STATE;
    e.worker.message = "the program raised";
    cluster_event(c, &e);
    const struct job_record *r = cluster_until(c, id, JOB_CANCELLED, 1);
    assert_int_equal(strncmp(r->reason, "cancelled; then worker-2: the program raised; ", 46), 0);
    assert_int_equal(r->recoveries, 0);
    cluster_free(c);
}

/* Whatever kills its workers may do so again: it is tried for ever, but ever less often. */
static void starts_that_fail_are_made_again_after_a_pause(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(983, 1, 0);
    char id[64];
    cluster_submit(c, "demo", id, SETS("cluster.ps=1", "cluster.workers=1"));
    uint64_t pauses[8];
    for (size_t i = 0; i < 8; i++) {
        cluster_until(c, id, JOB_PENDING, 10000);
        uint64_t began = c->now;
        struct fake_node *n = cluster_add(c, MASTER_WORKER);
        n->crash_on = MASTER_CALL_START + 1;
        cluster_until(c, id, JOB_STARTING, 60000);
        pauses[i] = c->now - began;
    }
    assert_true(pauses[0] == 0 && pauses[1] < 100); /* the old shards are closed meanwhile */
    assert_true(pauses[2] > 100 && pauses[7] > pauses[2] && pauses[7] <= 30000);
    cluster_until(c, id, JOB_PENDING, 10000);
    cluster_add(c, MASTER_WORKER);
    cluster_run_ms(c, 1000);
    assert_non_null(strstr(cluster_job(c, id)->reason, "its start failed 8 times"));
    cluster_run_to_end(c, id);
    cluster_free(c);
}

/* A master that was stopped for a while finds other events before its timer. */
static void a_pause_ends_with_whatever_comes_first(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(984, 1, 0);
    char id[64];
    cluster_submit(c, "demo", id, SETS("cluster.ps=1", "cluster.workers=1"));
    for (size_t i = 0; i < 4; i++) {
        cluster_until(c, id, JOB_PENDING, 10000);
        cluster_add(c, MASTER_WORKER)->crash_on = MASTER_CALL_START + 1;
        cluster_until(c, id, JOB_STARTING, 60000);
    }
    cluster_until(c, id, JOB_PENDING, 10000);
    struct fake_node *n = cluster_add(c, MASTER_WORKER);
    cluster_run_ms(c, 500);
    assert_int_equal(cluster_job(c, id)->state, JOB_PENDING);
    c->now += 100000;
    fake_heartbeat(c, n);
    assert_int_equal(cluster_job(c, id)->state, JOB_STARTING);
    cluster_free(c);
}

/* Another process answers at a node's address, or one that another master has given a job of that
 * name: the node is given up, not the job. */
static void a_stranger_at_an_address_fails_no_job(void **state)
{
    (void)state;
    static const struct {
        const char *node;
        enum master_call_kind kind;
        int code;
    } cases[] = {
        {"ps-1", MASTER_CALL_OPEN, ERR_ABORTED},
        {"ps-1", MASTER_CALL_OPEN, ERR_UNAUTHENTICATED},
        {"worker-1", MASTER_CALL_INSPECT, ERR_ABORTED},
        {"worker-1", MASTER_CALL_START, ERR_ABORTED},
        {"ps-1", MASTER_CALL_PIN, ERR_UNAUTHENTICATED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct cluster *c = cluster_new(988 + i, 2, 2);
        char id[64];
        struct fake_node *n = cluster_node(c, cases[i].node);
        n->refuse = cases[i].code;
        n->refuse_kind = cases[i].kind;
        cluster_submit(c, "demo", id, SETS("training.epochs=3"));
        cluster_run_ms(c, 2000);
        assert_int_not_equal(cluster_job(c, id)->state, JOB_FAILED);
        n->refuse = 0; /* and the right one is there again */
        const struct job_record *r = cluster_run_to_end(c, id);
        assert_int_equal(r->state, JOB_SUCCEEDED);
        cluster_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_of_nodes_fail_the_job_with_a_reason),
        cmocka_unit_test(an_assign_that_is_refused_costs_one_worker),
        cmocka_unit_test(the_last_worker_without_memory_is_asked_again),
        cmocka_unit_test(a_chunk_that_fails_goes_to_another_worker),
        cmocka_unit_test(a_worker_that_has_lost_the_job_evaluates_nothing),
        cmocka_unit_test(an_evaluation_that_fails_ends_no_job),
        cmocka_unit_test(a_failure_report_fails_the_job),
        cmocka_unit_test(a_failure_report_ends_a_cancelled_job),
        cmocka_unit_test(an_old_failure_report_changes_nothing),
        cmocka_unit_test(starts_that_fail_are_made_again_after_a_pause),
        cmocka_unit_test(a_pause_ends_with_whatever_comes_first),
        cmocka_unit_test(a_stranger_at_an_address_fails_no_job),
    };
    return cmocka_run_group_tests_name("master_refusals", tests, NULL, NULL);
}
