/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <string.h>

#include "job/progress/fence.h"

static void test_every_bit_of_a_secret_counts(void **state)
{
    (void)state;
    struct fence own = {.opening = 1, .secret = {1, 2, 3}};
    struct fence asked = {.opening = 2, .secret = {1, 2, 3}};
    struct err err = {0};
    assert_int_equal(fence_check_secret(&own, &asked, &err), 0);
    for (size_t bit = 0; bit < 8 * FENCE_SECRET_BYTES; bit++) {
        asked.secret[bit / 8] ^= (uint8_t)(1U << bit % 8);
        assert_int_equal(fence_check_secret(&own, &asked, &err), ERR_UNAUTHENTICATED);
        asked.secret[bit / 8] ^= (uint8_t)(1U << bit % 8);
    }
    assert_non_null(strstr(err.msg, "another cluster may have a job of the same name"));
    assert_int_equal(fence_check_secret(&own, &asked, NULL), 0);
}

static void test_openings(void **state)
{
    (void)state;
    const struct fence own = {.opening = 7};
    const struct fence other = {.opening = 7 | UINT64_C(1) << 63};
    struct err err = {0};
    assert_int_equal(fence_check_opening(&own, &own, &err), 0);
    assert_int_equal(fence_check_opening(&own, &other, &err), ERR_ABORTED);
    assert_non_null(strstr(err.msg, "another time, or by another cluster"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_bit_of_a_secret_counts),
        cmocka_unit_test(test_openings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
