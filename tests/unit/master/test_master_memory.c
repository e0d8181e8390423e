/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a parameter server has not: what can pass is waited for, what does not fit is left
 * out or taken back, and no job ends for it. */
#include "cluster.h"

static size_t workers_of(struct cluster *c, const char *id)
{
    return cluster_job(c, id)->workers.count;
}

/* Nodes 0 and 1 are servers; only the second one has no room. */
static void a_newcomer_is_left_out(void **state)
{
    (void)state;
    static const char *const MODES[] = {"training.mode=sync", "training.mode=async",
                                        "training.mode=bounded"};
    for (size_t i = 0; i < 3; i++) {
        struct cluster *c = cluster_new(8000 + i, 2, 2);
        char id[64];
        c->nodes[1].room_workers = 2;
        c->train_records = 40000;
        cluster_submit(c, "demo", id,
                       SETS("cluster.workers=1..4", "training.epochs=8", "training.replicas=4",
                            "training.split_batches=500", MODES[i]));
        cluster_until_in(c, id, "TRAIN");
        cluster_add(c, MASTER_WORKER);
        cluster_add(c, MASTER_WORKER);
        cluster_run_ms(c, 3000);
        assert_int_equal(cluster_job(c, id)->state, JOB_RUNNING);
        assert_int_equal(workers_of(c, id), 2);
        cluster_assert_reason(c, id, "goes on without worker-");
        cluster_assert_reason(c, id, "SetMembership on ps-2: so many bytes are too many");
        uint64_t generation = cluster_job(c, id)->generation;
        cluster_run_ms(c, 10000); /* nobody is asked again while nothing has changed */
        assert_int_equal(cluster_job(c, id)->generation, generation);
        cluster_kill(&c->nodes[2]);
        cluster_run_ms(c, 10000); /* another one takes the place */
        assert_int_equal(workers_of(c, id), 2);
        c->nodes[1].room_workers = 3;
        assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("cluster.workers=1..3")), 10000),
                         0);
        cluster_run_ms(c, 3000);
        assert_int_equal(workers_of(c, id), 3);
        cluster_until(c, id, JOB_SUCCEEDED, 3000000);
        cluster_free(c);
    }
}

/* One of two servers has taken it: both hear that it is as before. */
static void a_change_that_does_not_fit_is_undone(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(8010, 2, 2);
    char id[64];
    c->train_records = 4000;
    cluster_submit(c, "demo", id, SETS("training.epochs=8", "training.split_batches=50"));
    cluster_until_in(c, id, "TRAIN");
    c->nodes[1].full_mode = TRAINING_ASYNC + 1;
    size_t k = cluster_set(c, id, SETS("training.mode=async"));
    assert_int_equal(cluster_answer(c, k, 10000), ERR_EXHAUSTED);
    cluster_run_ms(c, 1000);
    assert_int_equal(cluster_job(c, id)->consistency.mode, TRAINING_SYNC);
    assert_non_null(strstr(cluster_job(c, id)->text, "mode: sync"));
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(c->nodes[i].told_mode, TRAINING_SYNC);
    }
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("training.mode=bounded")), 10000),
                     0);
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("training.mode=async")), 10000),
                     ERR_EXHAUSTED); /* from another mode, too */
    assert_int_equal(cluster_job(c, id)->consistency.mode, TRAINING_BOUNDED);
    cluster_until(c, id, JOB_SUCCEEDED, 600000);
    cluster_free(c);
}

/* A master that is started again has what is stored: until that is the old file its client does not
 * hear that the change is undone, or hears that a master that was started again would have it. */
static void an_undone_change_is_told_when_that_is_stored(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(8011, 2, 2);
    char id[64];
    c->train_records = 4000;
    cluster_submit(c, "demo", id, SETS("training.epochs=8", "training.split_batches=50"));
    cluster_until_in(c, id, "TRAIN");
    c->nodes[1].full_mode = TRAINING_ASYNC + 1;
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("training.mode=async")), 10000),
                     ERR_EXHAUSTED);
    assert_int_equal(c->stored[cluster_stored(c, id)].mode, TRAINING_SYNC);
    cluster_run_ms(c, 1000);
    c->full_after = TRAINING_ASYNC + 1;
    assert_int_equal(cluster_answer(c, cluster_set(c, id, SETS("training.mode=async")), 10000),
                     ERR_UNAVAILABLE);
    assert_int_equal(c->stored[cluster_stored(c, id)].mode, TRAINING_ASYNC);
    c->full_after = 0;
    c->store_fails = false;
    cluster_run_ms(c, 60000);
    assert_int_equal(c->stored[cluster_stored(c, id)].mode, TRAINING_SYNC);
    cluster_until(c, id, JOB_SUCCEEDED, 600000);
    cluster_free(c);
}

static void a_shard_that_does_not_fit_is_waited_for(void **state)
{
    (void)state;
    struct cluster *c = cluster_new(8020, 2, 2);
    char id[64];
    c->nodes[1].refuse_kind = MASTER_CALL_OPEN;
    c->nodes[1].refuse = ERR_EXHAUSTED;
    cluster_submit(c, "demo", id, SETS("training.epochs=30"));
    cluster_run_ms(c, 20000);
    assert_int_equal(cluster_job(c, id)->state, JOB_PENDING);
    cluster_assert_reason(c, id, "OpenShard on ps-2: ");
    c->nodes[1].refuse = 0;
    cluster_until_in(c, id, "TRAIN");
    assert_string_equal(cluster_job(c, id)->reason, "");
    for (int code = ERR_EXHAUSTED; code != 0; code = code == ERR_EXHAUSTED ? ERR_RANGE : 0) {
        cluster_kill(&c->nodes[0]);
        c->nodes[1].refuse = code;
        cluster_add(c, MASTER_PS);
        cluster_run_ms(c, 20000);
        assert_int_equal(cluster_job(c, id)->state, JOB_RECOVERING); /* it ran: it is not lost */
        cluster_assert_reason(c, id, "OpenShard on ps-2: ");
        c->nodes[1].refuse = 0;
        cluster_until_in(c, id, "TRAIN");
    }
    cluster_until(c, id, JOB_SUCCEEDED, 600000);
    cluster_free(c);
}

/* The first of three servers has no room, now or ever: the job begins on the others at once. One
 * that is too small for good fails a job only where there are not enough others. */
static void a_server_without_room_is_left_out(void **state)
{
    (void)state;
    static const int CODES[] = {ERR_EXHAUSTED, ERR_RANGE};
    for (size_t i = 0; i < 2; i++) {
        struct cluster *c = cluster_new(8030 + i, 3, 2);
        char id[64];
        c->nodes[0].refuse_kind = MASTER_CALL_OPEN;
        c->nodes[0].refuse = CODES[i];
        cluster_submit(c, "demo", id, NULL, 0);
        cluster_until_in(c, id, "TRAIN");
        const struct job_names *ps = &cluster_job(c, id)->ps;
        assert_int_equal(ps->count, 2);
        assert_string_equal(ps->items[0], "ps-2");
        assert_string_equal(ps->items[1], "ps-3");
        cluster_until(c, id, JOB_SUCCEEDED, 600000);
        c->nodes[1].refuse_kind = MASTER_CALL_OPEN;
        c->nodes[1].refuse = ERR_RANGE;
        cluster_submit(c, "large", id, NULL, 0);
        if (CODES[i] == ERR_RANGE) {
            cluster_until(c, id, JOB_FAILED, 10000);
            cluster_assert_reason(c, id, "OpenShard on ps-");
        } else {
            cluster_run_ms(c, 20000);
            assert_int_equal(cluster_job(c, id)->state, JOB_PENDING);
            c->nodes[0].refuse = 0;
            cluster_until(c, id, JOB_SUCCEEDED, 600000);
        }
        cluster_free(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_newcomer_is_left_out),
        cmocka_unit_test(a_change_that_does_not_fit_is_undone),
        cmocka_unit_test(an_undone_change_is_told_when_that_is_stored),
        cmocka_unit_test(a_shard_that_does_not_fit_is_waited_for),
        cmocka_unit_test(a_server_without_room_is_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
