/* SPDX-License-Identifier: Apache-2.0 */
/* A shard in bounded mode: who waits for whom. */
#include <stdio.h>

#include "shard_rig.h"

static void test_fast_workers_wait_for_slow_ones(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_BOUNDED, 0); /* staleness 1 */
    rig_pull_latest(&r, 1, "w0");
    rig_pull_latest(&r, 2, "w1");
    rig_push_async(&r, 3, "w0", 0, 0, 0);
    rig_pull_latest(&r, 4, "w0"); /* one ahead: fine */
    rig_expect_values(&r, 4, 1);
    struct shard_event e = rig_async(&r, 5, "w0", 0, 0, 1);
    e.ask.has_pull = true;
    rig_step(&r, &e); /* two ahead */
    assert_null(rig_find(&r, 5));
    rig_pull_latest(&r, 6, "w1"); /* the slowest never waits */
    rig_expect_values(&r, 6, 2);
    rig_push_async(&r, 7, "w1", 0, 1, 0);
    rig_expect_push(&r, 5, PUSH_APPLIED);
    rig_expect_values(&r, 5, 3);
    rig_release(&r);
}

static void test_nobody_waits_for_the_idle(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_BOUNDED, 0);
    rig_pull_latest(&r, 1, "w1");
    rig_pull_latest(&r, 20, "w0");
    rig_push_async(&r, 2, "w0", 0, 0, 0);
    rig_push_async(&r, 3, "w0", 0, 0, 1);
    rig_pull_latest(&r, 4, "w0");
    assert_null(rig_find(&r, 4));
    rig_idle(&r, 5, "w1");
    rig_expect(&r, 5, 0, "");
    assert_false(rig_replied(&r, 5)->values);
    rig_expect_values(&r, 4, 2);
    rig_pull_latest(&r, 6, "w1"); /* back, at the pace of the slowest: w0 is not held up */
    rig_push_async(&r, 7, "w0", 0, 1, 0);
    rig_pull_latest(&r, 8, "w0");
    rig_expect_values(&r, 8, 3);
    rig_push_async(&r, 9, "w0", 0, 1, 1);
    rig_pull_latest(&r, 10, "w0");
    assert_null(rig_find(&r, 10));
    rig_membership(&r, 11, 2, 1); /* w1 died */
    rig_expect(&r, 10, ERR_ABORTED, "");
    r.generation = 2;
    rig_pull_latest(&r, 12, "w0");
    rig_expect_values(&r, 12, 4);
    rig_pull_latest(&r, 13, "w1");
    rig_expect(&r, 13, ERR_PERMISSION, "worker 'w1' is none of the 1 workers of generation 2");
    rig_pull_latest(&r, 14, NULL);
    rig_expect(&r, 14, ERR_PERMISSION, "worker ''");
    rig_release(&r);
}

/* A push that waited in a connection that broke, and whose worker said since that it is idle. */
static void test_what_comes_late_makes_nobody_wait(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_BOUNDED, 0); /* staleness 1 */
    rig_pull_latest(&r, 1, "w1");
    rig_pull_latest(&r, 2, "w0");
    struct shard_event push = rig_async(&r, 3, "w1", 0, 1, 0);
    struct shard_event late = push;
    rig_step(&r, &push);
    rig_idle(&r, 4, "w1");
    late.tag = (void *)(uintptr_t)5;
    late.gradient = rig_buffer(&r, 1);
    rig_step(&r, &late);
    rig_expect_push(&r, 5, PUSH_DUPLICATE);
    for (uint32_t i = 0; i < 4; i++) { /* far ahead of where w1 was */
        rig_push_async(&r, 6 + i, "w0", 0, i / 2, i % 2);
    }
    rig_pull_latest(&r, 10, "w0");
    assert_non_null(rig_find(&r, 10));
    rig_pull_latest(&r, 11, "w1"); /* it comes back, and */
    struct shard_event idle = rig_exchange(&r, 12, "w1");
    idle.ask.idle = true;
    idle.ask.session = 1; /* its word of before comes once more */
    rig_step(&r, &idle);
    rig_push_async(&r, 13, "w0", 0, 2, 0);
    rig_push_async(&r, 14, "w0", 0, 2, 1);
    rig_pull_latest(&r, 15, "w0");
    assert_null(rig_find(&r, 15)); /* it is waited for all the same */
    rig_release(&r);
}

/* A worker says its clock, so whether this shard had the batches already makes no difference. */
static void test_clocks_are_what_workers_say(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_BOUNDED, 0); /* staleness 1 */
    rig_pull_latest(&r, 1, "w0");
    rig_push_async(&r, 2, "w0", 0, 0, 0);
    rig_push_async(&r, 3, "w0", 0, 0, 1);
    rig_membership(&r, 4, 2, 2);
    r.generation = 2;
    rig_pull_latest(&r, 5, "w0");
    assert_int_equal(rig_replied(&r, 5)->clock, 1); /* all begin anew */
    rig_pull_latest(&r, 6, "w1");
    assert_int_equal(rig_replied(&r, 6)->clock, 1);
    struct shard_event e = rig_async(&r, 7, "w0", 0, 0, 0); /* other shards lack it */
    struct shard_event again = e;
    rig_step(&r, &e);
    rig_expect_push(&r, 7, PUSH_DUPLICATE);
    again.tag = (void *)(uintptr_t)8;
    again.gradient = rig_buffer(&r, 1);
    rig_step(&r, &again); /* sent once more: the same clock */
    rig_pull_latest(&r, 9, "w0");
    rig_expect_values(&r, 9, 2); /* one ahead */
    rig_push_async(&r, 10, "w0", 0, 0, 1);
    rig_expect_push(&r, 10, PUSH_DUPLICATE);
    rig_pull_latest(&r, 11, "w0");
    assert_null(rig_find(&r, 11)); /* two */
    rig_push_async(&r, 12, "w1", 0, 1, 0);
    rig_expect_values(&r, 11, 3);
    rig_release(&r);
}

static void test_who_joins_is_at_the_pace_of_the_slowest(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_BOUNDED, 0); /* staleness 1 */
    rig_pull_latest(&r, 1, "w0");
    rig_push_async(&r, 2, "w0", 0, 0, 0);
    rig_push_async(&r, 3, "w0", 0, 0, 1);
    rig_pull_latest(&r, 4, "w1");
    assert_int_equal(rig_replied(&r, 4)->clock, 3);
    rig_pull_latest(&r, 5, "w0");
    rig_expect_values(&r, 5, 2); /* nobody is behind */
    rig_push_async(&r, 6, "w1", 0, 1, 0);
    rig_idle(&r, 7, "w1");
    rig_pull_latest(&r, 8, "w1"); /* what it was ahead it still is */
    assert_int_equal(rig_replied(&r, 8)->clock, 4);
    rig_release(&r);
}

/* Clients without a clock neither wait nor hold anybody up. */
static void test_without_a_clock_nobody_waits(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_BOUNDED, 0); /* staleness 1 */
    rig_pull_latest(&r, 1, "w0");
    for (uint32_t batch = 0; batch < 2; batch++) {
        struct shard_event e = rig_async(&r, 2 + batch, "w1", 0, 0, batch);
        e.ask.push.clock = 0;
        rig_step(&r, &e);
    }
    struct shard_event e = rig_exchange(&r, 5, "w1");
    e.ask.has_pull = true;
    rig_step(&r, &e);
    rig_expect_values(&r, 5, 2);
    rig_push_async(&r, 6, "w0", 0, 1, 0);
    rig_push_async(&r, 7, "w0", 0, 1, 1);
    rig_pull_latest(&r, 8, "w0");
    rig_expect_values(&r, 8, 4);
    rig_release(&r);
}

static void test_pinned_reads_do_not_wake_the_idle(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_BOUNDED, 0);
    rig_pin(&r, SHARD_PIN, 1, "eval", false);
    rig_push_async(&r, 2, "w0", 0, 0, 0);
    rig_push_async(&r, 3, "w0", 0, 0, 1);
    rig_push_async(&r, 4, "w0", 0, 1, 0);
    struct shard_event e = rig_exchange(&r, 5, "w1");
    e.ask = (struct exchange_request){.kind = EXCHANGE_PINNED, .pin_id = "eval"};
    rig_step(&r, &e);
    rig_expect_values(&r, 5, 0);
    rig_pull_latest(&r, 6, "w0");
    rig_expect_values(&r, 6, 3);
    rig_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fast_workers_wait_for_slow_ones),
        cmocka_unit_test(test_nobody_waits_for_the_idle),
        cmocka_unit_test(test_what_comes_late_makes_nobody_wait),
        cmocka_unit_test(test_clocks_are_what_workers_say),
        cmocka_unit_test(test_who_joins_is_at_the_pace_of_the_slowest),
        cmocka_unit_test(test_without_a_clock_nobody_waits),
        cmocka_unit_test(test_pinned_reads_do_not_wake_the_idle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
