/* SPDX-License-Identifier: Apache-2.0 */
/* JSON of files that may be damaged or hostile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_no_object_is_refused),
        cmocka_unit_test(test_values_are_counted_before_they_cost_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
