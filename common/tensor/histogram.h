/* SPDX-License-Identifier: Apache-2.0 */
/* A histogram with fixed exponential buckets: each is a tenth longer than the one nearer to 0, so
 * small values are seen beside large ones, and any two histograms can be compared, or joined. */
#ifndef GRADUS_TENSOR_HISTOGRAM_H
#define GRADUS_TENSOR_HISTOGRAM_H

#include <stddef.h>
#include <stdint.h>

#define HISTOGRAM_SIDE 776 /* upper ends from 1e-12 to 1e20, and one above all */
#define HISTOGRAM_BUCKETS (2 * HISTOGRAM_SIDE + 1)

struct histogram { /* zeroed: empty */
    uint64_t count;
    double min, max, sum, squares;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* Upper ends of the buckets, rising; a value on one is of the next bucket. */
void histogram_limits(double limits[HISTOGRAM_BUCKETS]);
/* Adds @n values; those that are not finite are left out. */
void histogram_add(struct histogram *h, const double limits[HISTOGRAM_BUCKETS], const float *values,
                   size_t n);
/* Adds what @from has. */
void histogram_join(struct histogram *to, const struct histogram *from);

#endif
