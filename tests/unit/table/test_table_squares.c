/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of squares: exact, so any order and any cut gives the same bits. */
#include "support/test.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "table/table_squares.h"

#define N 400
#define DIM 11

static struct table_gradient_view rows_of(const float *values, size_t dim, size_t n)
{
    return (struct table_gradient_view){.dim = dim, .n = n, .values = values};
}

static double total_of(const float *values, size_t dim, size_t n)
{
    struct exact_sum s = {0};
    const struct table_gradient_view g = rows_of(values, dim, n);
    table_squares_add(&s, &g, 1, NULL, NULL);
    return exact_sum_total(&s);
}

/* Floats over the whole range of exponents. */
static float wide(uint64_t i)
{
    return ldexpf((float)rng_normal(1, i), (int)rng_below(2, i, 240) - 140);
}

static void test_same_for_any_cut(void **state)
{
    (void)state;
    static float values[N * DIM];
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        values[i] = wide(i);
    }
    const double total = total_of(values, DIM, N);
    double about = 0;
    for (size_t i = 0; i < N; i++) {
        about += table_squares_of_row(values + i * DIM, DIM, 1);
    }
    assert_true(fabs(total - about) <= 1e-14 * total);
    for (uint64_t shards = 1; shards < 6; shards++) {
        struct exact_sum all = {0};
        for (uint64_t shard = shards; shard-- > 0;) {
            struct exact_sum s = {0};
            for (size_t i = N; i-- > 0;) {
                const struct table_gradient_view row = rows_of(values + i * DIM, DIM, 1);
                if (rng_below(shards, i, shards) == shard) {
                    table_squares_add(&s, &row, 1, NULL, NULL);
                }
            }
            exact_sum_join(&all, &s);
        }
        assert_true(exact_sum_total(&all) == total);
    }
}

static void test_exact(void **state)
{
    (void)state;
    const float one[] = {0, -3};
    assert_true(total_of(one, 1, 0) == 0);
    assert_true(total_of(one, 1, 1) == 0);
    assert_true(total_of(one, 1, 2) == 9);
    const float least[] = {FLT_MIN, FLT_MIN, FLT_MIN};
    assert_true(total_of(least, 1, 3) == ldexp(3, -252));
    const float zero[] = {FLT_TRUE_MIN, FLT_TRUE_MIN, FLT_TRUE_MIN}; /* base/float_mode.h */
    assert_true(total_of(zero, 1, 3) == 0);
    static float greatest[EXACT_SUM_WORDS * 1000];
    for (size_t i = 0; i < sizeof greatest / sizeof greatest[0]; i++) {
        greatest[i] = FLT_MAX;
    }
    const double square = (double)FLT_MAX * (double)FLT_MAX;
    assert_true(total_of(greatest, 1, 8192) == square * 8192);
    assert_true(fabs(total_of(greatest, 8192, 1) / (square * 8192) - 1) < 1e-12);
    /* 2^54 + 2 lies half way between two doubles and goes to the even one; a little more does not.
     */
    const float tie[] = {ldexpf(1, 27), 1, 1};
    assert_true(total_of(tie, 1, 3) == ldexp(1, 54));
    const float above[] = {ldexpf(1, 27), 1, 1, 1, FLT_MIN};
    assert_true(total_of(above, 1, 5) == ldexp(1, 54) + 4);
}

static void test_not_finite(void **state)
{
    (void)state;
    const float values[] = {1, NAN, INFINITY, 2};
    assert_true(isinf(total_of(values, 1, 2)));
    assert_true(isinf(total_of(values, 4, 1)));
    assert_true(total_of(values, 1, 1) == 1);
    struct exact_sum a = {0}, b = {0};
    const struct table_gradient_view g = rows_of(values, 1, 4);
    table_squares_add(&a, &g, 0.5F, NULL, NULL);
    assert_int_equal(a.not_finite, 2);
    exact_sum_join(&b, &a);
    assert_true(isinf(exact_sum_total(&b)));
    memset(a.words, 0xff, sizeof a.words); /* what no gradient makes: nothing is written behind */
    table_squares_add(&a, &g, 1, NULL, NULL);
    exact_sum_join(&a, &a);
}

/* The squares are those of what the rule gets. */
static void test_clipped_first(void **state)
{
    (void)state;
    const float values[] = {6, -8, 0.5F, 0, 3, 4};
    const struct table_gradient_view g = rows_of(values, 2, 3);
    const struct table_clip clips[] = {{0, 0}, {3, 0}, {0, 2.5}, {3, 2.5}};
    const double want[] = {25 + 0.0625 + 6.25, 18 + 0.0625 + 6.25, 6.25 + 0.0625 + 6.25,
                           6.25 + 0.0625 + 6.25};
    float scratch[2];
    for (size_t i = 0; i < sizeof clips / sizeof clips[0]; i++) {
        struct exact_sum s = {0};
        table_squares_add(&s, &g, 0.5F, &clips[i], scratch);
        assert_true(fabs(exact_sum_total(&s) - want[i]) < 1e-5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_for_any_cut),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_clipped_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
