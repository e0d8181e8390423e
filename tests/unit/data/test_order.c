/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/order.h"

static void check_permutation(uint64_t records, uint64_t seed, uint64_t epoch)
{
    struct order o;
    order_init(&o, records, seed, epoch);
    bool *seen = mem_new((size_t)records, sizeof *seen);
    for (uint64_t i = 0; i < records; i++) {
        uint64_t r = order_record(&o, i);
        assert_true(r < records);
        assert_false(seen[r]);
        seen[r] = true;
    }
    free(seen);
}

static void every_size_gives_a_permutation(void **state)
{
    (void)state;
    for (uint64_t n = 1; n <= 2000; n++) {
        check_permutation(n, n * 7, n % 5);
    }
    static const uint64_t sizes[] = {4093, 4096, 4097, 60000, 65535, 65536, 65537, 99991};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        check_permutation(sizes[i], 1, i);
    }
}

static void huge_sizes_stay_in_range(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {(uint64_t)1 << 33, ((uint64_t)1 << 62) + 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct order o;
        order_init(&o, sizes[i], 3, 4);
        for (uint64_t k = 0; k < 100; k++) {
            uint64_t a = order_record(&o, k), b = order_record(&o, sizes[i] - 1 - k);
            assert_true(a < sizes[i] && b < sizes[i] && a != b);
        }
    }
}

static size_t equal_positions(uint64_t seed_a, uint64_t epoch_a, uint64_t seed_b, uint64_t epoch_b)
{
    struct order a, b;
    order_init(&a, 1000, seed_a, epoch_a);
    order_init(&b, 1000, seed_b, epoch_b);
    size_t equal = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        equal += order_record(&a, i) == order_record(&b, i);
    }
    return equal;
}

static void seed_and_epoch_change_the_order(void **state)
{
    (void)state;
    assert_int_equal(equal_positions(1, 2, 1, 2), 1000);
    assert_true(equal_positions(1, 2, 1, 3) < 10); /* one agreement is expected */
    assert_true(equal_positions(1, 2, 2, 2) < 10);
    assert_true(equal_positions(1, 0, 0, 1) < 10);
}

/* Over many epochs, a record must stand anywhere equally often: chi-square over (record, position).
 */
static double chi_square(uint64_t records, uint64_t epochs)
{
    size_t cells = (size_t)(records * records);
    uint32_t *hits = mem_new(cells, sizeof *hits);
    for (uint64_t e = 0; e < epochs; e++) {
        struct order o;
        order_init(&o, records, 42, e);
        for (uint64_t i = 0; i < records; i++) {
            hits[order_record(&o, i) * records + i]++;
        }
    }
    double expected = (double)epochs / (double)records, sum = 0;
    for (size_t i = 0; i < cells; i++) {
        double d = hits[i] - expected;
        sum += d * d / expected;
    }
    free(hits);
    return sum;
}

static void positions_are_uniform(void **state)
{
    (void)state;
    /* (n-1)² degrees of freedom; the bounds are 5 standard deviations, √(2·df). */
    static const struct {
        uint64_t records;
        double low, high;
    } cases[] = {{2, -1, 12}, {3, -1, 19}, {5, -1, 45}, {16, 118, 332}, {61, 3176, 4024}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double x = chi_square(cases[i].records, 4000);
        if (x <= cases[i].low || x >= cases[i].high) {
            fail_msg("chi-square %g for %d records", x, (int)cases[i].records);
        }
    }
}

/* Neighbours in the file must not stay neighbours in the order. */
static void neighbours_are_separated(void **state)
{
    (void)state;
    struct order o;
    order_init(&o, 60000, 5, 0);
    size_t close = 0;
    for (uint64_t i = 1; i < 60000; i++) {
        int64_t d = (int64_t)order_record(&o, i) - (int64_t)order_record(&o, i - 1);
        close += d >= -10 && d <= 10;
    }
    assert_in_range(close, 5, 50); /* 20 are expected */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_gives_a_permutation),
        cmocka_unit_test(huge_sizes_stay_in_range),
        cmocka_unit_test(seed_and_epoch_change_the_order),
        cmocka_unit_test(positions_are_uniform),
        cmocka_unit_test(neighbours_are_separated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
