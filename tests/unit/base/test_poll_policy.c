/* SPDX-License-Identifier: Apache-2.0 */
/* Who polls, for how long, and what ends it: all of it at times that the test says. */
#include "support/test.h"

#include <string.h>

#include "base/poll_policy.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

struct fixture {
    struct poll_policy p;
    uint64_t now_ns;
    struct thread_load load;
    unsigned busy, processors;
};

static void begin(struct fixture *f, const char *setting)
{
    struct poll_setting s;
    struct err err;
    assert_int_equal(poll_setting_parse(setting, &s, &err), 0);
    *f = (struct fixture){.now_ns = 7 * MS, .busy = 2, .processors = 2};
    f->load.has_delay = true;
    poll_policy_init(&f->p, &s);
}

/* One wait of @waited_ns; returns how long it was polled for at most. */
static uint64_t wait_for(struct fixture *f, uint64_t waited_ns)
{
    if (poll_policy_load_due(&f->p, f->now_ns)) {
        poll_policy_load(&f->p, f->now_ns, &f->load);
    }
    const uint64_t poll_ns = poll_policy_begin(&f->p, f->now_ns, f->busy, f->processors);
    f->now_ns += waited_ns;
    poll_policy_end(&f->p, f->now_ns, waited_ns, poll_ns);
    return poll_ns;
}

static uint64_t wait_often(struct fixture *f, size_t times, uint64_t waited_ns)
{
    uint64_t poll_ns = 0;
    for (size_t i = 0; i < times; i++) {
        poll_ns = wait_for(f, waited_ns);
    }
    return poll_ns;
}

static void test_settings(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int code;
        bool adapts;
        uint64_t ns;
    } cases[] = {
        {"auto", 0, true, 0},          {"0", 0, false, 0},
        {"1", 0, false, 1000},         {"100000", 0, false, 100000 * US},
        {"100001", ERR_INVALID, 0, 0}, {"-1", ERR_INVALID, 0, 0},
        {"", ERR_INVALID, 0, 0},       {"Auto", ERR_INVALID, 0, 0},
        {"50us", ERR_INVALID, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct poll_setting s;
        struct err err = {0};
        assert_int_equal(poll_setting_parse(cases[i].text, &s, &err), cases[i].code);
        if (cases[i].code == 0) {
            assert_int_equal(s.adapts, cases[i].adapts);
            assert_int_equal(s.ns, cases[i].ns);
        } else {
            assert_non_null(strstr(err.msg, "expected auto, or microseconds between 0 and 100000"));
        }
    }
}

static void test_a_number_is_obeyed_whatever_happens(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "0");
    assert_int_equal(wait_often(&f, 50, 20 * US), 0);
    assert_int_equal(f.p.why, POLL_OFF);
    begin(&f, "70");
    f.busy = 100;
    for (int i = 0; i < 50; i++) {
        f.load.switches += 1000;
        f.load.delay_ns += MS;
        assert_int_equal(wait_for(&f, 30 * MS), 70 * US); /* in vain each time */
    }
    assert_int_equal(f.p.why, POLL_FIXED);
}

static void test_at_first_nobody_knows_and_nobody_polls(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "auto");
    assert_int_equal(wait_for(&f, 50 * US), 0);
    assert_int_equal(f.p.why, POLL_LATE);
}

static void test_short_waits_are_polled_for_twice_as_long(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "auto");
    size_t slept = 0;
    while (wait_for(&f, 200 * US) == 0) {
        slept++;
    }
    assert_in_range(slept, 5, 20); /* soon, but not after one of them */
    const uint64_t poll_ns = wait_often(&f, 100, 200 * US);
    assert_in_range(poll_ns, 390 * US, 410 * US);
    assert_int_equal(f.p.why, POLL_SOON);
}

static void test_long_waits_are_slept_through(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "auto");
    assert_true(wait_often(&f, 100, 100 * US) > 0);
    /* An idle server hears of its master once in a second. */
    assert_int_equal(wait_often(&f, 20, 1000 * MS), 0);
    assert_int_equal(f.p.why, POLL_LATE);
    /* However long it was idle, it is awake after a few waits. */
    assert_true(wait_often(&f, 20, 100 * US) > 0);
}

static void test_one_long_wait_does_not_end_it(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "auto");
    assert_true(wait_often(&f, 100, 100 * US) > 0);
    (void)wait_for(&f, 60000 * MS);
    assert_true(wait_for(&f, 100 * US) > 0);
    assert_true(f.p.usual_ns <= POLL_USUAL_NS_MAX);
}

static void test_what_was_there_already_is_no_wait(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "auto");
    assert_true(wait_often(&f, 100, 300 * US) > 0);
    const uint64_t before = 2 * f.p.usual_ns;
    assert_int_equal(wait_often(&f, 1000, US), before);
}

static void test_more_threads_than_processors_sleep(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "auto");
    assert_true(wait_often(&f, 100, 100 * US) > 0);
    f.busy = 3;
    assert_int_equal(wait_for(&f, 100 * US), 0);
    assert_int_equal(f.p.why, POLL_CROWDED);
    f.busy = 2;
    assert_true(wait_for(&f, 100 * US) > 0);
    f.processors = 0; /* a quota of less than two */
    assert_int_equal(wait_for(&f, 100 * US), 0);
}

/* Waits until the pause is over; how long it was. */
static uint64_t pause_of(struct fixture *f)
{
    const uint64_t from_ns = f->now_ns;
    while (wait_for(f, 100 * US) == 0) {
        assert_int_equal(f->p.why, POLL_PREEMPTED);
    }
    return f->now_ns - from_ns;
}

static void suffer(struct fixture *f, uint64_t delay_ns, uint64_t switches)
{
    f->load.delay_ns += delay_ns;
    f->load.switches += switches;
}

static void test_who_stood_in_line_pauses_for_longer_each_time(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "auto");
    assert_true(wait_often(&f, 200, 100 * US) > 0);
    uint64_t last_ns = 0;
    for (int i = 0; i < 10; i++) {
        suffer(&f, 6 * MS, 1);
        f.now_ns += POLL_LOAD_NS;
        assert_int_equal(wait_for(&f, 100 * US), 0);
        assert_int_equal(f.p.why, POLL_PREEMPTED);
        const uint64_t pause_ns = pause_of(&f);
        assert_true(pause_ns > last_ns || pause_ns >= POLL_PAUSE_NS_MAX - MS);
        last_ns = pause_ns;
    }
    assert_in_range(last_ns, POLL_PAUSE_NS_MAX - MS, POLL_PAUSE_NS_MAX + MS);
    /* After a time without trouble it begins anew. */
    assert_true(wait_often(&f, 1000000, 100 * US) > 0);
    suffer(&f, 6 * MS, 1);
    f.now_ns += POLL_LOAD_NS;
    assert_int_equal(wait_for(&f, 100 * US), 0);
    assert_in_range(pause_of(&f), POLL_PAUSE_NS_MIN - MS, POLL_PAUSE_NS_MIN + MS);
}

static void test_what_a_wake_up_takes_is_no_trouble(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "auto");
    for (int i = 0; i < 1000; i++) {
        f.load.sleeps += 1;
        f.load.delay_ns += 15 * US;
        f.load.switches += i % 100 == 0;
        (void)wait_for(&f, 100 * US);
    }
    assert_int_equal(f.p.why, POLL_SOON);
    /* In line without having been taken off: it was woken late. */
    for (int i = 0; i < 1000; i++) {
        f.load.delay_ns += 15 * US;
        (void)wait_for(&f, 100 * US);
    }
    assert_int_equal(f.p.why, POLL_SOON);
}

/* A loader that decodes for a tenth of each step takes the processor from who polls. */
static void test_short_visits_of_others_are_no_trouble(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "auto");
    for (int i = 0; i < 1000; i++) {
        suffer(&f, 100 * US, 1);
        (void)wait_for(&f, 1000 * US);
    }
    assert_int_equal(f.p.why, POLL_SOON);
    for (int i = 0; i < 30; i++) {
        suffer(&f, 300 * US, 1);
        (void)wait_for(&f, 1000 * US);
    }
    assert_int_equal(f.p.why, POLL_PREEMPTED);
}

static void test_without_the_time_in_line_switches_count(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "auto");
    f.load.has_delay = false;
    for (int i = 0; i < 1000; i++) {
        f.load.switches += i % 100 == 0; /* 100 in a second */
        (void)wait_for(&f, 100 * US);
    }
    assert_int_equal(f.p.why, POLL_SOON);
    for (int i = 0; i < 200; i++) {
        f.load.switches += i % 20 == 0;
        (void)wait_for(&f, 100 * US);
    }
    assert_int_equal(f.p.why, POLL_PREEMPTED);
}

/* Each a little later than it is polled for: the mean runs behind. */
static void test_polling_in_vain_pauses(void **state)
{
    (void)state;
    struct fixture f;
    begin(&f, "auto");
    assert_true(wait_often(&f, 100, 50 * US) > 0);
    size_t in_vain = 0;
    while (wait_for(&f, 2 * f.p.usual_ns + 10 * US) > 0) {
        in_vain++;
    }
    assert_int_equal(f.p.why, POLL_MISSED);
    assert_in_range(in_vain, 8, 16);
    f.now_ns += POLL_PAUSE_NS_MIN;
    assert_true(wait_often(&f, 20, 100 * US) > 0);
}

static void test_names(void **state)
{
    (void)state;
    for (size_t i = 0; i < POLL_WHY_COUNT; i++) {
        assert_non_null(poll_why_names[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_a_number_is_obeyed_whatever_happens),
        cmocka_unit_test(test_at_first_nobody_knows_and_nobody_polls),
        cmocka_unit_test(test_short_waits_are_polled_for_twice_as_long),
        cmocka_unit_test(test_long_waits_are_slept_through),
        cmocka_unit_test(test_one_long_wait_does_not_end_it),
        cmocka_unit_test(test_what_was_there_already_is_no_wait),
        cmocka_unit_test(test_more_threads_than_processors_sleep),
        cmocka_unit_test(test_who_stood_in_line_pauses_for_longer_each_time),
        cmocka_unit_test(test_what_a_wake_up_takes_is_no_trouble),
        cmocka_unit_test(test_short_visits_of_others_are_no_trouble),
        cmocka_unit_test(test_without_the_time_in_line_switches_count),
        cmocka_unit_test(test_polling_in_vain_pauses),
        cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
