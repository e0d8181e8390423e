/* SPDX-License-Identifier: Apache-2.0 */
/* What changed after a number, each thing once; and numbers that mean nothing. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "master/shell/news.h"

static struct news news;

static int reset(void **state)
{
    (void)state;
    news_reset(&news, 0x7);
    return 0;
}

/* "a1 b" in the order of changes; ! behind what was said since, - behind what is gone. */
static void check_after(uint64_t number, const char *expected)
{
    struct buf seen = {0};
    for (const struct news_thing *t = news_after(&news, number); t != NULL; t = t->newer) {
        buf_printf(&seen, "%s%s%s ", t->id, t->said > number ? "!" : "", t->gone ? "-" : "");
    }
    assert_string_equal(buf_str(&seen), expected);
    buf_release(&seen);
}

static void a_thing_is_there_once_where_it_changed_last(void **state)
{
    (void)state;
    check_after(0, "");
    news_touch(&news, NEWS_JOB, "a", 1);
    news_touch(&news, NEWS_JOB, "b", 1);
    news_touch(&news, NEWS_NODE, "a", 1);
    news_touch(&news, NEWS_JOB, "c", 1);
    check_after(0, "a! b! a! c! ");
    check_after(2, "a! c! ");
    news_touch(&news, NEWS_JOB, "b", 1); /* progress alone */
    news_touch(&news, NEWS_JOB, "a", 2);
    check_after(0, "a! c! b! a! ");
    check_after(4, "b a! ");
    check_after(news.number, "");
}

static void what_is_gone_is_told_and_may_come_back(void **state)
{
    (void)state;
    news_touch(&news, NEWS_JOB, "a", 1);
    news_remove(&news, NEWS_JOB, "a");
    news_remove(&news, NEWS_JOB, "a");
    news_remove(&news, NEWS_JOB, "never");
    assert_int_equal(news.number, 2);
    check_after(1, "a!- ");
    news_touch(&news, NEWS_JOB, "a", 1);
    check_after(2, "a! ");
}

static void a_change_makes_its_text_old(void **state)
{
    (void)state;
    struct news_thing *t = news_touch(&news, NEWS_JOB, "a", 1);
    t->text = mem_strdup("{}");
    news_touch(&news, NEWS_JOB, "b", 1);
    assert_string_equal(t->text, "{}");
    news_touch(&news, NEWS_JOB, "a", 1);
    assert_null(t->text);
}

static void the_last_lines_are_kept(void **state)
{
    (void)state;
    assert_null(news_line_after(&news, 0));
    for (int i = 0; i < NEWS_LINES + 10; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "job=j-%d", i);
        news_log(&news, 1000 + i, 1, "evaluated", text);
    }
    const struct news_line *line = news_line_after(&news, 0);
    assert_string_equal(line->text, "job=j-10");
    assert_int_equal(line->time_ms, 1010);
    size_t count = 0;
    for (; line != NULL; line = news_line_after(&news, line->number)) {
        count++;
    }
    assert_int_equal(count, NEWS_LINES);
    char *longest = mem_new(NEWS_LINE_BYTES * 2, 1);
    memset(longest, 'x', NEWS_LINE_BYTES * 2 - 1);
    news_log(&news, 0, 1, "e", longest);
    assert_int_equal(strlen(news_line_after(&news, news.number - 1)->text), NEWS_LINE_BYTES);
    free(longest);
}

static void too_many_things_begin_anew(void **state)
{
    (void)state;
    char id[16];
    for (int i = 0; i <= NEWS_THINGS_MAX; i++) {
        (void)snprintf(id, sizeof id, "j-%d", i);
        news_touch(&news, i % 2 == 0 ? NEWS_JOB : NEWS_NODE, id, 1);
    }
    assert_int_equal(news.run, 8);
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
    struct news_place place;
    char text[NEWS_PLACE_BYTES];
    news_touch(&news, NEWS_JOB, "a", 1);
    news_touch(&news, NEWS_JOB, "b", 1);
    news_place_format(&(struct news_place){7, 2, 1}, text);
    assert_true(news_place_parse(&news, text, &place));
    assert_int_equal(place.run, 7);
    assert_int_equal(place.said, 2);
    assert_int_equal(place.progressed, 1);
    for (size_t i = 0; i < sizeof strange / sizeof strange[0]; i++) {
        if (news_place_parse(&news, strange[i], &place)) {
            fail_msg("\"%s\" was taken", strange[i]);
        }
    }
    news_place_format(&(struct news_place){UINT32_MAX, UINT64_MAX, UINT64_MAX}, text);
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
