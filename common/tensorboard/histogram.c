/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorboard/histogram.h"

#include <float.h>
#include <math.h>

#define FIRST 1e-12
#define GROWTH 1.1

void histogram_limits(double limits[HISTOGRAM_BUCKETS])
{
    double limit = FIRST;
    limits[HISTOGRAM_SIDE] = 0;
    for (size_t i = 1; i <= HISTOGRAM_SIDE; i++) {
        limits[HISTOGRAM_SIDE + i] = i < HISTOGRAM_SIDE ? limit : DBL_MAX;
        limits[HISTOGRAM_SIDE - i] = -limit;
        limit *= GROWTH;
    }
}

static size_t find(const double limits[HISTOGRAM_BUCKETS], double value)
{
    size_t low = 0, high = HISTOGRAM_BUCKETS - 1;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (value < limits[middle]) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

void histogram_add(struct histogram *h, const double limits[HISTOGRAM_BUCKETS], const float *values,
                   size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const double value = (double)values[i];
        if (!isfinite(value)) {
            continue;
        }
        h->min = h->count == 0 || value < h->min ? value : h->min;
        h->max = h->count == 0 || value > h->max ? value : h->max;
        h->sum += value;
        h->squares += value * value;
        h->buckets[find(limits, value)]++;
        h->count++;
    }
}

void histogram_message(const struct histogram *h, const double limits[HISTOGRAM_BUCKETS],
                       double *ends, double *counts, Tensorboard__Histogram *out)
{
    size_t n = 0;
    uint64_t seen = 0;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS && seen < h->count; i++) {
        if (h->buckets[i] == 0 && n > 0 && counts[n - 1] == 0) {
            n--; /* the bucket before has no value, either */
        } else if (h->buckets[i] == 0 && n == 0) {
            continue;
        }
        ends[n] = limits[i];
        counts[n++] = (double)h->buckets[i];
        seen += h->buckets[i];
    }
    tensorboard__histogram__init(out);
    out->min = h->min;
    out->max = h->max;
    out->num = (double)h->count;
    out->sum = h->sum;
    out->sum_squares = h->squares;
    out->n_bucket_limit = out->n_bucket = n;
    out->bucket_limit = ends;
    out->bucket = counts;
}
