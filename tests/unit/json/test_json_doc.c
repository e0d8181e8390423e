/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of files that may be damaged or hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "json/json_doc.h"

static void expect_corrupt(const char *text, const char *why)
{
    struct json_t *root = NULL;
    struct err err = {0};
    assert_int_equal(json_doc_parse(text, strlen(text), &root, &err), ERR_CORRUPT);
    if (strstr(err.msg, why) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", err.msg, why);
    }
}

static void test_what_is_no_object_is_refused(void **state)
{
    (void)state;
    expect_corrupt("[1]", "an object is expected");
    expect_corrupt("{\"a\": 1, \"a\": 2}", "line 1 column");
    expect_corrupt("{\"a\":\n nothing}", "line 2 column");
    expect_corrupt("{} {}", "end of file expected");
}

/* Not only objects and lists. */
static void test_single_values_are_printed(void **state)
{
    (void)state;
    static const char text[] = "{\"a\": 3, \"b\": \"x\", \"c\": null, \"d\": 0.1, \"e\": [true]}";
    static const char *const printed[][2] = {
        {"a", "3"}, {"b", "\"x\""}, {"c", "null"}, {"d", "0.10000000000000001"}, {"e", "[true]"}};
    struct json_t *root = NULL;
    assert_int_equal(json_doc_parse(text, strlen(text), &root, NULL), 0);
    for (size_t i = 0; i < sizeof printed / sizeof printed[0]; i++) {
        struct buf out = {0};
        json_doc_print(json_doc_member(root, printed[i][0]), &out);
        assert_string_equal(buf_str(&out), printed[i][1]);
        buf_release(&out);
    }
    json_doc_free(root);
}

/* {"a":[0,0,...]} with so many of the signs that are counted. */
static void parse_with(size_t signs, int expected)
{
    struct buf text = {0};
    buf_add_str(&text, "{\"a\":[0");
    for (size_t i = 3; i < signs; i++) {
        buf_add(&text, ",0", 2);
    }
    buf_add_str(&text, "]}");
    struct json_t *root = NULL;
    struct err err = {0};
    assert_int_equal(json_doc_parse(buf_str(&text), text.len, &root, &err), expected);
    if (expected != 0) {
        assert_string_equal(err.msg, "JSON of more than 4194304 values");
    }
    json_doc_free(root);
    buf_release(&text);
}

static void test_values_are_counted_before_they_cost_memory(void **state)
{
    (void)state;
    parse_with(JSON_DOC_VALUES_MAX, 0);
    parse_with((size_t)JSON_DOC_VALUES_MAX + 1, ERR_CORRUPT);
}

static struct json_t *parsed(const char *text)
{
    struct json_t *root = NULL;
    struct err err = {0};
    assert_int_equal(json_doc_parse(text, strlen(text), &root, &err), 0);
    return root;
}

static void expect(int rc, int expected, struct err *err, const char *why)
{
    assert_int_equal(rc, expected);
    assert_string_equal(err->msg, why);
    *err = (struct err){0};
}

static void test_members_are_of_their_type(void **state)
{
    (void)state;
    struct json_t *root = parsed("{\"n\": 7, \"less\": -1, \"t\": \"x\", \"o\": {\"a\": 1}, "
                                 "\"l\": [3, 4]}");
    struct err err = {0};
    uint64_t n = 99;
    expect(json_doc_u64(root, "m", 7, &n, &err), ERR_CORRUPT, &err, "m: missing");
    expect(json_doc_u64(root, "t", 7, &n, &err), ERR_CORRUPT, &err,
           "t: a whole number is expected");
    expect(json_doc_u64(root, "n", 6, &n, &err), ERR_CORRUPT, &err, "n: 7 is out of range");
    expect(json_doc_u64(root, "less", 7, &n, &err), ERR_CORRUPT, &err, "less: -1 is out of range");
    assert_int_equal(n, 99);
    expect(json_doc_u64(root, "n", 7, &n, &err), 0, &err, "");
    assert_int_equal(n, 7);
    const char *text = NULL;
    expect(json_doc_string(root, "n", &text, &err), ERR_CORRUPT, &err, "n: text is expected");
    assert_null(text);
    expect(json_doc_string(root, "t", &text, &err), 0, &err, "");
    assert_string_equal(text, "x");
    const struct json_t *value = NULL;
    expect(json_doc_object(root, "l", &value, &err), ERR_CORRUPT, &err, "l: an object is expected");
    assert_null(value);
    expect(json_doc_object(root, "o", &value, &err), 0, &err, "");
    assert_true(json_doc_is_object(value));
    json_doc_free(root);
}

static void test_lists_have_a_maximum(void **state)
{
    (void)state;
    struct json_t *root = parsed("{\"l\": [3, \"y\", -1, 0], \"o\": {\"a\": 1, \"b\": \"z\"}}");
    struct err err = {0};
    const struct json_t *list = NULL;
    size_t count = 99;
    expect(json_doc_array(root, "o", 9, &list, &count, &err), ERR_CORRUPT, &err,
           "o: a list is expected");
    expect(json_doc_array(root, "l", 3, &list, &count, &err), ERR_CORRUPT, &err,
           "l: a list of 4; at most 3");
    assert_true(list == NULL && count == 99);
    expect(json_doc_array(root, "l", 4, &list, &count, &err), 0, &err, "");
    assert_int_equal(count, 4);
    assert_int_equal(json_doc_count(list), 4);
    uint64_t n = 99;
    assert_true(json_doc_item_u64(list, 3, &n));
    assert_int_equal(n, 0);
    assert_true(json_doc_item_u64(list, 0, &n));
    assert_false(json_doc_item_u64(list, 1, &n) || json_doc_item_u64(list, 2, &n) ||
                 json_doc_item_u64(list, 4, &n));
    assert_int_equal(n, 3);
    const char *text = "unchanged";
    assert_false(json_doc_item_string(list, 0, &text));
    assert_string_equal(text, "unchanged");
    assert_true(json_doc_item_string(list, 1, &text));
    assert_string_equal(text, "y");
    assert_null(json_doc_item(list, 4));
    assert_string_equal(json_doc_text(json_doc_item(list, 1)), "y");
    json_doc_free(root);
}

static void test_members_come_in_the_order_of_the_text(void **state)
{
    (void)state;
    struct json_t *root = parsed("{\"b\": \"z\", \"a\": {}}");
    void *iterator = NULL;
    const struct json_t *value = NULL;
    assert_string_equal(json_doc_next(root, &iterator, &value), "b");
    assert_string_equal(json_doc_text(value), "z");
    assert_false(json_doc_is_object(value));
    assert_string_equal(json_doc_next(root, &iterator, &value), "a");
    assert_true(json_doc_is_object(value));
    assert_null(json_doc_text(value));
    assert_null(json_doc_next(root, &iterator, &value));
    assert_int_equal(json_doc_count(root), 2);
    json_doc_free(root);
}

/* What we print, as the seed of a job, we read. */
static void test_whole_numbers_go_as_far_as_ours(void **state)
{
    (void)state;
    const char *text = "{\"most\": 18446744073709551615, \"list\":[9223372036854775808,1],\n"
                       " \"signed\":9223372036854775807, \"n\": \"18446744073709551615 \\\" 9\",\n"
                       " \"real\": 9223372036854775808.5, \"power\": 1e9223372036854775809}";
    struct json_t *root = NULL;
    struct err err = {0};
    const struct json_t *list = NULL;
    const char *words = NULL;
    size_t count = 0;
    uint64_t n = 0;
    double d = 0;
    char cut[256];
    (void)snprintf(cut, sizeof cut, "%.*s}", (int)(strstr(text, ", \"power") - text), text);
    assert_int_equal(json_doc_parse(cut, strlen(cut), &root, &err), 0);
    assert_int_equal(json_doc_u64(root, "most", UINT64_MAX, &n, &err), 0);
    assert_true(n == UINT64_MAX);
    assert_int_equal(json_doc_u64(root, "signed", UINT64_MAX, &n, &err), 0);
    assert_true(n == INT64_MAX);
    assert_int_equal(json_doc_array(root, "list", 2, &list, &count, &err), 0);
    assert_true(json_doc_item_u64(list, 0, &n));
    assert_true(n == (uint64_t)1 << 63);
    assert_true(json_doc_number(json_doc_item(list, 0), &d));
    assert_true(d == 0x1p63);
    assert_false(json_doc_item_string(list, 0, &words));
    assert_null(json_doc_text(json_doc_item(list, 0)));
    assert_int_equal(json_doc_string(root, "n", &words, &err), 0);
    assert_string_equal(words, "18446744073709551615 \" 9"); /* within a text it is one */
    assert_int_equal(json_doc_u64(root, "most", 10, &n, &err), ERR_CORRUPT);
    assert_string_equal(err.msg, "most: 18446744073709551615 is out of range");
    assert_int_equal(json_doc_string(root, "most", &words, &err), ERR_CORRUPT);
    assert_string_equal(err.msg, "most: text is expected");
    assert_int_equal(json_doc_u64(root, "real", UINT64_MAX, &n, &err), ERR_CORRUPT);
    assert_string_equal(err.msg, "real: a whole number is expected");
    json_doc_free(root);
    expect_corrupt(text, "line 3"); /* the power is too large for a number */
    expect_corrupt("{\"a\": 18446744073709551616}", "too big integer");
    expect_corrupt("{\"a\": -9223372036854775809}", "too big negative integer");
    expect_corrupt("{\"a\": 9223372036854775808", "line 1");
    expect_corrupt("{\"a\\", "line 1");
}

static void test_kinds_of_values(void **state)
{
    (void)state;
    static const char text[] = "{\"a\": [-5, 1.5, \"x\", 9223372036854775808], \"n\": null, \"t\": "
                               "true, \"o\": {}}";
    struct json_t *root = NULL;
    struct err err = {0};
    int64_t number = 7;
    bool truth = false;
    assert_int_equal(json_doc_parse(text, sizeof text - 1, &root, &err), 0);
    const struct json_t *a = json_doc_member(root, "a");
    assert_true(json_doc_is_array(a));
    assert_false(json_doc_is_array(json_doc_member(root, "o")));
    assert_true(json_doc_item_i64(a, 0, &number));
    assert_int_equal(number, -5);
    for (size_t i = 1; i < 5; i++) {
        assert_false(json_doc_item_i64(a, i, &number));
    }
    assert_int_equal(number, -5);
    assert_true(json_doc_is_null(json_doc_member(root, "n")));
    assert_false(json_doc_is_null(a));
    assert_true(json_doc_bool(json_doc_member(root, "t"), &truth));
    assert_true(truth);
    assert_false(json_doc_bool(a, &truth));
    assert_null(json_doc_member(root, "none"));
    json_doc_free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_no_object_is_refused),
        cmocka_unit_test(test_single_values_are_printed),
        cmocka_unit_test(test_values_are_counted_before_they_cost_memory),
        cmocka_unit_test(test_members_are_of_their_type),
        cmocka_unit_test(test_lists_have_a_maximum),
        cmocka_unit_test(test_members_come_in_the_order_of_the_text),
        cmocka_unit_test(test_whole_numbers_go_as_far_as_ours),
        cmocka_unit_test(test_kinds_of_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
