/* SPDX-License-Identifier: Apache-2.0 */
/* Fills in missing numbers and turns categories into one-hot features, in memory, before
 * training. A category that only test records have gets no 1 at all. */
#include "data/encode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/cells.h"

static bool any_missing(const struct records *r)
{
    for (uint64_t i = 0; r != NULL && r->values != NULL && i < r->count * r->numbers; i++) {
        if (isnan(r->values[i])) {
            return true;
        }
    }
    return false;
}

static int by_float(const void *a, const void *b)
{
    const float *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* The replacement for missing numbers of @column; @scratch has room for all records. */
static int replacement(enum column_missing policy, const struct records *train, size_t column,
                       float *scratch, float *out, struct err *err)
{
    if (policy == COLUMN_MISSING_ZERO) {
        *out = 0;
        return 0;
    }
    size_t n = 0;
    double sum = 0;
    for (uint64_t i = 0; i < train->count; i++) {
        float v = train->values[i * train->numbers + column];
        if (!isnan(v)) {
            scratch[n++] = v;
            sum += v;
        }
    }
    if (n == 0) {
        char name[96];
        return err_set(err, ERR_INVALID,
                       "%s: column %s has no value in any train record; name it in data.ignore",
                       train->where,
                       cells_mark(train->columns != NULL ? train->columns[column] : "?", 60, true,
                                  name, sizeof name));
    }
    if (policy == COLUMN_MISSING_MEAN) {
        *out = (float)(sum / (double)n);
        return 0;
    }
    qsort(scratch, n, sizeof *scratch, by_float);
    *out = n % 2 == 1 ? scratch[n / 2] : (scratch[n / 2 - 1] + scratch[n / 2]) / 2;
    return 0;
}

static void fill(struct records *r, size_t column, float value)
{
    for (uint64_t i = 0; r != NULL && i < r->count; i++) {
        float *v = &r->values[i * r->numbers + column];
        *v = isnan(*v) ? value : *v;
    }
}

int encode_missing(const struct data_spec *spec, struct records *train, struct records *test,
                   struct err *err)
{
    bool none = train->declared == NULL && data_spec_missing(spec, NULL) <= COLUMN_MISSING_SKIP;
    if (none || (!any_missing(train) && !any_missing(test))) {
        return 0; /* the format has refused or skipped those that must not be */
    }
    float *scratch = mem_try_aligned(train->count, sizeof *scratch, "missing values", err);
    if (scratch == NULL) {
        return ERR_EXHAUSTED;
    }
    int rc = 0;
    for (size_t j = 0; rc == 0 && j < train->numbers; j++) {
        const struct data_column *column =
            train->declared == NULL ? NULL : &spec->columns[train->declared[j]];
        enum column_missing policy = data_spec_missing(spec, column);
        if (policy < COLUMN_MISSING_ZERO || policy == COLUMN_MISSING_OWN) {
            continue;
        }
        float value = 0;
        rc = replacement(policy, train, j, scratch, &value, err);
        if (rc == 0) {
            fill(train, j, value);
            fill(test, j, value);
        }
    }
    free(scratch);
    return rc;
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

/* Set the ones of column @c, whose features begin at @first. */
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

int encode_categories(struct records *train, struct records *test, struct err *err)
{
    size_t columns = train->category_count, width = train->numbers;
    if (columns == 0) {
        return 0;
    }
    struct names *known = mem_new(columns, sizeof *known);
    for (size_t k = 0; k < columns; k++) {
        known[k] = train_categories(&train->categories[k], train->count);
        width += known[k].count;
    }
    int rc = 0;
    if (width == 0 || width > ENCODE_FEATURES_MAX) {
        rc = err_set(err, width == 0 ? ERR_INVALID : ERR_EXHAUSTED,
                     "%s: the categorical columns give %zu features; allowed are 1 to %u",
                     train->where, width, ENCODE_FEATURES_MAX);
    }
    if (rc == 0) {
        rc = widen(train, known, width, err);
    }
    if (rc == 0 && test != NULL) {
        rc = widen(test, known, width, err);
    }
    for (size_t k = 0; k < columns; k++) {
        names_release(&known[k]);
    }
    free(known);
    return rc;
}
