/* SPDX-License-Identifier: Apache-2.0 */
/* Early stopping: where a job ends for want of a better version, and which one is its result. */
#include "cluster.h"

#define STOPS                                                                                      \
    "data.test.file=b.csv", "training.stop.metric=accuracy", "training.stop.patience=2",           \
        "training.evaluate_every=2"

static struct cluster *cluster_best_at(uint64_t seed, double step)
{
    struct cluster *c = cluster_new(seed, 2, 2);
    c->test_records = 2500;
    c->best_step = step;
    return c;
}

static void a_job_stops_when_nothing_gets_better(void **state)
{
    (void)state;
    struct cluster *c = cluster_best_at(9000, 6);
    char id[64];
    cluster_submit(c, "demo", id, SETS(STOPS)); /* 21 steps in three epochs */
    const struct job_record *r = cluster_run_to_end(c, id);
    assert_int_equal(r->step, 10);
    assert_int_equal(r->steps_total, 10);
    assert_string_equal(r->reason,
                        "stopped early: no better accuracy than 1 of step 6 for 2 evaluations");
    assert_int_equal(r->evaluation_count, 5);
    assert_int_equal(c->manifests, 1); /* the last */
    assert_int_equal(c->manifest_steps[0], 10);
    assert_true(c->disk[0].best.stops);
    assert_false(c->disk[0].best.kept);
    assert_string_equal(r->best_checkpoint, "");
    cluster_free(c);
}

/* In async and bounded modes it ends at a version that all shards have. */
static void it_stops_in_every_mode(void **state)
{
    (void)state;
    static const char *const modes[] = {"training.mode=async", "training.mode=bounded"};
    for (size_t i = 0; i < 2; i++) {
        struct cluster *c = cluster_best_at(9010 + i, 1);
        char id[64];
        cluster_submit(c, "demo", id, SETS(STOPS, modes[i])); /* 60 batches */
        const struct job_record *r = cluster_run_to_end(c, id);
        assert_true(r->step < 60);
        assert_non_null(strstr(r->reason, "stopped early: no better accuracy than "));
        assert_int_equal(r->evaluations[r->evaluation_count - 1].step, r->step);
        assert_int_equal(c->manifest_steps[c->manifests - 1], r->step);
        cluster_free(c);
    }
}

static void without_a_metric_it_does_not(void **state)
{
    (void)state;
    struct cluster *c = cluster_best_at(9020, 6);
    char id[64];
    cluster_submit(c, "demo", id, SETS("training.evaluate_every=2"));
    const struct job_record *r = cluster_run_to_end(c, id);
    assert_int_equal(r->step, 21);
    assert_string_equal(r->reason, "");
    assert_int_equal(r->best.count, 0);
    cluster_free(c);
}

static void the_best_version_is_kept_and_is_the_result(void **state)
{
    (void)state;
    struct cluster *c = cluster_best_at(9030, 6);
    char id[64];
    cluster_submit(c, "demo", id, SETS(STOPS, "training.stop.restore_best=true"));
    const struct job_record *r = cluster_run_to_end(c, id);
    assert_int_equal(r->step, 10);
    assert_non_null(strstr(r->best_checkpoint, "/step-000000006"));
    assert_string_equal(r->checkpoint, r->best_checkpoint);
    assert_string_equal(r->reason, "stopped early: no better accuracy than 1 of step 6 for 2 "
                                   "evaluations; the result is the version of step 6");
    assert_true(r->test.values[METRIC_ACCURACY] == 1);
    assert_int_equal(c->manifests, 4); /* of 2, 4 and 6, each the best then, and the last */
    assert_int_equal(c->manifest_steps[2], 6);
    assert_true(c->disk[0].result_is_best);
    assert_int_equal(c->disk[0].best.kept_step, 6);
    cluster_free(c);
}

/* It ends at its last step, and gives back its best one all the same. */
static void the_best_is_the_result_at_the_last_step_too(void **state)
{
    (void)state;
    struct cluster *c = cluster_best_at(9040, 18);
    char id[64];
    cluster_submit(c, "demo", id, SETS(STOPS, "training.stop.restore_best=true"));
    const struct job_record *r = cluster_run_to_end(c, id);
    assert_int_equal(r->step, 21);
    assert_string_equal(r->reason, "the result is the version of step 18");
    assert_non_null(strstr(r->checkpoint, "/step-000000018"));
    cluster_free(c);
}

/* What was compared before a checkpoint is known behind it, also to another master. */
static void a_job_that_goes_back_goes_on_comparing(void **state)
{
    (void)state;
    struct cluster *c = cluster_best_at(9050, 6);
    char id[64];
    cluster_submit(c, "demo", id, SETS(STOPS, "training.checkpoint_every=8"));
    while (cluster_job(c, id)->checkpoint[0] == '\0') {
        cluster_advance(c);
    }
    assert_int_equal(c->disk[0].best.without, 1);
    cluster_kill(cluster_node(c, "ps-1"));
    cluster_add(c, MASTER_PS);
    const struct job_record *r = cluster_run_to_end(c, id);
    assert_int_equal(r->recoveries, 1);
    assert_int_equal(r->step, 10);
    assert_int_equal(r->best.without, 2);
    cluster_free(c);
}

/* Everybody stands for the evaluation that may be the last one, and it is cancelled meanwhile. */
static void a_cancel_at_the_end_is_a_cancel(void **state)
{
    (void)state;
    struct cluster *c = cluster_best_at(9060, 6);
    char id[64];
    cluster_submit(c, "demo", id, SETS(STOPS));
    while (cluster_job(c, id)->best.without < 1) {
        cluster_advance(c);
    }
    cluster_until_in(c, id, "EVALUATE");
    assert_int_equal(cluster_cancel(c, id, false), 0);
    const struct job_record *r = cluster_until(c, id, JOB_CANCELLED, 60000);
    assert_int_equal(r->step, 10);
    assert_int_equal(c->manifest_steps[0], 10);
    cluster_free(c);
}

static void paused_on_the_way_it_stops_where_it_would(void **state)
{
    (void)state;
    struct cluster *c = cluster_best_at(9070, 6);
    char id[64];
    cluster_submit(c, "demo", id, SETS(STOPS));
    while (cluster_job(c, id)->best.step < 6) {
        cluster_advance(c);
    }
    assert_int_equal(cluster_ask(c, id, MASTER_PAUSE), 0);
    (void)cluster_until(c, id, JOB_PAUSED, 60000);
    assert_int_equal(cluster_ask(c, id, MASTER_RESUME), 0);
    const struct job_record *r = cluster_run_to_end(c, id);
    assert_int_equal(r->step, 10);
    cluster_free(c);
}

/* While all stand for the evaluation that ends it, there is nothing left to pause. */
static void paused_at_the_end_it_ends(void **state)
{
    (void)state;
    struct cluster *c = cluster_best_at(9075, 6);
    char id[64];
    cluster_submit(c, "demo", id, SETS(STOPS));
    while (cluster_job(c, id)->best.without < 1) {
        cluster_advance(c);
    }
    cluster_until_in(c, id, "EVALUATE");
    assert_int_equal(cluster_ask(c, id, MASTER_PAUSE), 0);
    assert_int_equal(cluster_run_to_end(c, id)->step, 10);
    cluster_free(c);
}

/* The job file cannot know it. */
static void a_job_without_test_records_fails(void **state)
{
    (void)state;
    struct cluster *c = cluster_best_at(9080, 6);
    c->test_records = 0;
    char id[64];
    cluster_submit(c, "demo", id, SETS(STOPS));
    const struct job_record *r = cluster_until(c, id, JOB_FAILED, 60000);
    assert_string_equal(r->reason,
                        "training.stop.metric: it is measured on test records, and there are none");
    cluster_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_stops_when_nothing_gets_better),
        cmocka_unit_test(it_stops_in_every_mode),
        cmocka_unit_test(without_a_metric_it_does_not),
        cmocka_unit_test(the_best_version_is_kept_and_is_the_result),
        cmocka_unit_test(the_best_is_the_result_at_the_last_step_too),
        cmocka_unit_test(a_job_that_goes_back_goes_on_comparing),
        cmocka_unit_test(a_cancel_at_the_end_is_a_cancel),
        cmocka_unit_test(paused_on_the_way_it_stops_where_it_would),
        cmocka_unit_test(paused_at_the_end_it_ends),
        cmocka_unit_test(a_job_without_test_records_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
