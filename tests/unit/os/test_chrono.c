/* SPDX-License-Identifier: Apache-2.0 */
/* Clocks agree with those of the system that they are read from. */
#include "support/test.h"

#include <time.h>

#include "os/chrono.h"

static void test_clocks(void **state)
{
    (void)state;
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    uint64_t ns = chrono_now_ns();
    uint64_t ms = chrono_now_ms();
    clock_gettime(CLOCK_MONOTONIC, &after);
    assert_true(ns >= (uint64_t)before.tv_sec * 1000000000U + (uint64_t)before.tv_nsec);
    assert_true(ns <= (uint64_t)after.tv_sec * 1000000000U + (uint64_t)after.tv_nsec);
    assert_true(ms >= ns / 1000000);
    assert_true(ms <= ((uint64_t)after.tv_sec * 1000000000U + (uint64_t)after.tv_nsec) / 1000000);
    clock_gettime(CLOCK_REALTIME, &before);
    int64_t wall_ms = chrono_wall_ms();
    clock_gettime(CLOCK_REALTIME, &after);
    assert_true(wall_ms >= before.tv_sec * 1000 + before.tv_nsec / 1000000);
    assert_true(wall_ms <= after.tv_sec * 1000 + after.tv_nsec / 1000000);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    ns = chrono_thread_ns();
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    assert_true(ns >= (uint64_t)before.tv_sec * 1000000000U + (uint64_t)before.tv_nsec);
    assert_true(ns <= (uint64_t)after.tv_sec * 1000000000U + (uint64_t)after.tv_nsec);
}

static void test_dates(void **state)
{
    (void)state;
    char out[21];
    assert_string_equal(chrono_format(INT64_C(1795262400123), out, sizeof out),
                        "2026-11-21T12:00:00Z");
    assert_string_equal(chrono_format(0, out, sizeof out), "1970-01-01T00:00:00Z");
    assert_string_equal(chrono_format(0, out, 20), ""); /* no room */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clocks),
        cmocka_unit_test(test_dates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
