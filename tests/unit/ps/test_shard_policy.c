/* SPDX-License-Identifier: Apache-2.0 */
/* Async and bounded: pushes of several batches, and what becomes of stale gradients. */
#include "shard_rig.h"

static void open_policy(struct rig *r, uint32_t number, enum staleness_policy policy)
{
    struct consistency c = rig_consistency(TRAINING_ASYNC, 0);
    c.policy = policy;
    c.max_staleness = policy == POLICY_MAX_STALENESS ? 1 : 0;
    c.lambda = policy == POLICY_DELAY_COMPENSATION ? 0.25 : 0;
    rig_open(r, number, &c);
}

static void open_pushes_of(struct rig *r, enum training_mode mode, uint32_t push_every)
{
    struct consistency c = rig_consistency(mode, 0);
    c.push_every = push_every;
    rig_open(r, 0, &c);
}

/* Splits of 6, 6 and 3 batches. */
static void make_longer_splits(struct rig *r)
{
    struct ledger_shape shape = {.records = 150, .batch_records = 10, .split_batches = 6};
    struct err err;
    shard_free(r->shard);
    ledger_release(&r->ledger);
    assert_int_equal(ledger_init(&r->ledger, &shape, 0, &err), 0);
    r->shard = shard_new(&r->options, &err);
    assert_non_null(r->shard);
}

static void push_range(struct rig *r, uintptr_t tag, const char *worker, uint32_t split,
                       uint32_t batch, uint32_t end)
{
    struct shard_event e = rig_async(r, tag, worker, 0, split, batch);
    e.ask.push.batch_end = end;
    e.ask.push.clock = rig_clock(r, worker, end > batch + 1 ? end - batch - 1 : 0);
    rig_step(r, &e);
}

static void push_of(struct rig *r, uintptr_t tag, const char *worker, uint32_t split,
                    uint32_t batch, uint64_t base_version)
{
    struct shard_event e = rig_async(r, tag, worker, 0, split, batch);
    e.ask.push.base_version = base_version;
    rig_step(r, &e);
}

/* ---- several batches in a push ---- */

static void test_pushes_of_several_batches(void **state)
{
    (void)state;
    struct rig r;
    open_pushes_of(&r, TRAINING_ASYNC, 4);
    make_longer_splits(&r);
    push_range(&r, 1, "w0", 0, 0, 4);
    rig_expect_push(&r, 1, PUSH_APPLIED);
    assert_int_equal(r.version, 1);
    struct shard_info info;
    shard_info(r.shard, &info);
    assert_int_equal(info.ledger->done[0], 4);
    push_range(&r, 2, "w1", 0, 0, 4);
    rig_expect_push(&r, 2, PUSH_DUPLICATE);
    push_range(&r, 3, "w1", 0, 1, 3); /* a part of it */
    rig_expect_push(&r, 3, PUSH_DUPLICATE);
    push_range(&r, 4, "w1", 0, 5, 6);
    rig_expect(&r, 4, ERR_RANGE, "batch 5 of split 0 of epoch 0; next is batch 4");
    push_range(&r, 5, "w1", 0, 4, 6); /* up to the end of the split */
    rig_expect_push(&r, 5, PUSH_APPLIED);
    push_range(&r, 6, "w1", 1, 0, 3); /* of a lease */
    rig_expect_push(&r, 6, PUSH_APPLIED);
    push_range(&r, 7, "w1", 1, 2, 4); /* half of it is in */
    rig_expect(&r, 7, ERR_RANGE, "next is batch 3");
    push_range(&r, 8, "w1", 1, 3, 6); /* past the multiple of four */
    rig_expect(&r, 8, ERR_INVALID, "batches 3..6 of split 1");
    push_range(&r, 9, "w1", 1, 3, 2);
    rig_expect(&r, 9, ERR_INVALID, "ends at 4 at the latest");
    push_range(&r, 10, "w1", 2, 0, 4);
    rig_expect(&r, 10, ERR_INVALID, "ends at 3");
    push_range(&r, 11, "w1", 1, 3, 0); /* 0: one batch */
    rig_expect_push(&r, 11, PUSH_APPLIED);
    shard_info(r.shard, &info);
    assert_int_equal(info.ledger->done[1], 4);
    rig_release(&r);
    open_pushes_of(&r, TRAINING_ASYNC, 1);
    push_range(&r, 12, "w0", 0, 0, 2);
    rig_expect(&r, 12, ERR_INVALID, "ends at 1");
    push_range(&r, 13, "w0", 0, UINT32_MAX, 0);
    rig_expect(&r, 13, ERR_INVALID, "which has 2 batches");
    rig_release(&r);
}

static void test_ranges_queue_for_a_snapshot(void **state)
{
    (void)state;
    struct rig r;
    open_pushes_of(&r, TRAINING_ASYNC, 2);
    make_longer_splits(&r);
    r.can_apply = false;
    push_range(&r, 1, "w0", 0, 0, 2);
    push_range(&r, 2, "w0", 0, 2, 4);
    push_range(&r, 3, "w1", 0, 0, 1); /* in with the first */
    push_range(&r, 4, "w1", 0, 3, 4); /* with the second */
    push_range(&r, 5, "w1", 0, 5, 6);
    rig_expect(&r, 5, ERR_RANGE, "next is batch 4");
    assert_int_equal(r.reply_count, 1);
    r.can_apply = true;
    rig_event(&r, SHARD_SNAPSHOT, 0);
    rig_expect_push(&r, 1, PUSH_APPLIED);
    rig_expect_push(&r, 3, PUSH_DUPLICATE);
    assert_null(rig_find(&r, 4));
    r.can_apply = false;
    push_range(&r, 6, "w1", 0, 1, 2); /* applied: nothing to wait for */
    rig_expect_push(&r, 6, PUSH_DUPLICATE);
    r.can_apply = true;
    rig_event(&r, SHARD_SNAPSHOT, 0);
    rig_expect_push(&r, 2, PUSH_APPLIED);
    rig_expect_push(&r, 4, PUSH_DUPLICATE);
    rig_release(&r);
}

static void test_the_clock_counts_batches(void **state)
{
    (void)state;
    struct rig r;
    open_pushes_of(&r, TRAINING_BOUNDED, 3); /* staleness 1 */
    make_longer_splits(&r);
    rig_pull_latest(&r, 1, "w1");
    rig_pull_latest(&r, 20, "w0");
    push_range(&r, 2, "w0", 0, 0, 3);
    rig_pull_latest(&r, 3, "w0");
    assert_null(rig_find(&r, 3)); /* three ahead */
    push_range(&r, 4, "w1", 1, 0, 1);
    assert_null(rig_find(&r, 3));
    push_range(&r, 5, "w1", 1, 1, 3);
    rig_expect_values(&r, 3, 3);
    rig_release(&r);
}

/* ---- staleness ---- */

static void test_answers_say_how_stale(void **state)
{
    (void)state;
    struct rig r;
    open_policy(&r, 0, POLICY_NONE);
    push_of(&r, 1, "w0", 0, 0, 0);
    assert_int_equal(rig_replied(&r, 1)->staleness, 0);
    push_of(&r, 2, "w0", 0, 1, 0);
    assert_int_equal(rig_replied(&r, 2)->staleness, 1);
    r.can_apply = false;
    push_of(&r, 3, "w1", 1, 0, 1);
    push_of(&r, 4, "w2", 2, 0, 0);
    push_of(&r, 5, "w1", 1, 0, 1);
    r.can_apply = true;
    rig_event(&r, SHARD_SNAPSHOT, 0);
    assert_int_equal(r.applied.staleness, 1);
    assert_int_equal(rig_replied(&r, 3)->staleness, 1);
    rig_expect_push(&r, 5, PUSH_DUPLICATE);
    assert_int_equal(rig_replied(&r, 5)->staleness, 0); /* it was not applied */
    rig_event(&r, SHARD_SNAPSHOT, 0);
    assert_int_equal(r.applied.staleness, 3);
    assert_int_equal(rig_replied(&r, 4)->staleness, 3);
    assert_true(r.applied.lr_scale == 1.0F);
    assert_false(r.applied.has_base);
    rig_release(&r);
}

static void test_the_lead_drops_what_is_too_stale(void **state)
{
    (void)state;
    struct rig r;
    open_policy(&r, 0, POLICY_MAX_STALENESS); /* 1 */
    push_of(&r, 1, "w0", 0, 0, 0);
    push_of(&r, 2, "w0", 0, 1, 0); /* one stale: fine */
    rig_expect_push(&r, 2, PUSH_APPLIED);
    struct shard_event e = rig_async(&r, 3, "w1", 0, 1, 0); /* two */
    e.ask.push.decided = true;                              /* which is for the lead to say */
    e.ask.has_pull = true;
    rig_step(&r, &e);
    rig_expect_push(&r, 3, PUSH_DROPPED);
    assert_int_equal(rig_replied(&r, 3)->staleness, 0); /* only of what is applied */
    rig_expect_values(&r, 3, 2);
    assert_int_equal(r.version, 2);
    assert_int_equal(r.buffers, 0);
    push_of(&r, 4, "w1", 0, 0, 0); /* applied before, however stale */
    rig_expect_push(&r, 4, PUSH_DUPLICATE);
    push_of(&r, 5, "w1", 1, 1, 0);
    rig_expect(&r, 5, ERR_RANGE, "next is batch 0"); /* the dropped one is still to come */
    r.can_apply = false;
    push_of(&r, 6, "w1", 1, 0, 2);
    push_of(&r, 7, "w2", 2, 0, 2);
    push_of(&r, 8, "w1", 1, 1, 2); /* two are before it in the queue */
    rig_expect_push(&r, 8, PUSH_DROPPED);
    r.can_apply = true;
    rig_event(&r, SHARD_SNAPSHOT, 0);
    rig_event(&r, SHARD_SNAPSHOT, 0);
    rig_expect_push(&r, 7, PUSH_APPLIED);
    push_of(&r, 9, "w1", 1, 1, 4);
    struct shard_info info;
    shard_info(r.shard, &info);
    assert_int_equal(info.pushes_dropped, 2);
    assert_int_equal(ledger_left(info.ledger), 0);
    e = rig_async(&r, 10, "w1", 1, 0, 0); /* does not even begin the next epoch */
    rig_step(&r, &e);
    rig_expect_push(&r, 10, PUSH_DROPPED);
    shard_info(r.shard, &info);
    assert_int_equal(info.ledger->epoch, 0);
    rig_release(&r);
}

static void test_the_others_follow_the_lead(void **state)
{
    (void)state;
    struct rig r;
    open_policy(&r, 1, POLICY_MAX_STALENESS);
    push_of(&r, 1, "w0", 0, 0, 0);
    rig_expect(&r, 1, ERR_STATE, "that the lead did not take");
    assert_int_equal(r.buffers, 0);
    for (uint32_t i = 0; i < 4; i++) { /* up to three stale */
        struct shard_event e = rig_async(&r, 2 + i, "w0", 0, i / 2, i % 2);
        e.ask.push.decided = true;
        rig_step(&r, &e);
        rig_expect_push(&r, 2 + i, PUSH_APPLIED);
        assert_int_equal(rig_replied(&r, 2 + i)->staleness, i);
    }
    push_of(&r, 6, "w0", 0, 0, 0);
    rig_expect(&r, 6, ERR_STATE, "it decides what is too stale");
    rig_release(&r);
}

static void test_stale_gradients_step_less(void **state)
{
    (void)state;
    struct rig r;
    open_policy(&r, 1, POLICY_SCALE_LR);
    push_of(&r, 1, "w0", 0, 0, 0);
    assert_true(r.applied.lr_scale == 1.0F);
    push_of(&r, 2, "w0", 0, 1, 0); /* one stale */
    assert_true(r.applied.lr_scale == 1.0F);
    push_of(&r, 3, "w0", 1, 0, 0);
    assert_true(r.applied.lr_scale == 0.5F);
    r.can_apply = false;
    push_of(&r, 4, "w0", 1, 1, 0);
    push_of(&r, 5, "w0", 2, 0, 3);
    r.can_apply = true;
    rig_event(&r, SHARD_SNAPSHOT, 0);
    assert_true(r.applied.lr_scale == 1.0F / 3.0F);
    rig_event(&r, SHARD_SNAPSHOT, 0);
    assert_true(r.applied.lr_scale == 1.0F);
    rig_release(&r);
}

/* ---- delay compensation ---- */

static unsigned kept(const struct rig *r)
{
    unsigned n = 0;
    for (size_t v = 0; v < RIG_VERSIONS; v++) {
        n += r->kept[v];
    }
    return n;
}

/* A rule may want it whatever the policy is, but there is nothing for the policy to make up for. */
static void test_kept_for_the_rule(void **state)
{
    (void)state;
    struct rig r;
    struct err err;
    open_policy(&r, 0, POLICY_NONE);
    shard_free(r.shard);
    r.options.keeps_bases = true;
    r.shard = shard_new(&r.options, &err);
    rig_pull_latest(&r, 1, "w1");
    assert_int_equal(r.kept[0], 1);
    push_of(&r, 2, "w0", 0, 0, 0);
    struct shard_event e = rig_async(&r, 3, "w1", 0, 1, 0);
    e.ask.has_pull = true;
    rig_step(&r, &e);
    assert_true(r.applied.has_base && r.applied.base_version == 0);
    assert_true(r.applied.lambda == 0.0F);
    assert_int_equal(r.kept[0], 0);
    assert_int_equal(r.kept[2], 1);
    rig_release(&r);
}

static void test_what_was_sent_is_kept(void **state)
{
    (void)state;
    struct rig r;
    open_policy(&r, 0, POLICY_DELAY_COMPENSATION);
    rig_pull_latest(&r, 1, "w0");
    rig_pull_latest(&r, 2, "w1");
    rig_pull_latest(&r, 3, "w1");
    assert_int_equal(r.kept[0], 2);
    push_of(&r, 4, "w0", 0, 0, 0); /* of the present: nothing to make up for */
    assert_false(r.applied.has_base);
    struct shard_event e = rig_async(&r, 5, "w1", 0, 1, 0);
    e.ask.has_pull = true;
    rig_step(&r, &e);
    assert_true(r.applied.has_base);
    assert_int_equal(r.applied.base_version, 0);
    assert_true(r.applied.lambda == 0.25F);
    assert_true(r.applied.lr_scale == 1.0F);
    assert_int_equal(r.kept[0], 1); /* w0's */
    assert_int_equal(r.kept[2], 1); /* w1's */
    push_of(&r, 6, "w0", 0, 1, 0);  /* it did not pull meanwhile */
    assert_true(r.applied.has_base);
    push_of(&r, 7, "w1", 1, 1, 1); /* not what it was sent last */
    assert_false(r.applied.has_base);
    rig_pull_latest(&r, 8, "w0");
    assert_int_equal(r.kept[0], 0);
    assert_int_equal(kept(&r), 2);
    rig_pull(&r, 9, PULL_VERSION, 3); /* of w0, as for an evaluation */
    assert_int_equal(kept(&r), 2);
    rig_release(&r);
}

static void test_strangers_are_not_compensated(void **state)
{
    (void)state;
    struct rig r;
    open_policy(&r, 0, POLICY_DELAY_COMPENSATION);
    rig_pull_latest(&r, 1, "stranger");
    rig_expect_values(&r, 1, 0);
    rig_pull_latest(&r, 2, NULL);
    rig_expect_values(&r, 2, 0);
    assert_int_equal(kept(&r), 0);
    push_of(&r, 3, "w0", 0, 0, 0);
    push_of(&r, 4, "stranger", 0, 1, 0);
    rig_expect_push(&r, 4, PUSH_APPLIED);
    assert_false(r.applied.has_base);
    rig_release(&r);
}

static void test_a_queued_push_is_compensated_later(void **state)
{
    (void)state;
    struct rig r;
    open_policy(&r, 0, POLICY_DELAY_COMPENSATION);
    rig_pull_latest(&r, 1, "w0");
    rig_pull_latest(&r, 2, "w1");
    r.can_apply = false;
    push_of(&r, 3, "w0", 0, 0, 0);
    struct shard_event e = rig_async(&r, 4, "w1", 0, 1, 0);
    e.ask.has_pull = true;
    rig_step(&r, &e);
    r.can_apply = true;
    rig_event(&r, SHARD_SNAPSHOT, 0);
    assert_false(r.applied.has_base);
    rig_event(&r, SHARD_SNAPSHOT, 0);
    assert_true(r.applied.has_base);
    assert_int_equal(r.applied.base_version, 0);
    rig_expect_values(&r, 4, 2);
    assert_int_equal(r.kept[2], 1);
    rig_release(&r);
}

static void test_who_leaves_keeps_nothing(void **state)
{
    (void)state;
    struct rig r;
    open_policy(&r, 0, POLICY_DELAY_COMPENSATION);
    rig_pull_latest(&r, 1, "w0");
    rig_pull_latest(&r, 2, "w1");
    rig_membership(&r, 3, 2, 1);
    assert_int_equal(r.kept[0], 1);
    r.generation = 2;
    push_of(&r, 4, "w1", 0, 0, 0);
    push_of(&r, 5, "w0", 0, 1, 0);
    assert_true(r.applied.has_base); /* who stays goes on */
    const char *const twice[] = {"w0", "w0"};
    struct shard_event e = {.kind = SHARD_MEMBERSHIP,
                            .generation = 3,
                            .tag = (void *)(uintptr_t)6,
                            .workers = twice,
                            .worker_count = 2};
    rig_step(&r, &e);
    assert_int_equal(r.kept[0], 1);
    r.generation = 3;
    struct consistency c = rig_consistency(TRAINING_ASYNC, 0);
    struct shard_info info;
    shard_info(r.shard, &info);
    rig_change(&r, 7, 4, &c, 2, info.ledger);
    rig_expect(&r, 7, 0, "");
    assert_int_equal(kept(&r), 0); /* another policy */
    rig_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pushes_of_several_batches),
        cmocka_unit_test(test_ranges_queue_for_a_snapshot),
        cmocka_unit_test(test_the_clock_counts_batches),
        cmocka_unit_test(test_answers_say_how_stale),
        cmocka_unit_test(test_the_lead_drops_what_is_too_stale),
        cmocka_unit_test(test_the_others_follow_the_lead),
        cmocka_unit_test(test_stale_gradients_step_less),
        cmocka_unit_test(test_what_was_sent_is_kept),
        cmocka_unit_test(test_kept_for_the_rule),
        cmocka_unit_test(test_strangers_are_not_compensated),
        cmocka_unit_test(test_a_queued_push_is_compensated_later),
        cmocka_unit_test(test_who_leaves_keeps_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
