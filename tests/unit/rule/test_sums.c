/* SPDX-License-Identifier: Apache-2.0 */
/* Sums whose bits do not depend on how they are cut. */
#include "rule_rig.h"

#define N 5000

static double terms[2][N];

static void fill(void)
{
    for (size_t i = 0; i < N; i++) {
        double x = rng_normal(rng_key(3, "terms"), i);
        terms[0][i] = x * x * (i % 7 == 0 ? 1e12 : 1.0);
        terms[1][i] = x;
    }
}

/* Summands @from up to @to, added in pieces of at most @piece. */
static void add_range(struct sums *s, size_t from, size_t to, size_t piece)
{
    double block[2 * SUMS_BLOCK];
    for (size_t at = from, n; at < to; at += n) {
        n = to - at < piece ? to - at : piece;
        for (size_t i = 0; i < n; i++) {
            block[i] = terms[0][at + i];
            block[SUMS_BLOCK + i] = terms[1][at + i];
        }
        sums_add(s, at, n, block);
    }
}

static void total_of(size_t n, double out[2])
{
    struct sums s;
    assert_int_equal(sums_init(&s, 2, NULL), 0);
    add_range(&s, 0, n, SUMS_BLOCK);
    sums_total(&s, out);
    sums_release(&s);
}

/* One lane as the header says it, by recursion over leaves. */
static double lane_tree(const double *x, size_t lane, size_t leaf, unsigned level, size_t n)
{
    size_t at = leaf * SUMS_LANES + lane;
    if (at >= n) {
        return 0;
    }
    if (level == 0) {
        return x[at];
    }
    size_t half = (size_t)1 << (level - 1);
    return lane_tree(x, lane, leaf, level - 1, n) + lane_tree(x, lane, leaf + half, level - 1, n);
}

static double tree(const double *x, size_t n)
{
    double lanes[SUMS_LANES];
    for (size_t j = 0; j < SUMS_LANES; j++) {
        lanes[j] = lane_tree(x, j, 0, 9, n);
    }
    for (size_t half = SUMS_LANES / 2; half > 0; half /= 2) {
        for (size_t j = 0; j < half; j++) {
            lanes[j] += lanes[j + half];
        }
    }
    return lanes[0];
}

static void totals_are_those_of_the_tree(void **state)
{
    (void)state;
    static const size_t counts[] = {1, 2, 3, 5, 63, 64, 1023, 1024, 1025, 4097, N};
    fill();
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        double out[2];
        total_of(counts[i], out);
        for (size_t k = 0; k < 2; k++) {
            assert_true(out[k] == tree(terms[k], counts[i]));
            long double exact = 0;
            for (size_t j = 0; j < counts[i]; j++) {
                exact += (long double)terms[k][j];
            }
            assert_true(fabsl(exact - (long double)out[k]) <= 1e-13L * fabsl(exact) + 1e-9L);
        }
    }
}

static void any_cut_gives_the_same_bits(void **state)
{
    (void)state;
    fill();
    double want[2];
    total_of(N, want);
    for (uint64_t trial = 0; trial < 50; trial++) {
        struct sums whole, part;
        assert_int_equal(sums_init(&whole, 2, NULL), 0);
        assert_int_equal(sums_init(&part, 2, NULL), 0);
        for (size_t at = 0, n, k = 0; at < N; at += n, k++) {
            n = 1 + (size_t)rng_below(rng_key(trial, "cut"), k, 1 + N / (1 + trial));
            n = n < N - at ? n : N - at;
            sums_reset(&part);
            add_range(&part, at, at + n, 1 + (size_t)(trial * 37 % SUMS_BLOCK));
            assert_true(part.count <= 20); /* two of each level, two cut leaves */
            assert_int_equal(sums_join(&whole, &part, NULL), 0);
            assert_int_equal(whole.end, at + n);
        }
        double got[2];
        sums_total(&whole, got);
        assert_memory_equal(got, want, sizeof want);
        sums_release(&whole);
        sums_release(&part);
    }
}

static void what_does_not_join(void **state)
{
    (void)state;
    fill();
    struct sums a, b, c;
    struct err err = {0};
    assert_int_equal(sums_init(&a, 2, &err), 0);
    assert_int_equal(sums_init(&b, 2, &err), 0);
    assert_int_equal(sums_init(&c, 3, &err), 0);
    add_range(&a, 0, 10, 4);
    add_range(&b, 11, 20, 4);
    double before[2], after[2];
    sums_total(&a, before);
    assert_int_equal(sums_join(&a, &b, &err), ERR_INVALID); /* a gap */
    assert_int_equal(sums_join(&a, &a, &err), ERR_INVALID); /* an overlap */
    assert_int_equal(sums_join(&a, &c, &err), ERR_INVALID); /* another width */
    sums_total(&a, after);
    assert_memory_equal(before, after, sizeof before);
    sums_reset(&b);
    assert_int_equal(sums_join(&a, &b, &err), 0); /* nothing joins with anything */
    assert_int_equal(sums_join(&b, &a, &err), 0);
    sums_total(&b, after);
    assert_memory_equal(before, after, sizeof before);
    sums_release(&a);
    sums_release(&b);
    sums_release(&c);
    assert_int_equal(sums_init(&a, SIZE_MAX / 2, &err), ERR_EXHAUSTED);
}

static void nothing_sums_to_zero(void **state)
{
    (void)state;
    struct sums s;
    double out[2] = {1, 1};
    assert_int_equal(sums_init(&s, 2, NULL), 0);
    sums_total(&s, out);
    assert_true(out[0] == 0 && out[1] == 0);
    sums_release(&s);
}

/* The far end of the numbers: as many nodes as there can be. */
static void numbers_far_out(void **state)
{
    (void)state;
    struct sums s;
    assert_int_equal(sums_init_vectors(&s, 1, NULL), 0);
    uint64_t at = 1;
    for (unsigned k = 0; k < 124; k++) { /* 1 up to 2^62, then down again */
        unsigned level = k < 62 ? k : 123 - k;
        *sums_next(&s) = 1;
        sums_push_vectors(&s, at, level);
        at += UINT64_C(1) << level;
    }
    double total;
    sums_total(&s, &total);
    assert_true(s.count == 124 && total == 124);
    sums_release(&s);
}

/* A leaf in many parts, none of which begins or ends where the leaf does. */
static void one_leaf_in_parts(void **state)
{
    (void)state;
    fill();
    double want[2], got[2];
    total_of(40, want);
    struct sums whole, part;
    assert_int_equal(sums_init(&whole, 2, NULL), 0);
    assert_int_equal(sums_init(&part, 2, NULL), 0);
    for (size_t at = 0; at < 40; at++) {
        sums_reset(&part);
        add_range(&part, at, at + 1, 1);
        assert_int_equal(sums_join(&whole, &part, NULL), 0);
        assert_in_range(whole.count, 1, 3);
    }
    sums_total(&whole, got);
    assert_memory_equal(got, want, sizeof want);
    sums_release(&whole);
    sums_release(&part);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals_are_those_of_the_tree),
        cmocka_unit_test(any_cut_gives_the_same_bits),
        cmocka_unit_test(what_does_not_join),
        cmocka_unit_test(nothing_sums_to_zero),
        cmocka_unit_test(numbers_far_out),
        cmocka_unit_test(one_leaf_in_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
