/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables are read of one version, at once, and nothing changes. */
#include "shard_rig.h"

static void read_rows(struct rig *r, uintptr_t tag, enum rows_of of, uint64_t version)
{
    struct shard_event e = rig_exchange(r, tag, "w0");
    e.ask.kind = EXCHANGE_ROWS;
    e.ask.rows = (struct exchange_rows){of, version};
    rig_step(r, &e);
}

static void read_pinned(struct rig *r, uintptr_t tag, const char *id)
{
    struct shard_event e = rig_exchange(r, tag, "w0");
    e.ask.kind = EXCHANGE_ROWS;
    e.ask.rows.of = ROWS_OF_PIN;
    memcpy(e.ask.pin_id, id, strlen(id) + 1);
    rig_step(r, &e);
}

static void expect_rows(struct rig *r, uintptr_t tag, uint64_t version)
{
    const struct rig_reply *reply = rig_replied(r, tag);
    assert_int_equal(reply->code, 0);
    assert_true(reply->rows && !reply->values);
    assert_int_equal(reply->version, version);
}

static void test_the_present_version_and_the_one_before(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 1);
    read_rows(&r, 1, ROWS_OF_VERSION, 0);
    expect_rows(&r, 1, 0);
    read_rows(&r, 2, ROWS_OF_VERSION, 1); /* it does not wait for it */
    rig_expect(&r, 2, ERR_RANGE, "rows of version 1, which is not there; the shard is at 0");
    for (uint64_t step = 0; step < 3; step++) {
        rig_push_sync(&r, 10 + step, step, 0, 1, 1, 4);
    }
    read_rows(&r, 3, ROWS_OF_VERSION, 3);
    expect_rows(&r, 3, 3);
    read_rows(&r, 4, ROWS_OF_VERSION, 2);
    expect_rows(&r, 4, 2);
    read_rows(&r, 5, ROWS_OF_VERSION, 1);
    rig_expect(&r, 5, ERR_RANGE, "rows of version 1, which is not there; the shard is at 3");
    read_rows(&r, 6, ROWS_OF_LATEST, 0);
    expect_rows(&r, 6, 3);
    rig_release(&r);
}

/* A shard that was opened at a version does not have the one before. */
static void test_nothing_before_the_first_version(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 1);
    read_rows(&r, 1, ROWS_OF_VERSION, UINT64_MAX);
    rig_expect(&r, 1, ERR_RANGE, "which is not there");
    rig_release(&r);
}

static void test_a_pinned_version_in_any_generation(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 1);
    rig_push_sync(&r, 1, 0, 0, 1, 1, 4);
    rig_pin(&r, SHARD_PIN, 2, "p", false);
    for (uint64_t step = 1; step < 5; step++) {
        rig_push_sync(&r, 10 + step, step, 0, 1, 1, 4);
    }
    rig_membership(&r, 3, 2, 1);
    r.generation = 1;
    read_pinned(&r, 4, "p");
    expect_rows(&r, 4, 1);
    read_rows(&r, 5, ROWS_OF_LATEST, 0);
    rig_expect(&r, 5, ERR_ABORTED, "generation 1 is over");
    r.generation = 2;
    rig_pin(&r, SHARD_UNPIN, 6, "p", false);
    read_pinned(&r, 7, "p");
    rig_expect(&r, 7, ERR_NOT_FOUND, "no version is pinned as 'p'");
    rig_release(&r);
}

static void test_async_reads_the_newest(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_ASYNC, 1);
    rig_push_async(&r, 1, "w0", 0, 0, 0);
    rig_push_async(&r, 2, "w1", 0, 0, 1);
    read_rows(&r, 3, ROWS_OF_LATEST, 0);
    expect_rows(&r, 3, 2);
    struct shard_info info;
    shard_info(r.shard, &info);
    assert_true(info.parked == 0 && info.pushes_applied == 2);
    rig_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_present_version_and_the_one_before),
        cmocka_unit_test(test_nothing_before_the_first_version),
        cmocka_unit_test(test_a_pinned_version_in_any_generation),
        cmocka_unit_test(test_async_reads_the_newest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
