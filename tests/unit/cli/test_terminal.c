/* SPDX-License-Identifier: Apache-2.0 */
/* Lines that keep to the width of a terminal. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/text.h"
#include "cli/terminal.h"

static void assert_wrapped(const char *text, size_t columns, const char *expected)
{
    struct buf out = {0};
    terminal_wrap(text, columns, &out);
    assert_string_equal(buf_str(&out), expected);
    buf_release(&out);
}

static void test_what_fits_stays(void **state)
{
    (void)state;
    assert_wrapped("one two three\nfour\n", 13, "one two three\nfour\n");
    assert_wrapped("", 80, "");
    assert_wrapped("no newline", 80, "no newline");
    assert_wrapped("as long as it is, with blanks  in it", TERMINAL_ANY,
                   "as long as it is, with blanks  in it");
    assert_wrapped("\n\nx\n", 20, "\n\nx\n");
}

static void test_columns_go_on_below_themselves(void **state)
{
    (void)state;
    assert_wrapped("workers     worker-1 worker-2 worker-3\nps          ps-1\n", 30,
                   "workers     worker-1 worker-2\n            worker-3\nps          ps-1\n");
    assert_wrapped("      an indented line goes on there\n", 24,
                   "      an indented line\n      goes on there\n");
    assert_wrapped("gradus: a message without columns\n", 20,
                   "gradus: a message\n    without columns\n");
}

/* "accuracy 0.9" is not torn where there is another place. */
static void test_pairs_stay_together(void **state)
{
    (void)state;
    assert_wrapped("test        loss 0.1234  accuracy 0.9000", 38,
                   "test        loss 0.1234\n            accuracy 0.9000");
}

static void test_words_that_are_too_long(void **state)
{
    (void)state;
    assert_wrapped("checkpoint  /a/path/that/is/longer/than/the/terminal/is/wide", 30,
                   "checkpoint  /a/path/that/is/longer/than/the/terminal/is/wide");
    assert_wrapped("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa bb cc", 20,
                   "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n    bb cc");
}

static void test_characters_count_not_bytes(void **state)
{
    (void)state;
    assert_wrapped("äöüäöüäöüäöüäöüäöüäö\n", 20, "äöüäöüäöüäöüäöüäöüäö\n");
    assert_wrapped("äöüäöüäöü äöüäöüäöü äöü\n", 20, "äöüäöüäöü äöüäöüäöü\n    äöü\n");
}

static void test_text_wrap(void **state)
{
    (void)state;
    struct buf out = {0};
    text_wrap("  words of  a text that goes on", 4, 16, &out);
    assert_string_equal(buf_str(&out), "    words of a\n    text that\n    goes on\n");
    buf_reset(&out);
    text_wrap("", 4, 16, &out);
    assert_string_equal(buf_str(&out), "\n");
    buf_release(&out);
}

static void test_what_is_no_terminal(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_true(terminal_columns(ends[1]) == TERMINAL_ANY);
    assert_int_equal(close(ends[0]), 0);
    assert_int_equal(close(ends[1]), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_fits_stays),
        cmocka_unit_test(test_columns_go_on_below_themselves),
        cmocka_unit_test(test_pairs_stay_together),
        cmocka_unit_test(test_words_that_are_too_long),
        cmocka_unit_test(test_characters_count_not_bytes),
        cmocka_unit_test(test_text_wrap),
        cmocka_unit_test(test_what_is_no_terminal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
