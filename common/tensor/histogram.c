/* SPDX-License-Identifier: Apache-2.0 */
#include "tensor/histogram.h"

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

void histogram_join(struct histogram *to, const struct histogram *from)
{
    if (from->count == 0) {
        return;
    }
    to->min = to->count == 0 || from->min < to->min ? from->min : to->min;
    to->max = to->count == 0 || from->max > to->max ? from->max : to->max;
    to->sum += from->sum;
    to->squares += from->squares;
    to->count += from->count;
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        to->buckets[i] += from->buckets[i];
    }
}
