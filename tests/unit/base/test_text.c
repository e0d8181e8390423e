/* SPDX-License-Identifier: Apache-2.0 */
/* Names that become files and addresses, and buffers that text grows in. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/text.h"

static void test_names(void **state)
{
    (void)state;
    static const char *const GOOD[] = {"", "a", "digits-1", "Z.9_x", "_", "0123456789"};
    static const char *const BAD[] = {".",   "..",  ".a", "-a",         "a/b",
                                      "a b", "a\n", "é",  "01234567890"};
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        assert_true(text_is_name(GOOD[i], 10));
    }
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        assert_false(text_is_name(BAD[i], 10));
    }
}

static void test_spaces(void **state)
{
    (void)state;
    struct buf b = {0};
    buf_add_spaces(&b, 0);
    assert_string_equal(buf_str(&b), "");
    buf_add_str(&b, "a");
    buf_add_spaces(&b, 3);
    assert_string_equal(buf_str(&b), "a   ");
    assert_int_equal(b.len, 4);
    buf_release(&b);
}

/* What is printed fits the room that is there, misses it by one, or is much longer. */
static void test_printf(void **state)
{
    (void)state;
    char text[1000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    for (int n = 0; n < (int)sizeof text - 1; n += n < 300 ? 1 : 97) {
        struct buf b = {0};
        buf_add_str(&b, "ab");
        buf_printf(&b, "%.*s", n, text);
        buf_printf(&b, "%d", 7);
        assert_int_equal(b.len, 2 + n + 1);
        assert_memory_equal(b.data, "ab", 2);
        assert_memory_equal(b.data + 2, text, (size_t)n);
        assert_string_equal(b.data + 2 + n, "7");
        buf_release(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_spaces),
        cmocka_unit_test(test_printf),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
