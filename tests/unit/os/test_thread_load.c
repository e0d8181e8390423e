/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel notes of a thread, and what it says of the one that asks. */
#include "support/test.h"

#include <sched.h>
#include <time.h>

#include "os/thread_load.h"

static void test_text_of_the_kernel(void **state)
{
    (void)state;
    uint64_t delay_ns = 1;
    assert_true(thread_load_parse("123456 789 42\n", &delay_ns));
    assert_int_equal(delay_ns, 789);
    assert_true(thread_load_parse("0 0 0", &delay_ns));
    assert_int_equal(delay_ns, 0);
    static const char *const others[] = {"", "1", "1 ", "1 2", "x 2 3", "1 x 3", "1\n2\n3"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        delay_ns = 5;
        assert_false(thread_load_parse(others[i], &delay_ns));
        assert_int_equal(delay_ns, 5);
    }
}

/* It only grows. A yield is no sleep, and may be no switch either. */
static void test_of_this_thread(void **state)
{
    (void)state;
    const struct thread_load before = thread_load();
    for (int i = 0; i < 100; i++) {
        (void)sched_yield();
    }
    /* The time may be over before the thread sleeps, where the machine stands still. */
    const struct timespec moment = {.tv_nsec = 1000000};
    for (int i = 0; i < 10000 && thread_load().sleeps < before.sleeps + 10; i++) {
        (void)nanosleep(&moment, NULL);
    }
    const struct thread_load after = thread_load();
    assert_true(after.switches >= before.switches);
    assert_true(after.sleeps >= before.sleeps + 10);
    assert_int_equal(after.has_delay, before.has_delay);
    assert_true(after.delay_ns >= before.delay_ns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_of_the_kernel),
        cmocka_unit_test(test_of_this_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
