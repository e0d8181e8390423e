/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of tables: the keys of a batch, sums of replicas, bytes, clipping. */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "table/table_gradient.h"
#include "table/table_squares.h"

#define DIM 5

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* @n keys out of @range, spread over 64 bits or not. */
static uint64_t *keys_of(uint64_t seed, size_t n, uint64_t range, bool spread)
{
    uint64_t *keys = mem_new(n + 1, sizeof *keys);
    for (size_t i = 0; i < n; i++) {
        const uint64_t k = rng_below(seed, i, range);
        keys[i] = k == 0 ? UINT64_MAX : k == 1 ? 0 : spread ? rng_u64(9, k) : k;
    }
    return keys;
}

static void check_unique(struct table_keys *k, const uint64_t *keys, size_t n)
{
    assert_int_equal(table_keys_unique(k, keys, n, NULL), 0);
    assert_int_equal(k->n, n);
    uint64_t *sorted = mem_new(n + 1, sizeof *sorted);
    memcpy(sorted, keys, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_value);
    size_t at = 0, count = 0;
    for (; at < n; count++) {
        size_t times = 0;
        for (; at + times < n && sorted[at + times] == sorted[at]; times++) {
        }
        assert_true(count < k->count);
        assert_true(k->unique[count] == sorted[at]);
        assert_int_equal(k->sightings[count], times);
        at += times;
    }
    assert_int_equal(k->count, count);
    for (size_t i = 0; i < n; i++) {
        assert_true(k->unique[k->index[i]] == keys[i]);
    }
    free(sorted);
}

static void test_unique(void **state)
{
    (void)state;
    struct table_keys k = {0};
    static const struct {
        size_t n;
        uint64_t range;
    } batches[] = {{0, 1},       {1, 1},    {1, 5},       {2, 1},          {100, 30},
                   {6656, 3000}, {6656, 1}, {31, 100000}, {70000, 1000000}};
    for (size_t i = 0; i < sizeof batches / sizeof batches[0]; i++) {
        for (int spread = 0; spread < 2; spread++) {
            uint64_t *keys = keys_of(i, batches[i].n, batches[i].range, spread == 1);
            check_unique(&k, keys, batches[i].n);
            free(keys);
        }
    }
    assert_int_equal(table_keys_unique(&k, NULL, (size_t)UINT32_MAX + 1, NULL), ERR_INVALID);
    table_keys_release(&k);
    table_keys_release(&k);
}

/* A gradient of @n keys or a few less out of @range. */
static void make(struct table_gradient *g, uint64_t seed, size_t n, uint64_t range)
{
    struct table_keys k = {0};
    uint64_t *keys = keys_of(seed, n, range, true);
    assert_int_equal(table_keys_unique(&k, keys, n, NULL), 0);
    assert_int_equal(table_gradient_begin(g, &k, NULL), 0);
    assert_int_equal(g->n, k.count);
    for (size_t i = 0; i < g->n * g->dim; i++) {
        assert_true(g->values[i] == 0);
        g->values[i] = (float)rng_normal(seed + 100, i);
    }
    if (g->n > 2) {
        g->values[0] = -0.0F;
        g->values[1] = NAN;
        g->values[g->dim] = -0.0F;
    }
    free(keys);
    table_keys_release(&k);
}

static size_t find(const struct table_gradient *g, uint64_t key)
{
    size_t i = 0;
    for (; i < g->n && g->keys[i] != key; i++) {
    }
    return i;
}

/* @sum is @a + @b. */
static void check_sum(const struct table_gradient *sum, const struct table_gradient *a,
                      const struct table_gradient *b)
{
    size_t both = 0;
    for (size_t i = 0; i < sum->n; i++) {
        assert_true(i == 0 || sum->keys[i - 1] < sum->keys[i]);
        const size_t in_a = find(a, sum->keys[i]), in_b = find(b, sum->keys[i]);
        float row[DIM];
        uint64_t sightings = 0;
        assert_true(in_a < a->n || in_b < b->n);
        if (in_a < a->n) {
            memcpy(row, a->values + in_a * DIM, sizeof row);
            sightings = a->sightings[in_a];
        }
        for (size_t k = 0; in_b < b->n && k < DIM; k++) {
            const float right = b->values[in_b * DIM + k];
            row[k] = in_a < a->n ? row[k] + right : right;
        }
        sightings += in_b < b->n ? b->sightings[in_b] : 0;
        both += in_a < a->n && in_b < b->n;
        assert_memory_equal(sum->values + i * DIM, row, sizeof row);
        assert_true(sum->sightings[i] == (sightings < UINT32_MAX ? sightings : UINT32_MAX));
    }
    assert_int_equal(sum->n, a->n + b->n - both);
}

static void test_add(void **state)
{
    (void)state;
    struct table_gradient a, b, sum;
    table_gradient_init(&a, DIM);
    table_gradient_init(&b, DIM);
    table_gradient_init(&sum, DIM);
    static const size_t sizes[][2] = {{0, 0},   {0, 9},   {9, 0},     {1, 1},
                                      {40, 40}, {200, 5}, {300, 300}, {5, 200}};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        make(&a, 2 * i, sizes[i][0], 250);
        make(&b, 2 * i + 1, sizes[i][1], 250);
        if (b.n > 0) {
            b.sightings[b.n - 1] = UINT32_MAX; /* of the key 2^64 - 1, mostly */
        }
        const struct table_gradient_view left = table_gradient_view(&a);
        const struct table_gradient_view right = table_gradient_view(&b);
        sum.n = 0;
        assert_int_equal(table_gradient_add(&sum, &left, NULL), 0);
        assert_int_equal(table_gradient_add(&sum, &right, NULL), 0);
        check_sum(&sum, &a, &b);
    }
    struct table_gradient other;
    table_gradient_init(&other, DIM + 1);
    struct err err;
    const struct table_gradient_view view = table_gradient_view(&other);
    assert_int_equal(table_gradient_add(&sum, &view, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "rows of 6 floats"));
    table_gradient_release(&a);
    table_gradient_release(&b);
    table_gradient_release(&sum);
}

/* Two ways to cut the keys give the same bits as none: replicas are added in the same order. */
static void test_add_of_parts(void **state)
{
    (void)state;
    enum { REPLICAS = 4 };
    struct table_gradient replicas[REPLICAS], sum, part, of_part;
    table_gradient_init(&sum, DIM);
    table_gradient_init(&of_part, DIM);
    table_gradient_init(&part, DIM);
    for (size_t r = 0; r < REPLICAS; r++) {
        table_gradient_init(&replicas[r], DIM);
        make(&replicas[r], 50 + r, 300, 500);
        const struct table_gradient_view view = table_gradient_view(&replicas[r]);
        assert_int_equal(table_gradient_add(&sum, &view, NULL), 0);
    }
    size_t seen = 0;
    for (uint64_t shard = 0; shard < 3; shard++) {
        of_part.n = 0;
        for (size_t r = 0; r < REPLICAS; r++) {
            part.n = 0;
            for (size_t i = 0; i < replicas[r].n; i++) {
                if (replicas[r].keys[i] % 3 == shard) {
                    const struct table_gradient_view one = {DIM, 1, replicas[r].keys + i,
                                                            replicas[r].sightings + i,
                                                            replicas[r].values + i * DIM};
                    assert_int_equal(table_gradient_add(&part, &one, NULL), 0);
                }
            }
            const struct table_gradient_view view = table_gradient_view(&part);
            assert_int_equal(table_gradient_add(&of_part, &view, NULL), 0);
        }
        for (size_t i = 0; i < of_part.n; i++, seen++) {
            const size_t at = find(&sum, of_part.keys[i]);
            assert_memory_equal(sum.values + at * DIM, of_part.values + i * DIM,
                                DIM * sizeof(float));
            assert_int_equal(sum.sightings[at], of_part.sightings[i]);
        }
    }
    assert_int_equal(seen, sum.n);
    for (size_t r = 0; r < REPLICAS; r++) {
        table_gradient_release(&replicas[r]);
    }
    table_gradient_release(&sum);
    table_gradient_release(&part);
    table_gradient_release(&of_part);
}

static void test_bytes(void **state)
{
    (void)state;
    struct table_gradient g, back;
    table_gradient_init(&g, DIM);
    table_gradient_init(&back, DIM);
    for (size_t n = 0; n < 200; n += 39) {
        make(&g, n, n, 1000);
        const struct table_gradient_view view = table_gradient_view(&g);
        const size_t bytes = (size_t)table_gradient_bytes(VALUE_FP32, g.n, DIM);
        assert_int_equal(bytes, 16 + g.n * (12 + 4 * DIM));
        for (size_t shift = 0; shift < 2; shift++) {
            char *data = mem_new(bytes + shift, 1);
            table_gradient_encode(VALUE_FP32, &view, data + shift);
            assert_int_equal(table_gradient_decode(&back, VALUE_FP32, data + shift, bytes, NULL),
                             0);
            assert_int_equal(back.n, g.n);
            for (size_t i = 0; i < g.n; i++) {
                assert_true(back.keys[i] == g.keys[i]);
                assert_int_equal(back.sightings[i], g.sightings[i]);
            }
            assert_true(g.n == 0 || memcmp(back.values, g.values, g.n * DIM * sizeof(float)) == 0);
            free(data);
        }
    }
    table_gradient_release(&g);
    table_gradient_release(&back);
    assert_true(table_gradient_bytes(VALUE_FP32, UINT64_MAX / 8, DIM) == UINT64_MAX);
    assert_true(table_gradient_bytes(VALUE_FP32, 2, UINT64_MAX / 4) == UINT64_MAX);
}

/* Half of the bytes for values; what was rounded comes as it was. */
static void test_bytes_of_16_bits(void **state)
{
    (void)state;
    struct table_gradient g, back;
    table_gradient_init(&g, DIM);
    table_gradient_init(&back, DIM);
    for (enum value_type type = VALUE_FP16; type <= VALUE_BF16; type++) {
        for (size_t n = 0; n < 200; n += 39) {
            make(&g, n, n, 1000);
            const size_t bytes = (size_t)table_gradient_bytes(type, g.n, DIM);
            assert_int_equal(bytes, 16 + g.n * (12 + 2 * DIM));
            char *data = mem_new(bytes + 1, 1);
            for (size_t i = 0; i < g.n * DIM; i++) {
                g.values[i] = (float)(i * 3777) / 9; /* from 3777 x 17 x 9 on no fp16 */
            }
            const struct table_gradient_view view = table_gradient_view(&g);
            table_gradient_encode(type, &view, data + 1);
            assert_int_equal(table_gradient_decode(&back, type, data + 1, bytes, NULL), 0);
            const float last = g.n == 0 ? 0 : g.values[g.n * DIM - 1];
            table_gradient_round(&g, type);
            assert_int_equal(back.n, g.n);
            assert_true(g.n == 0 || memcmp(back.values, g.values, g.n * DIM * sizeof(float)) == 0);
            assert_true(g.n == 0 || memcmp(back.keys, g.keys, g.n * sizeof *g.keys) == 0);
            assert_true(last < 65520 || type == VALUE_BF16 || isinf(g.values[g.n * DIM - 1]));
            for (enum value_type other = VALUE_FP32; other < VALUE_TYPES; other++) {
                struct err err;
                if (other != type) {
                    assert_int_equal(table_gradient_decode(&back, other, data + 1, bytes, &err),
                                     ERR_INVALID);
                    assert_non_null(strstr(err.msg, "; the push says"));
                }
            }
            free(data);
        }
    }
    assert_true(table_gradient_bytes(VALUE_FP16, UINT64_MAX / 8, DIM) == UINT64_MAX);
    table_gradient_release(&g);
    table_gradient_release(&back);
}

static void refused(struct table_gradient *g, const void *bytes, size_t n, const char *why)
{
    struct err err;
    assert_int_equal(table_gradient_decode(g, VALUE_FP32, bytes, n, &err), ERR_INVALID);
    if (strstr(err.msg, why) == NULL) {
        fail_msg("\"%s\" has no \"%s\"", err.msg, why);
    }
    assert_int_equal(g->n, 0);
}

static void test_bad_bytes(void **state)
{
    (void)state;
    struct table_gradient g;
    table_gradient_init(&g, DIM);
    const uint64_t keys[3] = {4, 5, UINT64_MAX};
    const uint32_t sightings[3] = {1, 2, 3};
    const float values[3 * DIM] = {1};
    const struct table_gradient_view view = {DIM, 3, keys, sightings, values};
    enum { BYTES = 16 + 3 * (12 + 4 * DIM) };
    char good[BYTES], bad[BYTES + 1] = {0};
    table_gradient_encode(VALUE_FP32, &view, good);
    assert_int_equal(table_gradient_decode(&g, VALUE_FP32, good, BYTES, NULL), 0);
    for (size_t n = 0; n < BYTES; n++) {
        refused(&g, good, n, n < 16 ? "no header" : "3 rows have 112");
    }
    memcpy(bad, good, BYTES);
    refused(&g, bad, BYTES + 1, "113 bytes; 3 rows have 112");
    bad[7] = 0x7f; /* the count */
    refused(&g, bad, BYTES, "rows have");
    memcpy(bad, good, BYTES);
    bad[8] = 6;
    refused(&g, bad, BYTES, "rows of 6 floats; the table has rows of 5");
    memcpy(bad, good, BYTES);
    bad[12] = 3;
    refused(&g, bad, BYTES, "unknown format 3");
    bad[12] = 1;
    refused(&g, bad, BYTES, "values as fp16; the push says fp32");
    memcpy(bad, good, BYTES);
    bad[16] = 5;
    refused(&g, bad, BYTES, "row 1: key 5 behind 5: keys must rise");
    bad[16] = 7;
    refused(&g, bad, BYTES, "row 1: key 5 behind 7");
    memcpy(bad, good, BYTES);
    bad[16 + 24 + 4] = 0;
    refused(&g, bad, BYTES, "row 1: key 5 has 0 sightings");
    table_gradient_release(&g);
}

static void test_clip_rows(void **state)
{
    (void)state;
    struct table_gradient g;
    table_gradient_init(&g, 2);
    const uint64_t keys[5] = {1, 2, 3, 4, 5};
    const uint32_t sightings[5] = {1, 1, 1, 1, 1};
    const float values[10] = {3, 4, 0.3F, 0.4F, NAN, 100, INFINITY, 1, 0, 0};
    const struct table_gradient_view view = {2, 5, keys, sightings, values};
    assert_int_equal(table_gradient_add(&g, &view, NULL), 0);
    assert_int_equal(table_gradient_clip_rows(&g, 0.5F, 2.5), 0);
    assert_int_equal(table_gradient_clip_rows(&g, 0.5F, 0.5), 1);
    assert_float_equal(g.values[0], 0.6F, 1e-6F);
    assert_float_equal(g.values[1], 0.8F, 1e-6F);
    assert_memory_equal(g.values + 2, values + 2, 8 * sizeof(float));
    table_gradient_release(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unique),           cmocka_unit_test(test_add),
        cmocka_unit_test(test_add_of_parts),     cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_bytes_of_16_bits), cmocka_unit_test(test_bad_bytes),
        cmocka_unit_test(test_clip_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
