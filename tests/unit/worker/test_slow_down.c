/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "os/chrono.h"
#include "worker/job/slow_down.h"

#define DAY_NS UINT64_C(86400000000000) /* the test would not end if it were waited for */

static void *wait_days(void *arg)
{
    slow_down_wait(arg, chrono_now_ns(), DAY_NS);
    return NULL;
}

static void test_factor_one_waits_for_nothing(void **state)
{
    (void)state;
    struct slow_down s;
    slow_down_init(&s, 1);
    slow_down_wait(&s, chrono_now_ns(), DAY_NS);
    slow_down_release(&s);
}

static void test_nothing_is_slowed_after_the_end(void **state)
{
    (void)state;
    struct slow_down s;
    slow_down_init(&s, SLOW_DOWN_MAX);
    slow_down_wait(&s, chrono_now_ns(), 0);
    slow_down_wait(&s, 0, 1); /* it waited for the processor long enough */
    slow_down_end(&s);
    slow_down_wait(&s, chrono_now_ns(), DAY_NS);
    slow_down_end(&s);
    slow_down_release(&s);
}

static void test_the_end_wakes_who_waits(void **state)
{
    (void)state;
    struct slow_down s;
    slow_down_init(&s, 1.5);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_days, &s), 0);
    slow_down_end(&s);
    assert_int_equal(pthread_join(thread, NULL), 0);
    slow_down_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_factor_one_waits_for_nothing),
        cmocka_unit_test(test_nothing_is_slowed_after_the_end),
        cmocka_unit_test(test_the_end_wakes_who_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
