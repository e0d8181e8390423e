/* SPDX-License-Identifier: Apache-2.0 */
/* Fills in missing numbers and turns categories into one-hot features, in memory, before
 * training. A category that only test records have gets no 1 at all. */
#include "data/encode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/cells.h"

static int by_float(const void *a, const void *b)
{
    const float *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The policy for missing numbers of column @j. */
static enum column_missing policy_of(const struct data_spec *spec, const struct records *r,
                                     size_t j)
{
    return data_spec_missing(spec, r->declared == NULL ? NULL : &spec->columns[r->declared[j]]);
}

static int no_value(const struct records *r, size_t column, struct err *err)
{
    char name[96];
    return err_set(
        err, ERR_INVALID, "%s: column %s has no value in any train record; name it in data.ignore",
        r->where,
        cells_mark(r->columns != NULL ? r->columns[column] : "?", 60, true, name, sizeof name));
}

/* The sum of the values of each column, then how many there are. */
static void add_values(const void *context, const struct records *r, double *sums)
{
    (void)context;
    for (uint64_t i = 0; i < r->count; i++) {
        const float *row = r->values + i * r->numbers;
        for (size_t j = 0; j < r->numbers; j++) {
            if (!isnan(row[j])) {
                sums[j] += row[j];
                sums[r->numbers + j] += 1;
            }
        }
    }
}

static int fit_means(struct encode_fills *f, const struct data_spec *spec,
                     const struct records *digest, measure_walk *walk, void *data, struct err *err)
{
    double *sums = mem_new(2 * f->count, sizeof *sums);
    int rc = walk(data, add_values, NULL, sums, 2 * f->count, err);
    for (size_t j = 0; j < f->count && rc == 0; j++) {
        if (policy_of(spec, digest, j) == COLUMN_MISSING_MEAN) {
            double n = sums[f->count + j];
            rc = n > 0 ? 0 : no_value(digest, j, err);
            f->values[j] = n > 0 ? (float)(sums[j] / n) : 0;
        }
    }
    free(sums);
    return rc;
}

/* @scratch has room for all records. */
static int fit_median(struct encode_fills *f, const struct records *train, size_t column,
                      float *scratch, struct err *err)
{
    size_t n = 0;
    for (uint64_t i = 0; i < train->count; i++) {
        float v = train->values[i * train->numbers + column];
        if (!isnan(v)) {
            scratch[n++] = v;
        }
    }
    if (n == 0) {
        return no_value(train, column, err);
    }
    qsort(scratch, n, sizeof *scratch, by_float);
    f->values[column] = n % 2 == 1 ? scratch[n / 2] : (scratch[n / 2 - 1] + scratch[n / 2]) / 2;
    return 0;
}

static int fit_medians(struct encode_fills *f, const struct data_spec *spec,
                       const struct records *train, struct err *err)
{
    float *scratch = mem_try_aligned(train->count, sizeof *scratch, "missing values", err);
    int rc = scratch == NULL ? ERR_EXHAUSTED : 0;
    for (size_t j = 0; j < f->count && rc == 0; j++) {
        if (policy_of(spec, train, j) == COLUMN_MISSING_MEDIAN) {
            rc = fit_median(f, train, j, scratch, err);
        }
    }
    free(scratch);
    return rc;
}

int encode_fills_fit(struct encode_fills *f, const struct data_spec *spec,
                     const struct records *digest, measure_walk *walk, void *data, struct err *err)
{
    *f = (struct encode_fills){.count = 0};
    if (digest->bytes != NULL ||
        (digest->declared == NULL && data_spec_missing(spec, NULL) <= COLUMN_MISSING_SKIP)) {
        return 0; /* the format has refused or skipped records that must not have missing values */
    }
    bool means = false, medians = false;
    f->count = digest->numbers;
    f->values = mem_new(f->count, sizeof *f->values);
    f->set = mem_new(f->count, sizeof *f->set);
    for (size_t j = 0; j < f->count; j++) {
        enum column_missing policy = policy_of(spec, digest, j);
        f->set[j] = policy == COLUMN_MISSING_ZERO || policy == COLUMN_MISSING_MEAN ||
                    policy == COLUMN_MISSING_MEDIAN;
        means = means || policy == COLUMN_MISSING_MEAN;
        medians = medians || policy == COLUMN_MISSING_MEDIAN;
    }
    int rc = means ? fit_means(f, spec, digest, walk, data, err) : 0;
    return rc == 0 && medians ? fit_medians(f, spec, digest, err) : rc;
}

void encode_fills_apply(const struct encode_fills *f, struct records *r)
{
    for (uint64_t i = 0; i < r->count; i++) {
        for (size_t j = 0; j < f->count; j++) {
            float *v = &r->values[i * r->numbers + j];
            *v = f->set[j] && isnan(*v) ? f->values[j] : *v;
        }
    }
}

void encode_fills_release(struct encode_fills *f)
{
    free(f->values);
    free(f->set);
    *f = (struct encode_fills){.count = 0};
}

static int by_name(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* The categories of column @c that train records have, sorted, as a set whose numbers are the
 * order. */
static struct names train_categories(const struct category_column *c, uint64_t records)
{
    bool *used = mem_new(c->values.count, sizeof *used);
    for (uint64_t i = 0; i < records; i++) {
        if (c->cells[i] != RECORDS_CATEGORY_NONE) {
            used[c->cells[i]] = true;
        }
    }
    const char **texts = mem_new(c->values.count, sizeof *texts);
    size_t n = 0;
    for (size_t i = 0; i < c->values.count; i++) {
        if (used[i]) {
            texts[n++] = c->values.texts[i];
        }
    }
    qsort(texts, n, sizeof *texts, by_name);
    struct names sorted = {0};
    uint32_t number;
    for (size_t i = 0; i < n; i++) {
        (void)names_add(&sorted, texts[i], &number, NULL); /* fits: a subset */
    }
    free(texts);
    free(used);
    return sorted;
}

/* Sets the 0/1 features of column @c, which begin at @first. */
static void set_ones(const struct category_column *c, const struct names *known, float *values,
                     uint64_t records, size_t width, size_t first)
{
    uint32_t *feature = mem_new(c->values.count, sizeof *feature);
    for (size_t i = 0; i < c->values.count; i++) {
        if (!names_find(known, c->values.texts[i], &feature[i])) {
            feature[i] = RECORDS_CATEGORY_NONE;
        }
    }
    for (uint64_t i = 0; i < records; i++) {
        uint32_t cell = c->cells[i];
        if (cell != RECORDS_CATEGORY_NONE && feature[cell] != RECORDS_CATEGORY_NONE) {
            values[i * width + first + feature[cell]] = 1.0F;
        }
    }
    free(feature);
}

static int widen(struct records *r, const struct names *known, size_t width, struct err *err)
{
    int rc = records_check_memory(r->count, width * sizeof(float), r->where, err);
    if (rc != 0) {
        return rc;
    }
    float *values = mem_try_aligned(r->count * width, sizeof *values, "one-hot features", err);
    if (values == NULL) {
        return ERR_EXHAUSTED;
    }
    for (uint64_t i = 0; r->numbers > 0 && i < r->count; i++) {
        memcpy(values + i * width, r->values + i * r->numbers, r->numbers * sizeof *values);
    }
    size_t first = r->numbers;
    for (size_t k = 0; k < r->category_count; k++) {
        set_ones(&r->categories[k], &known[k], values, r->count, width, first);
        first += known[k].count;
    }
    free(r->values);
    r->values = values;
    records_drop_columns(r);
    r->numbers = width;
    r->shape = (struct shape){.rank = 1, .dims = {width}};
    return 0;
}

int encode_known_fit(struct encode_known *known, const struct records *digest, struct err *err)
{
    *known = (struct encode_known){.width = digest->numbers};
    if (digest->category_count == 0) {
        return 0;
    }
    known->columns = mem_new(digest->category_count, sizeof *known->columns);
    for (size_t k = 0; k < digest->category_count; k++) {
        known->columns[known->count++] = train_categories(&digest->categories[k], digest->count);
        known->width += known->columns[k].count;
    }
    return known->width > 0 && known->width <= ENCODE_FEATURES_MAX
               ? 0
               : err_set(err, known->width == 0 ? ERR_INVALID : ERR_EXHAUSTED,
                         "%s: the categorical columns give %zu features; allowed are 1 to %u",
                         digest->where, known->width, ENCODE_FEATURES_MAX);
}

int encode_known_apply(const struct encode_known *known, struct records *r, struct err *err)
{
    return known->count == 0 ? 0 : widen(r, known->columns, known->width, err);
}

void encode_known_release(struct encode_known *known)
{
    for (size_t k = 0; k < known->count; k++) {
        names_release(&known->columns[k]);
    }
    free(known->columns);
    *known = (struct encode_known){.count = 0};
}
