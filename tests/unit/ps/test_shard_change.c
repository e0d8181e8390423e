/* SPDX-License-Identifier: Apache-2.0 */
/* Changes of consistency and data position with a generation; examples; repeated openings. */
#include "shard_rig.h"

static struct ledger ledger_at(const struct rig *r, uint64_t epoch, uint32_t a, uint32_t b,
                               uint32_t c)
{
    struct ledger l;
    ledger_copy(&l, &r->ledger);
    l.epoch = epoch;
    l.done[0] = a;
    l.done[1] = b;
    l.done[2] = c;
    return l;
}

static void change_to(struct rig *r, uintptr_t tag, uint64_t generation, enum training_mode mode,
                      uint32_t replicas, uint64_t version, struct ledger ledger)
{
    struct consistency c = rig_consistency(mode, replicas);
    rig_change(r, tag, generation, &c, version, &ledger);
    ledger_release(&ledger);
}

static enum training_mode mode_of(const struct rig *r)
{
    struct shard_info info;
    shard_info(r->shard, &info);
    return info.consistency.mode;
}

static void test_the_mode_changes_and_back(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 2);
    rig_push_sync(&r, 1, 0, 0, 2, 1, 4);
    rig_push_sync(&r, 2, 1, 0, 1, 9, 4);
    rig_pull(&r, 3, PULL_VERSION, 2);
    change_to(&r, 4, 2, TRAINING_ASYNC, 0, 1, ledger_at(&r, 0, 2, 0, 0));
    rig_expect(&r, 3, ERR_ABORTED, "it is 2 now");
    assert_int_equal(r.buffers, 0);
    assert_int_equal(rig_replied(&r, 4)->version, 1);
    assert_int_equal(rig_replied(&r, 4)->done0, 2);
    assert_int_equal(rig_replied(&r, 4)->examples, 4);
    r.generation = 2;
    rig_push_async(&r, 5, "w0", 0, 0, 1);
    rig_expect_push(&r, 5, PUSH_DUPLICATE);
    rig_push_async(&r, 6, "w0", 0, 1, 0);
    rig_expect_push(&r, 6, PUSH_APPLIED);
    change_to(&r, 7, 3, TRAINING_BOUNDED, 0, 2, ledger_at(&r, 0, 2, 1, 0));
    assert_int_equal(mode_of(&r), TRAINING_BOUNDED);
    r.generation = 3;
    rig_push_async(&r, 8, "w1", 0, 1, 1);
    change_to(&r, 9, 4, TRAINING_SYNC, 3, 3, ledger_at(&r, 0, 2, 2, 0));
    assert_int_equal(rig_replied(&r, 9)->done0, UINT32_MAX); /* sync has none */
    r.generation = 4;
    rig_push_sync(&r, 10, 3, 0, 3, 1, 4);
    rig_expect_push(&r, 10, PUSH_APPLIED);
    assert_int_equal(r.version, 4);
    rig_release(&r);
}

/* Nothing changes, not even the generation. */
static void test_a_change_elsewhere_is_refused(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_ASYNC, 0);
    rig_push_async(&r, 1, "w0", 0, 0, 0);
    r.can_apply = false;
    rig_push_async(&r, 2, "w0", 0, 0, 1);
    rig_pull(&r, 3, PULL_VERSION, 2);
    change_to(&r, 4, 2, TRAINING_SYNC, 2, 2, ledger_at(&r, 0, 1, 0, 0));
    rig_expect(&r, 4, ERR_STATE, "at version 2, but the shard is at 1");
    change_to(&r, 5, 2, TRAINING_SYNC, 2, 1, ledger_at(&r, 0, 2, 0, 0));
    rig_expect(&r, 5, ERR_STATE, "where this shard, at version 1, is not");
    change_to(&r, 6, 2, TRAINING_SYNC, 2, 1, ledger_at(&r, 1, 1, 0, 0));
    rig_expect(&r, 6, ERR_STATE, "is not");
    assert_int_equal(rig_replied(&r, 6)->generation, 1);
    assert_int_equal(mode_of(&r), TRAINING_ASYNC);
    r.can_apply = true;
    rig_event(&r, SHARD_SNAPSHOT, 0); /* what waited goes on */
    rig_expect_push(&r, 2, PUSH_APPLIED);
    rig_expect_values(&r, 3, 2);
    rig_release(&r);
    rig_init(&r, TRAINING_SYNC, 2); /* sync: its ledger is of the beginning, only versions count */
    rig_push_sync(&r, 7, 0, 0, 2, 1, 4);
    change_to(&r, 8, 2, TRAINING_ASYNC, 0, 0, ledger_at(&r, 0, 2, 0, 0));
    rig_expect(&r, 8, ERR_STATE, "at version 0");
    change_to(&r, 9, 2, TRAINING_ASYNC, 0, 1, ledger_at(&r, 0, 2, 0, 0));
    rig_expect(&r, 9, 0, "");
    rig_release(&r);
}

static void test_changes_that_cannot_be(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 2);
    struct consistency c = rig_consistency(TRAINING_SYNC, 2);
    c.aggregate = 3;
    rig_change(&r, 1, 2, &c, 0, &r.ledger);
    rig_expect(&r, 1, ERR_INVALID, "3 of 2 replicas to aggregate");
    rig_change(&r, 2, 2, NULL, 0, &r.ledger);
    rig_expect(&r, 2, ERR_INVALID, "without a consistency");
    change_to(&r, 3, 2, TRAINING_SYNC, 2, 0, ledger_at(&r, 0, 0, 3, 0));
    rig_expect(&r, 3, ERR_INVALID, "3 batches of split 1 are done, of 2");
    struct ledger_shape shape = {.records = 60, .batch_records = 10, .split_batches = 2};
    struct ledger other;
    struct err err;
    assert_int_equal(ledger_init(&other, &shape, 0, &err), 0);
    c.aggregate = 2;
    rig_change(&r, 4, 2, &c, 0, &other);
    rig_expect(&r, 4, ERR_INVALID, "a data position of other data");
    ledger_release(&other);
    c.aggregate = 1;
    rig_change(&r, 5, 2, &c, 0, NULL); /* without a position it is not looked at */
    rig_expect(&r, 5, 0, "");
    r.generation = 2;
    rig_push_sync(&r, 6, 0, 0, 1, 1, 4);
    assert_int_equal(r.version, 0);
    change_to(&r, 7, 2, TRAINING_ASYNC, 0, 9, ledger_at(&r, 0, 0, 0, 0));
    rig_expect(&r, 7, 0, ""); /* of this generation: it was told before */
    assert_int_equal(mode_of(&r), TRAINING_SYNC);
    rig_release(&r);
}

static void test_a_complete_epoch_is_the_next_one(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_ASYNC, 0);
    const uint32_t batches[3] = {2, 2, 1};
    uintptr_t tag = 1;
    for (uint32_t s = 0; s < 3; s++) {
        for (uint32_t b = 0; b < batches[s]; b++) {
            rig_push_async(&r, tag++, "w0", 0, s, b);
        }
    }
    change_to(&r, 10, 2, TRAINING_ASYNC, 0, 5, ledger_at(&r, 1, 0, 0, 0));
    rig_expect(&r, 10, 0, "");
    change_to(&r, 11, 3, TRAINING_ASYNC, 0, 5, ledger_at(&r, 0, 2, 2, 1));
    rig_expect(&r, 11, 0, "");
    r.generation = 3;
    rig_push_async(&r, 12, "w0", 1, 1, 0);
    rig_expect_push(&r, 12, PUSH_APPLIED);
    rig_release(&r);
}

/* Clocks of another time do not hold anybody up. */
static void test_clocks_begin_anew(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_BOUNDED, 0); /* staleness 1 */
    rig_pull_latest(&r, 1, "w1");
    rig_pull_latest(&r, 20, "w0");
    rig_push_async(&r, 2, "w0", 0, 0, 0);
    rig_push_async(&r, 3, "w0", 0, 0, 1);
    rig_pull_latest(&r, 4, "w0");
    assert_null(rig_find(&r, 4));
    change_to(&r, 5, 2, TRAINING_ASYNC, 0, 2, ledger_at(&r, 0, 2, 0, 0));
    r.generation = 2;
    rig_pull_latest(&r, 14, "w1");
    rig_push_async(&r, 6, "w0", 0, 1, 0);
    rig_push_async(&r, 7, "w0", 0, 1, 1);
    rig_pull_latest(&r, 8, "w0"); /* async: nobody waits */
    rig_expect_values(&r, 8, 4);
    rig_idle(&r, 9, "stranger"); /* and nobody minds */
    rig_expect(&r, 9, 0, "");
    change_to(&r, 10, 3, TRAINING_BOUNDED, 0, 4, ledger_at(&r, 0, 2, 2, 0));
    r.generation = 3;
    rig_push_async(&r, 11, "w0", 0, 2, 0);
    rig_push_async(&r, 12, "w0", 1, 0, 0);
    rig_pull_latest(&r, 13, "w0"); /* w1 is not at work yet */
    rig_expect_values(&r, 13, 6);
    rig_release(&r);
}

/* The lead has done the step, so this shard is not at the position of the others. */
static void test_a_decided_step_comes_before_a_change(void **state)
{
    (void)state;
    struct rig r;
    struct consistency c = rig_consistency(TRAINING_SYNC, 4);
    c.aggregate = 2;
    rig_open(&r, 1, &c);
    struct shard_event e = rig_exchange(&r, 1, "w0");
    const uint8_t bits = 0x0C;
    e.ask.has_decision = true;
    e.ask.decision.replicas = &bits;
    e.ask.decision.bytes = 1;
    rig_step(&r, &e);
    rig_expect(&r, 1, 0, "");
    c.replicas = 3;
    rig_change(&r, 2, 2, &c, 0, &r.ledger);
    rig_expect(&r, 2, ERR_STATE, "step 0, which other shards have done");
    rig_push_sync(&r, 3, 0, 2, 3, 1, 2); /* still of generation 1 */
    rig_push_sync(&r, 4, 0, 3, 4, 3, 2);
    rig_expect_push(&r, 3, PUSH_APPLIED);
    rig_change(&r, 5, 2, &c, 1, &r.ledger);
    rig_expect(&r, 5, 0, "");
    r.generation = 2;
    rig_push_sync(&r, 6, 1, 3, 4, 1, 2);
    rig_expect(&r, 6, ERR_INVALID, "of 3 replicas");
    rig_release(&r);
}

/* In every mode, from what was there when the shard was opened. */
static void test_examples_are_counted_for_good(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 2);
    shard_free(r.shard);
    r.options.version = r.version = 7;
    r.options.examples = r.examples = 1000;
    struct err err;
    r.shard = shard_new(&r.options, &err);
    rig_push_sync(&r, 1, 7, 0, 2, 1, 24);
    rig_pin(&r, SHARD_PIN, 2, "a", true);
    rig_push_sync(&r, 3, 8, 0, 2, 1, 16);
    assert_int_equal(rig_replied(&r, 2)->examples, 1024);
    rig_pin(&r, SHARD_PIN, 4, "a", true);
    assert_int_equal(rig_replied(&r, 4)->examples, 1024);
    rig_pin(&r, SHARD_CHECKPOINT, 5, "a", false);
    assert_true(rig_replied(&r, 5)->write);
    assert_int_equal(rig_replied(&r, 5)->examples, 1024);
    rig_event(&r, SHARD_STATE, 6);
    assert_int_equal(rig_replied(&r, 6)->examples, 1040);
    change_to(&r, 7, 2, TRAINING_ASYNC, 0, 9, ledger_at(&r, 3, 0, 0, 0));
    r.generation = 2;
    rig_push_async(&r, 8, "w0", 3, 0, 0); /* two examples */
    rig_push_async(&r, 9, "w0", 3, 0, 0);
    rig_membership(&r, 10, 3, 2);
    assert_int_equal(rig_replied(&r, 10)->examples, 1042);
    rig_release(&r);
}

static void test_what_was_closed_is_not_opened_again(void **state)
{
    (void)state;
    struct shard_closed closed = {.count = 0};
    struct err err = {0};
    assert_int_equal(shard_closed_check(&closed, 7, 1, &err), 0);
    shard_closed_add(&closed, 7, 1);
    shard_closed_add(&closed, 0, 1);
    assert_int_equal(shard_closed_check(&closed, 7, 1, &err), ERR_ABORTED);
    assert_string_equal(err.msg, "this opening of the shard is closed");
    assert_int_equal(shard_closed_check(&closed, 7, 2, &err), 0); /* another shard of it */
    assert_int_equal(shard_closed_check(&closed, 8, 1, &err), 0);
    assert_int_equal(shard_closed_check(&closed, 0, 1, &err), 0); /* nobody drew that */
    for (int again = 0; again < 2; again++) { /* before it was opened, and said twice */
        shard_closed_early(&closed, 9, 1);
        assert_int_equal(shard_closed_check(&closed, 9, 1, &err), ERR_ABORTED);
        assert_int_equal(closed.count, 2);
    }
    for (uint32_t i = 0; i < SHARD_CLOSED_KEPT - 2; i++) {
        shard_closed_add(&closed, 100, i);
    }
    assert_int_equal(shard_closed_check(&closed, 7, 1, &err), ERR_ABORTED);
    shard_closed_add(&closed, 100, SHARD_CLOSED_KEPT);
    assert_int_equal(shard_closed_check(&closed, 7, 1, &err), 0); /* the oldest is forgotten */
    assert_int_equal(shard_closed_check(&closed, 100, 0, &err), ERR_ABORTED);
}

static void test_what_an_opening_is(void **state)
{
    (void)state;
    struct rig r;
    struct err err = {0};
    const struct fence own = {0};
    const struct fence other_master = {.secret = {1}};
    const struct fence other_opening = {.opening = 1};
    rig_init(&r, TRAINING_SYNC, 2);
    assert_int_equal(shard_open_decide(NULL, 0, 0, &own, &err), SHARD_OPEN_NEW);
    assert_int_equal(shard_open_decide(r.shard, 1, 1, &own, &err), SHARD_OPEN_SAME);
    assert_int_equal(shard_open_decide(r.shard, 1, 2, &own, &err), SHARD_OPEN_REPLACE);
    assert_int_equal(err.code, 0);
    rig_membership(&r, 1, 5, 2);
    assert_int_equal(shard_open_decide(r.shard, 1, 5, &own, &err), SHARD_OPEN_SAME);
    assert_int_equal(shard_open_decide(r.shard, 1, 6, &own, &err), SHARD_OPEN_REPLACE);
    assert_int_equal(err.code, 0);
    assert_int_equal(shard_open_decide(r.shard, 1, 1, &own, &err), SHARD_OPEN_REFUSED);
    assert_int_equal(err.code, ERR_ABORTED);
    assert_non_null(strstr(err.msg, "generation 1 is over: opened with 1, it is 5 now"));
    assert_int_equal(shard_open_decide(r.shard, 1, 4, &own, NULL), SHARD_OPEN_REFUSED);
    /* A higher generation is no reason for another master's shard to go. */
    assert_int_equal(shard_open_decide(r.shard, 1, UINT64_MAX, &other_master, &err),
                     SHARD_OPEN_REFUSED);
    assert_int_equal(err.code, ERR_UNAUTHENTICATED);
    assert_int_equal(shard_open_decide(r.shard, 1, 5, &other_opening, &err), SHARD_OPEN_REFUSED);
    assert_int_equal(err.code, ERR_ABORTED);
    assert_int_equal(shard_open_decide(r.shard, 1, 6, &other_opening, &err), SHARD_OPEN_REPLACE);
    rig_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_closed_is_not_opened_again),
        cmocka_unit_test(test_the_mode_changes_and_back),
        cmocka_unit_test(test_a_change_elsewhere_is_refused),
        cmocka_unit_test(test_changes_that_cannot_be),
        cmocka_unit_test(test_a_complete_epoch_is_the_next_one),
        cmocka_unit_test(test_clocks_begin_anew),
        cmocka_unit_test(test_a_decided_step_comes_before_a_change),
        cmocka_unit_test(test_examples_are_counted_for_good),
        cmocka_unit_test(test_what_an_opening_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
