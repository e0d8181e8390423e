/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "service/membership.h"
#include "membership/membership_core.h"

struct rig {
    struct membership_core core;
    struct membership_actions did;
    uint64_t now_ms;
};

static void at(struct rig *r, enum membership_event_kind kind, uint64_t ms)
{
    r->now_ms += ms;
    struct membership_event e = {.kind = kind, .now_ms = r->now_ms};
    membership_step(&r->core, &e, &r->did);
}

static void answer(struct rig *r, int code, uint64_t ms)
{
    r->now_ms += ms;
    struct membership_event e = {.kind = MEMBERSHIP_ON_ANSWER,
                                 .now_ms = r->now_ms,
                                 .call = r->core.call,
                                 .code = code,
                                 .interval_ms = 1000};
    membership_step(&r->core, &e, &r->did);
}

static void join(struct rig *r)
{
    *r = (struct rig){.core.seed = 7, .now_ms = 5};
    at(r, MEMBERSHIP_ON_TIMER, 0);
    assert_int_equal(r->did.call, MEMBERSHIP_JOIN);
    answer(r, 0, 10);
    assert_true(r->did.joined);
    assert_int_equal(r->did.timer_ms, r->now_ms + 1000);
}

static void test_joins_and_beats(void **state)
{
    (void)state;
    struct rig r;
    join(&r);
    for (int i = 0; i < 3; i++) {
        at(&r, MEMBERSHIP_ON_TIMER, 1000);
        assert_int_equal(r.did.call, MEMBERSHIP_HEARTBEAT);
        answer(&r, 0, 3);
        assert_false(r.did.joined);
        assert_false(r.did.well);
        assert_int_equal(r.did.timer_ms, r.now_ms + 1000);
    }
}

/* A master that refuses is asked less and less often; one that is not reached, always soon. */
static void tries_for_ever(int code, uint64_t most_ms)
{
    struct rig r = {.core.seed = 7, .now_ms = 5};
    uint64_t began = r.now_ms;
    unsigned told = 0;
    at(&r, MEMBERSHIP_ON_TIMER, 0);
    for (unsigned i = 0; i < 200; i++) {
        assert_int_equal(r.did.call, MEMBERSHIP_JOIN);
        answer(&r, code, 0);
        told += r.did.trouble;
        assert_true(i > 0 || r.did.trouble);
        uint64_t longest = i < 4 ? 100U << i : MEMBERSHIP_BACKOFF_MAX_MS;
        uint64_t wait = r.did.timer_ms - r.now_ms;
        assert_true(wait >= (longest / 2 < most_ms ? longest / 2 : most_ms));
        assert_true(wait <= (longest < most_ms ? longest : most_ms));
        assert_int_equal(r.core.failing_ms, began);
        at(&r, MEMBERSHIP_ON_TIMER, wait);
    }
    assert_true(told > 2 && told <= 1 + (r.now_ms - began) / MEMBERSHIP_TELL_MS);
    answer(&r, 0, 0);
    assert_true(r.did.joined);
    assert_true(r.did.well);
}

static void test_tries_for_ever_with_back_off(void **state)
{
    (void)state;
    tries_for_ever(ERR_STATE, MEMBERSHIP_BACKOFF_MAX_MS);
    tries_for_ever(ERR_UNAVAILABLE, MEMBERSHIP_AWAY_MS);
}

static void test_an_unknown_node_drops_all_and_joins_again(void **state)
{
    (void)state;
    struct rig r;
    join(&r);
    at(&r, MEMBERSHIP_ON_TIMER, 1000);
    answer(&r, ERR_NOT_FOUND, 1);
    assert_true(r.did.lost);
    assert_int_equal(r.did.call, MEMBERSHIP_JOIN);
    answer(&r, ERR_NOT_FOUND, 1); /* of a join it is just another failure */
    assert_false(r.did.lost);
    assert_true(r.did.trouble);
    at(&r, MEMBERSHIP_ON_TIMER, 100);
    answer(&r, 0, 1);
    assert_true(r.did.joined);
}

static void test_a_master_that_is_away_loses_nobody(void **state)
{
    (void)state;
    struct rig r;
    join(&r);
    at(&r, MEMBERSHIP_ON_TIMER, 1000);
    answer(&r, ERR_UNAVAILABLE, 1);
    assert_false(r.did.lost);
    assert_true(r.did.trouble);
    at(&r, MEMBERSHIP_ON_TIMER, 100);
    assert_int_equal(r.did.call, MEMBERSHIP_HEARTBEAT);
    answer(&r, 0, 1);
    assert_true(r.did.well);
    assert_false(r.did.joined);
}

static void test_hurries_once_the_open_call_is_over(void **state)
{
    (void)state;
    struct rig r;
    join(&r);
    at(&r, MEMBERSHIP_ON_HURRY, 1);
    assert_int_equal(r.did.call, MEMBERSHIP_HEARTBEAT);
    at(&r, MEMBERSHIP_ON_HURRY, 1);
    assert_int_equal(r.did.call, MEMBERSHIP_NO_CALL);
    at(&r, MEMBERSHIP_ON_TIMER, 1); /* one call at a time */
    assert_int_equal(r.did.call, MEMBERSHIP_NO_CALL);
    answer(&r, 0, 1);
    assert_int_equal(r.did.call, MEMBERSHIP_HEARTBEAT);
    answer(&r, 0, 1);
    assert_int_equal(r.did.call, MEMBERSHIP_NO_CALL);
}

static void test_leaves(void **state)
{
    (void)state;
    struct rig r;
    join(&r);
    at(&r, MEMBERSHIP_ON_LEAVE, 1);
    assert_int_equal(r.did.call, MEMBERSHIP_LEAVE);
    answer(&r, ERR_UNAVAILABLE, 1);
    assert_true(r.did.left);
    at(&r, MEMBERSHIP_ON_TIMER, 1);
    assert_int_equal(r.did.call, MEMBERSHIP_NO_CALL);
    r = (struct rig){.core.seed = 7};
    at(&r, MEMBERSHIP_ON_TIMER, 0);
    at(&r, MEMBERSHIP_ON_LEAVE, 1); /* not joined: nothing to give back */
    assert_true(r.did.left);
    assert_int_equal(r.did.call, MEMBERSHIP_NO_CALL);
}

static void test_wild_intervals_are_tamed(void **state)
{
    (void)state;
    struct rig r = {.core.seed = 7};
    at(&r, MEMBERSHIP_ON_TIMER, 0);
    struct membership_event e = {
        .kind = MEMBERSHIP_ON_ANSWER, .call = r.core.call, .interval_ms = UINT32_MAX};
    membership_step(&r.core, &e, &r.did);
    assert_int_equal(r.did.timer_ms, MEMBERSHIP_INTERVAL_MAX_MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_joins_and_beats),
        cmocka_unit_test(test_tries_for_ever_with_back_off),
        cmocka_unit_test(test_an_unknown_node_drops_all_and_joins_again),
        cmocka_unit_test(test_a_master_that_is_away_loses_nobody),
        cmocka_unit_test(test_hurries_once_the_open_call_is_over),
        cmocka_unit_test(test_leaves),
        cmocka_unit_test(test_wild_intervals_are_tamed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
