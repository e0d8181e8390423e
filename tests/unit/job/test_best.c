/* SPDX-License-Identifier: Apache-2.0 */
/* Which evaluation is the best, and when there have been enough that are none. */
#include "support/test.h"

#include <math.h>

#include "job/progress/best.h"

static const struct training_spec higher = {.stop_metric = METRIC_ACCURACY + 1, .stop_patience = 2};

static void assert_words(const struct best *b, const char *words)
{
    struct buf out = {0};
    best_words(b, &out);
    assert_string_equal(buf_str(&out), words);
    buf_release(&out);
}

static void the_best_is_followed_by_those_that_are_none(void **state)
{
    (void)state;
    struct best b = {0};
    assert_false(best_may_stop(&b, &higher));
    assert_true(best_count(&b, &higher, 10, 0.5));
    assert_true(best_count(&b, &higher, 20, 0.7));
    assert_false(best_may_stop(&b, &higher));
    assert_false(best_count(&b, &higher, 30, 0.7)); /* as good is not better */
    assert_true(best_may_stop(&b, &higher));
    assert_false(best_count(&b, &higher, 40, 0.6));
    assert_int_equal(b.step, 20);
    assert_int_equal(b.without, 2);
    assert_int_equal(b.count, 4);
    assert_int_equal(b.last, 40);
    assert_words(&b, "stopped early: no better accuracy than 0.7 of step 20 for 2 evaluations");
}

static void errors_are_better_when_they_are_less(void **state)
{
    (void)state;
    static const enum metric_kind less[] = {METRIC_LOSS,     METRIC_RMSE,
                                            METRIC_MAE,      METRIC_NORMALISED_ENTROPY,
                                            METRIC_LOG_LOSS, METRIC_ECE};
    static const enum metric_kind more[] = {
        METRIC_ACCURACY, METRIC_AUC, METRIC_GROUPED_AUC, METRIC_PRECISION,
        METRIC_RECALL,   METRIC_F1,  METRIC_R2,          METRIC_TOP_K_ACCURACY};
    for (size_t i = 0; i < sizeof less / sizeof less[0]; i++) {
        const struct training_spec t = {.stop_metric = (int)less[i] + 1, .stop_patience = 1};
        struct best b = {0};
        assert_true(best_count(&b, &t, 1, 3));
        assert_true(best_count(&b, &t, 2, 2));
        assert_false(best_count(&b, &t, 3, 2.5));
    }
    for (size_t i = 0; i < sizeof more / sizeof more[0]; i++) {
        const struct training_spec t = {.stop_metric = (int)more[i] + 1, .stop_patience = 1};
        struct best b = {0};
        assert_true(best_count(&b, &t, 1, 0.2));
        assert_true(best_count(&b, &t, 2, 0.3));
        assert_false(best_count(&b, &t, 3, 0.25));
    }
}

static void what_is_better_is_so_by_more_than_min_delta(void **state)
{
    (void)state;
    const struct training_spec t = {
        .stop_metric = METRIC_ACCURACY + 1, .stop_patience = 2, .stop_min_delta = 0.25};
    struct best b = {0};
    assert_true(best_count(&b, &t, 1, 0.5));
    assert_false(best_count(&b, &t, 2, 0.75)); /* by just so much */
    assert_true(best_count(&b, &t, 3, 0.875));
}

static void what_is_no_number_is_never_better(void **state)
{
    (void)state;
    struct best b = {0};
    assert_false(best_count(&b, &higher, 1, NAN));
    assert_words(&b, "stopped early: no accuracy that is a number for 1 evaluation");
    assert_true(best_may_stop(&b, &higher));
    assert_true(best_count(&b, &higher, 2, 0.1));
    assert_false(best_count(&b, &higher, 3, NAN));
    assert_int_equal(b.step, 2);
}

/* A job that went back to a checkpoint may make an evaluation again that this one has counted. */
static void an_evaluation_counts_once(void **state)
{
    (void)state;
    struct best b = {0};
    assert_true(best_count(&b, &higher, 5, 0.5));
    assert_false(best_count(&b, &higher, 5, 0.9));
    assert_int_equal(b.count, 1);
    assert_true(b.value == 0.5);
}

static void another_metric_begins_anew(void **state)
{
    (void)state;
    const struct training_spec loss = {.stop_metric = METRIC_LOSS + 1, .stop_patience = 2};
    struct best b = {0};
    assert_true(best_count(&b, &higher, 5, 0.5));
    b.kept = true;
    b.kept_step = 5;
    assert_true(best_count(&b, &loss, 10, 7));
    assert_int_equal(b.metric, METRIC_LOSS);
    assert_int_equal(b.count, 1);
    assert_true(b.kept); /* its checkpoint is still there */
}

static void without_patience_nothing_stops(void **state)
{
    (void)state;
    const struct training_spec t = {.stop_metric = METRIC_LOSS + 1};
    const struct training_spec none = {.stop_patience = 1};
    struct best b = {.without = 1000};
    assert_false(best_may_stop(&b, &t));
    assert_false(best_may_stop(&b, &none));
    assert_true(best_is_wanted(&t));
    assert_false(best_is_kept(&t));
    assert_false(best_is_wanted(&none));
}

static void what_is_the_result_is_kept(void **state)
{
    (void)state;
    struct training_spec t = higher;
    t.stop_restore_best = true;
    assert_true(best_is_kept(&t));
    t.stop_metric = 0;
    assert_false(best_is_kept(&t));
    t.keep_best = METRIC_ACCURACY + 1;
    assert_true(best_is_kept(&t));
    t.stop_restore_best = false;
    assert_true(best_is_kept(&t));
}

static void a_version_is_kept_without_an_end_for_want_of_a_better_one(void **state)
{
    (void)state;
    const struct training_spec t = {.keep_best = METRIC_LOSS + 1, .stop_patience = 1};
    struct best b = {0};
    assert_true(best_is_wanted(&t));
    assert_true(best_count(&b, &t, 10, 2.0));
    assert_true(best_count(&b, &t, 20, 1.0)); /* of a loss, less is better */
    assert_false(best_count(&b, &t, 30, 3.0));
    assert_int_equal(b.step, 20);
    assert_false(best_may_stop(&b, &t));
    assert_false(best_is_passed(&b, &t));
    const struct training_spec stops = {.stop_metric = METRIC_LOSS + 1, .stop_patience = 1};
    assert_true(best_is_passed(&b, &stops));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_is_followed_by_those_that_are_none),
        cmocka_unit_test(errors_are_better_when_they_are_less),
        cmocka_unit_test(what_is_better_is_so_by_more_than_min_delta),
        cmocka_unit_test(what_is_no_number_is_never_better),
        cmocka_unit_test(an_evaluation_counts_once),
        cmocka_unit_test(another_metric_begins_anew),
        cmocka_unit_test(without_patience_nothing_stops),
        cmocka_unit_test(what_is_the_result_is_kept),
        cmocka_unit_test(a_version_is_kept_without_an_end_for_want_of_a_better_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
