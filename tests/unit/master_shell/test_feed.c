/* SPDX-License-Identifier: Apache-2.0 */
/* What changed after a number, each thing once; and numbers that mean nothing. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "master/shell/feed.h"

static struct feed feed;

static int reset(void **state)
{
    (void)state;
    feed_reset(&feed, 0x7);
    return 0;
}

/* "a1 b" in the order of changes; ! behind what was said since, - behind what is gone. */
static void check_after(uint64_t number, const char *expected)
{
    struct buf seen = {0};
    for (const struct feed_thing *t = feed_after(&feed, number); t != NULL; t = t->newer) {
        buf_printf(&seen, "%s%s%s ", t->id, t->said > number ? "!" : "", t->gone ? "-" : "");
    }
    assert_string_equal(buf_str(&seen), expected);
    buf_release(&seen);
}

static void a_thing_is_there_once_where_it_changed_last(void **state)
{
    (void)state;
    check_after(0, "");
    feed_touch(&feed, FEED_JOB, "a", 1);
    feed_touch(&feed, FEED_JOB, "b", 1);
    feed_touch(&feed, FEED_NODE, "a", 1);
    feed_touch(&feed, FEED_JOB, "c", 1);
    check_after(0, "a! b! a! c! ");
    check_after(2, "a! c! ");
    feed_touch(&feed, FEED_JOB, "b", 1); /* progress alone */
    feed_touch(&feed, FEED_JOB, "a", 2);
    check_after(0, "a! c! b! a! ");
    check_after(4, "b a! ");
    check_after(feed.number, "");
}

static void what_is_gone_is_told_and_may_come_back(void **state)
{
    (void)state;
    feed_touch(&feed, FEED_JOB, "a", 1);
    feed_remove(&feed, FEED_JOB, "a");
    feed_remove(&feed, FEED_JOB, "a");
    feed_remove(&feed, FEED_JOB, "never");
    assert_int_equal(feed.number, 2);
    check_after(1, "a!- ");
    feed_touch(&feed, FEED_JOB, "a", 1);
    check_after(2, "a! ");
}

static void a_change_makes_its_text_old(void **state)
{
    (void)state;
    struct feed_thing *t = feed_touch(&feed, FEED_JOB, "a", 1);
    t->text = mem_strdup("{}");
    feed_touch(&feed, FEED_JOB, "b", 1);
    assert_string_equal(t->text, "{}");
    feed_touch(&feed, FEED_JOB, "a", 1);
    assert_null(t->text);
}

static void the_last_lines_are_kept(void **state)
{
    (void)state;
    assert_null(feed_line_after(&feed, 0));
    for (int i = 0; i < FEED_LINES + 10; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "job=j-%d", i);
        feed_log(&feed, 1000 + i, 1, "evaluated", text);
    }
    const struct feed_line *line = feed_line_after(&feed, 0);
    assert_string_equal(line->text, "job=j-10");
    assert_int_equal(line->time_ms, 1010);
    size_t count = 0;
    for (; line != NULL; line = feed_line_after(&feed, line->number)) {
        count++;
    }
    assert_int_equal(count, FEED_LINES);
    char *longest = mem_new(FEED_LINE_BYTES * 2, 1);
    memset(longest, 'x', FEED_LINE_BYTES * 2 - 1);
    feed_log(&feed, 0, 1, "e", longest);
    assert_int_equal(strlen(feed_line_after(&feed, feed.number - 1)->text), FEED_LINE_BYTES);
    free(longest);
}

static void too_many_things_begin_anew(void **state)
{
    (void)state;
    char id[16];
    for (int i = 0; i <= FEED_THINGS_MAX; i++) {
        (void)snprintf(id, sizeof id, "j-%d", i);
        feed_touch(&feed, i % 2 == 0 ? FEED_JOB : FEED_NODE, id, 1);
    }
    assert_int_equal(feed.run, 8);
    check_after(0, "j-20000! ");
}

static void places_are_read_back(void **state)
{
    (void)state;
    static const char *const strange[] = {
        "",           "7",       "7-1",    "8-1-1",
        "7-3-1",      "7-1-3",   "7-1-1-", "7--1-1",
        "7-1-x",      "7-1-1 ",  "-7-1-1", "7-1-",
        "7-1-1;drop", "107-1-1", "seven",  "7-11111111111111111-1"};
    struct feed_place place;
    char text[FEED_PLACE_BYTES];
    feed_touch(&feed, FEED_JOB, "a", 1);
    feed_touch(&feed, FEED_JOB, "b", 1);
    feed_place_format(&(struct feed_place){7, 2, 1}, text);
    assert_true(feed_place_parse(&feed, text, &place));
    assert_int_equal(place.run, 7);
    assert_int_equal(place.said, 2);
    assert_int_equal(place.progressed, 1);
    for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++) {
        if (feed_place_parse(&feed, strange[i], &place)) {
            fail_msg("\"%s\" was taken", strange[i]);
        }
    }
    feed_place_format(&(struct feed_place){UINT32_MAX, UINT64_MAX, UINT64_MAX}, text);
    assert_int_equal(strlen(text), 8 + 16 + 16 + 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, reset, reset)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_thing_is_there_once_where_it_changed_last),
        TEST(what_is_gone_is_told_and_may_come_back),
        TEST(a_change_makes_its_text_old),
        TEST(the_last_lines_are_kept),
        TEST(too_many_things_begin_anew),
        TEST(places_are_read_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
