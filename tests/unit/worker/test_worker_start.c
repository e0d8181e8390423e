/* SPDX-License-Identifier: Apache-2.0 */
/* StartJob and StopJob that come late. */
#include "support/test.h"

#include "worker/core/worker.h"

static const struct fence own = {.opening = 3, .secret = {1, 2}};

static void another_master_may_start_nothing(void **state)
{
    (void)state;
    const struct fence other = {.opening = 3, .secret = {1, 3}};
    const struct fence again = {.opening = 4, .secret = {1, 2}};
    struct err err = {0};
    for (uint64_t generation = 6; generation < 9; generation++) {
        assert_int_equal(worker_start_decide(7, &own, generation, &other, &err),
                         WORKER_START_REFUSED);
        assert_int_equal(err.code, ERR_UNAUTHENTICATED);
    }
    assert_int_equal(worker_start_decide(7, &own, 8, &again, &err), WORKER_START_AGAIN);
}

static void the_first_start_is_taken(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(worker_start_decide(0, &own, 0, &own, &err), WORKER_START_NEW);
    assert_int_equal(worker_start_decide(0, &own, 7, &own, &err), WORKER_START_NEW);
    assert_int_equal(err.code, 0);
}

static void a_repeated_one_is_the_same(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(worker_start_decide(7, &own, 7, &own, &err), WORKER_START_SAME);
    assert_int_equal(err.code, 0);
}

static void a_later_one_starts_anew_and_an_older_one_is_refused(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(worker_start_decide(7, &own, 8, &own, &err), WORKER_START_AGAIN);
    assert_int_equal(err.code, 0);
    assert_int_equal(worker_start_decide(7, &own, 6, &own, &err), WORKER_START_REFUSED);
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
        cmocka_unit_test(another_master_may_start_nothing),
        cmocka_unit_test(the_first_start_is_taken),
        cmocka_unit_test(a_repeated_one_is_the_same),
        cmocka_unit_test(a_later_one_starts_anew_and_an_older_one_is_refused),
        cmocka_unit_test(a_stop_is_for_starts_up_to_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
