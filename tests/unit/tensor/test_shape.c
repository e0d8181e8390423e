/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "tensor/shape.h"

static void test_count(void **state)
{
    (void)state;
    assert_int_equal(1, shape_count(&(struct shape){.rank = 0}));
    assert_int_equal(24, shape_count(&(struct shape){.rank = 3, .dims = {2, 3, 4}}));
    assert_int_equal(0, shape_count(&(struct shape){.rank = 2, .dims = {5, 0}}));
    const struct shape huge = {.rank = 3, .dims = {UINT64_C(1) << 32, UINT64_C(1) << 31, 2}};
    assert_int_equal(0, shape_count(&huge));
}

static void test_equal(void **state)
{
    (void)state;
    const struct shape a = {.rank = 2, .dims = {2, 3, 99}}, b = {.rank = 2, .dims = {2, 3, 4}};
    const struct shape c = {.rank = 3, .dims = {2, 3, 4}}, d = {.rank = 2, .dims = {2, 4}};
    assert_true(shape_equal(&a, &b)); /* dims beyond the rank do not count */
    assert_false(shape_equal(&b, &c));
    assert_false(shape_equal(&a, &d));
}

static void test_format(void **state)
{
    (void)state;
    char text[32], tiny[6];
    const struct shape s = {.rank = 3, .dims = {28, 28, 1}};
    assert_string_equal("[28, 28, 1]", shape_format(&s, text, sizeof text));
    assert_string_equal("[]", shape_format(&(struct shape){0}, text, sizeof text));
    assert_string_equal("[28, ", shape_format(&s, tiny, sizeof tiny)); /* cut, not overrun */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_count),
        cmocka_unit_test(test_equal),
        cmocka_unit_test(test_format),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
