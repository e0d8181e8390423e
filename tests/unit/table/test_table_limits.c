/* SPDX-License-Identifier: Apache-2.0 */
/* Tables that are full, memory for copies that is used up, and what is refused: nothing has changed
 * then. */
#include "table_model.h"
#include "table_rig.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"

/* All that admission has counted at the present version. */
struct counts {
    size_t n;
    struct table_counts_chunk chunk;
};

static struct counts list_counts(struct table *t)
{
    struct counts c = {0};
    struct table_cursor cursor = {0};
    uint64_t n = 0;
    assert_int_equal(table_count_counts(t, table_version(t), &n, NULL), 0);
    c.n = (size_t)n;
    c.chunk = (struct table_counts_chunk){
        .capacity = c.n + 1,
        .keys = mem_new(c.n + 1, sizeof(uint64_t)),
        .counts = mem_new(c.n + 1, sizeof(uint32_t)),
        .counters = mem_new(c.n + 1, TABLE_BLOOM_BLOCK),
    };
    assert_int_equal(table_walk_counts(t, table_version(t), &cursor, &c.chunk, NULL), 0);
    assert_int_equal(c.chunk.n, c.n);
    return c;
}

static void assert_same_counts(struct counts *a, struct counts *b)
{
    assert_int_equal(a->n, b->n);
    assert_memory_equal(a->chunk.keys, b->chunk.keys, a->n * sizeof(uint64_t));
    assert_memory_equal(a->chunk.counts, b->chunk.counts, a->n * sizeof(uint32_t));
    assert_memory_equal(a->chunk.counters, b->chunk.counters, a->n * TABLE_BLOOM_BLOCK);
    struct counts *both[] = {a, b};
    for (size_t i = 0; i < 2; i++) {
        free(both[i]->chunk.keys);
        free(both[i]->chunk.counts);
        free(both[i]->chunk.counters);
    }
}

/* An update is refused, and after that all is as it was: rows, counts, memory for new ones. */
static void assert_refused(struct table *t, uint64_t first, size_t n, const char *why)
{
    const uint64_t version = table_version(t);
    struct table_stats before, after;
    struct rig_listing was = rig_list(t, version), is;
    struct counts counted = list_counts(t), counts;
    struct err err;
    table_stats(t, &before);
    assert_int_equal(rig_update(t, first, n, &err), ERR_EXHAUSTED);
    if (strstr(err.msg, why) == NULL || strstr(err.msg, "table users") == NULL) {
        fail_msg("%s", err.msg);
    }
    table_stats(t, &after);
    assert_int_equal(after.refused, before.refused + 1);
    assert_int_equal(after.rows, before.rows);
    assert_int_equal(after.admitted, before.admitted);
    assert_int_equal(after.evicted, before.evicted);
    assert_int_equal(after.updated, before.updated);
    assert_int_equal(after.dropped, before.dropped);
    assert_int_equal(after.copied_rows, before.copied_rows);
    assert_int_equal(table_version(t), version);
    counts = list_counts(t);
    assert_same_counts(&counted, &counts);
    is = rig_list(t, version);
    rig_assert_same(&was, &is, table_dim(t));
    rig_drop(&was);
    rig_drop(&is);
}

static void test_full_refuses(void **state)
{
    (void)state;
    for (size_t dim = 1; dim <= RIG_DIM_MAX; dim *= 8) {
        struct table_config c = model_config("adam", dim);
        c.bytes_max = 600000;
        c.keeps_previous = dim > 1;
        struct table *t = rig_open(&c);
        uint64_t first = 0;
        while (rig_update(t, first, 100, NULL) == 0) {
            first += 100;
        }
        struct table_stats s;
        table_stats(t, &s);
        assert_int_equal(s.rows, first);
        assert_true(s.bytes <= c.bytes_max);
        assert_true((double)(first + 100) * 1.35 * (8 + 12 * (double)dim + 16) + 262144 > 600000);
        assert_refused(t, first, 100, "full");
        assert_refused(t, first - 50, 150, "full");
        assert_int_equal(rig_update(t, 0, 100, NULL), 0); /* rows that are there */
        assert_refused(t, first, 100, "full");
        table_free(t);
    }
}

/* Counts that an update had made are taken back when it is refused. */
static void test_full_of_counts(void **state)
{
    (void)state;
    for (enum table_admission_kind kind = TABLE_ADMIT_COUNTED; kind <= TABLE_ADMIT_BLOOM; kind++) {
        struct table_config c = model_config("sgd", 4);
        c.admission.kind = kind;
        c.admission.sightings = 2;
        c.admission.bytes = kind == TABLE_ADMIT_BLOOM ? 1 << 18 : 100000;
        c.bytes_max = kind == TABLE_ADMIT_BLOOM ? 700000 : 1 << 22;
        struct table *t = rig_open(&c);
        uint64_t first = 0, version = 0;
        assert_int_equal(table_pin(t, &version, NULL), 0);
        while (rig_update(t, first, 200, NULL) == 0 &&
               (kind == TABLE_ADMIT_COUNTED || rig_update(t, first, 200, NULL) == 0)) {
            first += 200;
        }
        if (kind == TABLE_ADMIT_COUNTED) {
            assert_refused(t, first, 200, "sightings of key");
            assert_int_equal(rig_update(t, 0, 200, NULL), 0); /* these get their rows */
            assert_int_equal(rig_rows(t), 200);
            assert_int_equal(rig_update(t, first, 100, NULL), 0);
        } else {
            assert_refused(t, first, 200, "full");
        }
        struct rig_listing l = rig_list(t, version);
        assert_int_equal(l.n, 0);
        rig_drop(&l);
        table_free(t);
    }
}

static bool was_in_update(uint64_t key, size_t n)
{
    return bsearch(&key, rig_keys, n, sizeof key, rig_compare) != NULL;
}

static uint64_t rank_at(const struct rig_listing *l, size_t i, enum table_least least)
{
    return least == TABLE_LEAST_RECENT ? l->chunk.seen[i] : l->chunk.sightings[i];
}

/* Of the rows that the update did not touch those that went come before those that stayed. */
static void check_room(const struct rig_listing *before, const struct rig_listing *after, size_t n,
                       enum table_least least)
{
    uint64_t went_rank = 0, went_key = 0, stayed_rank = UINT64_MAX, stayed_key = UINT64_MAX;
    size_t went = 0;
    for (size_t i = 0; i < before->n; i++) {
        const uint64_t key = before->chunk.keys[i], rank = rank_at(before, i, least);
        const bool stays = rig_find(after, key) < after->n;
        if (was_in_update(key, n)) {
            assert_true(stays);
        } else if (stays && (rank < stayed_rank || (rank == stayed_rank && key < stayed_key))) {
            stayed_rank = rank;
            stayed_key = key;
        } else if (!stays && (rank > went_rank || (rank == went_rank && key > went_key))) {
            went_rank = rank;
            went_key = key;
        }
        went += !stays;
    }
    for (size_t i = 0; i < n; i++) {
        assert_true(rig_find(after, rig_keys[i]) < after->n);
    }
    assert_true(went == 0 || went_rank < stayed_rank ||
                (went_rank == stayed_rank && went_key < stayed_key));
    assert_true(went == 0 || went == before->n / 16 || after->n >= before->n);
}

static void test_full_evicts(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 4; round++) {
        struct table_config c = model_config("adam", round < 2 ? 40 : 3);
        const size_t most = round < 2 ? 120 : 600;
        c.bytes_max = 400000;
        c.on_full = TABLE_FULL_EVICT;
        c.eviction.least = (enum table_least)(round % 2);
        c.keeps_previous = true;
        struct table *t = rig_open(&c);
        for (uint64_t i = 0; i < 60; i++) {
            const size_t n = 1 + (size_t)rng_below(3, i, most);
            struct rig_listing before = rig_list(t, table_version(t));
            struct err err;
            if (rig_update(t, rng_below(4, i, 4000), n, &err) != 0) {
                fail_msg("%s", err.msg);
            }
            struct rig_listing after = rig_list(t, table_version(t));
            struct rig_listing previous = rig_list(t, table_version(t) - 1);
            rig_assert_same(&before, &previous, c.dim);
            check_room(&before, &after, n, c.eviction.least);
            rig_drop(&before);
            rig_drop(&after);
            rig_drop(&previous);
        }
        struct table_stats s;
        table_stats(t, &s);
        assert_true(s.evicted > s.rows && s.bytes <= c.bytes_max && s.refused == 0);
        assert_refused(t, 10000, 4000, "full"); /* more than there can be */
        table_free(t);
    }
}

/* The same when rows are what is lacking. */
static void test_full_takes_counts_back(void **state)
{
    (void)state;
    for (enum table_admission_kind kind = TABLE_ADMIT_COUNTED; kind <= TABLE_ADMIT_BLOOM; kind++) {
        struct table_config c = model_config("sgd", 4);
        c.admission.kind = kind;
        c.admission.sightings = 2;
        c.bytes_max = (1 << 20) + 300000;
        struct table *t = rig_open(&c);
        uint64_t first = 0;
        assert_int_equal(rig_update(t, 100000, 300, NULL), 0);
        while (rig_update(t, first, 100, NULL) == 0 && rig_update(t, first, 100, NULL) == 0) {
            first += 100;
        }
        assert_refused(t, first, 100, "full");
        assert_refused(t, 100000, 250, "full");
        assert_refused(t, first - 100, 400, "full"); /* rows, counted ones and new ones */
        table_free(t);
    }
}

/* As many as are said to fit do, in any mix of rows that come and go. */
static void test_full_for_long(void **state)
{
    (void)state;
    static const uint64_t bytes[] = {300000, 1 << 20, 9 << 20, 80 << 20};
    for (size_t b = 0; b < 4; b++) {
        for (size_t dim = 1; dim <= RIG_DIM_MAX; dim *= 8) {
            struct table_config c = model_config("sgd", b == 3 ? RIG_DIM_MAX : dim);
            c.bytes_max = bytes[b];
            c.on_full = TABLE_FULL_EVICT;
            struct table *t = rig_open(&c);
            struct table_stats s;
            uint64_t first = 0;
            do {
                struct err err;
                const size_t n = 1 + (size_t)rng_below(6, first,
                                                       b == 0   ? 80
                                                       : b == 1 ? 1000
                                                                : RIG_KEYS_MAX);
                if (rig_update(t, first, n, &err) != 0) {
                    fail_msg("%zu bytes, dim %zu: %s", (size_t)bytes[b], c.dim, err.msg);
                }
                first += n;
                table_stats(t, &s);
                assert_true(s.bytes <= c.bytes_max);
            } while (s.evicted < s.rows);
            table_free(t);
            dim = b == 3 ? RIG_DIM_MAX : dim;
        }
    }
}

static void test_copies_are_limited(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        struct table_config c = model_config("adam", 16);
        c.copies_bytes_max = 300000;
        c.keeps_previous = round > 0;
        c.admission.kind = round == 2 ? TABLE_ADMIT_BLOOM : TABLE_ADMIT_ALL;
        c.admission.sightings = 1;
        c.admission.bytes = 1 << 18;
        struct table *t = rig_open(&c);
        uint64_t pins[3] = {0}, first = 0;
        for (unsigned i = 0; i < 10; i++) {
            assert_int_equal(rig_update(t, i * 200, 200, NULL), 0);
        }
        struct rig_listing was = rig_list(t, 10);
        for (unsigned i = 0; i < 3; i++) {
            assert_int_equal(table_pin(t, &pins[i], NULL), 0);
        }
        while (rig_update(t, first, 50, NULL) == 0) {
            first += 50;
            assert_true(first < 2000);
        }
        assert_refused(t, first, 50, "copies of rows");
        struct rig_listing is = rig_list(t, 10);
        rig_assert_same(&was, &is, c.dim);
        for (unsigned i = 0; i < 3; i++) {
            assert_refused(t, first, 50, "copies of rows");
            assert_int_equal(table_unpin(t, pins[i], NULL), 0);
        }
        assert_int_equal(table_unpin(t, pins[0], NULL), ERR_RANGE);
        assert_int_equal(rig_update(t, first, 50, NULL), 0);
        rig_drop(&was);
        rig_drop(&is);
        table_free(t);
    }
}

/* A table that is full, and counts that are, go into others of the same size, whatever they went
 * through before. */
static void test_what_is_full_is_restored(void **state)
{
    (void)state;
    static const size_t dims[] = {1, 16, RIG_DIM_MAX};
    for (size_t i = 0; i < 2 * sizeof dims / sizeof dims[0]; i++) {
        struct table_config c = model_config(i % 2 == 0 ? "sgd" : "adam", dims[i / 2]);
        struct table *from = NULL, *to = NULL;
        struct err err;
        c.bytes_max = 2 << 20;
        c.on_full = TABLE_FULL_EVICT;
        c.admission.kind = TABLE_ADMIT_COUNTED;
        c.admission.sightings = 1 + (uint32_t)(i % 3);
        c.admission.bytes = 1 << 20;
        from = rig_open(&c);
        for (uint64_t first = 0, step = 0; step < 120; step++, first += step % 4 == 0 ? 900 : 0) {
            if (rig_update(from, first, 2000, &err) != 0) {
                break; /* no more counts fit */
            }
        }
        struct rig_listing was = rig_list(from, table_version(from)), is;
        struct counts counted = list_counts(from), counts;
        assert_int_equal(table_new(&c, table_version(from), &to, NULL), 0);
        assert_int_equal(table_restore_reserve(to, was.n, counted.n, NULL), 0);
        if (table_restore_rows(to, &was.chunk, &err) != 0 ||
            table_restore_counts(to, &counted.chunk, &err) != 0) {
            fail_msg("%s", err.msg);
        }
        is = rig_list(to, table_version(to));
        counts = list_counts(to);
        rig_assert_same(&was, &is, c.dim);
        assert_same_counts(&counted, &counts);
        rig_drop(&was);
        rig_drop(&is);
        table_free(from);
        table_free(to);
    }
}

/* Pins are given up for the update, and say why. */
static void test_pins_are_given_up(void **state)
{
    (void)state;
    struct table_config c = model_config("sgd", RIG_DIM_MAX);
    struct err err;
    uint64_t version = 0, count = 0;
    c.copies_bytes_max = 1 << 20;
    struct table *t = rig_open(&c);
    assert_false(table_give_up_pins(t));
    assert_int_equal(rig_update(t, 0, 4000, NULL), 0);
    assert_int_equal(table_pin(t, &version, NULL), 0);
    assert_false(table_copies_short(t));
    assert_int_equal(rig_update(t, 0, 2000, NULL), 0);
    assert_true(table_copies_short(t));
    assert_int_equal(rig_update(t, 2000, 2000, &err), ERR_EXHAUSTED);
    assert_true(table_give_up_pins(t));
    assert_int_equal(table_count(t, version, &count, &err), ERR_RANGE);
    assert_non_null(strstr(err.msg, "version 1 cannot be read; 2 can; copies for it did not fit"));
    assert_int_equal(table_unpin(t, version, &err), ERR_RANGE);
    assert_false(table_copies_short(t));
    assert_int_equal(rig_update(t, 2000, 2000, NULL), 0);
    assert_int_equal(table_pin(t, &version, NULL), 0); /* as before */
    assert_int_equal(rig_update(t, 0, 1, NULL), 0);
    assert_int_equal(table_count(t, version, &count, NULL), 0);
    table_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_refuses),
        cmocka_unit_test(test_full_of_counts),
        cmocka_unit_test(test_full_takes_counts_back),
        cmocka_unit_test(test_full_evicts),
        cmocka_unit_test(test_what_is_full_is_restored),
        cmocka_unit_test(test_pins_are_given_up),
        cmocka_unit_test(test_full_for_long),
        cmocka_unit_test(test_copies_are_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
