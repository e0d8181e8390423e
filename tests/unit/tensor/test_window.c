/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "tensor/window.h"

#define MAX 20000

/* Windows of all sizes, strides and paddings over small images; each test walks them all. */
static bool next(struct window *w, size_t *i)
{
    for (;; (*i)++) {
        size_t n = *i;
        *w = (struct window){.channels = 1 + 4 * (n % 2), .same = n / 2 % 2 == 1};
        w->height = 1 + n / 4 % 4;
        w->width = 1 + n / 16 % 3;
        w->stride_height = 1 + n / 48 % 3;
        w->stride_width = 1 + n / 144 % 2;
        w->in_height = 1 + n / 288 % 6;
        w->in_width = 7;
        if (n >= 288 * 6) {
            return false;
        }
        window_place(w);
        if (window_positions(w) > 0) {
            (*i)++;
            return true;
        }
    }
}

/* The pixel under element (y, x) of the window at position (i, j); NULL in the padding. */
static const float *pixel(const struct window *w, const float *image, size_t i, size_t j, size_t y,
                          size_t x)
{
    const long line = (long)(i * w->stride_height + y) - (long)w->pad_top;
    const long column = (long)(j * w->stride_width + x) - (long)w->pad_left;
    if (line < 0 || column < 0 || line >= (long)w->in_height || column >= (long)w->in_width) {
        return NULL;
    }
    return image + ((size_t)line * w->in_width + (size_t)column) * w->channels;
}

static void fill(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)rng_normal(3, i);
    }
}

static void test_place(void **state)
{
    (void)state;
    struct window w = {.in_height = 28,
                       .in_width = 28,
                       .channels = 1,
                       .height = 3,
                       .width = 5,
                       .stride_height = 1,
                       .stride_width = 2};
    window_place(&w);
    assert_int_equal(26, w.out_height);
    assert_int_equal(12, w.out_width);
    w.same = true;
    window_place(&w);
    assert_int_equal(28, w.out_height);
    assert_int_equal(14, w.out_width);
    assert_int_equal(1, w.pad_top);
    assert_int_equal(1, w.pad_left); /* 13 · 2 + 5 - 28 = 3: one before, two after */
    w = (struct window){.in_height = 2,
                        .in_width = 9,
                        .height = 3,
                        .width = 3,
                        .channels = 1,
                        .stride_height = 1,
                        .stride_width = 1};
    window_place(&w);
    assert_int_equal(0, window_positions(&w));
}

static void test_patches(void **state)
{
    (void)state;
    static float image[MAX], patches[MAX];
    struct window w;
    fill(image, MAX);
    for (size_t n = 0; next(&w, &n);) {
        const float *p = patches;
        memset(patches, 0x7F, sizeof patches);
        window_patches(&w, image, patches);
        for (size_t at = 0; at < window_positions(&w); at++) {
            for (size_t e = 0; e < w.height * w.width; e++, p += w.channels) {
                const float *from =
                    pixel(&w, image, at / w.out_width, at % w.out_width, e / w.width, e % w.width);
                for (size_t c = 0; c < w.channels; c++) {
                    assert_true(p[c] == (from == NULL ? 0.0F : from[c]));
                }
            }
        }
    }
}

/* <patches(x), p> = <x, patches_add(p)>: the one is the other's transpose. */
static void test_patches_add(void **state)
{
    (void)state;
    static float image[MAX], patches[MAX], p[MAX], back[MAX];
    struct window w;
    fill(image, MAX);
    fill(p, MAX);
    for (size_t n = 0; next(&w, &n);) {
        double a = 0.0, b = 0.0;
        const size_t pixels = w.in_height * w.in_width * w.channels;
        const size_t floats = window_positions(&w) * window_patch_floats(&w);
        memset(back, 0, pixels * sizeof *back);
        window_patches(&w, image, patches);
        window_patches_add(&w, p, back);
        for (size_t i = 0; i < floats; i++) {
            a += (double)patches[i] * (double)p[i];
        }
        for (size_t i = 0; i < pixels; i++) {
            b += (double)image[i] * (double)back[i];
        }
        assert_true(fabs(a - b) < 1e-3);
    }
}

static void test_pools(void **state)
{
    (void)state;
    static float image[MAX], max[MAX], plain[MAX], mean[MAX];
    static uint32_t winner[MAX];
    struct window w;
    fill(image, MAX);
    for (size_t n = 0; next(&w, &n);) {
        window_max(&w, image, max, winner);
        window_max(&w, image, plain, NULL);
        window_mean(&w, image, mean);
        for (size_t o = 0; o < window_positions(&w) * w.channels; o++) {
            const size_t at = o / w.channels, c = o % w.channels;
            double sum = 0.0, count = 0.0;
            float best = -INFINITY;
            for (size_t e = 0; e < w.height * w.width; e++) {
                const float *from =
                    pixel(&w, image, at / w.out_width, at % w.out_width, e / w.width, e % w.width);
                if (from != NULL) {
                    sum += (double)from[c];
                    count += 1.0;
                    best = from[c] > best ? from[c] : best;
                }
            }
            assert_true(max[o] == best && plain[o] == best);
            assert_true(image[winner[o] * w.channels + c] == best);
            assert_true(fabs(sum / count - (double)mean[o]) < 1e-5);
        }
    }
}

static void test_pools_backward(void **state)
{
    (void)state;
    static float image[MAX], out[MAX], dy[MAX], dmax[MAX], dmean[MAX];
    static uint32_t winner[MAX];
    struct window w;
    fill(image, MAX);
    fill(dy, MAX);
    for (size_t n = 0; next(&w, &n);) {
        const size_t pixels = w.in_height * w.in_width * w.channels;
        double a = 0.0, b = 0.0, c = 0.0, d = 0.0;
        memset(dmax, 0, pixels * sizeof *dmax);
        memset(dmean, 0, pixels * sizeof *dmean);
        /* Both are linear around @image, so <f(x), dy> = <x, f'(dy)>. */
        window_max(&w, image, out, winner);
        window_max_backward(&w, dy, winner, dmax);
        for (size_t i = 0; i < window_positions(&w) * w.channels; i++) {
            a += (double)out[i] * (double)dy[i];
        }
        window_mean(&w, image, out);
        window_mean_backward(&w, dy, dmean);
        for (size_t i = 0; i < window_positions(&w) * w.channels; i++) {
            c += (double)out[i] * (double)dy[i];
        }
        for (size_t i = 0; i < pixels; i++) {
            b += (double)image[i] * (double)dmax[i];
            d += (double)image[i] * (double)dmean[i];
        }
        assert_true(fabs(a - b) < 1e-3 && fabs(c - d) < 1e-3);
    }
}

static void test_nan_wins(void **state)
{
    (void)state;
    const float image[4] = {1, NAN, 3, 4};
    float out[1];
    struct window w = {.in_height = 2,
                       .in_width = 2,
                       .channels = 1,
                       .height = 2,
                       .width = 2,
                       .stride_height = 1,
                       .stride_width = 1};
    window_place(&w);
    window_max(&w, image, out, NULL);
    assert_true(isnan(out[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_place),          cmocka_unit_test(test_patches),
        cmocka_unit_test(test_patches_add),    cmocka_unit_test(test_pools),
        cmocka_unit_test(test_pools_backward), cmocka_unit_test(test_nan_wins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
