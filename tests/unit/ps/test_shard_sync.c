/* SPDX-License-Identifier: Apache-2.0 */
#include "shard_rig.h"

#include "job/progress/tree.h"

static float leaf(uint32_t replica)
{
    return 0.1F + 1.0F / (float)(3 + replica * 7); /* sums of these depend on the order */
}

static float tree_sum(uint32_t lo, uint32_t hi, size_t i)
{
    if (hi - lo == 1) {
        return leaf(lo) * (float)(i + 1);
    }
    uint32_t middle = tree_split(lo, hi);
    return tree_sum(lo, middle, i) + tree_sum(middle, hi, i);
}

static void check_tree_values(struct rig *r, uint32_t replicas)
{
    assert_int_equal(r->version, 1);
    for (size_t i = 0; i < RIG_FLOATS; i++) {
        float want = 0.0F - tree_sum(0, replicas, i) * (1.0F / (float)(replicas * 4));
        assert_memory_equal(&r->values[1][i], &want, sizeof want);
    }
}

static void run_order(uint32_t replicas, const uint32_t *order)
{
    struct rig r;
    rig_init(&r, TRAINING_SYNC, replicas);
    for (uint32_t i = 0; i < replicas; i++) {
        rig_push_sync(&r, i + 1, 0, order[i], order[i] + 1, leaf(order[i]), 4);
        rig_expect_push(&r, i + 1, i + 1 == replicas ? PUSH_APPLIED : PUSH_ACCEPTED);
    }
    check_tree_values(&r, replicas);
    rig_release(&r);
}

static void permute(uint32_t replicas, uint32_t *order, uint32_t at)
{
    if (at == replicas) {
        run_order(replicas, order);
        return;
    }
    for (uint32_t i = at; i < replicas; i++) {
        uint32_t t = order[at];
        order[at] = order[i];
        order[i] = t;
        permute(replicas, order, at + 1);
        order[i] = order[at];
        order[at] = t;
    }
}

static void test_any_order_gives_the_bits_of_the_tree(void **state)
{
    (void)state;
    for (uint32_t replicas = 1; replicas <= 5; replicas++) {
        uint32_t order[5] = {0, 1, 2, 3, 4};
        permute(replicas, order, 0);
    }
    uint32_t seed = 1;
    for (uint32_t replicas = 6; replicas <= 9; replicas++) {
        for (unsigned round = 0; round < 50; round++) {
            uint32_t order[9] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
            for (uint32_t i = replicas - 1; i > 0; i--) {
                seed = seed * 1664525U + 1013904223U;
                uint32_t j = (seed >> 8) % (i + 1);
                uint32_t t = order[i];
                order[i] = order[j];
                order[j] = t;
            }
            run_order(replicas, order);
        }
    }
}

/* Workers that sum their blocks themselves, along the tree, in any number and order. */
static void test_blocks_of_workers_give_the_same_bits(void **state)
{
    (void)state;
    for (uint32_t replicas = 1; replicas <= 9; replicas++) {
        for (uint32_t workers = 1; workers <= replicas; workers++) {
            struct rig r;
            rig_init(&r, TRAINING_SYNC, replicas);
            uintptr_t tag = 1;
            for (uint32_t w = workers; w-- > 0;) {
                struct tree_block share = tree_share(replicas, workers, w);
                struct tree_block blocks[TREE_BLOCKS_MAX];
                size_t n = tree_cover(replicas, share.lo, share.hi, blocks);
                for (size_t b = 0; b < n; b++) {
                    struct shard_event e = rig_sync(&r, tag++, 0, blocks[b].lo, blocks[b].hi, 0,
                                                    4 * (uint64_t)(blocks[b].hi - blocks[b].lo));
                    for (size_t i = 0; i < RIG_FLOATS; i++) {
                        ((float *)e.gradient)[i] = tree_sum(blocks[b].lo, blocks[b].hi, i);
                    }
                    rig_step(&r, &e);
                }
            }
            check_tree_values(&r, replicas);
            rig_release(&r);
        }
    }
}

/* The last sum of a step is part of its update; while no snapshot is free, it is made at once. */
static void test_the_update_adds_the_last_two_sums(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 2);
    rig_push_sync(&r, 1, 0, 1, 2, leaf(1), 4);
    rig_push_sync(&r, 2, 0, 0, 1, leaf(0), 4);
    assert_int_equal(r.actions.items[0].kind, SHARD_APPLY);
    assert_non_null(r.actions.items[0].source);
    assert_int_equal(r.buffers, 0);
    check_tree_values(&r, 2);
    rig_release(&r);

    rig_init(&r, TRAINING_SYNC, 2);
    rig_push_sync(&r, 1, 0, 0, 1, leaf(0), 4);
    r.can_apply = false;
    rig_push_sync(&r, 2, 0, 1, 2, leaf(1), 4);
    assert_int_equal(r.actions.items[0].kind, SHARD_ADD);
    assert_int_equal(r.buffers, 1);
    struct shard_event snapshot = {.kind = SHARD_SNAPSHOT, .can_apply = true};
    rig_step(&r, &snapshot);
    assert_int_equal(r.actions.items[0].kind, SHARD_APPLY);
    assert_null(r.actions.items[0].source);
    check_tree_values(&r, 2);
    rig_release(&r);
}

static void test_duplicates_change_nothing(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 3);
    rig_push_sync(&r, 1, 0, 0, 2, 1, 4);
    rig_push_sync(&r, 2, 0, 0, 2, 9, 4); /* in */
    rig_expect_push(&r, 2, PUSH_DUPLICATE);
    rig_push_sync(&r, 3, 0, 2, 3, 1, 4);
    rig_expect_push(&r, 3, PUSH_APPLIED);
    rig_push_sync(&r, 4, 0, 2, 3, 9, 4); /* applied */
    rig_expect_push(&r, 4, PUSH_DUPLICATE);
    assert_int_equal(rig_replied(&r, 4)->version, 1);
    assert_true(r.values[1][0] == -0.25F);
    struct shard_info info;
    shard_info(r.shard, &info);
    assert_int_equal(info.pushes_applied, 2);
    assert_int_equal(info.pushes_duplicate, 2);
    rig_release(&r);
}

static void test_wrong_pushes_are_refused(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 4);
    rig_push_sync(&r, 1, 1, 0, 1, 1, 4);
    rig_expect(&r, 1, ERR_RANGE, "step 1, but the shard is at step 0");
    rig_push_sync(&r, 2, 0, 1, 3, 1, 4);
    rig_expect(&r, 2, ERR_INVALID, "replicas 1..3 are not a node");
    rig_push_sync(&r, 3, 0, 0, 5, 1, 4);
    rig_expect(&r, 3, ERR_INVALID, "of 4 replicas");
    rig_push_sync(&r, 4, 0, 2, 2, 1, 4);
    rig_expect(&r, 4, ERR_INVALID, "replicas 2..2");
    struct shard_event e = rig_sync(&r, 5, 0, 0, 1, 1, 4);
    e.elements = 7;
    rig_step(&r, &e);
    rig_expect(&r, 5, ERR_INVALID, "7 gradient elements of 4 examples; expected 8");
    e = rig_sync(&r, 6, 0, 0, 1, 1, 0);
    e.ask.push.examples = 4; /* examples without a gradient */
    rig_step(&r, &e);
    rig_expect(&r, 6, ERR_INVALID, "0 gradient elements");
    rig_push_sync(&r, 7, 0, 0, 1, 1, UINT64_C(1) << 41);
    rig_expect(&r, 7, ERR_INVALID, "examples in one push");
    assert_int_equal(r.version, 0);
    rig_release(&r);
}

static void test_empty_contributions_count(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 3);
    rig_push_sync(&r, 1, 0, 2, 3, 0, 0);
    rig_push_sync(&r, 2, 0, 0, 1, 0, 0);
    rig_push_sync(&r, 3, 0, 1, 2, 1, 4);
    rig_expect_push(&r, 3, PUSH_APPLIED);
    assert_true(r.values[1][0] == -0.25F);
    rig_push_sync(&r, 4, 1, 0, 2, 0, 0);
    struct shard_event e = rig_sync(&r, 5, 1, 2, 3, 7, 4);
    e.ask.push.examples = 0; /* its values do not count */
    rig_step(&r, &e);
    rig_expect_push(&r, 5, PUSH_APPLIED);
    assert_int_equal(r.version, 2);
    assert_true(r.values[2][0] == -0.25F);
    rig_release(&r);
}

static void test_pulls_wait_for_their_version(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 2);
    rig_pull(&r, 1, PULL_VERSION, 0);
    rig_expect_values(&r, 1, 0);
    struct shard_event e = rig_sync(&r, 2, 0, 0, 1, 1, 4);
    e.ask.has_pull = true;
    e.ask.pull.kind = PULL_VERSION;
    e.ask.pull.version = 1;
    rig_step(&r, &e);
    rig_pull(&r, 3, PULL_VERSION, 2);
    assert_null(rig_find(&r, 2));
    e = rig_sync(&r, 4, 0, 1, 2, 1, 4);
    e.ask.has_pull = true;
    e.ask.pull.kind = PULL_VERSION;
    e.ask.pull.version = 1;
    rig_step(&r, &e);
    rig_expect_push(&r, 2, PUSH_ACCEPTED);
    rig_expect_values(&r, 2, 1);
    rig_expect_push(&r, 4, PUSH_APPLIED);
    rig_expect_values(&r, 4, 1);
    assert_null(rig_find(&r, 3));
    rig_pull(&r, 5, PULL_VERSION, 0); /* the one before is still there */
    rig_expect_values(&r, 5, 0);
    rig_push_sync(&r, 6, 1, 0, 2, 1, 4);
    rig_expect_values(&r, 3, 2);
    rig_pull(&r, 7, PULL_VERSION, 0);
    rig_expect(&r, 7, ERR_RANGE, "version 0, which is gone; the shard is at 2");
    rig_pull(&r, 8, PULL_LATEST, 0);
    rig_expect_values(&r, 8, 2);
    rig_pull(&r, 9, (enum pull_kind)7, 0);
    rig_expect(&r, 9, ERR_INVALID, "unknown kind of pull 7");
    e = rig_exchange(&r, 10, "w0");
    rig_step(&r, &e);
    rig_expect(&r, 10, ERR_INVALID, "neither a push nor a pull");
    rig_release(&r);
}

static void test_a_new_generation_forgets_and_aborts(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 2);
    struct shard_event e = rig_sync(&r, 1, 0, 0, 1, 100, 4);
    e.ask.has_pull = true;
    e.ask.pull.kind = PULL_VERSION;
    e.ask.pull.version = 1;
    rig_step(&r, &e);
    rig_membership(&r, 2, 3, 2);
    rig_expect(&r, 1, ERR_ABORTED, "generation 1 is over; it is 3 now");
    assert_int_equal(rig_replied(&r, 1)->generation, 3);
    assert_int_equal(r.buffers, 0);
    rig_push_sync(&r, 3, 0, 1, 2, 100, 4); /* of generation 1 */
    rig_expect(&r, 3, ERR_ABORTED, "it is 3 now");
    assert_int_equal(rig_replied(&r, 3)->generation, 3);
    rig_membership(&r, 4, 2, 2);
    rig_expect(&r, 4, ERR_ABORTED, "generation 2 is over");
    rig_membership(&r, 5, 3, 2); /* told again */
    rig_expect(&r, 5, 0, "");
    r.generation = 4;
    rig_pull(&r, 6, PULL_LATEST, 0);
    rig_expect(&r, 6, ERR_STATE, "generation 4 is not known yet");
    r.generation = 3;
    rig_push_sync(&r, 7, 0, 0, 1, 1, 4);
    rig_push_sync(&r, 8, 0, 1, 2, 1, 4);
    rig_expect_push(&r, 8, PUSH_APPLIED);
    assert_true(r.values[1][0] == -0.25F); /* only what came in generation 3 */
    rig_release(&r);
}

static void test_old_generations_are_fenced_everywhere(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 2);
    rig_pin(&r, SHARD_PIN, 1, "pin", true);
    rig_membership(&r, 2, 2, 2);
    rig_pin(&r, SHARD_PIN, 3, "other", true);
    rig_pin(&r, SHARD_UNPIN, 4, "pin", false);
    rig_pin(&r, SHARD_CHECKPOINT, 5, "pin", false);
    rig_event(&r, SHARD_STATE, 6);
    rig_event(&r, SHARD_CLOSE, 7);
    for (uintptr_t tag = 3; tag <= 7; tag++) {
        rig_expect(&r, tag, ERR_ABORTED, "generation 1 is over");
    }
    struct shard_event e = rig_exchange(&r, 8, "w0"); /* but an evaluation may go on */
    e.ask = (struct exchange_request){.kind = EXCHANGE_PINNED, .pin_id = "pin"};
    rig_step(&r, &e);
    rig_expect_values(&r, 8, 0);
    rig_release(&r);
}

/* One shard applied step 0, the other did not; then a worker dies. */
static void test_take_over_with_one_shard_ahead(void **state)
{
    (void)state;
    struct rig ahead;
    struct rig behind;
    rig_init(&ahead, TRAINING_SYNC, 2);
    rig_init(&behind, TRAINING_SYNC, 2);
    rig_push_sync(&ahead, 1, 0, 0, 1, 1, 4);
    rig_push_sync(&ahead, 2, 0, 1, 2, 1, 4);
    rig_push_sync(&behind, 1, 0, 0, 1, 1, 4);
    struct rig *shards[2] = {&ahead, &behind};
    for (int i = 0; i < 2; i++) {
        rig_membership(shards[i], 3, 2, 1);
        shards[i]->generation = 2;
        rig_pull(shards[i], 4, PULL_VERSION, 0);
        rig_expect_values(shards[i], 4, 0);
        rig_push_sync(shards[i], 5, 0, 0, 2, 2, 8); /* the survivor computes both */
    }
    rig_expect_push(&ahead, 5, PUSH_DUPLICATE);
    rig_expect_push(&behind, 5, PUSH_APPLIED);
    assert_int_equal(ahead.version, 1);
    assert_memory_equal(ahead.values[1], behind.values[1], sizeof ahead.values[1]);
    rig_release(&ahead);
    rig_release(&behind);
}

static void test_replicas_can_change_with_the_generation(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 2);
    rig_push_sync(&r, 1, 0, 0, 1, 1, 4);
    struct consistency c = rig_consistency(TRAINING_SYNC, 5);
    rig_change(&r, 2, 2, &c, 0, &r.ledger);
    r.generation = 2;
    rig_push_sync(&r, 3, 0, 4, 5, 1, 4);
    rig_push_sync(&r, 4, 0, 0, 4, 1, 4);
    rig_expect_push(&r, 4, PUSH_APPLIED);
    c.replicas = c.aggregate = 0;
    rig_change(&r, 5, 3, &c, 1, &r.ledger);
    rig_expect(&r, 5, ERR_INVALID, "0 replicas");
    rig_push_sync(&r, 6, 1, 0, 5, 1, 4); /* still of generation 2 */
    rig_expect_push(&r, 6, PUSH_APPLIED);
    rig_release(&r);
}

static void test_a_finished_step_waits_for_a_snapshot(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 2);
    r.can_apply = false;
    rig_push_sync(&r, 1, 0, 0, 1, 1, 4);
    assert_false(shard_wants_snapshot(r.shard));
    struct shard_event e = rig_sync(&r, 2, 0, 1, 2, 1, 4);
    e.ask.has_pull = true;
    e.ask.pull.kind = PULL_VERSION;
    e.ask.pull.version = 1;
    rig_step(&r, &e);
    assert_true(shard_wants_snapshot(r.shard));
    assert_int_equal(r.version, 0);
    rig_push_sync(&r, 3, 0, 1, 2, 5, 4);
    rig_expect_push(&r, 3, PUSH_DUPLICATE);
    rig_event(&r, SHARD_SNAPSHOT, 0);
    assert_int_equal(r.version, 0);
    r.can_apply = true;
    rig_event(&r, SHARD_SNAPSHOT, 0);
    assert_int_equal(r.version, 1);
    rig_expect_values(&r, 2, 1);
    rig_event(&r, SHARD_SNAPSHOT, 0); /* nothing waits */
    assert_int_equal(r.version, 1);
    rig_release(&r);
}

static void test_parked_requests_are_bounded_and_may_go(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 1);
    for (uintptr_t tag = 1; tag <= SHARD_PARKED_MAX; tag++) {
        rig_pull(&r, tag, PULL_VERSION, 1);
    }
    assert_int_equal(r.reply_count, 0);
    rig_pull(&r, 10000, PULL_VERSION, 1);
    rig_expect(&r, 10000, ERR_EXHAUSTED, "8192 requests wait already");
    rig_event(&r, SHARD_GONE, 17);
    rig_event(&r, SHARD_GONE, 17);
    rig_event(&r, SHARD_GONE, 77777);
    rig_push_sync(&r, 10001, 0, 0, 1, 1, 4);
    assert_int_equal(r.reply_count, SHARD_PARKED_MAX + 1);
    assert_null(rig_find(&r, 17));
    rig_expect_values(&r, SHARD_PARKED_MAX, 1);
    rig_release(&r);
}

static void test_close_ends_everything(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 2);
    rig_pull(&r, 1, PULL_VERSION, 1);
    rig_push_sync(&r, 2, 0, 0, 1, 1, 4);
    rig_pin(&r, SHARD_PIN, 3, "p", true);
    rig_event(&r, SHARD_CLOSE, 4);
    rig_expect(&r, 4, 0, "");
    rig_expect(&r, 1, ERR_NOT_FOUND, "closed");
    assert_int_equal(r.buffers, 0);
    rig_push_sync(&r, 5, 0, 1, 2, 1, 4);
    rig_expect(&r, 5, ERR_NOT_FOUND, "closed");
    rig_pin(&r, SHARD_PIN, 6, "p", true);
    rig_expect(&r, 6, ERR_NOT_FOUND, "closed");
    rig_event(&r, SHARD_GONE, 5);
    rig_event(&r, SHARD_SNAPSHOT, 0);
    rig_event(&r, SHARD_CLOSE, 7); /* again */
    rig_expect(&r, 7, 0, "");
    rig_release(&r);
}

static void test_options_are_checked(void **state)
{
    (void)state;
    struct rig r;
    struct err err;
    rig_init(&r, TRAINING_SYNC, 2);
    struct shard_options o = r.options;
    o.consistency.replicas = 0;
    assert_null(shard_new(&o, &err));
    o.consistency.replicas = o.consistency.aggregate = SHARD_REPLICAS_MAX + 1;
    assert_null(shard_new(&o, &err));
    assert_int_equal(err.code, ERR_INVALID);
    o = r.options;
    const char *bad[] = {"w0", ""};
    o.workers = bad;
    o.worker_count = 2;
    assert_null(shard_new(&o, &err));
    assert_int_equal(err.code, ERR_INVALID);
    o = r.options;
    r.ledger.done[2] = 2; /* of a split with one batch */
    assert_null(shard_new(&o, &err));
    assert_non_null(strstr(err.msg, "2 batches of split 2 are done, of 1"));
    rig_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order_gives_the_bits_of_the_tree),
        cmocka_unit_test(test_blocks_of_workers_give_the_same_bits),
        cmocka_unit_test(test_the_update_adds_the_last_two_sums),
        cmocka_unit_test(test_duplicates_change_nothing),
        cmocka_unit_test(test_wrong_pushes_are_refused),
        cmocka_unit_test(test_empty_contributions_count),
        cmocka_unit_test(test_pulls_wait_for_their_version),
        cmocka_unit_test(test_a_new_generation_forgets_and_aborts),
        cmocka_unit_test(test_old_generations_are_fenced_everywhere),
        cmocka_unit_test(test_take_over_with_one_shard_ahead),
        cmocka_unit_test(test_replicas_can_change_with_the_generation),
        cmocka_unit_test(test_a_finished_step_waits_for_a_snapshot),
        cmocka_unit_test(test_parked_requests_are_bounded_and_may_go),
        cmocka_unit_test(test_close_ends_everything),
        cmocka_unit_test(test_options_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
