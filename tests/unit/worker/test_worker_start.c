/* SPDX-License-Identifier: Apache-2.0 */
/* StartJob and StopJob that come late. */
#include "support/test.h"

#include "worker/worker.h"

static void the_first_start_is_taken(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(worker_start_decide(0, 0, &err), WORKER_START_NEW);
    assert_int_equal(worker_start_decide(0, 7, &err), WORKER_START_NEW);
    assert_int_equal(err.code, 0);
}

static void a_repeated_one_is_the_same(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(worker_start_decide(7, 7, &err), WORKER_START_SAME);
    assert_int_equal(err.code, 0);
}

static void a_later_one_starts_anew_and_an_older_one_is_refused(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(worker_start_decide(7, 8, &err), WORKER_START_AGAIN);
    assert_int_equal(err.code, 0);
    assert_int_equal(worker_start_decide(7, 6, &err), WORKER_START_OLD);
    assert_int_equal(err.code, ERR_ABORTED);
}

static void a_stop_is_for_starts_up_to_its_own(void **state)
{
    (void)state;
    assert_true(worker_stop_decide(0, 0)); /* it has only looked at the data */
    assert_true(worker_stop_decide(7, 7));
    assert_true(worker_stop_decide(7, 9));
    assert_false(worker_stop_decide(7, 6));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_start_is_taken),
        cmocka_unit_test(a_repeated_one_is_the_same),
        cmocka_unit_test(a_later_one_starts_anew_and_an_older_one_is_refused),
        cmocka_unit_test(a_stop_is_for_starts_up_to_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
