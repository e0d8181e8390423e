/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "tensor/kernel.h"

#define MAX 1200

static void fill(float *x, size_t n, uint64_t key)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)rng_normal(key, i);
    }
}

static void test_repeat_row(void **state)
{
    (void)state;
    float row[7], out[MAX];
    fill(row, 7, 1);
    for (size_t rows = 0; rows < 170; rows += 13) {
        out[7 * rows] = -1.0F;
        kernel_repeat_row(rows, 7, row, out);
        for (size_t i = 0; i < rows; i++) {
            assert_memory_equal(row, out + 7 * i, sizeof row);
        }
        assert_true(out[7 * rows] == -1.0F);
    }
}

static void test_column_sums(void **state)
{
    (void)state;
    float in[MAX], out[34];
    fill(in, MAX, 2);
    for (size_t rows = 0; rows < 12; rows++) {
        for (size_t width = 1; width < 34; width += 5) {
            kernel_column_sums(rows, width, in, out);
            for (size_t j = 0; j < width; j++) {
                double sum = 0.0;
                for (size_t i = 0; i < rows; i++) {
                    sum += (double)in[i * width + j];
                }
                assert_true(fabs(sum - (double)out[j]) < 1e-5);
            }
        }
    }
}

static void test_reductions(void **state)
{
    (void)state;
    float a[MAX], b[MAX];
    fill(a, MAX, 3);
    fill(b, MAX, 4);
    assert_true(isinf(kernel_max(a, 0)) && kernel_sum(a, 0) == 0.0F);
    for (size_t n = 1; n < 100; n++) {
        double sum = 0.0, dot = 0.0;
        float max = -INFINITY;
        for (size_t i = 0; i < n; i++) {
            sum += (double)a[i];
            dot += (double)a[i] * (double)b[i];
            max = a[i] > max ? a[i] : max;
        }
        assert_true(fabs(sum - (double)kernel_sum(a, n)) < 1e-4);
        assert_true(fabs(dot - (double)kernel_dot(a, b, n)) < 1e-4);
        assert_true(max == kernel_max(a, n));
    }
}

/* Equal inputs give equal bits wherever they lie. */
static void test_reductions_ignore_alignment(void **state)
{
    (void)state;
    float a[MAX + 16], b[MAX + 16];
    for (size_t shift = 0; shift < 16; shift++) {
        fill(a, MAX, 5);
        memcpy(b + shift, a, MAX * sizeof *a);
        assert_true(kernel_sum(a, MAX) == kernel_sum(b + shift, MAX));
        assert_true(kernel_dot(a, a, MAX) == kernel_dot(b + shift, a, MAX));
    }
}

static void test_layer_norm(void **state)
{
    (void)state;
    enum { ROWS = 3, WIDTH_MAX = 41 };
    float x[ROWS * WIDTH_MAX], y[ROWS * WIDTH_MAX], gamma[WIDTH_MAX], beta[WIDTH_MAX];
    float mean[ROWS], rstd[ROWS];
    fill(x, ROWS * WIDTH_MAX, 6);
    fill(gamma, WIDTH_MAX, 7);
    fill(beta, WIDTH_MAX, 8);
    for (size_t width = 2; width <= WIDTH_MAX; width += 3) {
        kernel_layer_norm(ROWS, width, 1e-3F, x, gamma, beta, y, mean, rstd);
        for (size_t i = 0; i < ROWS; i++) {
            double m = 0.0, v = 0.0;
            for (size_t j = 0; j < width; j++) {
                m += (double)x[i * width + j] / (double)width;
            }
            for (size_t j = 0; j < width; j++) {
                const double d = (double)x[i * width + j] - m;
                v += d * d / (double)width;
            }
            for (size_t j = 0; j < width; j++) {
                const double h = ((double)x[i * width + j] - m) / sqrt(v + 1e-3);
                const double e = h * (double)gamma[j] + (double)beta[j];
                assert_true(fabs(e - (double)y[i * width + j]) < 1e-5);
            }
        }
    }
}

static void test_dropout_mask(void **state)
{
    (void)state;
    static uint8_t a[40000], b[40000];
    size_t kept = 0;
    kernel_dropout_mask(9, 0.25, sizeof a, a);
    kernel_dropout_mask(9, 0.25, 1001, b);
    assert_memory_equal(a, b, 1001); /* an element does not depend on how many there are */
    for (size_t i = 0; i < sizeof a; i++) {
        kept += a[i];
    }
    assert_true(fabs((double)kept / sizeof a - 0.75) < 0.01);
    kernel_dropout_mask(10, 0.25, sizeof b, b);
    assert_true(memcmp(a, b, sizeof a) != 0);
    kernel_dropout_mask(9, 0.0, 100, a);
    for (size_t i = 0; i < 100; i++) {
        assert_int_equal(1, a[i]);
    }
}

static void test_mask(void **state)
{
    (void)state;
    const uint8_t keep[5] = {1, 0, 0, 1, 1};
    float x[5] = {1, 2, NAN, 4, 5};
    kernel_mask(5, keep, 2.0F, x, x);
    const float expected[5] = {2, 0, 0, 8, 10};
    assert_memory_equal(expected, x, sizeof x);
}

static void test_element_by_element(void **state)
{
    (void)state;
    for (size_t n = 0; n < 70; n++) {
        float x[70] = {0}, y[70] = {0}, sum[70], scaled[70], product[70];
        for (size_t i = 0; i < n; i++) {
            x[i] = (float)i - 7.5F;
            y[i] = 0.25F * (float)(i % 11);
        }
        memcpy(sum, y, sizeof sum);
        memcpy(scaled, y, sizeof scaled);
        memcpy(product, x, sizeof product);
        kernel_add(n, x, sum);
        kernel_add_scaled(n, -0.5F, x, scaled);
        kernel_multiply(n, product, y, product);
        for (size_t i = 0; i < n; i++) {
            assert_true(sum[i] == y[i] + x[i]);
            assert_true(scaled[i] == y[i] - 0.5F * x[i]);
            assert_true(product[i] == x[i] * y[i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_repeat_row), cmocka_unit_test(test_column_sums),
        cmocka_unit_test(test_reductions), cmocka_unit_test(test_reductions_ignore_alignment),
        cmocka_unit_test(test_layer_norm), cmocka_unit_test(test_dropout_mask),
        cmocka_unit_test(test_mask),       cmocka_unit_test(test_element_by_element),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
