/* SPDX-License-Identifier: Apache-2.0 */
/* The index beside a plain array: random inserts and removes, growth, lists, limits. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "table/table_index.h"
#include "table/table_line.h"

#define BYTES_MAX ((uint64_t)1 << 30)

/* What the index should hold: keys[i] is there with number rows[i], or TABLE_ROW_NONE. */
struct oracle {
    uint64_t *keys;
    uint32_t *rows;
    size_t n, count;
};

static uint64_t random_key(size_t i)
{
    static const uint64_t special[] = {0, UINT64_MAX, 1, UINT64_MAX - 1, (uint64_t)1 << 63};
    return i < sizeof special / sizeof special[0] ? special[i] : rng_u64(7, i);
}

static uint64_t small_key(size_t i)
{
    return i;
}

static uint64_t inverse(uint64_t odd) /* modulo 2^64, by Newton's iteration */
{
    uint64_t x = odd;
    for (int i = 0; i < 6; i++) {
        x *= 2 - odd * x;
    }
    return x;
}

static uint64_t unshift(uint64_t x, int by)
{
    uint64_t y = x;
    for (int i = 0; i < 64; i += by) {
        y = x ^ (y >> by);
    }
    return y;
}

/* Keys with neighbouring hashes, chosen by somebody who knows the function. */
static uint64_t key_of_hash(uint64_t hash)
{
    uint64_t x = unshift(hash, 31) * inverse(0x94D049BB133111EBU);
    x = unshift(x, 27) * inverse(0xBF58476D1CE4E5B9U);
    const uint64_t key = unshift(x, 30) ^ 0x6A09E667F3BCC909U;
    assert_int_equal(table_mix(key), hash);
    return key;
}

static uint64_t first_home_key(size_t i)
{
    return key_of_hash(i);
}

static uint64_t last_home_key(size_t i)
{
    return key_of_hash(UINT64_MAX - i);
}

static void oracle_init(struct oracle *o, size_t n, uint64_t (*key_of)(size_t))
{
    *o = (struct oracle){mem_new(n, sizeof(uint64_t)), mem_new(n, sizeof(uint32_t)), n, 0};
    for (size_t i = 0; i < n; i++) {
        o->keys[i] = key_of(i);
        o->rows[i] = TABLE_ROW_NONE;
    }
}

static void oracle_release(struct oracle *o)
{
    free(o->keys);
    free(o->rows);
}

/* Every key is where a search finds it, every line between home and key is full. */
static void check(struct table_index *index, const struct oracle *o)
{
    uint32_t *rows = mem_new(o->n, sizeof *rows);
    table_index_find_batch(index, o->keys, o->n, rows);
    for (size_t i = 0; i < o->n; i++) {
        assert_int_equal(rows[i], o->rows[i]);
        assert_int_equal(table_index_find(index, o->keys[i]), o->rows[i]);
        uint32_t *at = table_index_at(index, o->keys[i]);
        assert_true(at == NULL ? o->rows[i] == TABLE_ROW_NONE : *at == o->rows[i]);
    }
    assert_int_equal(index->count, o->count);
    const struct table_line *lines = table_lines(index);
    size_t count = 0;
    for (size_t at = 0; at < index->memory.bytes / sizeof *lines; at++) {
        count += lines[at].count;
        assert_true(lines[at].count == 0 || at < index->end);
        for (unsigned i = 0; i < lines[at].count; i++) {
            for (uint64_t home = table_home(index, lines[at].keys[i]); home < at; home++) {
                assert_int_equal(lines[home].count, TABLE_LINE_KEYS);
            }
        }
    }
    assert_int_equal(count, o->count);
    free(rows);
}

static void flip(struct table_index *index, struct oracle *o, size_t i, uint32_t row)
{
    struct err err;
    if (o->rows[i] == TABLE_ROW_NONE) {
        assert_int_equal(table_index_remove(index, o->keys[i]), TABLE_ROW_NONE);
        assert_int_equal(table_index_insert(index, o->keys[i], row, &err), 0);
        assert_int_equal(table_index_insert(index, o->keys[i], row + 1, &err), ERR_EXISTS);
        o->rows[i] = row;
        o->count++;
    } else {
        assert_int_equal(table_index_remove(index, o->keys[i]), o->rows[i]);
        assert_int_equal(table_index_find(index, o->keys[i]), TABLE_ROW_NONE);
        o->rows[i] = TABLE_ROW_NONE;
        o->count--;
    }
}

/* Random inserts and removes: first mostly inserts, then as many removes, then all is removed. */
static void play(uint64_t (*key_of)(size_t), size_t n, size_t operations, uint64_t seed)
{
    struct table_budget budget = {.bytes_max = BYTES_MAX};
    struct table_index index;
    struct oracle o;
    oracle_init(&o, n, key_of);
    assert_int_equal(table_index_init(&index, &budget, NULL), 0);
    for (size_t k = 0; k < operations; k++) {
        flip(&index, &o, (size_t)rng_below(seed, k, n), (uint32_t)k);
        if (k % (operations / 16) == 0) {
            check(&index, &o);
        }
    }
    check(&index, &o);
    for (size_t i = 0; i < n; i++) {
        if (o.rows[i] != TABLE_ROW_NONE) {
            flip(&index, &o, i, 0);
        }
    }
    check(&index, &o);
    for (size_t i = 0; i < n; i++) { /* as full as never before */
        flip(&index, &o, i, (uint32_t)i);
    }
    check(&index, &o);
    assert_int_equal(budget.bytes, index.memory.bytes + index.moved_capacity * 16);
    table_index_release(&index);
    assert_int_equal(budget.bytes, 0);
    table_index_release(&index);
    oracle_release(&o);
}

static void test_random_keys(void **state)
{
    (void)state;
    play(random_key, 20000, 60000, 1);
    play(random_key, 60, 4000, 2);
}

static void test_small_keys(void **state)
{
    (void)state;
    play(small_key, 20000, 60000, 3);
}

/* All keys have one home, the first or the last; slow, not wrong. */
static void test_keys_that_collide(void **state)
{
    (void)state;
    play(first_home_key, 300, 1500, 4);
    play(last_home_key, 300, 1500, 5);
}

/* At every moment of a growth: all is found, and it is over before the next one begins. */
static void test_growth(void **state)
{
    (void)state;
    struct table_budget budget = {.bytes_max = BYTES_MAX};
    struct table_index index;
    struct oracle o;
    size_t growths = 0, inserts = 0;
    oracle_init(&o, 12000, random_key);
    assert_int_equal(table_index_init(&index, &budget, NULL), 0);
    for (size_t i = 0; i < o.n; i++) {
        const uint64_t before = index.unmoved, homes = index.homes;
        flip(&index, &o, i, (uint32_t)i);
        const uint64_t moved = before - (index.homes == homes ? index.unmoved : 0);
        assert_true(moved <= 16);
        growths += index.homes != homes;
        inserts += index.unmoved < index.homes;
        if (index.unmoved < index.homes && i % 97 == 0) {
            check(&index, &o);
        }
    }
    assert_in_range(growths, 40, 60); /* the logarithm of 12000 / 68 by 9/8 */
    assert_in_range(inserts, 500, 5000);
    table_index_release(&index);
    oracle_release(&o);
}

static void test_memory(void **state)
{
    (void)state;
    struct table_budget budget = {.bytes_max = BYTES_MAX};
    struct table_index index;
    assert_int_equal(table_index_init(&index, &budget, NULL), 0);
    for (uint64_t i = 0; i < 1000000; i++) {
        assert_int_equal(table_index_insert(&index, rng_u64(3, i), (uint32_t)i, NULL), 0);
        if (i % 1000 == 0 && i >= 10000) {
            assert_true((double)budget.bytes < 17.5 * (double)i + 65536);
        }
    }
    table_index_release(&index);
}

/* The budget ends at every possible place: what was there is there. */
static void test_full(void **state)
{
    (void)state;
    for (uint64_t bytes = 0; bytes <= (1U << 20); bytes += 16384 * 5) {
        struct table_budget budget = {.bytes_max = bytes};
        struct table_index index;
        struct oracle o;
        struct err err;
        int rc = table_index_init(&index, &budget, &err);
        if (rc != 0) {
            assert_int_equal(rc, ERR_EXHAUSTED);
            assert_int_equal(budget.bytes, 0);
            continue;
        }
        oracle_init(&o, 80000, random_key);
        for (size_t i = 0; rc == 0; i++) {
            rc = table_index_insert(&index, o.keys[i], (uint32_t)i, &err);
            o.rows[i] = rc == 0 ? (uint32_t)i : TABLE_ROW_NONE;
            o.count += rc == 0;
        }
        assert_int_equal(rc, ERR_EXHAUSTED);
        assert_non_null(strstr(err.msg, "index of a table"));
        assert_true(budget.bytes <= bytes);
        check(&index, &o);
        flip(&index, &o, 3, 0); /* a place is free again */
        flip(&index, &o, 3, 77);
        check(&index, &o);
        table_index_release(&index);
        oracle_release(&o);
    }
}

static int by_hash(const void *a, const void *b)
{
    const uint64_t x = table_mix(((const struct table_entry *)a)->key);
    const uint64_t y = table_mix(((const struct table_entry *)b)->key);
    return (x > y) - (x < y);
}

/* All entries through table_index_next() in pieces of @max. */
static size_t list(const struct table_index *index, struct table_entry *out, size_t max)
{
    struct table_cursor cursor = {0};
    size_t n = 0, got;
    while ((got = table_index_next(index, &cursor, out + n, max)) > 0) {
        assert_true(got <= max);
        n += got;
    }
    assert_true(cursor.end);
    return n;
}

/* Keys that are there all the time are listed once while others come and go. */
static void play_list(uint64_t (*key_of)(size_t), uint32_t n, size_t piece)
{
    struct table_budget budget = {.bytes_max = BYTES_MAX};
    struct table_index index;
    struct table_cursor cursor = {0};
    struct table_entry out[64];
    unsigned *listed = mem_new(2 * n, sizeof *listed);
    assert_int_equal(table_index_init(&index, &budget, NULL), 0);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(table_index_insert(&index, key_of(i), i, NULL), 0);
    }
    size_t got;
    uint64_t last = 0;
    for (uint32_t k = 0; (got = table_index_next(&index, &cursor, out, piece)) > 0; k++) {
        for (size_t i = 0; i < got; i++) {
            assert_true(last == 0 || table_mix(out[i].key) > last);
            last = table_mix(out[i].key);
            listed[out[i].row]++;
        }
        for (uint32_t i = n + 20 * k; i < n + 20 * (k + 1) && i < 2 * n; i++) {
            assert_int_equal(table_index_insert(&index, key_of(i), i, NULL), 0);
        }
        if (k * 3 < n) {
            (void)table_index_remove(&index, key_of(k * 3));
        }
    }
    for (uint32_t i = 0; i < 2 * n; i++) {
        assert_true(listed[i] <= 1);
        assert_true(listed[i] == 1 || i >= n || i % 3 == 0);
    }
    free(listed);
    table_index_release(&index);
}

static void test_list_under_changes(void **state)
{
    (void)state;
    play_list(random_key, 3000, 64);
    play_list(random_key, 3000, 7);
    play_list(small_key, 20000, 33);
    play_list(first_home_key, 200, 5);
    play_list(last_home_key, 200, 1);
}

static void test_lists(void **state)
{
    (void)state;
    enum { N = 3000 };
    struct table_budget budget = {.bytes_max = BYTES_MAX};
    struct table_index index;
    static struct table_entry listed[N + 100], expected[N];
    assert_int_equal(table_index_init(&index, &budget, NULL), 0);
    assert_int_equal(list(&index, listed, 5), 0);
    for (uint32_t i = 0; i < N; i++) {
        expected[i] = (struct table_entry){.key = random_key(i), .row = i};
        assert_int_equal(table_index_insert(&index, expected[i].key, i, NULL), 0);
    }
    const size_t pieces[] = {1, 5, 6, 64, N};
    qsort(expected, N, sizeof expected[0], by_hash);
    for (size_t p = 0; p < 5; p++) {
        assert_int_equal(list(&index, listed, pieces[p]), N);
        for (size_t i = 0; i < N; i++) {
            assert_int_equal(listed[i].key, expected[i].key);
            assert_int_equal(listed[i].row, expected[i].row);
        }
    }
    table_index_release(&index);
}

/* The same history gives the same bytes; another one of the same keys the same lists. */
static void test_history(void **state)
{
    (void)state;
    enum { N = 5000 };
    struct table_budget budget = {.bytes_max = BYTES_MAX};
    struct table_index index[3];
    static struct table_entry listed[2][N + 100];
    for (size_t k = 0; k < 3; k++) {
        assert_int_equal(table_index_init(&index[k], &budget, NULL), 0);
        for (uint32_t i = 0; i < N; i++) {
            const uint32_t row = k == 2 ? N - 1 - i : i;
            assert_int_equal(table_index_insert(&index[k], random_key(row), row, NULL), 0);
        }
        for (uint32_t i = 0; i < N; i += 3) {
            assert_int_equal(table_index_remove(&index[k], random_key(i)), i);
        }
    }
    assert_int_equal(index[0].end, index[1].end);
    assert_memory_equal(index[0].memory.base, index[1].memory.base, index[0].end * 64);
    assert_memory_not_equal(index[0].memory.base, index[2].memory.base, index[0].end * 64);
    assert_int_equal(list(&index[0], listed[0], 100), N - (N + 2) / 3);
    assert_int_equal(list(&index[2], listed[1], 30), N - (N + 2) / 3);
    for (size_t i = 0; i < N - (N + 2) / 3; i++) {
        assert_int_equal(listed[0][i].key, listed[1][i].key);
        assert_int_equal(listed[0][i].row, listed[1][i].row);
    }
    for (size_t k = 0; k < 3; k++) {
        table_index_release(&index[k]);
    }
    assert_int_equal(budget.bytes, 0);
}

/* Keys that come in the order of a list, as a checkpoint has them, lie where random ones would: no
 * search is longer for it, and the index does not grow. */
static void test_reserved(void **state)
{
    (void)state;
    static const uint64_t counts[] = {0, 1, 63, 64, 1000, 100000};
    for (size_t k = 0; k < sizeof counts / sizeof counts[0]; k++) {
        const uint64_t n = counts[k];
        struct table_budget budget = {.bytes_max = BYTES_MAX};
        struct table_index index;
        assert_int_equal(table_index_init(&index, &budget, NULL), 0);
        assert_int_equal(table_index_reserve(&index, n, NULL), 0);
        const uint64_t homes = index.homes;
        uint64_t farthest = 0;
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t key = key_of_hash(UINT64_MAX / n * i);
            assert_int_equal(table_index_insert(&index, key, (uint32_t)i, NULL), 0);
            const uint64_t away = index.end - 1 - table_home(&index, key);
            farthest = away > farthest ? away : farthest;
        }
        assert_int_equal(index.homes_new, homes);
        assert_true(farthest <= 1 && index.end <= homes + 1);
        assert_true(n < 100000 || budget.bytes < n * 35 / 2 + 4096);
        for (uint64_t i = 0; i < n; i++) {
            assert_int_equal(table_index_find(&index, key_of_hash(UINT64_MAX / n * i)), i);
        }
        table_index_release(&index);
    }
    struct table_budget small = {.bytes_max = 65536};
    struct table_index index;
    assert_int_equal(table_index_init(&index, &small, NULL), 0);
    assert_int_equal(table_index_reserve(&index, 100000, NULL), ERR_EXHAUSTED);
    assert_int_equal(table_index_reserve(&index, UINT64_MAX, NULL), ERR_EXHAUSTED);
    assert_int_equal(table_index_insert(&index, 1, 1, NULL), 0);
    table_index_release(&index);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_keys),
        cmocka_unit_test(test_small_keys),
        cmocka_unit_test(test_keys_that_collide),
        cmocka_unit_test(test_growth),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_full),
        cmocka_unit_test(test_lists),
        cmocka_unit_test(test_list_under_changes),
        cmocka_unit_test(test_history),
        cmocka_unit_test(test_reserved),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
