/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms with fixed exponential buckets: each value is in the right one, and the message has
 * them all. */
#include "support/test.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "base/rng.h"
#include "tensorboard/histogram_message.h"

static double limits[HISTOGRAM_BUCKETS];
static struct histogram h;
static double ends[HISTOGRAM_BUCKETS], counts[HISTOGRAM_BUCKETS];
static Tensorboard__Histogram message;

static int set_up(void **state)
{
    (void)state;
    histogram_limits(limits);
    h = (struct histogram){0};
    return 0;
}

static void tell(const float *values, size_t n)
{
    histogram_add(&h, limits, values, n);
    histogram_message(&h, limits, ends, counts, &message);
    assert_int_equal(message.n_bucket, message.n_bucket_limit);
}

static void the_ends_rise(void **state)
{
    (void)state;
    for (size_t i = 1; i < HISTOGRAM_BUCKETS; i++) {
        assert_true(limits[i] > limits[i - 1]);
    }
    assert_true(limits[HISTOGRAM_SIDE] == 0);
    assert_true(limits[HISTOGRAM_SIDE + 1] == 1e-12 && limits[HISTOGRAM_SIDE - 1] == -1e-12);
    assert_true(limits[HISTOGRAM_BUCKETS - 2] > 1e20 && limits[HISTOGRAM_BUCKETS - 1] == DBL_MAX);
}

static void single_values(void **state)
{
    (void)state;
    const float values[] = {0, -0.0F, 1, -1, 1e-30F, -1e-30F, FLT_MAX, -FLT_MAX};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        h = (struct histogram){0};
        tell(&values[i], 1);
        const double value = (double)values[i];
        assert_int_equal(message.n_bucket, 1);
        assert_true(counts[0] == 1 && message.num == 1 && value < ends[0]);
        assert_true(message.min == value && message.max == value && message.sum == value);
        size_t place = 0;
        while (limits[place] != ends[0]) {
            place++;
        }
        assert_true(place == 0 || value >= limits[place - 1]);
    }
}

/* Buckets that have none are one, so those that have some begin where they do. */
static void gaps_are_one_bucket(void **state)
{
    (void)state;
    const float values[] = {-1, 2, 2, 1000};
    tell(values, 4);
    assert_int_equal(message.n_bucket, 5);
    const double wanted[] = {1, 0, 2, 0, 1};
    for (size_t i = 0; i < 5; i++) {
        assert_true(counts[i] == wanted[i]);
    }
    assert_true(-1 < ends[0] && ends[0] > -1.1);
    assert_true(ends[1] <= 2 && ends[1] > 2 / 1.11 && ends[2] > 2);
    assert_true(ends[3] <= 1000 && ends[3] > 1000 / 1.11 && ends[4] > 1000);
    assert_true(message.min == -1 && message.max == 1000 && message.num == 4);
    assert_true(message.sum == 1003 && message.sum_squares == 1000009);
}

static void all_values_are_counted(void **state)
{
    (void)state;
    static float values[20000];
    double sum = 0;
    for (size_t i = 0; i < 20000; i++) {
        values[i] = (float)((rng_uniform(7, i) - 0.5) * pow(10, (double)(i % 30) - 20));
        sum += (double)values[i];
    }
    tell(values, 20000);
    double total = 0;
    for (size_t b = 0; b < message.n_bucket; b++) {
        size_t count = 0;
        for (size_t i = 0; i < 20000; i++) {
            count += (double)values[i] < ends[b] && (b == 0 || (double)values[i] >= ends[b - 1]);
        }
        assert_true(counts[b] == (double)count);
        total += counts[b];
    }
    assert_true(total == 20000 && message.sum == sum);
}

static void what_is_not_finite_is_left_out(void **state)
{
    (void)state;
    const float values[] = {NAN, 3, INFINITY, -INFINITY};
    tell(values, 4);
    assert_true(message.num == 1 && message.min == 3 && message.max == 3 && message.n_bucket == 1);
    h = (struct histogram){0};
    tell(values, 0);
    assert_true(message.num == 0 && message.n_bucket == 0);
}

/* As if all values were of one. */
static void parts_are_joined(void **state)
{
    (void)state;
    static float values[4000];
    static struct histogram whole, joined, none;
    for (size_t i = 0; i < 4000; i++) { /* sums of these are exact */
        values[i] = (float)(int64_t)(rng_uniform(8, i) * 4096) / 16 - 100;
    }
    histogram_add(&whole, limits, values, 4000);
    for (size_t at = 0; at < 4000; at += 1000) {
        h = none;
        histogram_add(&h, limits, values + at, 1000);
        histogram_join(&joined, &h);
        histogram_join(&joined, &none);
    }
    assert_memory_equal(&joined, &whole, sizeof whole);
    h = none;
    histogram_join(&h, &whole);
    assert_memory_equal(&h, &whole, sizeof whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_ends_rise, set_up),
        cmocka_unit_test_setup(single_values, set_up),
        cmocka_unit_test_setup(gaps_are_one_bucket, set_up),
        cmocka_unit_test_setup(all_values_are_counted, set_up),
        cmocka_unit_test_setup(parts_are_joined, set_up),
        cmocka_unit_test_setup(what_is_not_finite_is_left_out, set_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
