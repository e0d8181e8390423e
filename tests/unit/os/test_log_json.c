/* SPDX-License-Identifier: Apache-2.0 */
/* Log lines as JSON objects. */
#include "support/test.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "os/log.h"
#include "os/log_json.h"

static void assert_json(const char *line, const char *expected)
{
    char out[512];
    size_t n = log_json(line, strlen(line), out, sizeof out - 1);
    out[n] = '\0';
    assert_string_equal(out, expected);
}

static void test_fields(void **state)
{
    (void)state;
    assert_json("", "{}");
    assert_json("time=1 level=info", "{\"time\":\"1\",\"level\":\"info\"}");
    assert_json("a=1  b= c=x=y", "{\"a\":\"1\",\"b\":\"\",\"c\":\"x=y\"}");
    assert_json("a=\"two words\" b=\"\" c=3", "{\"a\":\"two words\",\"b\":\"\",\"c\":\"3\"}");
    assert_json("word a=1", "{\"word\":\"\",\"a\":\"1\"}");
    assert_json("a=say\"it\\", "{\"a\":\"say\\\"it\\\\\"}");
}

static void test_what_was_quoted(void **state)
{
    (void)state;
    static const struct {
        const char *value, *json;
    } CASES[] = {
        {"a \"b\" \\c", "a \\\"b\\\" \\\\c"},
        {"a\nb\rc\td", "a\\nb\\rc\\td"},
        {"\x1b[2J \x7f", "\\u001b[2J \\u007f"},
        {"\xC2\x9B"
         "2J",
         "\\u009b2J"},
        {"K\xC3\xB6ln", "K\xC3\xB6ln"},
        {"bad \xFF byte", "bad ? byte"},
        {"", ""},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; i++) {
        char quoted[64], line[128], expected[128];
        (void)snprintf(line, sizeof line, "k=%s z=1",
                       log_quote(CASES[i].value, quoted, sizeof quoted));
        (void)snprintf(expected, sizeof expected, "{\"k\":\"%s\",\"z\":\"1\"}", CASES[i].json);
        assert_json(line, expected);
    }
}

/* Lines are cut at their end, also within a value or an escape. */
static void test_cut_lines(void **state)
{
    (void)state;
    assert_json("a=\"two wo", "{\"a\":\"two wo\"}");
    assert_json("a=\"x\\", "{\"a\":\"x\\\\\"}");
    assert_json("a=\"x\\x1", "{\"a\":\"x\\\\x1\"}");
    assert_json("a=\"x\\u00", "{\"a\":\"x\\\\u00\"}");
    assert_json("a=1 b", "{\"a\":\"1\",\"b\":\"\"}");
}

static bool is_closed(const char *out, size_t n)
{
    bool inside = false;
    for (size_t i = 0; i < n; i++) {
        if (out[i] == '\\') {
            i++;
        } else if (out[i] == '"') {
            inside = !inside;
        } else if (out[i] == '}' && !inside) {
            return i == n - 1;
        }
    }
    return false;
}

static void test_any_room(void **state)
{
    (void)state;
    static const char line[] = "time=1 a=\"x \\\"y\\\" \\x1b\" b=\\\\\\ \"= word c=\"\\u009b\" d=";
    for (size_t room = 3; room < 200; room++) {
        char out[256];
        memset(out, '#', sizeof out);
        size_t n = log_json(line, sizeof line - 1, out, room);
        assert_true(n <= room);
        assert_int_equal(out[room], '#');
        assert_int_equal(out[0], '{');
        assert_true(is_closed(out, n));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_what_was_quoted),
        cmocka_unit_test(test_cut_lines),
        cmocka_unit_test(test_any_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
