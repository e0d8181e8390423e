/* SPDX-License-Identifier: Apache-2.0 */
/* Which rows go, beside a sorted array of them; the same whatever order they came in. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "table/table_eviction.h"

#define N 700
#define DIM 3

struct expected { /* a row, and whether it should stay */
    uint64_t key, seen;
    uint32_t sightings;
    bool stays;
};

static uint64_t key_of(size_t i)
{
    return i == 0 ? UINT64_MAX : i == 1 ? 0 : i % 2 == 0 ? i : rng_u64(5, i);
}

/* @spread: how many different ranks there are; @least of them. In one order or the other, with
 * unused rows between. */
static void make(struct table_rows *rows, struct expected *e, uint64_t least, uint64_t spread,
                 bool backwards)
{
    const struct table_spec spec = {.name = "users",
                                    .dim = DIM,
                                    .init = {.kind = INIT_ZEROS},
                                    .rule = rule_find("sgd"),
                                    .bytes_max = (uint64_t)1 << 28};
    assert_int_equal(table_rows_init(rows, &spec, NULL), 0);
    for (size_t k = 0; k < N; k++) {
        const size_t i = backwards ? N - 1 - k : k;
        const uint64_t key = key_of(i), other = key_of(N + i);
        assert_int_equal(table_rows_add(rows, &key, 1, least + rng_below(1, i, spread), NULL), 0);
        assert_int_equal(table_rows_add(rows, &other, 1, 0, NULL), 0);
        const uint32_t row = table_index_find(&rows->index, key);
        struct table_note *note = table_rows_note(rows, row);
        note->sightings = (uint32_t)rng_below(2, i, spread < 1000 ? spread : UINT32_MAX);
        e[i] = (struct expected){key, note->seen, note->sightings, true};
    }
    for (size_t i = N; i < 2 * (size_t)N; i++) {
        if (i % 3 != 0 || backwards) {
            assert_true(table_rows_remove(rows, key_of(i)));
        }
    }
    for (size_t i = N; i < 2 * (size_t)N; i++) {
        (void)table_rows_remove(rows, key_of(i));
    }
    assert_int_equal(rows->index.count, N);
}

static size_t check(struct table_rows *rows, const struct expected *e)
{
    size_t stay = 0;
    for (size_t i = 0; i < N; i++) {
        assert_int_equal(table_index_find(&rows->index, e[i].key) != TABLE_ROW_NONE, e[i].stays);
        stay += e[i].stays;
    }
    assert_int_equal(rows->index.count, stay);
    return N - stay;
}

/* Removes the least rows above @rows_max. */
static size_t remove_least(struct table_rows *rows, enum table_least least, size_t rows_max)
{
    if (rows->index.count <= rows_max) {
        return 0;
    }
    struct table_cursor cursor = {0};
    struct table_entry entries[2 * N];
    const struct table_least_limit limit =
        table_least_find(rows, least, rows->index.count - rows_max);
    const size_t n = table_index_next(&rows->index, &cursor, entries, 2 * (size_t)N);
    size_t removed = 0;
    for (size_t i = 0; i < n; i++) {
        if (table_least_has(rows, least, &limit, &entries[i])) {
            removed += table_rows_remove(rows, entries[i].key);
        }
    }
    return removed;
}

static int by_seen(const void *a, const void *b)
{
    const struct expected *x = a, *y = b;
    return x->seen != y->seen ? (x->seen > y->seen) - (x->seen < y->seen)
                              : (x->key > y->key) - (x->key < y->key);
}

static int by_sightings(const void *a, const void *b)
{
    const struct expected *x = a, *y = b;
    return x->sightings != y->sightings
               ? (x->sightings > y->sightings) - (x->sightings < y->sightings)
               : (x->key > y->key) - (x->key < y->key);
}

static void play_least(enum table_least least, uint64_t least_seen, uint64_t spread)
{
    static struct expected e[N];
    static const uint64_t limits[] = {N + 1, N, N - 1, N - 2, 513, 300, 100, 1, 0};
    for (size_t k = 0; k < sizeof limits / sizeof limits[0]; k++) {
        struct table_rows rows;
        make(&rows, e, least_seen, spread, k % 2 == 0);
        qsort(e, N, sizeof e[0], least == TABLE_LEAST_RECENT ? by_seen : by_sightings);
        for (size_t i = 0; i < N; i++) {
            e[i].stays = i + limits[k] >= N;
        }
        const size_t removed = remove_least(&rows, least, limits[k]);
        assert_int_equal(removed, limits[k] >= N ? 0 : N - limits[k]);
        assert_int_equal(check(&rows, e), removed);
        table_rows_release(&rows);
    }
}

static void test_least(void **state)
{
    (void)state;
    play_least(TABLE_LEAST_RECENT, 0, 1);
    play_least(TABLE_LEAST_RECENT, 7, 5);
    play_least(TABLE_LEAST_RECENT, 250, 20); /* over a digit's end */
    play_least(TABLE_LEAST_RECENT, 1, 100000);
    play_least(TABLE_LEAST_RECENT, (uint64_t)1 << 62, (uint64_t)1 << 62);
    play_least(TABLE_LEAST_FREQUENT, 0, 1);
    play_least(TABLE_LEAST_FREQUENT, 0, 6);
    play_least(TABLE_LEAST_FREQUENT, 3, 5000);
}

/* As many rows as the formula says do fit. */
static void test_rows_in(void **state)
{
    (void)state;
    static struct expected e[N];
    struct table_rows rows;
    make(&rows, e, 0, 1, false);
    assert_int_equal(table_rows_in(&rows, 0), 0);
    assert_int_equal(table_rows_in(&rows, 262144), 0);
    const uint64_t fit = table_rows_in(&rows, (uint64_t)1 << 22);
    assert_in_range(fit, 70000, 82000); /* of 36 × 1.35 bytes */
    for (uint64_t i = 0; rows.index.count < fit; i++) {
        assert_int_equal(table_rows_add(&rows, &i, 1, 0, NULL), 0);
    }
    assert_true(rows.budget.bytes <= (uint64_t)1 << 22);
    table_rows_release(&rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least),
        cmocka_unit_test(test_rows_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
