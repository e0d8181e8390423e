/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker's core tells the master: its progress, and that it failed. */
#include "unit/worker/fake.h"

#define STEPS_PER_EPOCH 10

/* The metrics of few epochs have room: where many pass between two reports, more are made. */
static void test_epochs_are_reported_before_there_are_too_many(void **state)
{
    (void)state;
    struct fake f;
    fake_setup(&f, false);
    const uint64_t limit = STEPS_PER_EPOCH * 10ULL * WORKER_REPORT_EPOCHS;
    f.now_ms = WORKER_REPORT_MS;
    fake_assign_sync(&f, 1, 1, 0, 1, 0, limit);
    size_t most = 0; /* steps between two reports */
    size_t reported = 0;
    while (f.computed < limit) { /* all at once */
        size_t reports = f.reports;
        fake_answer(&f, f.queued - 1);
        reported = f.reports > reports ? f.computed : reported;
        most = f.computed - reported > most ? f.computed - reported : most;
    }
    assert_int_equal(f.reports, 1 + 9);
    assert_in_range(most, STEPS_PER_EPOCH * (WORKER_REPORT_EPOCHS - 1),
                    STEPS_PER_EPOCH * WORKER_REPORT_EPOCHS + 1);
    fake_teardown(&f);
}

static void test_a_failure_is_told_until_it_is_heard(void **state)
{
    (void)state;
    struct fake f;
    fake_setup(&f, false);
    fake_assign_sync(&f, 1, 1, 0, 1, 0, 3);
    f.queued = 0;
    struct worker_event failed = {.kind = WORKER_FAIL,
                                  .failed = {ERR_EXHAUSTED, "no memory for gradients"}};
    fake_feed(&f, &failed);
    assert_int_equal(f.failures, 1);
    struct worker_event reported = {.kind = WORKER_FAILURE_REPORTED,
                                    .reported.code = ERR_UNAVAILABLE};
    for (size_t i = 1; i <= 5; i++) {
        fake_feed(&f, &reported);
        assert_true(f.timer_ms > f.now_ms);
        f.now_ms = f.timer_ms;
        struct worker_event timer = {.kind = WORKER_TIMER};
        fake_feed(&f, &timer);
        fake_feed(&f, &timer); /* one that comes early says nothing */
        assert_int_equal(f.failures, 1 + i);
    }
    assert_int_equal(f.failures_again, 5);
    reported.reported.code = 0;
    f.timer_ms = 0;
    fake_feed(&f, &reported);
    assert_int_equal(f.timer_ms, 0);
    assert_int_equal(f.queued, 0);
    fake_teardown(&f);
}

/* The master ignores failures of generations that are over; what failed here has to be told in the
 * new one. */
static void test_a_failure_is_told_again_in_a_new_generation(void **state)
{
    (void)state;
    struct fake f;
    fake_setup(&f, false);
    struct worker_event failed = {.kind = WORKER_FAIL, .failed = {ERR_INTERNAL, "broken"}};
    fake_feed(&f, &failed);
    assert_int_equal(f.failures, 1);
    assert_int_equal(f.failure_generation, 1); /* of the StartJob: none is assigned */
    struct worker_event reported = {.kind = WORKER_FAILURE_REPORTED, .reported.code = ERR_ABORTED};
    fake_feed(&f, &reported);
    assert_int_equal(f.failures, 1);
    fake_assign_sync(&f, 4, 1, 0, 1, 0, 3);
    assert_int_equal(f.reply_code, ERR_CANCELLED);
    assert_int_equal(f.failures, 2);
    assert_int_equal(f.failure_generation, 4);
    fake_assign_sync(&f, 4, 1, 0, 1, 0, 3); /* once */
    assert_int_equal(f.failures, 2);
    fake_teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_epochs_are_reported_before_there_are_too_many),
        cmocka_unit_test(test_a_failure_is_told_until_it_is_heard),
        cmocka_unit_test(test_a_failure_is_told_again_in_a_new_generation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
