/* Sums whose bits do not depend on how they are cut. */
#include "fixture.h"

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

/* As the header says it, by recursion. */
static double tree(const double *x, size_t first, unsigned level, size_t n)
{
    if (first >= n) {
        return 0;
    }
    if (level == 0) {
        return x[first];
    }
    size_t half = (size_t)1 << (level - 1);
    return tree(x, first, level - 1, n) + tree(x, first + half, level - 1, n);
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
            assert_true(out[k] == tree(terms[k], 0, 13, counts[i]));
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
            assert_true(part.count <= 26); /* two of each level */
            assert_int_equal(sums_join(&whole, &part, NULL), 0);
            assert_int_equal(sums_end(&whole), at + n);
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
    assert_int_equal(sums_end(&s), 0);
    sums_total(&s, out);
    assert_true(out[0] == 0 && out[1] == 0);
    sums_release(&s);
}

/* The far end of the numbers: as many nodes as there can be. */
static void numbers_far_out(void **state)
{
    (void)state;
    struct sums s;
    const double one = 1;
    assert_int_equal(sums_init(&s, 1, NULL), 0);
    uint64_t at = 1;
    for (unsigned level = 0; level < 62; level++) { /* 1 up to 2^62, then down again */
        sums_push(&s, at, level, &one);
        at += UINT64_C(1) << level;
    }
    for (unsigned level = 62; level-- > 0;) {
        sums_push(&s, at, level, &one);
        at += UINT64_C(1) << level;
    }
    double total;
    sums_total(&s, &total);
    assert_true(s.count == 124 && total == 124);
    sums_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(totals_are_those_of_the_tree),
        cmocka_unit_test(any_cut_gives_the_same_bits),
        cmocka_unit_test(what_does_not_join),
        cmocka_unit_test(nothing_sums_to_zero),
        cmocka_unit_test(numbers_far_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
