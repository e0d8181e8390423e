/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "worker/job/step_clock.h"

static void assert_times(const struct step_clock *c, uint64_t load, uint64_t compute, uint64_t wire,
                         uint64_t apply, uint64_t wait)
{
    assert_int_equal(c->times.ns[STEP_LOAD], load);
    assert_int_equal(c->times.ns[STEP_COMPUTE], compute);
    assert_int_equal(c->times.ns[STEP_WIRE], wire);
    assert_int_equal(c->times.ns[STEP_APPLY], apply);
    assert_int_equal(c->times.ns[STEP_WAIT], wait);
}

static void nothing_counts_before_the_first_computation(void **state)
{
    (void)state;
    struct step_clock c = {0};
    const struct step_exchange x = {.sent_ns = 10, .answered_ns = 90};
    assert_int_equal(step_clock_answered(&c, &x), 90);
    step_clock_busy(&c, STEP_COMPUTE, 90, 95);
    assert_times(&c, 0, 0, 0, 0, 0);
    step_clock_begin(&c, 0, 100);
    assert_int_equal(c.times.steps, 1); /* also when it is step 0 */
    step_clock_busy(&c, STEP_LOAD, 100, 103);
    step_clock_busy(&c, STEP_COMPUTE, 103, 110);
    assert_times(&c, 3, 7, 0, 0, 0);
}

static void replicas_of_one_step_count_it_once(void **state)
{
    (void)state;
    struct step_clock c = {0};
    const uint64_t steps[] = {4, 4, 5, 5, 6};
    for (uint64_t i = 0; i < 5; i++) {
        step_clock_begin(&c, steps[i], 100 + i);
    }
    assert_int_equal(c.times.steps, 3);
}

/* All that was measured is between the first computation and the last event. */
static void the_parts_of_a_step_add_up(void **state)
{
    (void)state;
    struct step_clock c = {0};
    step_clock_begin(&c, 1, 1000);
    step_clock_busy(&c, STEP_COMPUTE, 1000, 2000);
    const struct step_exchange x = {
        .sent_ns = 2100, .answered_ns = 3100, .waited_ns = 500, .applied_ns = 200};
    assert_int_equal(step_clock_answered(&c, &x), 2100);
    assert_times(&c, 0, 1000, 300, 200, 600); /* 100 before it was sent */
    step_clock_begin(&c, 2, 3150);
    step_clock_busy(&c, STEP_WIRE, 3150, 3160);
    assert_times(&c, 0, 1000, 310, 200, 650);
    assert_int_equal(step_times_ns(&c.times), 2160);
}

static void shards_at_the_same_time_count_once(void **state)
{
    (void)state;
    struct step_clock c = {0};
    step_clock_begin(&c, 1, 0);
    step_clock_busy(&c, STEP_COMPUTE, 0, 100);
    const struct step_exchange first = {.sent_ns = 100, .answered_ns = 300};
    const struct step_exchange second = {.sent_ns = 110, .answered_ns = 500, .applied_ns = 195};
    (void)step_clock_answered(&c, &first);
    assert_int_equal(step_clock_answered(&c, &second), 300);
    assert_times(&c, 0, 100, 300, 100, 0); /* 200 of 390 were left: half of them apply */
}

static void an_exchange_behind_a_computation_costs_what_is_left(void **state)
{
    (void)state;
    struct step_clock c = {0};
    step_clock_begin(&c, 1, 0);
    step_clock_busy(&c, STEP_COMPUTE, 0, 1000);
    const struct step_exchange hidden = {.sent_ns = 100, .answered_ns = 1000, .waited_ns = 700};
    assert_int_equal(step_clock_answered(&c, &hidden), 1000);
    assert_times(&c, 0, 1000, 0, 0, 0);
    const struct step_exchange late = {.sent_ns = 200, .answered_ns = 1200, .waited_ns = 500};
    assert_int_equal(step_clock_answered(&c, &late), 1000);
    assert_times(&c, 0, 1000, 100, 0, 100);
}

/* What a shard says cannot be more than what was measured here. */
static void numbers_that_cannot_be_are_cut(void **state)
{
    (void)state;
    struct step_clock c = {0};
    step_clock_begin(&c, 1, 0);
    const struct step_exchange x = {
        .sent_ns = 0, .answered_ns = 100, .waited_ns = UINT64_MAX, .applied_ns = UINT64_MAX};
    (void)step_clock_answered(&c, &x);
    assert_times(&c, 0, 0, 0, 100, 0);
    const struct step_exchange y = {
        .sent_ns = 100, .answered_ns = 200, .waited_ns = UINT64_MAX, .applied_ns = 40};
    (void)step_clock_answered(&c, &y);
    assert_times(&c, 0, 0, 0, 140, 60);
    const struct step_exchange backwards = {.sent_ns = 300, .answered_ns = 250};
    (void)step_clock_answered(&c, &backwards);
    step_clock_busy(&c, STEP_LOAD, 150, 160);
    assert_times(&c, 0, 0, 0, 140, 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_counts_before_the_first_computation),
        cmocka_unit_test(replicas_of_one_step_count_it_once),
        cmocka_unit_test(the_parts_of_a_step_add_up),
        cmocka_unit_test(shards_at_the_same_time_count_once),
        cmocka_unit_test(an_exchange_behind_a_computation_costs_what_is_left),
        cmocka_unit_test(numbers_that_cannot_be_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
