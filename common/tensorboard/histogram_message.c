/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorboard/histogram_message.h"

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
