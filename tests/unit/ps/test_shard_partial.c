/* SPDX-License-Identifier: Apache-2.0 */
/* Partial sync: a step with fewer than all replicas, the same ones on every shard. */
#include "shard_gradient.h"

static void push(struct rig *r, uintptr_t tag, uint64_t step, uint32_t replica, float gradient,
                 uint64_t examples)
{
    rig_push_sync(r, tag, step, replica, replica + 1, gradient, examples);
}

static void decide1(struct rig *r, uintptr_t tag, uint64_t step, uint8_t bits)
{
    decide(r, tag, step, &bits, 1);
}

static void expect_decision(struct rig *r, uintptr_t tag, enum push_result result, uint64_t step,
                            uint8_t bits)
{
    rig_expect_push(r, tag, result);
    const struct rig_reply *reply = rig_replied(r, tag);
    assert_true(reply->has_decision);
    assert_int_equal(reply->decision_step, step);
    assert_int_equal(reply->decision_bytes, 1);
    assert_int_equal(reply->decision[0], bits);
}

static void test_the_lead_takes_the_first(void **state)
{
    (void)state;
    struct rig r;
    open_partial(&r, 0, 4, 2);
    push(&r, 1, 0, 3, 1, 2);
    assert_null(rig_find(&r, 1)); /* waits until the step is complete */
    push(&r, 2, 0, 3, 9, 2);
    assert_null(rig_find(&r, 2));
    push(&r, 3, 0, 1, 3, 2);
    expect_decision(&r, 1, PUSH_APPLIED, 0, 0x0A);
    expect_decision(&r, 2, PUSH_DUPLICATE, 0, 0x0A);
    expect_decision(&r, 3, PUSH_APPLIED, 0, 0x0A);
    assert_true(r.values[1][0] == -1.0F); /* (1 + 3) / 4 */
    push(&r, 4, 0, 0, 7, 2);
    expect_decision(&r, 4, PUSH_STALE, 0, 0x0A);
    push(&r, 5, 0, 1, 7, 2);
    expect_decision(&r, 5, PUSH_DUPLICATE, 0, 0x0A);
    assert_int_equal(r.version, 1);
    assert_int_equal(r.buffers, 0);
    struct shard_info info;
    shard_info(r.shard, &info);
    assert_int_equal(info.pushes_applied, 2);
    assert_int_equal(info.pushes_duplicate, 2);
    assert_int_equal(info.pushes_dropped, 1);
    assert_int_equal(info.examples, 4);
    rig_release(&r);
}

static void test_empty_replicas_count_as_nothing(void **state)
{
    (void)state;
    struct rig r;
    open_partial(&r, 0, 4, 2);
    push(&r, 1, 0, 0, 0, 0);
    push(&r, 2, 0, 1, 0, 0);
    assert_int_equal(r.version, 0); /* two are in, but none with data */
    push(&r, 3, 0, 2, 1, 2);
    assert_int_equal(r.version, 0);
    push(&r, 4, 0, 3, 1, 2);
    expect_decision(&r, 1, PUSH_APPLIED, 0, 0x0F); /* they are in the set all the same */
    push(&r, 5, 1, 0, 0, 0);
    push(&r, 6, 1, 1, 0, 0);
    push(&r, 7, 1, 3, 0, 0);
    assert_int_equal(r.version, 1);
    push(&r, 8, 1, 2, 4, 2); /* there is no second one */
    expect_decision(&r, 8, PUSH_APPLIED, 1, 0x0F);
    for (uint32_t i = 0; i < 4; i++) {
        push(&r, 9 + i, 2, i, 0, 0);
    }
    assert_int_equal(r.version, 3); /* nobody had anything */
    assert_memory_equal(r.values[3], r.values[2], sizeof r.values[2]);
    rig_release(&r);
}

static void test_blocks_are_refused(void **state)
{
    (void)state;
    struct rig r;
    open_partial(&r, 0, 4, 2);
    rig_push_sync(&r, 1, 0, 0, 2, 1, 4);
    rig_expect(&r, 1, ERR_INVALID, "push each alone");
    rig_push_sync(&r, 2, 1, 0, 1, 1, 4);
    rig_expect(&r, 2, ERR_RANGE, "step 1, but the shard is at step 0");
    assert_int_equal(r.buffers, 0);
    rig_release(&r);
}

static void test_the_others_wait_for_the_decision(void **state)
{
    (void)state;
    struct rig r;
    open_partial(&r, 1, 4, 2);
    for (uint32_t i = 0; i < 3; i++) {
        push(&r, 1 + i, 0, i, 1, 2);
    }
    assert_int_equal(r.version, 0);
    assert_int_equal(r.buffers, 3);
    decide1(&r, 10, 0, 0x0A); /* 1 and 3 */
    rig_expect(&r, 10, 0, "");
    assert_int_equal(r.version, 0);
    assert_int_equal(r.buffers, 1); /* what is not part of it goes at once */
    decide1(&r, 11, 0, 0x0A);       /* again */
    rig_expect(&r, 11, 0, "");
    push(&r, 4, 0, 0, 9, 2);
    assert_null(rig_find(&r, 4));
    push(&r, 5, 0, 3, 3, 2);
    assert_int_equal(r.version, 1);
    assert_true(r.values[1][0] == -1.0F);
    rig_expect_push(&r, 1, PUSH_STALE);
    rig_expect_push(&r, 2, PUSH_APPLIED);
    rig_expect_push(&r, 3, PUSH_STALE);
    rig_expect_push(&r, 4, PUSH_STALE);
    rig_expect_push(&r, 5, PUSH_APPLIED);
    assert_false(rig_replied(&r, 5)->has_decision); /* only the lead's word counts */
    push(&r, 6, 0, 1, 9, 2);
    rig_expect_push(&r, 6, PUSH_DUPLICATE);
    push(&r, 7, 0, 2, 9, 2);
    rig_expect_push(&r, 7, PUSH_STALE);
    decide1(&r, 12, 0, 0x06); /* of an older step: nothing to do, whatever it says */
    rig_expect(&r, 12, 0, "");
    push(&r, 13, 1, 1, 1, 2);
    push(&r, 14, 1, 2, 1, 2);
    assert_int_equal(r.version, 1);
    rig_release(&r);
}

/* A decision that completes the step, with a push of the next one in the same request. */
static void test_a_decision_may_come_with_anything(void **state)
{
    (void)state;
    struct rig r;
    open_partial(&r, 2, 3, 2);
    push(&r, 1, 0, 0, 1, 2);
    push(&r, 2, 0, 2, 1, 2);
    struct shard_event e = rig_sync(&r, 3, 1, 1, 2, 1, 2);
    const uint8_t bits = 0x05;
    e.ask.has_decision = true;
    e.ask.decision.replicas = &bits;
    e.ask.decision.bytes = 1;
    e.ask.has_pull = true;
    e.ask.pull.kind = PULL_VERSION;
    e.ask.pull.version = 1;
    rig_step(&r, &e);
    assert_int_equal(r.version, 1);
    rig_expect_push(&r, 1, PUSH_APPLIED);
    assert_null(rig_find(&r, 3));
    decide1(&r, 4, 1, 0x03);
    push(&r, 5, 1, 0, 1, 2);
    rig_expect_push(&r, 3, PUSH_APPLIED);
    rig_expect_values(&r, 3, 1);        /* the one before the present */
    e = rig_sync(&r, 6, 2, 0, 1, 1, 2); /* refused as a whole */
    e.ask.has_decision = true;
    e.ask.decision.step = 7;
    e.ask.decision.replicas = &bits;
    e.ask.decision.bytes = 1;
    rig_step(&r, &e);
    rig_expect(&r, 6, ERR_RANGE, "a decision of step 7, but the shard is at step 2");
    assert_int_equal(r.buffers, 0);
    rig_release(&r);
}

static void test_wrong_decisions_are_refused(void **state)
{
    (void)state;
    struct rig r;
    open_partial(&r, 1, 10, 3);
    const uint8_t fine[] = {0x07, 0x00};
    const uint8_t more[] = {0x07, 0x04};
    const uint8_t other[] = {0x0E, 0x00};
    const uint8_t few[] = {0x03, 0x00};
    decide(&r, 1, 0, fine, 1);
    rig_expect(&r, 1, ERR_INVALID, "in 1 bytes; expected at least 3 of 10");
    decide(&r, 2, 0, more, 2);
    rig_expect(&r, 2, ERR_INVALID, "a decision of step 0");
    decide(&r, 3, 0, few, 2);
    rig_expect(&r, 3, ERR_INVALID, "with 2 replicas");
    decide(&r, 4, 0, NULL, 0);
    rig_expect(&r, 4, ERR_INVALID, "in 0 bytes");
    decide(&r, 5, 1, fine, 2);
    rig_expect(&r, 5, ERR_RANGE, "step 1");
    decide(&r, 6, 0, fine, 2);
    rig_expect(&r, 6, 0, "");
    decide(&r, 7, 0, other, 2);
    rig_expect(&r, 7, ERR_INVALID, "a second decision of step 0");
    r.generation = 0;
    decide(&r, 8, 0, fine, 2);
    rig_expect(&r, 8, ERR_ABORTED, "generation 0 is over");
    r.generation = 1;
    rig_release(&r);
    open_partial(&r, 0, 10, 3);
    decide(&r, 9, 0, fine, 2);
    rig_expect(&r, 9, ERR_INVALID, "for the lead, who decides");
    rig_release(&r);
    open_partial(&r, 1, 10, 10);
    decide(&r, 10, 0, fine, 2);
    rig_expect(&r, 10, ERR_INVALID, "every step has all its replicas");
    rig_release(&r);
    rig_init(&r, TRAINING_ASYNC, 0);
    decide(&r, 11, 0, fine, 2);
    rig_expect(&r, 11, ERR_INVALID, "every step has all its replicas");
    rig_release(&r);
}

static void test_the_lead_keeps_its_decisions(void **state)
{
    (void)state;
    struct rig r;
    open_partial(&r, 0, 3, 2);
    uintptr_t tag = 1;
    for (uint64_t step = 0; step < 20; step++) {
        push(&r, tag++, step, (uint32_t)(step % 3), 1, 2);
        push(&r, tag++, step, (uint32_t)((step + 1) % 3), 1, 2);
        if (step == 10) {
            rig_membership(&r, tag++, 2, 2);
            r.generation = 2;
        }
    }
    assert_int_equal(r.version, 20);
    for (uint64_t step = 4; step < 20; step++) { /* the last sixteen */
        uint8_t bits = (uint8_t)((1U << (step % 3)) | (1U << ((step + 1) % 3)));
        push(&r, tag, step, (uint32_t)((step + 2) % 3), 1, 2);
        expect_decision(&r, tag++, PUSH_STALE, step, bits);
        push(&r, tag, step, (uint32_t)(step % 3), 1, 2);
        expect_decision(&r, tag++, PUSH_DUPLICATE, step, bits);
    }
    push(&r, tag, 3, 0, 1, 2); /* it was in, but nobody knows any more */
    rig_expect_push(&r, tag, PUSH_STALE);
    assert_false(rig_replied(&r, tag)->has_decision);
    rig_release(&r);
}

/* What the lead did before a worker died is carried out by the others after it. */
static void test_decisions_outlive_a_generation(void **state)
{
    (void)state;
    struct rig lead;
    struct rig other;
    open_partial(&lead, 0, 3, 2);
    open_partial(&other, 1, 3, 2);
    push(&lead, 1, 0, 2, 1, 2);
    push(&lead, 2, 0, 0, 1, 2);
    push(&other, 1, 0, 2, 1, 2);
    decide1(&other, 2, 0, 0x05);
    rig_membership(&lead, 3, 2, 1);
    rig_membership(&other, 3, 2, 1);
    rig_expect(&other, 1, ERR_ABORTED, "it is 2 now");
    assert_int_equal(other.buffers, 0);
    lead.generation = other.generation = 2;
    push(&other, 4, 0, 0, 1, 2); /* 2 was forgotten */
    push(&other, 5, 0, 1, 9, 2);
    assert_int_equal(other.version, 0);
    push(&other, 6, 0, 2, 1, 2);
    rig_expect_push(&other, 4, PUSH_APPLIED);
    rig_expect_push(&other, 5, PUSH_STALE);
    push(&lead, 4, 0, 1, 9, 2);
    expect_decision(&lead, 4, PUSH_STALE, 0, 0x05);
    assert_memory_equal(lead.values[1], other.values[1], sizeof lead.values[1]);
    rig_release(&lead);
    rig_release(&other);
}

/* The lead's set is what is in when it can update: nobody has heard of another one. */
static void test_a_partial_step_waits_for_a_snapshot(void **state)
{
    (void)state;
    struct rig r;
    open_partial(&r, 0, 4, 2);
    r.can_apply = false;
    push(&r, 1, 0, 0, 1, 2);
    assert_false(shard_wants_snapshot(r.shard));
    push(&r, 2, 0, 1, 1, 2);
    assert_true(shard_wants_snapshot(r.shard));
    push(&r, 3, 0, 3, 4, 2);
    rig_event(&r, SHARD_SNAPSHOT, 0);
    assert_int_equal(r.reply_count, 0);
    rig_membership(&r, 4, 2, 2); /* all of it is forgotten, nobody was told */
    assert_false(shard_wants_snapshot(r.shard));
    r.generation = 2;
    push(&r, 5, 0, 0, 1, 2);
    push(&r, 6, 0, 2, 1, 2);
    push(&r, 7, 0, 3, 4, 2);
    r.can_apply = true;
    rig_event(&r, SHARD_SNAPSHOT, 0);
    expect_decision(&r, 5, PUSH_APPLIED, 0, 0x0D);
    expect_decision(&r, 7, PUSH_APPLIED, 0, 0x0D);
    assert_true(r.values[1][0] == -1.0F);
    rig_release(&r);
}

static void test_a_decided_step_waits_for_a_snapshot(void **state)
{
    (void)state;
    struct rig r;
    open_partial(&r, 1, 4, 2);
    r.can_apply = false;
    decide1(&r, 1, 0, 0x03); /* before anything came */
    push(&r, 2, 0, 0, 1, 2);
    assert_false(shard_wants_snapshot(r.shard));
    push(&r, 3, 0, 1, 1, 2);
    assert_true(shard_wants_snapshot(r.shard));
    push(&r, 4, 0, 2, 9, 2);
    r.can_apply = true;
    rig_event(&r, SHARD_SNAPSHOT, 0);
    rig_expect_push(&r, 2, PUSH_APPLIED);
    rig_expect_push(&r, 4, PUSH_STALE);
    r.can_apply = false;
    push(&r, 5, 1, 0, 1, 2);
    push(&r, 6, 1, 1, 1, 2);
    decide1(&r, 7, 1, 0x03); /* all is there */
    rig_expect(&r, 7, 0, "");
    assert_true(shard_wants_snapshot(r.shard));
    rig_membership(&r, 8, 2, 2);
    assert_false(shard_wants_snapshot(r.shard));
    rig_release(&r);
}

static void test_the_gone_leave_what_they_pushed(void **state)
{
    (void)state;
    struct rig r;
    open_partial(&r, 0, 3, 2);
    push(&r, 1, 0, 0, 1, 2);
    rig_event(&r, SHARD_GONE, 1);
    push(&r, 2, 0, 0, 9, 2);
    push(&r, 3, 0, 1, 3, 2);
    expect_decision(&r, 2, PUSH_DUPLICATE, 0, 0x03);
    assert_null(rig_find(&r, 1));
    assert_true(r.values[1][0] == -1.0F);
    rig_release(&r);
}

/* Whoever fell behind goes on from where the shard is. */
static void test_pulls_of_at_least_a_version(void **state)
{
    (void)state;
    struct rig r;
    open_partial(&r, 0, 3, 2);
    struct shard_event e = rig_sync(&r, 1, 0, 0, 1, 1, 2);
    e.ask.has_pull = true;
    e.ask.pull.kind = PULL_AT_LEAST;
    e.ask.pull.version = 1;
    rig_step(&r, &e);
    rig_pull(&r, 2, PULL_AT_LEAST, 3);
    push(&r, 3, 0, 1, 1, 2);
    expect_decision(&r, 1, PUSH_APPLIED, 0, 0x03);
    rig_expect_values(&r, 1, 1);
    for (uint64_t step = 1; step < 4; step++) {
        assert_true((rig_find(&r, 2) != NULL) == (step > 2));
        push(&r, 10 + 2 * step, step, 1, 1, 2);
        push(&r, 11 + 2 * step, step, 2, 1, 2);
    }
    rig_expect_values(&r, 2, 3);
    rig_pull(&r, 4, PULL_AT_LEAST, 1); /* version 1 is long gone */
    rig_expect_values(&r, 4, 4);
    e = rig_sync(&r, 5, 1, 0, 1, 1, 2);
    e.ask.has_pull = true;
    e.ask.pull.kind = PULL_AT_LEAST;
    e.ask.pull.version = 2;
    rig_step(&r, &e);
    expect_decision(&r, 5, PUSH_STALE, 1, 0x06);
    rig_expect_values(&r, 5, 4);
    rig_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_lead_takes_the_first),
        cmocka_unit_test(test_empty_replicas_count_as_nothing),
        cmocka_unit_test(test_blocks_are_refused),
        cmocka_unit_test(test_the_others_wait_for_the_decision),
        cmocka_unit_test(test_a_decision_may_come_with_anything),
        cmocka_unit_test(test_wrong_decisions_are_refused),
        cmocka_unit_test(test_the_lead_keeps_its_decisions),
        cmocka_unit_test(test_decisions_outlive_a_generation),
        cmocka_unit_test(test_a_partial_step_waits_for_a_snapshot),
        cmocka_unit_test(test_a_decided_step_waits_for_a_snapshot),
        cmocka_unit_test(test_the_gone_leave_what_they_pushed),
        cmocka_unit_test(test_pulls_of_at_least_a_version),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
