/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "os/log.h"

static void assert_quoted(const char *s, const char *expected)
{
    char out[256];
    assert_string_equal(log_quote(s, out, sizeof out), expected);
}

static void test_quotes_what_is_not_a_word(void **state)
{
    (void)state;
    assert_quoted("word", "word");
    assert_quoted("", "\"\"");
    assert_quoted("two words", "\"two words\"");
    assert_quoted("a=b", "\"a=b\"");
    assert_quoted("\"\\", "\"\\\"\\\\\"");
    assert_quoted("K\xC3\xB6ln", "K\xC3\xB6ln");
}

static void test_quotes_every_control_byte(void **state)
{
    (void)state;
    assert_quoted("a\nb\rc\td", "\"a\\nb\\rc\\td\"");
    assert_quoted("\x1b[2J", "\"\\x1b[2J\"");
    assert_quoted("a\x7f", "\"a\\x7f\"");
    assert_quoted("\xC2\x9B"
                  "2J",
                  "\"\\u009b2J\"");
    for (int c = 1; c < 256; c++) {
        char s[2] = {(char)c, '\0'};
        char out[16];
        log_quote(s, out, sizeof out);
        for (const char *p = out; *p != '\0'; p++) {
            assert_false(text_is_control((unsigned char)p[0], (unsigned char)p[1]));
        }
    }
}

/* Whatever the room is: within it, closed, and no half of an escape. */
static void test_cuts_to_the_room(void **state)
{
    (void)state;
    char out[32];
    assert_string_equal(log_quote("ab", out, 3), "");
    for (size_t n = 4; n < sizeof out; n++) {
        memset(out, '#', sizeof out);
        log_quote("\x1b\x1b\x1b\x1b\x1b\x1b\x1b\x1b", out, n);
        size_t len = strlen(out);
        assert_true(len < n);
        assert_int_equal((len - 2) % 4, 0);
        assert_int_equal(out[len - 1], '"');
    }
}

/* What @level writes of @text, with the line's end. */
static ssize_t written(enum log_level level, const char *text, char *line, size_t bytes)
{
    int kept = dup(STDERR_FILENO);
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    log_write(level, "event", "%s", text);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    (void)close(kept);
    (void)close(ends[1]);
    ssize_t n = read(ends[0], line, bytes - 1);
    (void)close(ends[0]);
    assert_true(n >= 0);
    line[n] = '\0';
    return n;
}

/* Also what was not quoted. */
static void test_a_line_is_one_line(void **state)
{
    (void)state;
    char line[512];
    ssize_t n = written(LOG_LEVEL_INFO,
                        "job=a\nlevel=error\r\x1b[2J\xC2\x9B"
                        "0m",
                        line, sizeof line);
    assert_true(n > 0);
    assert_non_null(strstr(line, "event=event job=a level=error ?[2J??0m\n"));
    assert_ptr_equal(strchr(line, '\n'), line + n - 1);
}

static void test_what_a_line_says(void **state)
{
    (void)state;
    char line[512], level[8], service[16], event[16];
    int year, month, day, hour, minute, second, ms, end = 0;
    log_init("tester", LOG_LEVEL_INFO);
    (void)written(LOG_LEVEL_WARN, "a=1  ", line, sizeof line);
    int fields =
        sscanf(line, "time=%4d-%2d-%2dT%2d:%2d:%2d.%3dZ level=%7s service=%15s event=%15s%n", &year,
               &month, &day, &hour, &minute, &second, &ms, level, service, event, &end);
    assert_int_equal(fields, 10);
    assert_string_equal(level, "warn");
    assert_string_equal(service, "tester");
    assert_string_equal(event, "event");
    assert_true(year >= 2026 && month <= 12 && day <= 31 && hour < 24 && minute < 60);
    assert_string_equal(line + end, " a=1\n"); /* without blanks at its end */
    assert_int_equal(line[end], ' ');
    (void)written(LOG_LEVEL_WARN, "", line, sizeof line);
    assert_string_equal(line + end, "\n");
    assert_int_equal(written(LOG_LEVEL_DEBUG, "a", line, sizeof line), 0);
    assert_true(written(LOG_LEVEL_INFO, "a", line, sizeof line) > 0);
    log_init("tester", LOG_LEVEL_ERROR);
    assert_int_equal(written(LOG_LEVEL_WARN, "a", line, sizeof line), 0);
    assert_true(written(LOG_LEVEL_ERROR, "a", line, sizeof line) > 0);
    log_init("gradus", LOG_LEVEL_INFO);
}

/* Too long, it is cut, and ends all the same. */
static void test_a_long_line_is_cut(void **state)
{
    (void)state;
    char text[6000], line[8192];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    ssize_t n = written(LOG_LEVEL_INFO, text, line, sizeof line);
    assert_int_equal(n, 4096);
    assert_int_equal(line[n - 1], '\n');
    assert_int_equal(line[n - 2], 'x');
}

static void test_shown_text_is_plain(void **state)
{
    (void)state;
    char out[16];
    assert_string_equal(text_shown("a\x1b[0m\nb\xC2\x9B"
                                   "c",
                                   out, sizeof out),
                        "a?[0m?b??c");
    assert_string_equal(text_shown("K\xC3\xB6ln", out, sizeof out), "K\xC3\xB6ln");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quotes_what_is_not_a_word),
        cmocka_unit_test(test_quotes_every_control_byte),
        cmocka_unit_test(test_cuts_to_the_room),
        cmocka_unit_test(test_a_line_is_one_line),
        cmocka_unit_test(test_what_a_line_says),
        cmocka_unit_test(test_a_long_line_is_cut),
        cmocka_unit_test(test_shown_text_is_plain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
