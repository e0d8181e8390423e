/* SPDX-License-Identifier: Apache-2.0 */
/* Errors say what was wrong from the outside in, and never more than fits. */
#include "support/test.h"

#include <errno.h>
#include <string.h>
#include <wchar.h>

#include "base/err.h"

static void test_set_and_wrap(void **state)
{
    (void)state;
    struct err err = {0};
    assert_int_equal(err_set(&err, ERR_RANGE, "%d is too many", 7), ERR_RANGE);
    assert_int_equal(err.code, ERR_RANGE);
    assert_string_equal(err.msg, "7 is too many");
    assert_int_equal(err_wrap(&err, "line %d", 3), ERR_RANGE);
    assert_string_equal(err.msg, "line 3: 7 is too many");
    assert_int_equal(err_set(&err, ERR_STATE, "again: %s", err.msg), ERR_STATE); /* of itself */
    assert_string_equal(err.msg, "again: line 3: 7 is too many");
    assert_int_equal(err_set(NULL, ERR_STATE, "nobody looks"), ERR_STATE);
    assert_int_equal(err_errno(NULL, ENOENT, "nobody looks"), ERR_NOT_FOUND);
    assert_int_equal(err_wrap(NULL, "nobody looks"), ERR_UNKNOWN);
}

static void test_long_messages_are_cut(void **state)
{
    (void)state;
    char text[2 * ERR_MESSAGE_BYTES];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    struct err err = {0};
    (void)err_set(&err, ERR_INVALID, "%s", text);
    assert_int_equal(strlen(err.msg), ERR_MESSAGE_BYTES - 1);
    (void)err_wrap(&err, "outside");
    assert_int_equal(strlen(err.msg), ERR_MESSAGE_BYTES - 1);
    assert_memory_equal(err.msg, "outside: xxx", 12);
    (void)err_set(&err, ERR_INVALID, "inside");
    (void)err_wrap(&err, "%s", text);
    assert_int_equal(strlen(err.msg), ERR_MESSAGE_BYTES - 1);
    (void)err_errno(&err, ENOENT, "%s", text); /* why is not lost */
    assert_non_null(strstr(err.msg, "x: No such file or directory"));
    assert_true(strlen(err.msg) < ERR_MESSAGE_BYTES);
}

/* Where the context cannot be written (no such letter in the C locale), the reason still stands. */
static void test_a_context_without_letters(void **state)
{
    (void)state;
    struct err err = {0};
    (void)err_set(&err, ERR_INVALID, "inside");
    assert_int_equal(err_wrap(&err, "%ls", L"\u00e9"), ERR_INVALID);
    assert_string_equal(err.msg, ": inside");
}

static void test_errors_of_the_system(void **state)
{
    (void)state;
    static const struct {
        int value, code;
    } CASES[] = {{ENOENT, ERR_NOT_FOUND},
                 {ENOTDIR, ERR_NOT_FOUND},
                 {EEXIST, ERR_EXISTS},
                 {EADDRINUSE, ERR_EXISTS},
                 {EACCES, ERR_PERMISSION},
                 {EPERM, ERR_PERMISSION},
                 {EROFS, ERR_PERMISSION},
                 {ENOSPC, ERR_EXHAUSTED},
                 {EDQUOT, ERR_EXHAUSTED},
                 {ENOMEM, ERR_EXHAUSTED},
                 {EMFILE, ERR_EXHAUSTED},
                 {ENFILE, ERR_EXHAUSTED},
                 {EINVAL, ERR_INVALID},
                 {EISDIR, ERR_INVALID},
                 {ENAMETOOLONG, ERR_INVALID},
                 {ETIMEDOUT, ERR_TIMEOUT},
                 {ECONNREFUSED, ERR_UNAVAILABLE},
                 {ECONNRESET, ERR_UNAVAILABLE},
                 {EAGAIN, ERR_UNAVAILABLE},
                 {EIO, ERR_INTERNAL}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct err err = {0};
        assert_int_equal(err_errno(&err, CASES[i].value, "open %s", "a"), CASES[i].code);
        assert_int_equal(err.code, CASES[i].code);
        assert_memory_equal(err.msg, "open a: ", 8);
        assert_string_equal(err.msg + 8, strerror(CASES[i].value));
    }
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(err_code_name(ERR_OK), "ok");
    assert_string_equal(err_code_name(ERR_NOT_FOUND), "not_found");
    assert_string_equal(err_code_name(ERR_CORRUPT), "corrupt");
    assert_string_equal(err_code_name(ERR_UNAUTHENTICATED), "unauthenticated");
    assert_string_equal(err_code_name(ERR_UNAUTHENTICATED - 1), "unknown");
    assert_string_equal(err_code_name(1), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set_and_wrap),
        cmocka_unit_test(test_long_messages_are_cut),
        cmocka_unit_test(test_a_context_without_letters),
        cmocka_unit_test(test_errors_of_the_system),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
