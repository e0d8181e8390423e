/* SPDX-License-Identifier: Apache-2.0 */
/* Which era a version lies in, and lists that are none. */
#include "support/test.h"

#include <string.h>

#include "job/progress/era.h"

static const struct era ERAS[] = {{0, 0}, {10, 2}, {11, 1}};

static void a_version_lies_in_the_last_that_has_begun(void **state)
{
    (void)state;
    assert_int_equal(era_at(ERAS, 3, 0), 0);
    assert_int_equal(era_at(ERAS, 3, 9), 0);
    assert_int_equal(era_at(ERAS, 3, 10), 1);
    assert_int_equal(era_at(ERAS, 3, 11), 2);
    assert_int_equal(era_at(ERAS, 3, UINT64_MAX), 2);
    assert_int_equal(era_at(ERAS, 1, 10), 0);
    assert_int_equal(era_at(NULL, 0, 10), 0);
    assert_int_equal(era_rounds_max(ERAS, 3), 2);
    assert_int_equal(era_rounds_max(ERAS, 1), 0);
    assert_int_equal(era_rounds_max(NULL, 0), 0);
}

static void lists_are_checked(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(era_check(ERAS, 3, 2, &err), 0);
    assert_int_equal(era_check(NULL, 0, 2, &err), 0);
    assert_int_equal(era_check(ERAS, 3, 1, &err), ERR_INVALID);
    assert_string_equal(err.msg, "2 rounds of sums; at most 1");
    assert_int_equal(era_check(ERAS + 1, 2, 2, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "era 0 begins at version 10"));
    const struct era twice[] = {{0, 0}, {10, 0}, {10, 0}};
    assert_int_equal(era_check(twice, 3, 2, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "era 2 begins at version 10"));
    struct era many[ERAS_MAX + 1];
    for (size_t i = 0; i <= ERAS_MAX; i++) {
        many[i] = (struct era){i, 0};
    }
    assert_int_equal(era_check(many, ERAS_MAX, 2, &err), 0);
    assert_int_equal(era_check(many, ERAS_MAX + 1, 2, &err), ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_version_lies_in_the_last_that_has_begun),
        cmocka_unit_test(lists_are_checked),
    };
    return cmocka_run_group_tests_name("era", tests, NULL, NULL);
}
