/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "tensor/blas.h"
#include "tensor/blas_kernels.h"

static void fill(float *x, size_t n, uint64_t key)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)(2.0 * rng_uniform(key, i) - 1.0);
    }
}

static void naive(bool ta, bool tb, size_t m, size_t n, size_t k, const float *a, const float *b,
                  float beta, float *c)
{
    for (size_t i = 0; i < m; i++) {
        for (size_t j = 0; j < n; j++) {
            double sum = 0.0;
            for (size_t l = 0; l < k; l++) {
                sum += (double)(ta ? a[l * m + i] : a[i * k + l]) *
                       (double)(tb ? b[j * k + l] : b[l * n + j]);
            }
            double old = beta == 0.0F ? 0.0 : (double)beta * (double)c[i * n + j];
            c[i * n + j] = (float)(sum + old);
        }
    }
}

static void test_against_naive(void **state)
{
    (void)state;
    static const size_t sizes[][3] = {{1, 1, 1},     {3, 5, 7},   {17, 1, 33},
                                      {64, 10, 128}, {31, 65, 2}, {1, 65, 128}};
    float a[64 * 128], b[128 * 65], c[31 * 65 + 640], d[31 * 65 + 640];
    blas_set_threads(1);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        const size_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
        for (unsigned mode = 0; mode < 8; mode++) {
            const float beta = (mode & 4) != 0 ? 1.0F : 0.0F;
            fill(a, m * k, 1);
            fill(b, k * n, 2);
            fill(c, m * n, 3);
            if (beta == 0.0F) {
                c[0] = NAN; /* not read */
            }
            memcpy(d, c, m * n * sizeof *c);
            naive((mode & 1) != 0, (mode & 2) != 0, m, n, k, a, b, beta, c);
            blas_gemm((mode & 1) != 0, (mode & 2) != 0, m, n, k, a, b, beta, d);
            for (size_t i = 0; i < m * n; i++) {
                assert_true(fabs((double)c[i] - (double)d[i]) < 1e-4);
            }
        }
    }
}

static void test_empty(void **state)
{
    (void)state;
    float c[4] = {1, 2, 3, 4};
    blas_gemm(false, false, 0, 4, 3, NULL, NULL, 0.0F, c);
    assert_true(c[0] == 1.0F);
    blas_gemm(false, false, 2, 2, 0, NULL, NULL, 1.0F, c);
    assert_true(c[3] == 4.0F);
    blas_gemm(false, false, 2, 2, 0, NULL, NULL, 0.0F, c);
    assert_true(c[0] == 0.0F && c[3] == 0.0F);
}

/* Where the operands lie must not change a bit. */
static void test_alignment_does_not_matter(void **state)
{
    (void)state;
    enum { M = 64, N = 250, K = 130, PAD = 16 };
    float *a = mem_new(M * K + PAD, sizeof *a), *b = mem_new(K * N + PAD, sizeof *b);
    float *c = mem_new(M * N + PAD, sizeof *c), *first = mem_new(M * N, sizeof *c);
    for (size_t shift = 0; shift < PAD; shift += 3) {
        fill(a + shift, M * K, 5);
        fill(b + PAD - shift, K * N, 6);
        blas_gemm(false, false, M, N, K, a + shift, b + PAD - shift, 0.0F, c + shift);
        if (shift == 0) {
            memcpy(first, c, M * N * sizeof *c);
        }
        assert_memory_equal(first, c + shift, M * N * sizeof *c);
    }
    for (size_t shift = 0; shift < PAD; shift += 3) { /* one row is computed in another way */
        fill(a + shift, K, 5);
        fill(b + PAD - shift, K * N, 6);
        blas_gemm(false, false, 1, N, K, a + shift, b + PAD - shift, 0.0F, c + shift);
        if (shift == 0) {
            memcpy(first, c, N * sizeof *c);
        }
        assert_memory_equal(first, c + shift, N * sizeof *c);
    }
    free(a);
    free(b);
    free(c);
    free(first);
}

/* In every thread, those that the library started when it was loaded, too (base/float_mode.h). */
static void test_products_that_are_subnormal_are_zero(void **state)
{
    (void)state;
    enum { N = 512 };
    float *a = mem_new(N * N, sizeof *a), *b = mem_new(N * N, sizeof *b);
    float *c = mem_new(N * N, sizeof *c);
    for (size_t i = 0; i < (size_t)N * N; i++) {
        a[i] = 1e-20F;
        b[i] = i / N == i % N ? 1e-20F : 0.0F;
    }
    for (int threads = 1; threads <= 4; threads++) {
        blas_set_threads(threads);
        blas_gemm(false, false, N, N, N, a, b, 0.0F, c);
        size_t others = 0;
        for (size_t i = 0; i < (size_t)N * N; i++) {
            uint32_t bits;
            memcpy(&bits, &c[i], sizeof bits);
            others += bits != 0;
        }
        assert_int_equal(others, 0);
    }
    blas_set_threads(1);
    free(a);
    free(b);
    free(c);
}

int main(int argc, char **argv)
{
    (void)argc;
    blas_kernels_choose(argv); /* those that programs compute with are tested */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_naive),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_alignment_does_not_matter),
        cmocka_unit_test(test_products_that_are_subnormal_are_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
