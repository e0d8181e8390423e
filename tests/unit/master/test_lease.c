/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "base/mem.h"
#include "master/core/lease.h"

/* 60 records, batches of 5: 12 batches in splits of 5, 5 and 2. */
static const struct ledger_shape SHAPE = {.records = 60, .batch_records = 5, .split_batches = 5};

static void make(struct leases *l, uint64_t total)
{
    struct ledger ledger;
    assert_int_equal(ledger_init(&ledger, &SHAPE, 0, NULL), 0);
    leases_init(l, &ledger, total);
    ledger_release(&ledger);
}

static void every_split_is_leased_once(void **state)
{
    (void)state;
    struct leases l;
    make(&l, 24);
    static const uint32_t ends[] = {5, 5, 2};
    for (uint64_t epoch = 0; epoch < 2; epoch++) {
        struct lease a;
        for (uint32_t i = 0; i < 3; i++) {
            assert_true(leases_take(&l, 1, &a));
            assert_int_equal(a.epoch, epoch);
            assert_int_equal(a.split, i);
            assert_int_equal(a.batch_end, ends[i]);
            assert_true(a.fresh);
        }
        assert_false(leases_take(&l, 1, &a));
        assert_int_equal(l.leased_count, 3);
        for (uint32_t i = 0; i < 3; i++) {
            assert_false(leases_epoch_done(&l));
            assert_true(leases_report(&l, i, ends[i]));
            assert_true(leases_report(&l, i, ends[i]));
        }
        assert_true(leases_epoch_done(&l));
        assert_int_equal(l.leased_count, 0);
        assert_int_equal(leases_batches(&l), 12 * (epoch + 1));
        if (epoch == 0) {
            leases_next_epoch(&l);
        }
    }
    leases_release(&l);
}

static void a_returned_split_is_not_fresh(void **state)
{
    (void)state;
    struct leases l;
    struct lease a;
    make(&l, 12);
    assert_true(leases_take(&l, 7, &a));
    leases_return(&l, 0, 8); /* not its owner */
    leases_return(&l, 9, 7);
    assert_int_equal(l.leased_count, 1);
    leases_return(&l, 0, 7);
    leases_return(&l, 0, 7);
    assert_int_equal(l.leased_count, 0);
    assert_true(leases_take(&l, 9, &a));
    assert_int_equal(a.split, 0);
    assert_int_equal(a.batch_end, 5);
    assert_false(a.fresh);
    assert_true(leases_take(&l, 9, &a));
    assert_int_equal(a.split, 1);
    assert_true(a.fresh);
    leases_release(&l);
}

static void a_report_after_the_return_counts(void **state)
{
    (void)state;
    struct leases l;
    struct lease a;
    make(&l, 12);
    assert_true(leases_take(&l, 7, &a));
    leases_return(&l, 0, 7);
    assert_true(leases_report(&l, 0, 5)); /* the old owner had applied everything */
    assert_true(leases_take(&l, 8, &a));
    assert_int_equal(a.split, 1); /* not again */
    leases_release(&l);
}

static void the_last_lease_is_cut(void **state)
{
    (void)state;
    struct leases l;
    struct lease a;
    make(&l, 18);
    static const uint32_t ends[] = {5, 5, 2};
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(leases_take(&l, 1, &a));
        assert_true(leases_report(&l, i, ends[i]));
    }
    leases_next_epoch(&l);
    assert_true(leases_take(&l, 1, &a));
    assert_int_equal(a.batch_end, 5);
    assert_true(leases_take(&l, 1, &a));
    assert_int_equal(a.batch_end, 1);
    assert_false(leases_take(&l, 1, &a));
    leases_return(&l, 1, 1);
    assert_true(leases_take(&l, 2, &a));
    assert_int_equal(a.batch_end, 1); /* as before */
    assert_true(leases_report(&l, 0, 5));
    assert_false(leases_epoch_done(&l));
    assert_true(leases_report(&l, 1, 1));
    assert_true(leases_epoch_done(&l));
    assert_int_equal(leases_batches(&l), 18);
    leases_release(&l);
}

static void it_begins_where_the_ledger_is(void **state)
{
    (void)state;
    struct ledger ledger;
    assert_int_equal(ledger_init(&ledger, &SHAPE, 1, NULL), 0);
    ledger.done[0] = 5;
    ledger.done[1] = 2;
    struct leases l;
    leases_init(&l, &ledger, 24);
    assert_int_equal(leases_batches(&l), 19);
    struct lease a;
    assert_true(leases_take(&l, 1, &a));
    assert_int_equal(a.split, 1);
    assert_int_equal(a.batch_end, 5);
    assert_false(a.fresh); /* somebody did two of it */
    assert_true(leases_take(&l, 1, &a));
    assert_int_equal(a.split, 2);
    assert_true(a.fresh);
    leases_release(&l);

    ledger.done[1] = 5; /* a complete epoch is the beginning of the next, but for the last */
    ledger.done[2] = 2;
    leases_init(&l, &ledger, 36);
    assert_int_equal(l.ledger.epoch, 2);
    assert_int_equal(leases_batches(&l), 24);
    assert_false(leases_epoch_done(&l));
    leases_release(&l);
    leases_init(&l, &ledger, 24);
    assert_true(leases_epoch_done(&l));
    assert_int_equal(leases_batches(&l), 24);
    leases_release(&l);
    ledger_release(&ledger);
}

/* One shard has batches of a dead worker that another one lacks: those alone are leased. */
static void shards_are_brought_level(void **state)
{
    (void)state;
    struct leases l;
    struct lease a;
    make(&l, 12);
    assert_true(leases_take(&l, 1, &a));
    assert_true(leases_take(&l, 2, &a));
    leases_return(&l, 0, 1);
    leases_return(&l, 1, 2);
    const uint32_t low[] = {1, 2, 0};
    const uint32_t high[] = {3, 2, 0};
    leases_known(&l, low, high);
    assert_int_equal(leases_batches(&l), 3);
    assert_false(leases_level(&l));
    l.levelling = true;
    assert_true(leases_take(&l, 3, &a));
    assert_int_equal(a.split, 0);
    assert_int_equal(a.batch_end, 3);
    assert_false(a.fresh);
    assert_false(leases_take(&l, 3, &a));
    assert_true(leases_report(&l, 0, 3));
    assert_int_equal(l.leased_count, 0);
    assert_true(leases_level(&l));
    l.levelling = false;
    l.next = 0;
    assert_true(leases_take(&l, 3, &a)); /* and the rest as ever */
    assert_int_equal(a.split, 0);
    assert_int_equal(a.batch_end, 5);
    leases_release(&l);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    struct leases l;
    struct lease a;
    make(&l, 12);
    assert_false(leases_report(&l, 0, 5)); /* never leased */
    assert_false(leases_report(&l, 3, 1));
    assert_false(leases_report(&l, UINT32_MAX, 1));
    assert_true(leases_take(&l, 1, &a));
    assert_false(leases_report(&l, 0, 6));
    assert_false(leases_report(&l, 0, 0));
    leases_release(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split_is_leased_once),
        cmocka_unit_test(a_returned_split_is_not_fresh),
        cmocka_unit_test(a_report_after_the_return_counts),
        cmocka_unit_test(the_last_lease_is_cut),
        cmocka_unit_test(it_begins_where_the_ledger_is),
        cmocka_unit_test(shards_are_brought_level),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests_name("lease", tests, NULL, NULL);
}
