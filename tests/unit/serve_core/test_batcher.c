/* SPDX-License-Identifier: Apache-2.0 */
/* Which requests are computed together, and when, under a clock of the test's. */
#include "support/test.h"

#include "serve/core/batcher.h"

static struct batcher *make(size_t batch_max, uint64_t delay_us, size_t waiting_max)
{
    const struct batcher_options options = {
        .batch_max = batch_max, .delay_us = delay_us, .waiting_max = waiting_max};
    return batcher_new(&options);
}

static void without_delay_whatever_waits_is_due(void **state)
{
    (void)state;
    uint64_t wait;
    struct batcher *b = make(8, 0, 16);
    assert_int_equal(batcher_take(b, 5, &wait), 0);
    assert_true(wait == UINT64_MAX);
    assert_true(batcher_add(b, 1, 1, 5));
    assert_int_equal(batcher_take(b, 5, &wait), 1);
    for (size_t i = 0; i < 5; i++) {
        assert_true(batcher_add(b, 3, 1, 6));
    }
    assert_int_equal(batcher_take(b, 7, &wait), 2); /* a third one would be 9 records */
    assert_int_equal(batcher_take(b, 7, &wait), 2);
    assert_int_equal(batcher_waiting(b), 1);
    assert_int_equal(batcher_take(b, 7, &wait), 1);
    batcher_free(b);
}

static void a_batch_waits_for_others_until_it_is_full(void **state)
{
    (void)state;
    uint64_t wait;
    struct batcher *b = make(4, 100, 16);
    assert_true(batcher_add(b, 1, 1, 1000));
    assert_int_equal(batcher_take(b, 1030, &wait), 0);
    assert_int_equal(wait, 70);
    assert_true(batcher_add(b, 1, 1, 1040));
    assert_int_equal(batcher_take(b, 1050, &wait), 0);
    assert_int_equal(wait, 50); /* of the first */
    assert_true(batcher_add(b, 2, 1, 1060));
    assert_int_equal(batcher_take(b, 1060, &wait), 3);
    assert_true(batcher_add(b, 1, 1, 2000));
    assert_int_equal(batcher_take(b, 2100, &wait), 1);
    assert_true(batcher_add(b, 3, 1, 3000));
    assert_true(batcher_add(b, 3, 1, 3001));
    assert_int_equal(batcher_take(b, 3001, &wait), 1); /* the next does not fit */
    assert_int_equal(batcher_take(b, 3001, &wait), 0);
    assert_int_equal(batcher_take(b, 2990, &wait), 0); /* a clock that a thread read earlier */
    assert_int_equal(wait, 100);
    batcher_free(b);
}

static void versions_are_not_mixed(void **state)
{
    (void)state;
    uint64_t wait;
    struct batcher *b = make(64, 1000, 16);
    assert_true(batcher_add(b, 1, 1, 0));
    assert_true(batcher_add(b, 1, 1, 0));
    assert_true(batcher_add(b, 1, 2, 0));
    assert_int_equal(batcher_take(b, 1, &wait), 2); /* none of theirs comes any more */
    assert_int_equal(batcher_take(b, 1, &wait), 0);
    assert_int_equal(wait, 999);
    batcher_free(b);
}

static void no_more_wait_than_may(void **state)
{
    (void)state;
    uint64_t wait;
    struct batcher *b = make(2, 0, 3);
    for (size_t round = 0; round < 5; round++) {
        assert_true(batcher_add(b, 1, 1, 0));
        assert_true(batcher_add(b, 1, 1, 0));
        assert_true(batcher_add(b, 1, 1, 0));
        assert_false(batcher_add(b, 1, 1, 0));
        assert_int_equal(batcher_take(b, 0, &wait), 2);
        assert_int_equal(batcher_take(b, 0, &wait), 1);
    }
    batcher_free(b);
    batcher_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_delay_whatever_waits_is_due),
        cmocka_unit_test(a_batch_waits_for_others_until_it_is_full),
        cmocka_unit_test(versions_are_not_mixed),
        cmocka_unit_test(no_more_wait_than_may),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
