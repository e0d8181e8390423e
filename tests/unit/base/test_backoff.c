/* SPDX-License-Identifier: Apache-2.0 */
/* Pauses double from the first to the longest, and never overflow. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/backoff.h"

static void test_doubles(void **state)
{
    (void)state;
    static const uint64_t EXPECTED[] = {0, 200, 400, 800, 1600, 3200, 5000, 5000};
    for (unsigned n = 0; n < sizeof EXPECTED / sizeof *EXPECTED; n++) {
        assert_int_equal(backoff_ms(n, 200, 5000), EXPECTED[n]);
    }
}

static void test_ends(void **state)
{
    (void)state;
    assert_int_equal(backoff_ms(UINT_MAX, 1, 30000), 30000);
    assert_int_equal(backoff_ms(1, 500, 100), 100); /* the longest is never passed */
    assert_int_equal(backoff_ms(3, 100, 400), 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
