/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "master/core/job_record.h"

static void final_states_are_final(void **state)
{
    (void)state;
    for (enum job_state from = JOB_PENDING; from < JOB_STATE_END; from++) {
        size_t ways = 0;
        for (enum job_state to = JOB_PENDING; to < JOB_STATE_END; to++) {
            ways += job_state_allows(from, to);
        }
        if (job_state_is_final(from)) { /* and is left only to begin once more */
            assert_int_equal(ways, 1);
            assert_true(job_state_allows(from, JOB_PENDING));
        }
        assert_false(job_state_allows(from, from));
        if (!job_state_is_final(from)) { /* it can always be failed and cancelled */
            assert_true(job_state_allows(from, JOB_FAILED));
            assert_true(job_state_allows(from, JOB_CANCELLED));
        }
    }
    assert_false(job_state_allows((enum job_state)0, JOB_PENDING));
    assert_false(job_state_allows((enum job_state)99, JOB_PENDING));
    assert_string_equal(job_state_name(JOB_RECOVERING), "RECOVERING");
    assert_string_equal(job_state_name((enum job_state)99), "UNKNOWN");
}

/* Programs need not measure all metrics of the job; a loss that is no number is shown. */
static void metrics_that_nobody_told(void **state)
{
    (void)state;
    struct metrics sums = {.kinds = 0};
    struct job_metrics m;
    metrics_init(&sums, 1U << METRIC_LOSS | 1U << METRIC_ACCURACY | 1U << METRIC_MAE);
    job_metrics_set(&m, &sums, 1);
    assert_int_equal(m.kinds, 0);
    sums.examples = 4;
    sums.weight = 4;
    sums.loss_sum = 2;
    sums.correct = NAN;
    sums.absolute_error_sum = 6;
    job_metrics_set(&m, &sums, 1);
    assert_int_equal(m.kinds, 1U << METRIC_LOSS | 1U << METRIC_MAE);
    assert_true(m.values[METRIC_LOSS] == 0.5 && m.values[METRIC_MAE] == 1.5);
    sums.loss_sum = NAN;
    job_metrics_set(&m, &sums, 1);
    assert_int_equal(m.kinds, sums.kinds);
    assert_true(isnan(m.values[METRIC_LOSS]) && isnan(m.values[METRIC_ACCURACY]));
    metrics_release(&sums);
}

static void the_newest_evaluations_stay(void **state)
{
    (void)state;
    struct job_record r;
    job_record_init(&r);
    for (uint64_t i = 0; i < JOB_EVALUATIONS_MAX + 5; i++) {
        job_record_add_evaluation(&r, &(struct job_evaluation){.step = i});
    }
    assert_int_equal(r.evaluation_count, JOB_EVALUATIONS_MAX);
    assert_int_equal(r.evaluations[0].step, 5);
    assert_int_equal(r.evaluations[JOB_EVALUATIONS_MAX - 1].step, JOB_EVALUATIONS_MAX + 4);
    job_record_release(&r);
}

static void a_copy_is_a_copy(void **state)
{
    (void)state;
    struct job_record a, b;
    job_record_init(&a);
    job_record_set(&a.id, "x-1");
    job_names_add(&a.workers, "w");
    job_record_add_evaluation(&a, &(struct job_evaluation){.step = 3});
    job_record_copy(&b, &a);
    job_record_set(&a.id, a.id);
    job_record_release(&a);
    assert_string_equal(b.id, "x-1");
    assert_string_equal(b.workers.items[0], "w");
    assert_int_equal(b.evaluations[0].step, 3);
    job_record_release(&b);
}

static void times_are_those_of_the_last_seconds(void **state)
{
    (void)state;
    struct job_record r;
    job_record_init(&r);
    const struct step_times slow = {.steps = 10, .ns = {[STEP_WAIT] = 4000000000}};
    const struct step_times fast = {.steps = 1000, .ns = {[STEP_COMPUTE] = 1000000000}};
    const struct step_times none = {.ns = {[STEP_WAIT] = 500000000}};
    job_record_add_times(&r, "w-1", &slow);
    job_record_add_times(&r, "w-2", &fast);
    job_record_add_times(&r, "w-1", &none); /* counted, but not a step lately */
    assert_int_equal(r.worker_times_count, 2);
    assert_int_equal(r.worker_times[0].times.ns[STEP_WAIT], 4000000000);
    for (size_t i = 0; i < 40; i++) {
        job_record_add_times(&r, "w-1", &fast);
        assert_true(step_times_ns(&r.worker_times[0].times) <= 5000000000);
    }
    assert_true(r.worker_times[0].times.ns[STEP_WAIT] < 10000000); /* forgotten */
    assert_true(r.worker_times[0].times.ns[STEP_COMPUTE] > 1500000000);
    assert_int_equal(r.times.steps, 10 + 41 * 1000); /* all of it is in the sum */
    assert_int_equal(r.times.ns[STEP_WAIT], 4500000000);
    struct job_record copy;
    job_record_copy(&copy, &r);
    job_record_drop_times(&r, "w-1");
    job_record_drop_times(&r, "w-9");
    assert_int_equal(r.worker_times_count, 1);
    assert_string_equal(r.worker_times[0].worker, "w-2");
    assert_int_equal(r.worker_times[0].times.steps, 1000);
    job_record_release(&r);
    assert_int_equal(copy.worker_times_count, 2);
    assert_string_equal(copy.worker_times[0].worker, "w-1");
    job_record_release(&copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(final_states_are_final),
        cmocka_unit_test(metrics_that_nobody_told),
        cmocka_unit_test(the_newest_evaluations_stay),
        cmocka_unit_test(a_copy_is_a_copy),
        cmocka_unit_test(times_are_those_of_the_last_seconds),
    };
    return cmocka_run_group_tests_name("job_record", tests, NULL, NULL);
}
