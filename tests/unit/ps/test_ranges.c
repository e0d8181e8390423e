/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges against an array of what has come. */
#include "support/test.h"

#include <stdbool.h>
#include <string.h>

#include "base/rng.h"
#include "ps/data/ranges.h"

#define ELEMENTS 64

static void test_up_and_down_need_one_range(void **state)
{
    (void)state;
    struct err err;
    struct ranges up = {0}, down = {0};
    for (uint64_t i = 0; i < 100; i++) {
        assert_int_equal(ranges_add(&up, i * 7, 7, &err), 0);
        assert_int_equal(ranges_add(&down, (99 - i) * 7, 7, &err), 0);
        assert_int_equal(up.count, 1);
        assert_int_equal(down.count, 1);
    }
    assert_memory_equal(&up, &down, sizeof up);
    assert_int_equal(up.items[0].end, 700);
}

static void test_nothing_is_nothing(void **state)
{
    (void)state;
    struct err err;
    struct ranges r = {0};
    assert_int_equal(ranges_add(&r, 5, 0, &err), 0);
    assert_int_equal(r.count, 0);
    assert_int_equal(ranges_add(&r, 0, 10, &err), 0);
    assert_int_equal(ranges_add(&r, 5, 0, &err), 0);
    assert_int_equal(r.count, 1);
}

static void test_too_many_gaps(void **state)
{
    (void)state;
    struct err err;
    struct ranges r = {0};
    for (uint64_t i = 0; i < RANGES_MAX; i++) {
        assert_int_equal(ranges_add(&r, 2 * i, 1, &err), 0);
    }
    struct ranges before = r;
    assert_int_equal(ranges_add(&r, 2 * RANGES_MAX, 1, &err), ERR_EXHAUSTED);
    assert_string_equal(err.msg, "values with more than 15 gaps");
    assert_memory_equal(&r, &before, sizeof r);
    assert_int_equal(ranges_add(&r, 1, 1, &err), 0); /* one less */
    assert_int_equal(ranges_add(&r, 2 * RANGES_MAX, 1, &err), 0);
}

/* What is taken and what is refused, against a flag for each element. */
static void test_random_ranges(void **state)
{
    (void)state;
    struct err err;
    for (uint64_t seed = 0; seed < 300; seed++) {
        struct ranges r = {0};
        bool came[ELEMENTS + 1] = {false};
        for (uint64_t n = 0; n < 60; n++) {
            uint64_t first = rng_below(seed, 2 * n, ELEMENTS);
            uint64_t count = 1 + rng_below(seed, 2 * n + 1, 6);
            count = count > ELEMENTS - first ? ELEMENTS - first : count;
            bool again = false;
            for (uint64_t i = first; i < first + count; i++) {
                again = again || came[i];
            }
            int rc = ranges_add(&r, first, count, &err);
            assert_int_equal(rc == ERR_INVALID, again);
            for (uint64_t i = first; rc == 0 && i < first + count; i++) {
                came[i] = true;
            }
            size_t runs = 0;
            for (uint64_t i = 0; i < ELEMENTS; i++) {
                runs += came[i] && !came[i + 1] ? 1 : 0;
            }
            assert_int_equal(r.count, runs);
            assert_true(rc == 0 || again || runs == RANGES_MAX);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_up_and_down_need_one_range),
        cmocka_unit_test(test_nothing_is_nothing),
        cmocka_unit_test(test_too_many_gaps),
        cmocka_unit_test(test_random_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
