/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of partial steps: the first shard decides of which replicas they are, the others follow. */
#include "shard_gradient.h"

#define REPLICAS 3

static void open_partial_rounds(struct rig *r, uint32_t number)
{
    struct consistency c = rig_consistency(TRAINING_SYNC, REPLICAS);
    c.aggregate = 2;
    rig_open_rounds(r, number, &c, 1);
}

/* The lead decides when it reduces, tells it with its sums, and answers pushes when it applies. */
static void test_lead_decides_before_it_applies(void **state)
{
    (void)state;
    struct rig r;
    open_partial_rounds(&r, 0);
    rig_ask_sums(&r, 1, 0, 0);
    rig_push_sync(&r, 2, 0, 0, 1, 1, 2);
    assert_null(rig_find(&r, 1));
    rig_push_sync(&r, 3, 0, 2, 3, 1, 2);
    rig_expect_sums(&r, 1, false, 0, 0);
    const struct rig_reply *reply = rig_replied(&r, 1);
    assert_true(reply->has_decision && reply->decision_step == 0 && reply->decision[0] == 5);
    rig_push_sync(&r, 4, 0, 1, 2, 1, 2); /* late: not part of it */
    assert_null(rig_find(&r, 2));
    assert_null(rig_find(&r, 4));
    rig_totals(&r, 5, 0, 0, 1);
    rig_expect_push(&r, 2, PUSH_APPLIED);
    rig_expect_push(&r, 3, PUSH_APPLIED);
    rig_expect_push(&r, 4, PUSH_STALE);
    assert_int_equal(r.applied.examples, 4);
    rig_release(&r);
}

/* A generation that begins between decision and update: the same replicas, for others may have
 * applied them. */
static void test_decision_of_the_lead_stays(void **state)
{
    (void)state;
    struct rig r;
    open_partial_rounds(&r, 0);
    rig_push_sync(&r, 1, 0, 0, 1, 1, 2);
    rig_push_sync(&r, 2, 0, 2, 3, 1, 2);
    assert_true(r.sums.begun);
    rig_membership(&r, 3, 2, 2);
    r.generation = 2;
    rig_push_sync(&r, 4, 0, 0, 1, 1, 2);
    rig_push_sync(&r, 5, 0, 1, 2, 1, 2);
    assert_false(r.sums.begun);
    rig_push_sync(&r, 6, 0, 2, 3, 1, 2);
    assert_true(r.sums.begun);
    rig_totals(&r, 7, 0, 0, 1);
    rig_expect_push(&r, 4, PUSH_APPLIED);
    rig_expect_push(&r, 5, PUSH_STALE);
    rig_expect_push(&r, 6, PUSH_APPLIED);
    rig_release(&r);
}

/* Nobody has applied it while all are at this version; it may even be of more replicas. */
static void test_a_change_erases_what_was_only_decided(void **state)
{
    (void)state;
    for (uint32_t number = 0; number < 2; number++) {
        struct rig r;
        open_partial_rounds(&r, number);
        rig_push_sync(&r, 1, 0, 0, 1, 1, 2);
        rig_push_sync(&r, 2, 0, 2, 3, 1, 2);
        if (number > 0) {
            const uint8_t set = 5;
            decide(&r, 3, 0, &set, 1);
        }
        assert_true(r.sums.begun);
        struct consistency c = rig_consistency(TRAINING_SYNC, 2);
        rig_change(&r, 4, 2, &c, 1, &r.ledger);
        rig_expect(&r, 4, ERR_STATE, "a change at version 1, but the shard is at 0");
        rig_change(&r, 5, 2, &c, 0, &r.ledger);
        rig_expect(&r, 5, 0, "");
        assert_false(r.sums.begun);
        r.generation = 2;
        r.options.consistency = c;
        rig_push_sync(&r, 6, 0, 0, 1, 1, 2);
        assert_false(r.sums.begun); /* now it takes both */
        rig_push_sync(&r, 7, 0, 1, 2, 1, 2);
        assert_true(r.sums.begun);
        rig_totals(&r, 8, 0, 0, 1);
        assert_int_equal(r.version, 1);
        rig_release(&r);
    }
}

static void test_others_reduce_what_was_decided(void **state)
{
    (void)state;
    struct rig r;
    open_partial_rounds(&r, 1);
    rig_ask_sums(&r, 1, 0, 0);
    rig_push_sync(&r, 2, 0, 0, 1, 1, 2);
    rig_push_sync(&r, 3, 0, 1, 2, 1, 2);
    assert_false(r.sums.begun);
    const uint8_t set = 5;
    decide(&r, 4, 0, &set, 1);
    assert_false(r.sums.begun);
    rig_push_sync(&r, 5, 0, 2, 3, 1, 2);
    rig_expect_sums(&r, 1, false, 0, 0);
    assert_false(rig_replied(&r, 1)->has_decision);
    rig_totals(&r, 6, 0, 0, 1);
    rig_expect_push(&r, 3, PUSH_STALE);
    rig_expect_push(&r, 5, PUSH_APPLIED);
    rig_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lead_decides_before_it_applies),
        cmocka_unit_test(test_decision_of_the_lead_stays),
        cmocka_unit_test(test_a_change_erases_what_was_only_decided),
        cmocka_unit_test(test_others_reduce_what_was_decided),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
