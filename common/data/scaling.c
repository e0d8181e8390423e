/* SPDX-License-Identifier: Apache-2.0 */
/* Measures each feature over the train records and applies the scaling to all. unit divides by
 * the largest magnitude (bytes by 255), standard uses mean and deviation, minmax the range. */
#include "data/scaling.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/vector.h"

/* Statistics of one number over all train records. */
struct spread {
    double mean, deviation, smallest, largest;
};
/* The sums of the first pass, of each number. */
enum { SPREAD_MEAN, SPREAD_SMALLEST, SPREAD_LARGEST, SPREAD_SUMS };

static double number(const struct records *r, uint64_t record, size_t j)
{
    size_t i = record * r->numbers + j;
    return r->bytes != NULL ? r->bytes[i] : r->values[i];
}

static void add_means(const void *context, const struct records *r, double *sums)
{
    const size_t count = *(const size_t *)context;
    for (uint64_t i = 0; i < r->count; i++) {
        for (size_t j = 0; j < count; j++) {
            double v = number(r, i, j), *s = sums + j * SPREAD_SUMS;
            s[SPREAD_MEAN] += v;
            s[SPREAD_SMALLEST] = v < s[SPREAD_SMALLEST] ? v : s[SPREAD_SMALLEST];
            s[SPREAD_LARGEST] = v > s[SPREAD_LARGEST] ? v : s[SPREAD_LARGEST];
        }
    }
}

/* Results of the first pass, for the second. */
struct means {
    size_t count;
    const struct spread *spread;
};

static void add_deviations(const void *context, const struct records *r, double *sums)
{
    const struct means *m = context;
    for (uint64_t i = 0; i < r->count; i++) {
        for (size_t j = 0; j < m->count; j++) {
            double d = number(r, i, j) - m->spread[j].mean;
            sums[j] += d * d;
        }
    }
}

/* Record by record, as memory lies; two passes, because E[x²] − E[x]² cancels, and one where
 * nobody asks for @deviations. */
static int measure(struct spread *s, size_t count, bool deviations, uint64_t records,
                   measure_walk *walk, void *data, struct err *err)
{
    double *sums = mem_new(count * SPREAD_SUMS, sizeof *sums);
    for (size_t j = 0; j < count; j++) {
        sums[j * SPREAD_SUMS + SPREAD_SMALLEST] = INFINITY;
        sums[j * SPREAD_SUMS + SPREAD_LARGEST] = -INFINITY;
    }
    int rc = walk(data, add_means, &count, sums, count * SPREAD_SUMS, err);
    for (size_t j = 0; j < count; j++) {
        const double *of = sums + j * SPREAD_SUMS;
        s[j] = (struct spread){.mean = of[SPREAD_MEAN] / (double)records,
                               .smallest = of[SPREAD_SMALLEST],
                               .largest = of[SPREAD_LARGEST]};
        sums[j] = 0; /* sums up to here were read, so their room serves the next pass */
    }
    if (rc == 0 && deviations) {
        const struct means means = {count, s};
        rc = walk(data, add_deviations, &means, sums, count, err);
        for (size_t j = 0; j < count; j++) {
            s[j].deviation = sqrt(sums[j] / (double)records);
        }
    }
    free(sums);
    return rc;
}

/* 1 ÷ @range; a feature that never varies stays as it is. */
static float inverse(double range)
{
    return range > 0 && isfinite(1 / range) ? (float)(1 / range) : 1.0F;
}

static double magnitude(const struct spread *s)
{
    return fmax(fabs(s->smallest), fabs(s->largest));
}

static void make_uniform(struct scaling *s, double factor)
{
    s->uniform = true;
    s->shift = mem_new(1, sizeof *s->shift);
    s->factor = mem_new(1, sizeof *s->factor);
    s->factor[0] = (float)factor;
}

static void fit_unit(struct scaling *s, bool shared, const struct spread *spread)
{
    double largest = 0;
    for (size_t j = 0; j < s->count; j++) {
        largest = fmax(largest, magnitude(&spread[j]));
    }
    for (size_t j = 0; j < s->count; j++) {
        s->factor[j] = inverse(shared ? largest : magnitude(&spread[j]));
    }
}

int scaling_fit(struct scaling *s, enum data_scale kind, const struct records *like, size_t count,
                uint64_t records, measure_walk *walk, void *data, struct err *err)
{
    const bool bytes = like->bytes != NULL, image = like->shape.rank >= 2;
    *s = (struct scaling){.count = count};
    if (kind == DATA_SCALE_AUTO) {
        kind = !image && !bytes ? DATA_SCALE_STANDARD : DATA_SCALE_UNIT;
    }
    if (kind == DATA_SCALE_NONE || count == 0) {
        make_uniform(s, 1);
        return 0;
    }
    if (kind == DATA_SCALE_UNIT && bytes) {
        make_uniform(s, 1.0 / 255);
        return 0;
    }
    struct spread *spread = mem_new(count, sizeof *spread);
    int rc = measure(spread, count, kind == DATA_SCALE_STANDARD, records, walk, data, err);
    s->shift = mem_new(count, sizeof *s->shift);
    s->factor = mem_new(count, sizeof *s->factor);
    for (size_t j = 0; j < count && kind == DATA_SCALE_STANDARD; j++) {
        s->shift[j] = (float)spread[j].mean;
        s->factor[j] = inverse(spread[j].deviation);
    }
    for (size_t j = 0; j < count && kind == DATA_SCALE_MINMAX; j++) {
        s->shift[j] = (float)spread[j].smallest;
        s->factor[j] = inverse(spread[j].largest - spread[j].smallest);
    }
    if (kind == DATA_SCALE_UNIT) {
        fit_unit(s, image, spread);
    }
    free(spread);
    return rc;
}

void scaling_release(struct scaling *s)
{
    free(s->shift);
    free(s->factor);
    *s = (struct scaling){0};
}

struct scaling scaling_copy(const struct scaling *s)
{
    size_t n = s->uniform ? 1 : s->count;
    struct scaling copy = {.count = s->count, .uniform = s->uniform};
    copy.shift = mem_new(n, sizeof *copy.shift);
    copy.factor = mem_new(n, sizeof *copy.factor);
    memcpy(copy.shift, s->shift, n * sizeof *copy.shift);
    memcpy(copy.factor, s->factor, n * sizeof *copy.factor);
    return copy;
}

void scaling_apply(const struct scaling *s, float *values, uint64_t records, size_t width)
{
    for (uint64_t i = 0; i < records; i++) {
        float *row = values + i * width;
        for (size_t j = 0; j < s->count; j++) {
            size_t k = s->uniform ? 0 : j;
            row[j] = (row[j] - s->shift[k]) * s->factor[k];
        }
    }
}

VECTOR_CLONES
static void apply_uniform(float factor, const uint8_t *restrict bytes, float *restrict out,
                          size_t n)
{
    for (size_t j = 0; j < n; j++) {
        out[j] = (float)bytes[j] * factor;
    }
}

VECTOR_CLONES
static void apply_each(const float *restrict shift, const float *restrict factor,
                       const uint8_t *restrict bytes, float *restrict out, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        out[j] = ((float)bytes[j] - shift[j]) * factor[j];
    }
}

void scaling_apply_bytes(const struct scaling *s, const uint8_t *bytes, float *out)
{
    if (s->uniform) {
        apply_uniform(s->factor[0], bytes, out, s->count); /* bytes are never shifted uniformly */
    } else {
        apply_each(s->shift, s->factor, bytes, out, s->count);
    }
}
