/* SPDX-License-Identifier: Apache-2.0 */
/* Initial values that workers bring: in order, once, and before anybody reads them. */
#include "shard_rig.h"

static const float GIVEN[RIG_FLOATS] = {1, 2, 3, 4, 5, 6, 7, 8};

static void open_given(struct rig *r, enum training_mode mode)
{
    struct err err;
    rig_init(r, mode, 2);
    shard_free(r->shard);
    r->options.given = true;
    r->shard = shard_new(&r->options, &err);
    assert_non_null(r->shard);
}

static struct shard_event fill_of(struct rig *r, uintptr_t tag, uint64_t first, uint64_t count)
{
    return (struct shard_event){.kind = SHARD_FILL,
                                .generation = r->generation,
                                .tag = (void *)tag,
                                .worker = "w0",
                                .first = first,
                                .elements = count,
                                .given = GIVEN + (first < RIG_FLOATS ? first : 0)};
}

static void fill(struct rig *r, uintptr_t tag, uint64_t first, uint64_t count)
{
    struct shard_event e = fill_of(r, tag, first, count);
    rig_step(r, &e);
}

static void expect_filled(struct rig *r, uintptr_t tag, uint64_t filled)
{
    struct shard_info info;
    const struct rig_reply *reply = rig_replied(r, tag);
    assert_int_equal(reply->code, 0);
    assert_int_equal(reply->filled, filled);
    shard_info(r->shard, &info);
    assert_int_equal(info.filled, filled);
}

static void test_in_order_and_once(void **state)
{
    (void)state;
    struct rig r;
    open_given(&r, TRAINING_SYNC);
    fill(&r, 1, 0, 0); /* how far is it? */
    expect_filled(&r, 1, 0);
    assert_int_equal(r.actions.count, 1);
    fill(&r, 2, 0, 3);
    expect_filled(&r, 2, 3);
    assert_false(r.whole);
    fill(&r, 3, 0, 3); /* again: another worker, or a lost answer */
    expect_filled(&r, 3, 3);
    assert_int_equal(r.actions.count, 1);
    fill(&r, 4, 1, 4); /* some of it is new */
    expect_filled(&r, 4, 5);
    assert_int_equal(r.actions.items[0].first, 3);
    assert_int_equal(r.actions.items[0].skip, 2);
    assert_int_equal(r.actions.items[0].count, 2);
    fill(&r, 5, 6, 2);
    rig_expect(&r, 5, ERR_RANGE, "initial values from element 6 on, of which 5 are filled");
    fill(&r, 6, 5, 3);
    expect_filled(&r, 6, 8);
    assert_true(r.whole);
    assert_memory_equal(r.values[0], GIVEN, sizeof GIVEN);
    fill(&r, 7, 0, 8);
    expect_filled(&r, 7, 8);
    assert_int_equal(r.actions.count, 1);
    rig_release(&r);
}

static void test_what_cannot_be(void **state)
{
    (void)state;
    static const uint64_t wrong[][2] = {{0, 9}, {8, 1}, {9, 0}, {UINT64_MAX, 1}, {1, UINT64_MAX}};
    struct rig r;
    open_given(&r, TRAINING_ASYNC);
    for (uintptr_t i = 0; i < 5; i++) {
        fill(&r, 1 + i, wrong[i][0], wrong[i][1]);
        rig_expect(&r, 1 + i, ERR_INVALID, "of 8");
    }
    fill(&r, 10, 0, 0);
    expect_filled(&r, 10, 0);
    rig_release(&r);
}

static void test_nobody_reads_before(void **state)
{
    (void)state;
    static const enum training_mode modes[] = {TRAINING_SYNC, TRAINING_ASYNC, TRAINING_BOUNDED};
    for (size_t i = 0; i < 3; i++) {
        struct rig r;
        struct shard_info info;
        open_given(&r, modes[i]);
        fill(&r, 1, 0, 7);
        rig_pull(&r, 2, PULL_LATEST, 0);
        rig_expect(&r, 2, ERR_STATE, "1 of 8 elements have no initial values yet");
        rig_pull(&r, 3, PULL_AT_LEAST, 1); /* it does not wait either */
        rig_expect(&r, 3, ERR_STATE, "which workers bring; try again");
        rig_pin(&r, SHARD_PIN, 4, "p", true);
        rig_expect(&r, 4, ERR_STATE, "no initial values yet");
        struct shard_event rows = rig_exchange(&r, 5, "w0");
        rows.ask.kind = EXCHANGE_ROWS;
        rows.ask.rows.of = ROWS_OF_LATEST;
        rig_step(&r, &rows);
        rig_expect(&r, 5, ERR_STATE, "no initial values yet");
        struct shard_event push = modes[i] == TRAINING_SYNC ? rig_sync(&r, 6, 0, 0, 1, 1, 4)
                                                            : rig_async(&r, 6, "w0", 0, 0, 0);
        rig_step(&r, &push);
        rig_expect(&r, 6, ERR_STATE, "no initial values yet");
        assert_int_equal(r.buffers, 0);
        rig_event(&r, SHARD_STATE, 7); /* of an OpenShard that comes again */
        assert_int_equal(rig_replied(&r, 7)->code, 0);
        shard_info(r.shard, &info);
        assert_int_equal(info.parked + info.pins + info.queued, 0);
        fill(&r, 8, 7, 1);
        rig_pull(&r, 9, PULL_LATEST, 0);
        rig_expect_values(&r, 9, 0);
        rig_release(&r);
    }
}

static void test_fences(void **state)
{
    (void)state;
    struct rig r;
    open_given(&r, TRAINING_SYNC);
    r.generation = 2;
    rig_membership(&r, 1, 2, 2);
    struct shard_event e = fill_of(&r, 2, 0, 4);
    e.fence.opening = 5;
    rig_step(&r, &e);
    rig_expect(&r, 2, ERR_ABORTED, "opened another time, or by another cluster");
    e = fill_of(&r, 3, 0, 4);
    e.generation = 1;
    rig_step(&r, &e);
    rig_expect(&r, 3, ERR_ABORTED, "generation 1 is over");
    e = fill_of(&r, 4, 0, 4);
    e.generation = 3;
    rig_step(&r, &e);
    rig_expect(&r, 4, ERR_STATE, "try again");
    fill(&r, 5, 0, 0);
    expect_filled(&r, 5, 0);
    fill(&r, 6, 0, 8);
    expect_filled(&r, 6, 8);
    /* Who comes late hears that there is nothing to bring. */
    for (uint64_t generation = 1; generation <= 3; generation++) {
        e = fill_of(&r, 10 + generation, 0, 0);
        e.generation = generation;
        rig_step(&r, &e);
        expect_filled(&r, 10 + generation, 8);
    }
    rig_release(&r);
}

static void test_what_is_trained_stays(void **state)
{
    (void)state;
    struct rig r;
    float trained[RIG_FLOATS];
    open_given(&r, TRAINING_SYNC);
    fill(&r, 1, 0, 8);
    rig_push_sync(&r, 2, 0, 0, 2, 1, 1);
    assert_int_equal(r.version, 1);
    memcpy(trained, r.values[1], sizeof trained);
    fill(&r, 3, 0, 8);
    expect_filled(&r, 3, 8);
    assert_int_equal(r.actions.count, 1);
    assert_memory_equal(r.values[1], trained, sizeof trained);
    rig_release(&r);
}

/* A shard whose values come from a plan or a checkpoint has all of them. */
static void test_others_are_full(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 2);
    fill(&r, 1, 0, 4);
    expect_filled(&r, 1, 8);
    assert_int_equal(r.actions.count, 1);
    rig_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_order_and_once),     cmocka_unit_test(test_what_cannot_be),
        cmocka_unit_test(test_nobody_reads_before),   cmocka_unit_test(test_fences),
        cmocka_unit_test(test_what_is_trained_stays), cmocka_unit_test(test_others_are_full),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
