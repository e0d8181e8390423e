/* SPDX-License-Identifier: Apache-2.0 */
/* Errors of OpenSSL come in queues of a thread: what is told is the first one, and none of them is
 * told again. */
#include "support/test.h"

#include "tls/tls_openssl.h"

static void raise_two(void)
{
    ERR_raise(ERR_LIB_PEM, PEM_R_NO_START_LINE);
    ERR_raise(ERR_LIB_PEM, PEM_R_BAD_PASSWORD_READ);
}

static void the_first_reason_is_told_once(void **state)
{
    (void)state;
    struct err err = {0};
    raise_two();
    assert_int_equal(tls_error(&err, ERR_INVALID, "file %d", 1), ERR_INVALID);
    assert_string_equal(err.msg, "file 1: no start line");
    assert_int_equal(tls_error(&err, ERR_EXHAUSTED, "file %d", 2), ERR_EXHAUSTED);
    assert_string_equal(err.msg, "file 2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_reason_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
