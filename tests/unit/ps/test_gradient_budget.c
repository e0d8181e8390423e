/* SPDX-License-Identifier: Apache-2.0 */
/* The budget for gradients: who gets memory, who waits, and who is next. Without threads. */
#include "support/test.h"

#include <string.h>

#include "base/rng.h"
#include "ps/core/gradient_budget.h"

#define UNIT 100

static void join(struct gradient_share *s, struct gradient_budget *b, uint64_t unit, size_t reserve)
{
    struct err err;
    gradient_share_join(s, b, unit);
    assert_int_equal(gradient_share_reserve(s, reserve, &err), 0);
    gradient_share_reserved(s, true, 0);
}

static void leave(struct gradient_share *s)
{
    gradient_share_close(s);
    gradient_share_leave(s);
}

static void expect_empty(const struct gradient_budget *b)
{
    assert_int_equal(b->held, 0);
    assert_int_equal(b->promised, 0);
    assert_int_equal(b->allocated, 0);
    assert_null(b->shares);
    assert_null(b->first);
    assert_null(b->ready);
}

static void expect_ready(struct gradient_budget *b, struct gradient_waiter *w)
{
    assert_ptr_equal(gradient_budget_ready(b), w);
}

static int take(struct gradient_share *s, struct gradient_waiter *w)
{
    struct err err;
    return gradient_share_take(s, w, &err);
}

static void test_a_reserve_is_nobody_elses(void **state)
{
    (void)state;
    struct gradient_budget budget;
    struct gradient_share a, b;
    struct gradient_waiter w[3] = {{0}};
    gradient_budget_init(&budget, 4 * UNIT);
    join(&a, &budget, UNIT, 1);
    join(&b, &budget, 2 * UNIT, 1);
    assert_int_equal(take(&a, &w[0]), 0);
    assert_int_equal(take(&a, &w[0]), 0);
    assert_int_equal(take(&a, &w[0]), 1); /* two are b's */
    gradient_share_wait(&a, &w[0]);
    assert_int_equal(take(&b, &w[1]), 0); /* does not queue for its own */
    assert_int_equal(take(&b, &w[2]), 1);
    gradient_share_wait(&b, &w[2]);
    expect_ready(&budget, NULL);
    gradient_share_return(&a);
    expect_ready(&budget, &w[0]);
    expect_ready(&budget, NULL);
    assert_int_equal(take(&a, &w[0]), 0); /* it was granted */
    assert_int_equal(budget.held, 4 * UNIT);
    gradient_share_return(&b);
    expect_ready(&budget, &w[2]);
    assert_int_equal(take(&b, &w[2]), 0);
    gradient_share_return(&b);
    gradient_share_return(&a);
    gradient_share_return(&a);
    leave(&a);
    leave(&b);
    expect_empty(&budget);
}

/* The first in the queue keeps the common part from those behind it, who need less of it; nobody
 * keeps anybody from his own. */
static void test_the_queue_keeps_its_order(void **state)
{
    (void)state;
    struct gradient_budget budget;
    struct gradient_share large, small, own;
    struct gradient_waiter w[4] = {{0}};
    gradient_budget_init(&budget, 5 * UNIT);
    join(&large, &budget, 3 * UNIT, 0);
    join(&small, &budget, UNIT, 0);
    join(&own, &budget, UNIT, 1);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(take(&small, &w[0]), 0);
    }
    assert_int_equal(take(&large, &w[0]), 1);
    gradient_share_wait(&large, &w[0]);
    assert_int_equal(take(&small, &w[1]), 1); /* there is room, and somebody before it */
    gradient_share_wait(&small, &w[1]);
    assert_int_equal(take(&own, &w[2]), 0); /* of its reserve */
    assert_int_equal(take(&own, &w[3]), 1);
    gradient_share_wait(&own, &w[3]);
    gradient_share_return(&own);
    expect_ready(&budget, &w[3]); /* of its reserve again, behind two others */
    expect_ready(&budget, NULL);
    gradient_share_return(&small);
    expect_ready(&budget, NULL);
    gradient_share_return(&small);
    expect_ready(&budget, &w[0]);
    expect_ready(&budget, NULL);
    assert_int_equal(take(&large, &w[0]), 0);
    assert_int_equal(take(&own, &w[3]), 0);
    gradient_share_return(&large);
    expect_ready(&budget, &w[1]);
    assert_int_equal(take(&small, &w[1]), 0);
    gradient_share_return(&small);
    gradient_share_return(&small);
    gradient_share_return(&own);
    leave(&large);
    leave(&small);
    leave(&own);
    expect_empty(&budget);
}

static void test_reserves_fit_the_limit(void **state)
{
    (void)state;
    struct gradient_budget budget;
    struct gradient_share a, b;
    struct err err;
    gradient_budget_init(&budget, 4 * UNIT);
    join(&a, &budget, UNIT, 3);
    gradient_share_join(&b, &budget, UNIT);
    assert_int_equal(gradient_share_reserve(&b, 2, &err), ERR_EXHAUSTED);
    assert_string_equal(err.msg,
                        "2 gradients of 100 bytes, which it may have to hold at a time, are too "
                        "many: 300 bytes are promised to others and --gradient-bytes-max is 400");
    assert_int_equal(gradient_share_reserve(&b, SIZE_MAX, &err), ERR_RANGE);
    assert_int_equal(gradient_share_reserve(&a, 2, &err), 0); /* less is always possible */
    gradient_share_reserved(&a, true, 3 * UNIT);
    assert_int_equal(gradient_share_reserve(&b, 2, &err), 0);
    gradient_share_reserved(&b, false, 0); /* the machine has no memory for it */
    assert_int_equal(b.reserve, 0);
    assert_int_equal(budget.promised, 2 * UNIT);
    leave(&b);
    leave(&a);
    expect_empty(&budget);
}

/* What a share holds beyond its reserve keeps others from reserving it, and nothing is taken away
 * when a reserve falls. */
static void test_what_is_held_counts(void **state)
{
    (void)state;
    struct gradient_budget budget;
    struct gradient_share a, b;
    struct gradient_waiter w = {0};
    struct err err;
    gradient_budget_init(&budget, 4 * UNIT);
    join(&a, &budget, UNIT, 3);
    gradient_share_join(&b, &budget, UNIT);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(take(&a, &w), 0);
    }
    assert_int_equal(gradient_share_reserve(&a, 1, &err), 0);
    gradient_share_reserved(&a, true, 3 * UNIT);
    assert_int_equal(budget.promised, 3 * UNIT);
    assert_int_equal(gradient_share_reserve(&b, 2, &err), ERR_EXHAUSTED);
    gradient_share_return(&a);
    assert_int_equal(gradient_share_reserve(&b, 2, &err), 0);
    gradient_share_reserved(&b, true, 0);
    assert_int_equal(take(&a, &w), 1);
    gradient_share_return(&a);
    gradient_share_return(&a);
    leave(&b);
    leave(&a);
    expect_empty(&budget);
}

/* Without memory beyond what it has, a share waits for its own, and for nobody else's. */
static void test_a_refusal_is_remembered(void **state)
{
    (void)state;
    struct gradient_budget budget;
    struct gradient_share a, b;
    struct gradient_waiter w[2] = {{0}};
    struct err err;
    gradient_budget_init(&budget, 8 * UNIT);
    join(&a, &budget, UNIT, 1);
    join(&b, &budget, UNIT, 0);
    assert_int_equal(take(&a, &w[0]), 0);
    assert_int_equal(take(&a, &w[0]), 0);
    assert_true(gradient_share_refused(&a));
    assert_int_equal(a.held_max, UNIT);
    assert_int_equal(take(&a, &w[0]), 1);
    gradient_share_wait(&a, &w[0]);
    expect_ready(&budget, NULL);
    assert_int_equal(take(&b, &w[1]), 1); /* in turn, */
    gradient_share_wait(&b, &w[1]);
    expect_ready(&budget, &w[1]); /* but not behind who waits for something else */
    assert_int_equal(take(&b, &w[1]), 0);
    assert_int_equal(gradient_share_reserve(&a, 2, &err), 0);
    gradient_share_reserved(&a, true, UNIT); /* which may have changed it */
    expect_ready(&budget, &w[0]);
    assert_int_equal(take(&a, &w[0]), 0);
    gradient_share_return(&a);
    gradient_share_return(&a);
    assert_int_equal(take(&a, &w[0]), 0);
    assert_false(gradient_share_refused(&a)); /* it has none that could come back */
    gradient_share_return(&b);
    leave(&b);
    leave(&a);
    expect_empty(&budget);
}

static void test_who_gives_up_takes_nothing_along(void **state)
{
    (void)state;
    struct gradient_budget budget;
    struct gradient_share a;
    struct gradient_waiter w[3] = {{0}};
    gradient_budget_init(&budget, UNIT);
    join(&a, &budget, UNIT, 1);
    assert_false(gradient_waiter_cancel(&w[0])); /* it never waited */
    assert_int_equal(take(&a, &w[0]), 0);
    for (size_t i = 0; i < 3; i++) {
        gradient_share_wait(&a, &w[i]);
    }
    assert_true(gradient_waiter_cancel(&w[0])); /* waiting */
    gradient_share_return(&a);
    assert_true(gradient_waiter_cancel(&w[1])); /* granted, and not told: the next one has it */
    expect_ready(&budget, &w[2]);
    assert_int_equal(budget.held, UNIT);
    assert_false(gradient_waiter_cancel(&w[2])); /* told */
    assert_int_equal(budget.held, 0);
    assert_false(gradient_waiter_cancel(&w[2]));
    leave(&a);
    expect_empty(&budget);
}

static void test_the_end_of_a_share_is_told(void **state)
{
    (void)state;
    struct gradient_budget budget;
    struct gradient_share a, b;
    struct gradient_waiter w[3] = {{0}};
    gradient_budget_init(&budget, 3 * UNIT);
    join(&a, &budget, UNIT, 2);
    join(&b, &budget, UNIT, 1);
    assert_int_equal(take(&a, &w[0]), 0);
    assert_int_equal(take(&a, &w[0]), 0);
    assert_int_equal(take(&b, &w[1]), 0);
    gradient_share_wait(&a, &w[0]);
    gradient_share_wait(&b, &w[1]);
    gradient_share_wait(&a, &w[2]);
    gradient_share_return(&a);
    expect_ready(&budget, &w[0]);
    gradient_share_close(&a);
    expect_ready(&budget, &w[2]);
    expect_ready(&budget, NULL); /* gradients of a's are still there, and one that was granted */
    assert_int_equal(take(&a, &w[0]), ERR_NOT_FOUND);
    expect_ready(&budget, &w[1]); /* which came back */
    assert_int_equal(take(&a, &w[2]), ERR_NOT_FOUND);
    assert_int_equal(take(&b, &w[1]), 0);
    gradient_share_return(&b);
    gradient_share_return(&b);
    gradient_share_return(&a);
    leave(&a);
    leave(&b);
    expect_empty(&budget);
}

static void test_what_is_lent(void **state)
{
    (void)state;
    struct gradient_budget budget;
    struct gradient_share a;
    struct gradient_waiter w = {0};
    gradient_budget_init(&budget, 4 * UNIT);
    join(&a, &budget, UNIT, 1);
    assert_true(gradient_budget_lend(&budget, 2 * UNIT));
    assert_false(gradient_budget_lend(&budget, 2 * UNIT)); /* the last one is reserved */
    assert_int_equal(take(&a, &w), 0);
    assert_int_equal(take(&a, &w), 0);
    assert_int_equal(take(&a, &w), 1);
    gradient_share_wait(&a, &w);
    assert_false(gradient_budget_lend(&budget, 0)); /* somebody waits */
    gradient_budget_take_back(&budget, 2 * UNIT);
    expect_ready(&budget, &w);
    assert_false(gradient_waiter_cancel(&w));
    gradient_share_return(&a);
    gradient_share_return(&a);
    leave(&a);
    expect_empty(&budget);
}

static void test_what_may_be_freed(void **state)
{
    (void)state;
    struct gradient_budget budget;
    struct gradient_share a;
    struct gradient_waiter w = {0};
    gradient_budget_init(&budget, 4 * UNIT);
    join(&a, &budget, UNIT, 2);
    for (int i = 0; i < 4; i++) {
        gradient_share_made(&a);
    }
    assert_int_equal(take(&a, &w), 0);
    assert_int_equal(gradient_share_spare(&a), 0); /* within the limit it stays */
    assert_false(gradient_budget_has_room(&budget, 1));
    assert_true(gradient_budget_lend(&budget, UNIT + 1));
    assert_int_equal(gradient_budget_surplus(&budget), UNIT + 1);
    assert_int_equal(gradient_share_spare(&a), 2); /* down to the reserve */
    gradient_share_freed(&a, 2);
    assert_true(gradient_budget_has_room(&budget, UNIT - 1));
    gradient_budget_take_back(&budget, UNIT + 1);
    gradient_share_close(&a);
    assert_int_equal(gradient_share_spare(&a), SIZE_MAX);
    gradient_share_return(&a);
    gradient_share_leave(&a);
    expect_empty(&budget);
}

#define CROWD 12
#define ROUNDS 20000

/* What is drawn happens: whoever waits comes in at some time, and nobody gets too much. */
static void test_a_crowd(void **state)
{
    (void)state;
    struct gradient_budget budget;
    struct gradient_share shares[2];
    struct gradient_waiter w[CROWD] = {{0}};
    enum { OUT, WAITS, IN } at[CROWD] = {OUT};
    struct gradient_share *of[CROWD];
    uint64_t key = rng_key(7, "crowd");
    unsigned waited = 0, came = 0;
    gradient_budget_init(&budget, 5 * UNIT);
    join(&shares[0], &budget, UNIT, 1);
    join(&shares[1], &budget, 2 * UNIT, 1);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        size_t k = (size_t)rng_below(key, 3 * i, CROWD);
        if (at[k] == IN) {
            gradient_share_return(of[k]);
            at[k] = OUT;
        } else if (at[k] == OUT) {
            of[k] = &shares[rng_below(key, 3 * i + 1, 2)];
            at[k] = take(of[k], &w[k]) == 0 ? IN : WAITS;
            if (at[k] == WAITS) {
                waited++;
                gradient_share_wait(of[k], &w[k]);
            }
        } else if (rng_below(key, 3 * i + 2, 8) == 0) {
            (void)gradient_waiter_cancel(&w[k]);
            at[k] = OUT;
            came++;
        }
        struct gradient_waiter *ready;
        while ((ready = gradient_budget_ready(&budget)) != NULL) {
            assert_int_equal(take(of[ready - w], ready), 0);
            at[ready - w] = IN;
            came++;
        }
        assert_true(budget.promised <= budget.bytes_max && budget.held <= budget.promised);
    }
    for (size_t k = 0; k < CROWD; k++) {
        if (at[k] == IN) {
            gradient_share_return(of[k]);
        } else if (at[k] == WAITS) {
            came++;
            (void)gradient_waiter_cancel(&w[k]);
        }
    }
    assert_true(waited > ROUNDS / 20 && waited == came);
    leave(&shares[0]);
    leave(&shares[1]);
    expect_empty(&budget);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_reserve_is_nobody_elses),
        cmocka_unit_test(test_the_queue_keeps_its_order),
        cmocka_unit_test(test_reserves_fit_the_limit),
        cmocka_unit_test(test_what_is_held_counts),
        cmocka_unit_test(test_a_refusal_is_remembered),
        cmocka_unit_test(test_who_gives_up_takes_nothing_along),
        cmocka_unit_test(test_the_end_of_a_share_is_told),
        cmocka_unit_test(test_what_is_lent),
        cmocka_unit_test(test_what_may_be_freed),
        cmocka_unit_test(test_a_crowd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
