/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger, against a list of batches built one by one. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "job/progress/ledger.h"

static void ledger_of(struct ledger *l, uint64_t records, uint32_t batch, uint32_t split)
{
    struct ledger_shape shape = {records, batch, split};
    assert_int_equal(ledger_init(l, &shape, 0, NULL), 0);
}

/* Some splits untouched, some partly done, some complete. */
static void do_some(struct ledger *l, uint64_t seed)
{
    for (uint32_t s = 0; s < l->split_count; s++) {
        uint32_t n = ledger_shape_split_batches(&l->shape, s);
        l->done[s] = (uint32_t)rng_below(rng_key(seed, "done"), s, n + 1);
    }
}

/* The batches of the epoch that are not done, by walking over the records. */
static size_t naive_pending(const struct ledger *l, struct ledger_batch *out)
{
    size_t count = 0;
    uint32_t split = 0;
    uint32_t in_split = 0;
    for (uint64_t at = 0; at < l->shape.records;) {
        uint64_t end = at + l->shape.batch_records;
        end = end < l->shape.records ? end : l->shape.records;
        if (in_split >= l->done[split]) {
            out[count++] =
                (struct ledger_batch){l->epoch, split, in_split, at, (uint32_t)(end - at)};
        }
        at = end;
        if (++in_split == l->shape.split_batches) {
            split++;
            in_split = 0;
        }
    }
    return count;
}

static void same_batch(const struct ledger_batch *a, const struct ledger_batch *b)
{
    assert_int_equal(a->epoch, b->epoch);
    assert_int_equal(a->split, b->split);
    assert_int_equal(a->batch, b->batch);
    assert_int_equal(a->first, b->first);
    assert_int_equal(a->count, b->count);
}

static void shapes_count_by_hand(void **state)
{
    (void)state;
    struct ledger_shape s = {.records = 103, .batch_records = 10, .split_batches = 4};
    assert_int_equal(ledger_shape_batches(&s), 11);
    assert_int_equal(ledger_shape_splits(&s), 3);
    assert_int_equal(ledger_shape_split_batches(&s, 0), 4);
    assert_int_equal(ledger_shape_split_batches(&s, 2), 3);
    assert_int_equal(ledger_shape_split_batches(&s, 3), 0);
    struct ledger_batch b;
    ledger_shape_batch(&s, 7, 1, 3, &b);
    same_batch(&b, &(struct ledger_batch){7, 1, 3, 70, 10});
    ledger_shape_batch(&s, 7, 2, 2, &b);
    same_batch(&b, &(struct ledger_batch){7, 2, 2, 100, 3});
    ledger_shape_batch(&s, 7, 2, 3, &b);
    assert_int_equal(b.count, 0);
    ledger_shape_batch(&s, 7, UINT32_MAX, UINT32_MAX, &b);
    assert_int_equal(b.count, 0);
    struct ledger_shape empty = {0};
    assert_int_equal(ledger_shape_batches(&empty), 0);
    assert_int_equal(ledger_shape_splits(&empty), 0);
}

static void wrong_shapes_are_refused(void **state)
{
    (void)state;
    static const struct ledger_shape bad[] = {
        {0, 1, 1},
        {10, 0, 1},
        {10, 1, 0},
        {(uint64_t)LEDGER_SPLITS_MAX + 1, 1, 1},
        {UINT64_MAX, UINT32_MAX, UINT32_MAX},
        {LEDGER_RECORDS_MAX + 1, UINT32_MAX, UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct ledger l = {.split_count = 99};
        struct err err = {0};
        assert_int_equal(ledger_init(&l, &bad[i], 0, &err), ERR_INVALID);
        assert_int_equal(l.split_count, 99);
        assert_true(err.msg[0] != '\0');
    }
    struct ledger l;
    struct ledger_shape most = {LEDGER_SPLITS_MAX, 1, 1};
    assert_int_equal(ledger_init(&l, &most, 3, NULL), 0);
    assert_int_equal(l.epoch, 3);
    assert_int_equal(ledger_left(&l), LEDGER_SPLITS_MAX);
    ledger_release(&l);
}

static void pending_agrees_with_a_list(void **state)
{
    (void)state;
    static const struct ledger_shape shapes[] = {
        {1, 1, 1}, {1, 64, 16}, {100, 7, 3}, {103, 10, 4}, {64, 8, 8}, {65, 8, 2}, {50, 1, 50},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (uint64_t seed = 0; seed < 20; seed++) {
            struct ledger l;
            ledger_of(&l, shapes[i].records, shapes[i].batch_records, shapes[i].split_batches);
            do_some(&l, seed);
            struct ledger_batch want[128];
            size_t n = naive_pending(&l, want);
            assert_int_equal(ledger_left(&l), n);
            struct ledger_batch got;
            for (size_t k = 0; k < n; k++) {
                assert_true(ledger_pending(&l, k, &got));
                same_batch(&got, &want[k]);
            }
            assert_false(ledger_pending(&l, n, &got));
            assert_false(ledger_pending(&l, UINT64_MAX, &got));
            ledger_next_epoch(&l);
            assert_int_equal(l.epoch, 1);
            assert_int_equal(ledger_left(&l), ledger_shape_batches(&l.shape));
            ledger_release(&l);
        }
    }
}

/* Over @epochs epochs, every record that the ledger does not hold as done comes exactly once. */
static void check_sync(const struct ledger *l, uint32_t replicas, uint64_t epochs)
{
    uint64_t records = l->shape.records;
    uint8_t *seen = mem_new((size_t)(epochs * records), 1);
    uint64_t steps = ledger_sync_steps(l, replicas, epochs);
    uint64_t epoch = 0;
    uint64_t at = 0;
    for (uint64_t step = 0; step < steps; step++) {
        uint64_t in_step = 0;
        for (uint32_t r = 0; r < replicas; r++) {
            struct ledger_batch b;
            ledger_sync_batch(l, replicas, step, r, &b);
            assert_true(b.epoch >= l->epoch && b.epoch < epochs);
            assert_true(b.epoch > epoch || (b.epoch == epoch && b.first >= at));
            epoch = b.epoch;
            at = b.first;
            in_step += b.count;
            for (uint32_t i = 0; i < b.count; i++) {
                seen[b.epoch * records + b.first + i]++;
            }
        }
        assert_true(in_step > 0); /* no step without data */
    }
    for (uint64_t e = 0; e < epochs; e++) {
        for (uint64_t i = 0; i < records; i++) {
            uint64_t batch = i / l->shape.batch_records;
            uint64_t split = batch / l->shape.split_batches;
            bool done =
                e < l->epoch || (e == l->epoch && batch % l->shape.split_batches < l->done[split]);
            assert_int_equal(seen[e * records + i], done ? 0 : 1);
        }
    }
    struct ledger_batch b;
    ledger_sync_batch(l, replicas, steps, 0, &b);
    assert_int_equal(b.epoch, epochs);
    free(seen);
}

static void sync_covers_every_record_once(void **state)
{
    (void)state;
    static const struct ledger_shape shapes[] = {{1, 1, 1}, {100, 7, 3}, {103, 10, 4}, {65, 8, 2}};
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (uint32_t replicas = 1; replicas <= 20; replicas += 1 + replicas / 4) {
            for (uint64_t seed = 0; seed < 6; seed++) {
                struct ledger l;
                ledger_of(&l, shapes[i].records, shapes[i].batch_records, shapes[i].split_batches);
                l.epoch = seed % 3;
                if (seed > 0) {
                    do_some(&l, seed);
                }
                check_sync(&l, replicas, 4);
                ledger_release(&l);
            }
        }
    }
}

/* The closed form is what walking over every step and replica gives. */
static void check_batches(const struct ledger *l, uint32_t replicas)
{
    for (uint32_t first = 0; first <= replicas; first++) {
        for (uint32_t end = first; end <= replicas + 1; end++) {
            uint64_t count = 0;
            for (uint64_t step = 0; step < 40; step++) {
                assert_int_equal(ledger_sync_batches(l, replicas, step, first, end), count);
                for (uint32_t r = first; r < end; r++) {
                    struct ledger_batch b;
                    ledger_sync_batch(l, replicas, step, r, &b);
                    count += b.count > 0 ? 1 : 0;
                }
            }
        }
    }
}

static void batches_of_many_steps_are_counted_at_once(void **state)
{
    (void)state;
    static const struct ledger_shape shapes[] = {{1, 1, 1}, {100, 7, 3}, {103, 10, 4}, {65, 8, 2}};
    struct ledger l;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (uint64_t seed = 0; seed < 6; seed++) {
            ledger_of(&l, shapes[i].records, shapes[i].batch_records, shapes[i].split_batches);
            if (seed > 0) {
                do_some(&l, seed);
            }
            for (uint32_t replicas = 1; replicas <= 6; replicas++) {
                check_batches(&l, replicas);
            }
            ledger_release(&l);
        }
    }
    ledger_of(&l, 100, 10, 2); /* ten batches: of four replicas three steps, the last of two */
    assert_int_equal(ledger_sync_batches(&l, 4, UINT64_C(3) << 58, 0, 4), UINT64_C(10) << 58);
    assert_int_equal(ledger_sync_batches(&l, 4, UINT64_C(3) << 58, 2, 4), UINT64_C(4) << 58);
    assert_int_equal(ledger_sync_batches(&l, 0, 5, 0, 4), 0);
    ledger_release(&l);
}

static void a_done_epoch_has_no_steps(void **state)
{
    (void)state;
    struct ledger l;
    ledger_of(&l, 100, 10, 3);
    for (uint32_t s = 0; s < l.split_count; s++) {
        l.done[s] = ledger_shape_split_batches(&l.shape, s);
    }
    assert_int_equal(ledger_sync_steps(&l, 3, 1), 0);
    assert_int_equal(ledger_sync_steps(&l, 3, 2), 4);
    struct ledger_batch b;
    ledger_sync_batch(&l, 3, 0, 0, &b);
    same_batch(&b, &(struct ledger_batch){1, 0, 0, 0, 10});
    ledger_sync_batch(&l, 3, 3, 0, &b); /* the tenth batch, alone in its step */
    same_batch(&b, &(struct ledger_batch){1, 3, 0, 90, 10});
    ledger_sync_batch(&l, 3, 3, 1, &b);
    assert_int_equal(b.count, 0);
    assert_int_equal(b.epoch, 1);
    check_sync(&l, 3, 3);
    ledger_release(&l);
}

/* Steps taken and entered into the ledger leave exactly the steps that were still to come. */
static void a_ledger_in_the_middle_goes_on_the_same(void **state)
{
    (void)state;
    struct ledger l;
    struct ledger later;
    ledger_of(&l, 103, 5, 4);
    ledger_copy(&later, &l);
    const uint32_t replicas = 2;
    for (uint64_t step = 0; step < 7; step++) {
        for (uint32_t r = 0; r < replicas; r++) {
            struct ledger_batch b;
            ledger_sync_batch(&l, replicas, step, r, &b);
            assert_int_equal(later.done[b.split], b.batch);
            later.done[b.split]++;
        }
    }
    assert_int_equal(l.done[0], 0); /* a copy shares nothing */
    assert_int_equal(ledger_sync_steps(&later, replicas, 3) + 7,
                     ledger_sync_steps(&l, replicas, 3));
    for (uint64_t step = 0; step < 20; step++) {
        for (uint32_t r = 0; r < replicas; r++) {
            struct ledger_batch a;
            struct ledger_batch b;
            ledger_sync_batch(&l, replicas, step + 7, r, &a);
            ledger_sync_batch(&later, replicas, step, r, &b);
            same_batch(&a, &b);
        }
    }
    ledger_release(&l);
    ledger_release(&later);
}

static void a_complete_epoch_is_the_next_ones_beginning(void **state)
{
    (void)state;
    struct ledger a, b;
    ledger_of(&a, 23, 4, 2); /* 6 batches in splits of 2; the last has 3 records */
    ledger_of(&b, 23, 4, 2);
    assert_true(ledger_equal(&a, &b));
    b.done[2] = 1;
    assert_false(ledger_equal(&a, &b));
    assert_int_equal(ledger_records(&b), 4);
    b.done[2] = 2;
    assert_int_equal(ledger_records(&b), 7);
    b.done[0] = b.done[1] = 2;
    assert_int_equal(ledger_records(&b), 23);
    assert_false(ledger_equal(&a, &b));
    a.epoch = 1;
    assert_true(ledger_equal(&a, &b));
    assert_true(ledger_equal(&b, &a));
    assert_int_equal(ledger_records(&a), 23);
    ledger_settle(&b);
    assert_int_equal(b.epoch, 1);
    assert_int_equal(b.done[2], 0);
    ledger_settle(&b);
    assert_int_equal(b.epoch, 1);
    a.done[1] = 1;
    assert_false(ledger_equal(&a, &b));
    b.shape.batch_records = 5;
    b.done[1] = 1;
    assert_false(ledger_equal(&a, &b));
    ledger_release(&a);
    ledger_release(&b);
}

static void extreme_numbers_stay_in_range(void **state)
{
    (void)state;
    struct ledger l;
    ledger_of(&l, 100, 10, 3);
    assert_true(ledger_sync_steps(&l, 1, UINT64_MAX) == UINT64_MAX);
    assert_int_equal(ledger_sync_steps(&l, 0, 5), 0);
    struct ledger_batch b;
    ledger_sync_batch(&l, UINT32_MAX, 0, UINT32_MAX - 1, &b);
    assert_int_equal(b.count, 0);
    ledger_sync_batch(&l, 4, 0, 4, &b);
    assert_int_equal(b.count, 0);
    l.done[0] = UINT32_MAX; /* more than there is counts as all of it */
    assert_int_equal(ledger_left(&l), 7);
    ledger_release(&l);
    struct ledger zero = {0};
    assert_int_equal(ledger_left(&zero), 0);
    assert_false(ledger_pending(&zero, 0, &b));
    ledger_sync_batch(&zero, 1, 0, 0, &b);
    assert_int_equal(b.count, 0);
    ledger_release(&zero);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_count_by_hand),
        cmocka_unit_test(wrong_shapes_are_refused),
        cmocka_unit_test(pending_agrees_with_a_list),
        cmocka_unit_test(sync_covers_every_record_once),
        cmocka_unit_test(batches_of_many_steps_are_counted_at_once),
        cmocka_unit_test(a_done_epoch_has_no_steps),
        cmocka_unit_test(a_ledger_in_the_middle_goes_on_the_same),
        cmocka_unit_test(a_complete_epoch_is_the_next_ones_beginning),
        cmocka_unit_test(extreme_numbers_stay_in_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
