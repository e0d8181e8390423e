/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <stdio.h>
#include <string.h>

#include "data/names.h"

static void numbers_follow_the_first_appearance(void **state)
{
    (void)state;
    struct names n = {0};
    uint32_t number = 99;
    assert_false(names_find(&n, "b", &number));
    assert_int_equal(number, 99);
    static const char *const texts[] = {"b", "a", "b", "", "a"};
    static const uint32_t expected[] = {0, 1, 0, 2, 1};
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(names_add(&n, texts[i], &number, NULL), 0);
        assert_int_equal(number, expected[i]);
    }
    assert_int_equal(n.count, 3);
    assert_string_equal(n.texts[2], "");
    names_release(&n);
    assert_false(names_find(&n, "b", &number));
}

static void the_set_is_bounded(void **state)
{
    (void)state;
    struct names n = {0};
    struct err err;
    uint32_t number;
    char text[16];
    for (uint32_t i = 0; i < NAMES_MAX; i++) {
        (void)snprintf(text, sizeof text, "%u", i);
        assert_int_equal(names_add(&n, text, &number, NULL), 0);
        assert_int_equal(number, i);
    }
    assert_int_equal(names_add(&n, "one more", &number, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, "more than 100000"));
    assert_int_equal(names_add(&n, "4711", &number, NULL), 0); /* known ones still are */
    assert_int_equal(number, 4711);
    names_release(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_follow_the_first_appearance),
        cmocka_unit_test(the_set_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
