#include "support/test.h"

#include "master/lease.h"

/* 23 records in batches of 2, 5 batches a split: splits of 5, 5 and 2 batches, 12 an epoch. */
static const struct ledger_shape SHAPE = {.records = 23, .batch_records = 2, .split_batches = 5};

static void make(struct leases *l, uint64_t batches)
{
    assert_int_equal(leases_init(l, &SHAPE, batches, NULL), 0);
}

static void every_split_is_leased_once(void **state)
{
    (void)state;
    struct leases l;
    struct lease a;
    make(&l, 24);
    const uint32_t sizes[] = {5, 5, 2};
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(leases_take(&l, 1 + i, &a));
        assert_int_equal(a.split, i);
        assert_int_equal(a.batch_end, sizes[i]);
        assert_true(a.fresh);
    }
    assert_false(leases_take(&l, 9, &a));
    assert_int_equal(l.leased_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_false(leases_epoch_done(&l));
        assert_true(leases_report(&l, i));
        assert_true(leases_report(&l, i)); /* again: nothing */
    }
    assert_true(leases_epoch_done(&l));
    assert_false(leases_all_done(&l));
    assert_int_equal(l.done_batches, 12);
    assert_int_equal(l.leased_count, 0);
    leases_next_epoch(&l);
    assert_int_equal(leases_batches_before(&l), 12);
    assert_true(leases_take(&l, 1, &a));
    assert_int_equal(a.epoch, 1);
    leases_release(&l);
}

static void a_returned_split_is_not_fresh(void **state)
{
    (void)state;
    struct leases l;
    struct lease a;
    make(&l, 12);
    assert_true(leases_take(&l, 7, &a));
    leases_return(&l, a.split, 8); /* not its owner: ignored */
    assert_int_equal(l.leased_count, 1);
    leases_return(&l, a.split, 7);
    leases_return(&l, a.split, 7);
    leases_return(&l, 99, 7);
    assert_int_equal(l.leased_count, 0);
    assert_true(leases_take(&l, 8, &a));
    assert_int_equal(a.split, 0);
    assert_false(a.fresh);
    assert_int_equal(a.batch_end, 5);
    assert_true(leases_take(&l, 9, &a));
    assert_int_equal(a.split, 1);
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
    assert_true(leases_report(&l, 0)); /* the old owner had applied everything */
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
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(leases_take(&l, 1, &a));
        assert_true(leases_report(&l, i));
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
    assert_true(leases_report(&l, 0));
    assert_false(leases_all_done(&l));
    assert_true(leases_report(&l, 1));
    assert_true(leases_all_done(&l));
    leases_release(&l);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    struct leases l;
    struct err err = {0};
    struct ledger_shape bad = {0};
    assert_true(leases_init(&l, &bad, 1, &err) < 0);
    make(&l, 12);
    assert_false(leases_report(&l, 0)); /* never leased */
    assert_false(leases_report(&l, 3));
    assert_false(leases_report(&l, UINT32_MAX));
    leases_release(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_split_is_leased_once),
        cmocka_unit_test(a_returned_split_is_not_fresh),
        cmocka_unit_test(a_report_after_the_return_counts),
        cmocka_unit_test(the_last_lease_is_cut),
        cmocka_unit_test(nonsense_is_refused),
    };
    return cmocka_run_group_tests_name("lease", tests, NULL, NULL);
}
