/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include "base/rng.h"
#include "data/loader.h"
#include "data/order.h"
#include "unit/data/data_rig.h"

#define RECORDS 100

static struct dataset *make_data(void)
{
    uint8_t pixels[RECORDS * 4], labels[RECORDS];
    for (size_t i = 0; i < RECORDS; i++) {
        memset(pixels + 4 * i, (int)i, 4);
        labels[i] = (uint8_t)i;
    }
    fixture_write_idx("x", 8, (uint32_t[]){RECORDS, 2, 2}, 3, pixels, sizeof pixels);
    fixture_write_idx("y", 8, (uint32_t[]){RECORDS}, 1, labels, sizeof labels);
    struct data_spec spec = fixture_spec((char[]){"x"}, (char[]){"y"});
    spec.scale = DATA_SCALE_NONE;
    return fixture_open(&spec, DATA_LABEL_CLASS, NULL);
}

static void check_batch(const struct batch *b, uint64_t seed, uint64_t epoch, uint64_t first,
                        size_t count)
{
    struct order order;
    order_init(&order, RECORDS, seed, epoch);
    assert_int_equal(b->count, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t r = order_record(&order, first + i);
        assert_int_equal(b->classes[i], r);
        assert_true(b->features[4 * i] == (float)r && b->features[4 * i + 3] == (float)r);
    }
}

/* Take a batch, look at every record of it, return it. */
static void take_and_check(struct loader *l, uint64_t seed, uint64_t epoch, uint64_t first,
                           size_t count)
{
    const struct batch *b;
    assert_int_equal(loader_take(l, epoch, first, count, &b, NULL), 0);
    check_batch(b, seed, epoch, first, count);
    loader_return(l, b);
}

static void batches_follow_the_order(void **state)
{
    (void)state;
    struct dataset *data = make_data();
    struct loader *l;
    assert_int_equal(loader_new(data, 9, 16, 3, &l, NULL), 0);
    struct {
        uint64_t epoch, first;
        size_t count;
    } asked[40];
    size_t requested = 0, taken = 0;
    for (size_t i = 0; i < 40; i++) {
        asked[i].epoch = i / 7;
        asked[i].first = i % 7 * 16;
        asked[i].count = i % 7 == 6 ? 4 : 16;
    }
    while (taken < 40) {
        while (requested < 40 && requested < taken + 3) {
            assert_int_equal(loader_request(l, asked[requested].epoch, asked[requested].first,
                                            asked[requested].count, NULL),
                             0);
            requested++;
        }
        take_and_check(l, 9, asked[taken].epoch, asked[taken].first, asked[taken].count);
        taken++;
    }
    loader_free(l);
    dataset_free(data);
}

static void batches_too_large_are_refused(void **state)
{
    (void)state;
    struct dataset *data = make_data();
    struct loader *l = NULL;
    struct err err = {0};
    assert_int_equal(loader_new(data, 1, SIZE_MAX / 8, 2, &l, &err), ERR_EXHAUSTED);
    assert_null(l);
    assert_true(err.msg[0] != '\0');
    dataset_free(data);
}

static void a_batch_stays_valid_until_returned(void **state)
{
    (void)state;
    struct dataset *data = make_data();
    struct loader *l;
    assert_int_equal(loader_new(data, 1, 8, 2, &l, NULL), 0);
    const struct batch *a, *b, *c;
    struct err err;
    assert_int_equal(loader_request(l, 0, 0, 8, NULL), 0);
    assert_int_equal(loader_take(l, 0, 0, 8, &a, NULL), 0);
    assert_int_equal(loader_take(l, 0, 8, 8, &b, NULL), 0);
    assert_int_equal(loader_request(l, 0, 16, 8, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, "all 2 batches are in use"));
    assert_int_equal(loader_take(l, 0, 16, 8, &c, NULL), ERR_EXHAUSTED);
    loader_return(l, b); /* in any order */
    assert_int_equal(loader_take(l, 0, 16, 8, &c, NULL), 0);
    check_batch(a, 1, 0, 0, 8);
    check_batch(c, 1, 0, 16, 8);
    loader_return(l, a);
    loader_return(l, c);
    loader_free(l);
    dataset_free(data);
}

static void positions_outside_the_data_are_refused(void **state)
{
    (void)state;
    struct dataset *data = make_data();
    struct loader *l;
    assert_int_equal(loader_new(data, 1, 8, 2, &l, NULL), 0);
    struct err err;
    assert_int_equal(loader_request(l, 0, 0, 9, &err), ERR_RANGE);
    assert_int_equal(loader_request(l, 0, 96, 8, &err), ERR_RANGE);
    assert_int_equal(loader_request(l, 0, UINT64_MAX, 1, &err), ERR_RANGE);
    assert_non_null(strstr(err.msg, "100 records"));
    const struct batch *b = NULL;
    assert_int_equal(loader_take(l, 0, 96, 8, &b, &err), ERR_RANGE);
    assert_null(b);
    assert_int_equal(loader_request(l, 0, 92, 8, &err), 0);
    loader_free(l); /* with an open request */
    dataset_free(data);
}

/* A worker goes on further ahead than all that it has announced, and announces from there. */
static void a_jump_ahead_leaves_nothing_behind(void **state)
{
    (void)state;
    struct dataset *data = make_data();
    struct loader *l;
    assert_int_equal(loader_new(data, 4, 8, 5, &l, NULL), 0);
    for (uint64_t round = 0; round < 200; round++) {
        for (uint64_t k = 0; k < 4; k++) {
            assert_int_equal(loader_request(l, 10 * round, 8 * k, 8, NULL), 0);
        }
        for (uint64_t k = 0; k < 4; k++) { /* the old ones make room */
            assert_int_equal(loader_request(l, 10 * round + 3, 8 * k, 8, NULL), 0);
        }
        for (uint64_t k = round % 4; k < 4; k++) {
            take_and_check(l, 4, 10 * round + 3, 8 * k, 8);
        }
    }
    loader_free(l);
    dataset_free(data);
}

static void batches_that_were_not_asked_for_come_too(void **state)
{
    (void)state;
    struct dataset *data = make_data();
    struct loader *l;
    assert_int_equal(loader_new(data, 5, 8, 3, &l, NULL), 0);
    take_and_check(l, 5, 7, 40, 8); /* nothing is asked for at all */
    for (uint64_t round = 0; round < 100; round++) {
        assert_int_equal(loader_request(l, round, 0, 8, NULL), 0);
        assert_int_equal(loader_request(l, round, 8, 8, NULL), 0);
        take_and_check(l, 5, round, 0, 8);
        take_and_check(l, 5, round, 48, 8); /* another worker's */
        take_and_check(l, 5, round, 8, 7);  /* not the same as 8 records */
        take_and_check(l, 5, round, 8, 8);
        take_and_check(l, 5, round, 8, 8); /* and again, as after a generation change */
    }
    loader_free(l);
    dataset_free(data);
}

static void asking_again_changes_the_order_only(void **state)
{
    (void)state;
    struct dataset *data = make_data();
    struct loader *l;
    assert_int_equal(loader_new(data, 6, 8, 3, &l, NULL), 0);
    for (uint64_t round = 0; round < 100; round++) {
        for (int again = 0; again < 10; again++) { /* more often than there are batches */
            assert_int_equal(loader_request(l, round, 0, 8, NULL), 0);
        }
        assert_int_equal(loader_request(l, round, 8, 8, NULL), 0);
        assert_int_equal(loader_request(l, round, 0, 8, NULL), 0);
        take_and_check(l, 6, round, 8, 8);
        take_and_check(l, 6, round, 0, 8);
    }
    loader_free(l);
    dataset_free(data);
}

/* Whatever is asked for and taken in whatever order: it is the right batch. */
static void no_wrong_batch_ever(void **state)
{
    (void)state;
    struct dataset *data = make_data();
    uint64_t draws = 0;
    for (size_t depth = 2; depth <= 5; depth++) {
        struct loader *l;
        assert_int_equal(loader_new(data, 8, 16, depth, &l, NULL), 0);
        const struct batch *held = NULL;
        uint64_t held_epoch = 0, held_first = 0;
        size_t held_count = 0;
        for (int i = 0; i < 3000; i++) {
            uint64_t epoch = rng_below(2026, draws++, 2);
            uint64_t first = 12 * rng_below(2026, draws++, 7);
            size_t count = 1 + (size_t)rng_below(2026, draws++, 16);
            if (rng_below(2026, draws++, 3) > 0) {
                (void)loader_request(l, epoch, first, count, NULL);
                continue;
            }
            if (held != NULL && rng_below(2026, draws++, 2) == 0) {
                check_batch(held, 8, held_epoch, held_first, held_count);
                loader_return(l, held);
                held = NULL;
            }
            if (held == NULL && rng_below(2026, draws++, 3) == 0) {
                assert_int_equal(loader_take(l, epoch, first, count, &held, NULL), 0);
                held_epoch = epoch;
                held_first = first;
                held_count = count;
            } else {
                take_and_check(l, 8, epoch, first, count);
            }
        }
        loader_free(l); /* one may be taken */
    }
    loader_free(NULL);
    dataset_free(data);
}

struct prepared {
    uint64_t sums[4]; /* of each slot */
    size_t calls;
    bool refuses;
};

static int prepare(void *ctx, size_t slot, const struct batch *b, struct err *err)
{
    struct prepared *p = ctx;
    assert_true(slot < 4);
    p->sums[slot] = 0;
    for (size_t i = 0; i < b->count; i++) {
        p->sums[slot] += (uint64_t)b->classes[i] + 1;
    }
    p->calls++;
    return p->refuses ? err_set(err, ERR_EXHAUSTED, "told to refuse") : 0;
}

/* What was made of a batch is there when it is taken, whoever decoded it. */
static void batches_are_prepared_ahead(void **state)
{
    (void)state;
    struct dataset *data = make_data();
    struct loader *l;
    struct prepared p = {.calls = 0};
    assert_int_equal(loader_new(data, 5, 8, 4, &l, NULL), 0);
    const struct loader_prepare how = {prepare, &p};
    loader_set_prepare(l, &how);
    for (uint64_t i = 0; i < 12; i++) {
        const struct batch *b;
        uint64_t sum = 0;
        if (i % 3 != 2) {
            (void)loader_request(l, 0, i * 8, 8, NULL);
        }
        assert_int_equal(loader_take(l, 0, i * 8, 8, &b, NULL), 0);
        for (size_t k = 0; k < b->count; k++) {
            sum += (uint64_t)b->classes[k] + 1;
        }
        assert_int_equal(p.sums[loader_slot(l, b)], sum);
        loader_return(l, b);
    }
    assert_int_equal(p.calls, 12);
    p.refuses = true;
    const struct batch *b;
    struct err err;
    assert_int_equal(loader_take(l, 1, 0, 8, &b, &err), ERR_EXHAUSTED);
    assert_string_equal(err.msg, "told to refuse");
    p.refuses = false;
    take_and_check(l, 5, 1, 0, 8);
    loader_free(l);
    dataset_free(data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_prepared_ahead),
        cmocka_unit_test(batches_follow_the_order),
        cmocka_unit_test(batches_too_large_are_refused),
        cmocka_unit_test(a_batch_stays_valid_until_returned),
        cmocka_unit_test(positions_outside_the_data_are_refused),
        cmocka_unit_test(a_jump_ahead_leaves_nothing_behind),
        cmocka_unit_test(batches_that_were_not_asked_for_come_too),
        cmocka_unit_test(asking_again_changes_the_order_only),
        cmocka_unit_test(no_wrong_batch_ever),
    };
    return cmocka_run_group_tests(tests, fixture_setup, fixture_teardown);
}
