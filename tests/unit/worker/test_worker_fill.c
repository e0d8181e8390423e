/* SPDX-License-Identifier: Apache-2.0 */
/* A worker brings initial values: what it sends to which shard, and what it does when that fails.
 */
#include "support/test.h"

#include "base/err.h"
#include "worker/core/worker_fill.h"

#define CHUNK 4

static const uint64_t ELEMENTS[] = {10, 3};

static void expect_part(struct worker_fill *f, uint64_t now_ms, uint32_t shard, uint64_t first,
                        uint64_t count)
{
    struct worker_fill_part part;
    assert_true(worker_fill_next(f, now_ms, &part));
    assert_int_equal(part.shard, shard);
    assert_int_equal(part.first, first);
    assert_int_equal(part.count, count);
}

static void expect_none(struct worker_fill *f, uint64_t now_ms)
{
    struct worker_fill_part part;
    assert_false(worker_fill_next(f, now_ms, &part));
}

static void begin(struct worker_fill *f)
{
    worker_fill_init(f, ELEMENTS, 2, CHUNK);
    expect_part(f, 0, 0, 0, 0); /* it asks first */
    expect_part(f, 0, 1, 0, 0);
    expect_none(f, 0); /* one at a time */
    assert_int_equal(worker_fill_timer(f), UINT64_MAX);
}

static void test_it_goes_on_from_what_a_shard_has(void **state)
{
    (void)state;
    struct worker_fill f;
    begin(&f);
    assert_int_equal(worker_fill_answered(&f, 1, 0, 3, 0), 0); /* others have been there */
    expect_none(&f, 0);
    assert_int_equal(worker_fill_answered(&f, 0, 0, 0, 0), 0);
    expect_part(&f, 0, 0, 0, CHUNK);
    assert_int_equal(worker_fill_answered(&f, 0, 0, CHUNK, 0), 0);
    expect_part(&f, 0, 0, 4, CHUNK);
    assert_int_equal(worker_fill_answered(&f, 0, 0, 9, 0), 0); /* further than this one is */
    assert_int_equal(worker_fill_filled(&f), 12);
    expect_part(&f, 0, 0, 9, 1);
    assert_false(worker_fill_done(&f));
    assert_int_equal(worker_fill_answered(&f, 0, 0, 10, 0), 0);
    assert_true(worker_fill_done(&f));
    assert_int_equal(worker_fill_filled(&f), 13);
    expect_none(&f, 1000000);
    assert_int_equal(worker_fill_timer(&f), UINT64_MAX);
    worker_fill_release(&f);
}

static void test_what_may_pass_is_tried_again(void **state)
{
    (void)state;
    static const int codes[] = {ERR_UNAVAILABLE, ERR_TIMEOUT, ERR_CANCELLED,
                                ERR_EXHAUSTED,   ERR_STATE,   ERR_RANGE};
    struct worker_fill f;
    begin(&f);
    assert_int_equal(worker_fill_answered(&f, 1, 0, 3, 0), 0);
    uint64_t now_ms = 0;
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        assert_int_equal(worker_fill_answered(&f, 0, codes[i], 0, now_ms), 0);
        uint64_t due_ms = worker_fill_timer(&f);
        uint64_t pause_ms = (uint64_t)WORKER_FILL_AGAIN_MS_MIN << i;
        assert_int_equal(due_ms - now_ms,
                         pause_ms < WORKER_FILL_AGAIN_MS_MAX ? pause_ms : WORKER_FILL_AGAIN_MS_MAX);
        expect_none(&f, due_ms - 1);
        expect_part(&f, due_ms, 0, 0, 0); /* others may have gone on meanwhile */
        now_ms = due_ms;
    }
    assert_int_equal(worker_fill_answered(&f, 0, 0, 10, now_ms), 0);
    assert_true(worker_fill_done(&f));
    worker_fill_release(&f);
}

static void test_what_will_not_do(void **state)
{
    (void)state;
    static const struct {
        int code;
        uint64_t filled;
        int rc;
    } cases[] = {
        {ERR_ABORTED, 0, ERR_ABORTED},         {ERR_NOT_FOUND, 0, ERR_ABORTED},
        {ERR_INVALID, 0, ERR_INVALID},         {ERR_UNAUTHENTICATED, 0, ERR_UNAUTHENTICATED},
        {ERR_UNSUPPORTED, 0, ERR_UNSUPPORTED}, {0, 11, ERR_INTERNAL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct worker_fill f;
        begin(&f);
        assert_int_equal(worker_fill_answered(&f, 0, cases[i].code, cases[i].filled, 0),
                         cases[i].rc);
        assert_false(worker_fill_done(&f));
        worker_fill_release(&f);
    }
}

/* The answer of a request that another attempt had made says nothing here. */
static void test_an_answer_that_nobody_waits_for(void **state)
{
    (void)state;
    struct worker_fill f;
    worker_fill_init(&f, ELEMENTS, 2, CHUNK);
    assert_int_equal(worker_fill_answered(&f, 0, ERR_INVALID, 0, 0), 0);
    assert_int_equal(worker_fill_answered(&f, 0, 0, 10, 0), 0);
    expect_part(&f, 0, 0, 0, 0);
    worker_fill_release(&f);
    worker_fill_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_goes_on_from_what_a_shard_has),
        cmocka_unit_test(test_what_may_pass_is_tried_again),
        cmocka_unit_test(test_what_will_not_do),
        cmocka_unit_test(test_an_answer_that_nobody_waits_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
