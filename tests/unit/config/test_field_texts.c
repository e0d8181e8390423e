/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <string.h>

#include "config/field_texts.h"

/* Read @text; the items have to be those of @expected, separated by '|'. */
static void reads(const char *text, const char *expected)
{
    struct field_texts t;
    struct buf joined = {0};
    assert_true(field_texts_read(text, &t));
    for (size_t i = 0; i < t.count; i++) {
        buf_printf(&joined, "%s%s", i == 0 ? "" : "|", t.items[i]);
    }
    assert_string_equal(buf_str(&joined), expected);
    buf_reset(&joined);
    buf_add_char(&joined, '['); /* written as a list, they read back */
    for (size_t i = 0; i < t.count; i++) {
        field_texts_add(&joined, t.items[i], i == 0);
    }
    buf_add_char(&joined, ']');
    struct field_texts again = {0};
    assert_int_equal(field_texts_read(buf_str(&joined), &again), t.count > 0);
    assert_int_equal(again.count, t.count);
    for (size_t i = 0; i < t.count; i++) {
        assert_string_equal(again.items[i], t.items[i]);
    }
    field_texts_release(&again);
    field_texts_release(&t);
    buf_release(&joined);
}

static void texts_and_lists_are_read(void **state)
{
    (void)state;
    reads("", "");
    reads("a, b", "a, b");
    reads("[a", "[a");
    reads("[ab].csv", "[ab].csv");
    reads("[ab]-[cd]", "[ab]-[cd]");
    reads("[a]", "a");
    reads("[ a b , c]", "a b|c");
    reads("[\"a, b\", \"]\" , \"x\\\"y\\\\z\"]", "a, b|]|x\"y\\z");
    reads("[\" a \"]", " a ");
}

static void wrong_lists_are_refused(void **state)
{
    (void)state;
    static const char *const texts[] = {"[]",     "[ ]",   "[,]",    "[a,]",     "[,a]",
                                        "[a,,b]", "[\"a]", "[\"\"]", "[\"a\"b]", "[a\"b]"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct field_texts t = {0};
        if (field_texts_read(texts[i], &t)) {
            fail_msg("%s was read", texts[i]);
        }
        assert_null(t.items);
    }
}

/* As older files write several: one text with commas. */
static void commas_are_read(void **state)
{
    (void)state;
    static const char *const rows[][2] = {{"", ""},           {" , ", ""},
                                          {"a", "a"},         {"a, b c ,d,", "a|b c|d"},
                                          {"a,,b", "a||b"},   {"[a, \"b, c\"]", "a|b, c"},
                                          {"[a], b", "[a]|b"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct field_texts t = {0};
        struct buf joined = {0};
        assert_true(field_texts_read_commas(rows[i][0], &t));
        for (size_t k = 0; k < t.count; k++) {
            buf_printf(&joined, "%s%s", k == 0 ? "" : "|", t.items[k]);
        }
        assert_string_equal(buf_str(&joined), rows[i][1]);
        buf_release(&joined);
        field_texts_release(&t);
    }
    struct field_texts none = {0};
    assert_false(field_texts_read_commas("[a,]", &none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_and_lists_are_read),
        cmocka_unit_test(wrong_lists_are_refused),
        cmocka_unit_test(commas_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
