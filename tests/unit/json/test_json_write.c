/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, texts and values as JSON says them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "json/json_write.h"

static void assert_printed(json_t *value, bool ascii, const char *expected)
{
    struct buf out = {0};
    json_print(value, 9, ascii, &out);
    assert_string_equal(buf_str(&out), expected);
    buf_release(&out);
}

static void test_numbers(void **state)
{
    (void)state;
    json_t *list = json_array();
    json_append(list, json_number(64));
    json_append(list, json_number(-0.5));
    json_append(list, json_number(9007199254740992.0));
    json_append(list, json_number(INFINITY));
    json_append(list, json_fraction(2));
    json_append(list, json_fraction(NAN));
    assert_printed(list, false,
                   "[\n  64,\n  -0.5,\n  9007199254740992,\n  null,\n  2.0,\n  null\n]\n");
}

static void test_texts(void **state)
{
    (void)state;
    json_t *object = json_object();
    json_put(object, "name", json_text("\xc3\xa9\n"));
    json_put(object, "bad", json_text("\xff"));
    assert_printed(json_deep_copy(object), true,
                   "{\n  \"name\": \"\\u00E9\\n\",\n  \"bad\": \"\\\\xFF\"\n}\n");
    assert_printed(object, false, "{\n  \"name\": \"\xc3\xa9\\n\",\n  \"bad\": \"\\\\xFF\"\n}\n");
}

/* A name out of a message: nobody has checked it. */
static void test_keys(void **state)
{
    (void)state;
    json_t *object = json_object();
    json_put(object, "\xc3\xa9", json_number(1));
    json_put(object, "\xff", json_number(2));
    assert_printed(object, true, "{\n  \"\\u00E9\": 1,\n  \"\\\\xFF\": 2\n}\n");
}

static void test_strings(void **state)
{
    (void)state;
    struct buf out = {0};
    json_add_string(&out, "a\"b\\c\nd\te\x01\xc3\xa9");
    assert_string_equal(buf_str(&out), "\"a\\\"b\\\\c\\nd\\u0009e\\u0001\xc3\xa9\"");
    buf_reset(&out);
    json_add_text(&out, "\xff\xc3\xa9\"");
    assert_string_equal(buf_str(&out), "\"\\\\xFF\xc3\xa9\\\"\"");
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_texts),
        cmocka_unit_test(test_keys),
        cmocka_unit_test(test_strings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
