/* SPDX-License-Identifier: Apache-2.0 */
/* First everything is measured on the train records, then each part is written anew with the width
 * that results. */
#include "data/column_features.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "data/column_layout.h"
#include "data/encode.h"

void column_layout_free(struct column_layout *l)
{
    if (l == NULL) {
        return;
    }
    for (size_t i = 0; i < l->bucketed_count; i++) {
        free(l->bucketed[i].boundaries);
    }
    for (size_t i = 0; i < l->category_count; i++) {
        column_vocabulary_release(&l->categories[i].vocabulary);
    }
    for (size_t i = 0; i < l->sparse_count; i++) {
        column_vocabulary_release(&l->sparse[i].vocabulary);
    }
    free(l->plain);
    free(l->bucketed);
    free(l->categories);
    free(l->sparse);
    free(l);
}

static double transformed(double x, bool log)
{
    return log ? copysign(log1p(fabs(x)), x) : x;
}

static void add_means(const void *context, const struct records *r, double *sums)
{
    const struct column_layout *l = context;
    for (uint64_t i = 0; i < r->count; i++) {
        const float *row = r->values + i * r->numbers;
        for (size_t j = 0; j < l->plain_count; j++) {
            sums[j] += transformed(row[l->plain[j].source], l->plain[j].log);
        }
    }
}

static void add_deviations(const void *context, const struct records *r, double *sums)
{
    const struct column_layout *l = context;
    for (uint64_t i = 0; i < r->count; i++) {
        const float *row = r->values + i * r->numbers;
        for (size_t j = 0; j < l->plain_count; j++) {
            const struct plain_number *p = &l->plain[j];
            double d = transformed(row[p->source], p->log) - p->mean;
            sums[j] += d * d;
        }
    }
}

/* Mean and deviation over the train records, in two passes, because E[x²] − E[x]² cancels. */
static int measure(struct column_layout *l, uint64_t records, measure_walk *walk, void *data,
                   struct err *err)
{
    bool any = false;
    for (size_t j = 0; j < l->plain_count; j++) {
        any = any || l->plain[j].measured;
    }
    if (!any) {
        return 0;
    }
    double *sums = mem_new(2 * l->plain_count, sizeof *sums), *squares = sums + l->plain_count;
    int rc = walk(data, add_means, l, sums, l->plain_count, err);
    for (size_t j = 0; j < l->plain_count; j++) {
        struct plain_number *p = &l->plain[j];
        p->mean = p->measured ? sums[j] / (double)records : p->mean;
    }
    rc = rc != 0 ? rc : walk(data, add_deviations, l, squares, l->plain_count, err);
    for (size_t j = 0; j < l->plain_count; j++) {
        struct plain_number *p = &l->plain[j];
        if (p->measured) {
            double deviation = sqrt(squares[j] / (double)records);
            /* a column that never varies becomes 0 */
            p->deviation = deviation > 0 && isfinite(deviation) ? deviation : 1;
        }
    }
    free(sums);
    return rc;
}

static int add_number(struct column_layout *l, const struct data_column *c, size_t source,
                      struct err *err)
{
    double *boundaries;
    size_t count;
    int rc = data_column_boundaries(c, &boundaries, &count, err);
    if (rc != 0) {
        return rc;
    }
    if (count > 0) {
        l->bucketed[l->bucketed_count++] = (struct bucketed_number){
            .source = source,
            .log = c->log,
            .own_missing = c->missing == COLUMN_MISSING_OWN,
            .boundaries = boundaries,
            .count = count,
        };
        return 0;
    }
    struct plain_number p = {.source = source, .log = c->log, .deviation = 1};
    if (c->standardise && c->deviation > 0) {
        p.mean = c->mean;
        p.deviation = c->deviation;
    } else {
        p.measured = c->standardise;
    }
    l->plain[l->plain_count++] = p;
    return 0;
}

/* Measures what each column becomes, but for the statistics of numbers. */
static int measure_columns(struct column_layout *l, const struct data_spec *spec,
                           const struct records *train, struct err *err)
{
    l->plain = mem_new(train->numbers + 1, sizeof *l->plain);
    l->bucketed = mem_new(train->numbers + 1, sizeof *l->bucketed);
    l->categories = mem_new(train->category_count + 1, sizeof *l->categories);
    l->sparse = mem_new(train->category_count + 1, sizeof *l->sparse);
    int rc = 0;
    for (size_t j = 0; j < train->numbers && rc == 0; j++) {
        rc = add_number(l, &spec->columns[train->declared[j]], j, err);
    }
    for (size_t k = 0; k < train->category_count && rc == 0; k++) {
        size_t number = train->declared[train->numbers + k];
        bool own = spec->columns[number].missing == COLUMN_MISSING_OWN;
        bool sparse = spec->columns[number].as == COLUMN_SPARSE;
        size_t *count = sparse ? &l->sparse_count : &l->category_count;
        struct category_group *g = &(sparse ? l->sparse : l->categories)[*count];
        g->source = k;
        g->entry = (uint32_t)number;
        rc = column_vocabulary_init(&g->vocabulary, spec, number, own, &train->categories[k],
                                    train->count, err);
        *count += rc == 0;
    }
    l->any_fields = l->sparse_count > 0 || train->fields.count > 0;
    return rc;
}

static int place_features(struct column_layout *l, const char *where, struct err *err)
{
    l->width = l->plain_count;
    for (size_t i = 0; i < l->bucketed_count; i++) {
        struct bucketed_number *b = &l->bucketed[i];
        b->first = l->width;
        l->width += b->own_missing + b->count + 1;
    }
    for (size_t i = 0; i < l->category_count; i++) {
        l->categories[i].first = l->width;
        l->width += l->categories[i].vocabulary.width;
    }
    if ((l->width == 0 && !l->any_fields) || l->width > ENCODE_FEATURES_MAX) {
        return err_set(err, l->width == 0 ? ERR_INVALID : ERR_EXHAUSTED,
                       "%s: the declared columns give %zu features; allowed are 1 to %u", where,
                       l->width, ENCODE_FEATURES_MAX);
    }
    return 0;
}

/* The bucket of @x: how many boundaries are not above it. */
static size_t bucket_of(const struct bucketed_number *b, double x)
{
    size_t low = 0, high = b->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (b->boundaries[middle] <= x) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static void set_numbers(const struct column_layout *l, const struct records *r, float *values)
{
    for (uint64_t i = 0; i < r->count; i++) {
        const float *in = r->values + i * r->numbers;
        float *out = values + i * l->width;
        for (size_t j = 0; j < l->plain_count; j++) {
            const struct plain_number *p = &l->plain[j];
            out[j] = (float)((transformed(in[p->source], p->log) - p->mean) / p->deviation);
        }
        for (size_t j = 0; j < l->bucketed_count; j++) {
            const struct bucketed_number *b = &l->bucketed[j];
            double x = in[b->source];
            size_t feature = isnan(x) ? 0 : b->own_missing + bucket_of(b, transformed(x, b->log));
            out[b->first + feature] = 1.0F;
        }
    }
}

static void set_categories(const struct category_group *g, const struct category_column *c,
                           uint64_t records, float *values, size_t width)
{
    struct column_ids ids = {0};
    /* end of each text; a 0 stands in front */
    size_t *ends = mem_new(c->values.count + 1, sizeof *ends);
    for (size_t i = 0; i < c->values.count; i++) {
        column_vocabulary_ids(&g->vocabulary, c->values.texts[i], &ids);
        ends[i + 1] = ids.count;
    }
    for (uint64_t i = 0; i < records; i++) {
        float *out = values + i * width + g->first;
        uint32_t cell = c->cells[i];
        if (cell == RECORDS_CATEGORY_NONE) {
            if (g->vocabulary.missing != RECORDS_CATEGORY_NONE) {
                out[g->vocabulary.missing] = 1.0F;
            }
            continue;
        }
        for (size_t k = ends[cell]; k < ends[cell + 1]; k++) {
            out[ids.ids[k]] = 1.0F;
        }
    }
    free(ends);
    free(ids.ids);
}

/* The keys of each different cell of a column. */
struct cell_keys {
    struct column_keys keys;
    size_t *ends; /* end of each text; a 0 stands in front */
};

static struct cell_keys make_keys(const struct category_group *g, const struct category_column *c)
{
    struct cell_keys made = {.ends = mem_new(c->values.count + 1, sizeof *made.ends)};
    for (size_t i = 0; i < c->values.count; i++) {
        column_vocabulary_keys(&g->vocabulary, c->values.texts[i], &made.keys);
        made.ends[i + 1] = made.keys.count;
    }
    return made;
}

static int add_fields(const struct column_layout *l, const struct cell_keys *keys,
                      struct records *r, struct err *err)
{
    struct sparse_draft draft = {0};
    int rc = 0;
    for (uint64_t i = 0; i < r->count && rc == 0; i++) {
        for (size_t k = 0; k < l->sparse_count; k++) {
            uint32_t cell = r->categories[l->sparse[k].source].cells[i];
            bool missing = cell == RECORDS_CATEGORY_NONE;
            size_t at = missing ? 0 : keys[k].ends[cell],
                   end = missing ? 0 : keys[k].ends[cell + 1];
            for (; at < end && rc == 0; at++) {
                rc = sparse_draft_add(&draft, (uint32_t)k, keys[k].keys.keys[at], 1, err);
            }
        }
        (void)sparse_draft_sort(&draft, true);
        rc = rc != 0 ? rc : sparse_fields_add(&r->fields, &draft, r->where, err);
    }
    sparse_draft_release(&draft);
    return rc;
}

/* What a sparse field is called: as the file calls its column, or, where the entry of data.columns
 * numbers it, by that number; it is the @nth column that the entry means. */
static char *field_name(const struct data_column *d, const char *name, int64_t nth)
{
    const char *dots = strstr(d->column, "..");
    char *first = dots == NULL ? mem_strdup(d->column)
                               : mem_printf("%.*s", (int)(dots - d->column), d->column);
    int64_t number, last;
    const bool numbered = strcmp(d->column, name) != 0 && text_to_int(first, &number) &&
                          (dots == NULL || text_to_int(dots + 2, &last));
    free(first);
    return numbered ? mem_printf("%" PRId64, number + nth) : mem_strdup(name);
}

static int declare_field(const struct data_spec *spec, const struct category_column *c,
                         uint32_t entry, int64_t nth, struct records *r, struct err *err)
{
    const struct data_column *d = &spec->columns[entry];
    char *name = field_name(d, c->name, nth);
    int rc = sparse_fields_declare(&r->fields, name, (uint32_t)d->width, SPARSE_FOLD_NONE, r->where,
                                   err);
    free(name);
    return rc;
}

/* Sparse columns as sparse fields. */
static int write_fields(const struct column_layout *l, const struct data_spec *spec,
                        struct records *r, struct err *err)
{
    int rc = 0;
    struct cell_keys *keys = mem_new(l->sparse_count + 1, sizeof *keys);
    for (size_t k = 0; k < l->sparse_count && rc == 0; k++) {
        const struct category_column *c = &r->categories[l->sparse[k].source];
        int64_t nth = 0;
        for (size_t i = 0; i < k; i++) {
            nth += l->sparse[i].entry == l->sparse[k].entry;
        }
        keys[k] = make_keys(&l->sparse[k], c);
        rc = declare_field(spec, c, l->sparse[k].entry, nth, r, err);
    }
    if (rc == 0 && l->sparse_count > 0) {
        rc = add_fields(l, keys, r, err);
    }
    for (size_t k = 0; k < l->sparse_count; k++) {
        free(keys[k].keys.keys);
        free(keys[k].ends);
    }
    free(keys);
    return rc;
}

static int write_features(const struct column_layout *l, const struct data_spec *spec,
                          struct records *r, struct err *err)
{
    int rc = records_check_memory(r->count, l->width * sizeof(float), r->where, err);
    rc = rc != 0 ? rc : write_fields(l, spec, r, err);
    if (rc != 0) {
        return rc;
    }
    float *values = mem_try_aligned(r->count * l->width + 1, sizeof *values, "features", err);
    if (values == NULL) {
        return ERR_EXHAUSTED;
    }
    set_numbers(l, r, values);
    for (size_t k = 0; k < l->category_count; k++) {
        set_categories(&l->categories[k], &r->categories[l->categories[k].source], r->count, values,
                       l->width);
    }
    free(r->values);
    r->values = values;
    records_drop_columns(r);
    r->numbers = l->width;
    r->shape = (struct shape){.rank = 1, .dims = {l->width}};
    r->usual_scale = DATA_SCALE_NONE;
    return 0;
}

int column_layout_fit(const struct data_spec *spec, const struct records *digest, uint64_t records,
                      measure_walk *walk, void *data, size_t *numbers, struct column_layout **out,
                      struct err *err)
{
    struct column_layout *l = mem_new(1, sizeof *l);
    int rc = measure_columns(l, spec, digest, err);
    rc = rc != 0 ? rc : measure(l, records, walk, data, err);
    rc = rc != 0 ? rc : place_features(l, digest->where, err);
    *numbers = l->plain_count;
    *out = l;
    return rc;
}

int column_layout_recall(const struct data_spec *spec, const struct records *digest,
                         const double *means, const double *deviations, size_t count,
                         struct column_layout **out, struct err *err)
{
    struct column_layout *l = mem_new(1, sizeof *l);
    *out = l;
    int rc = measure_columns(l, spec, digest, err);
    if (rc == 0 && l->plain_count != count) {
        rc = err_set(err, ERR_INVALID, "%zu numbers are declared, and %zu were measured",
                     l->plain_count, count);
    }
    for (size_t j = 0; rc == 0 && j < count; j++) {
        l->plain[j].mean = means[j];
        l->plain[j].deviation = deviations[j];
    }
    return rc != 0 ? rc : place_features(l, digest->where, err);
}

int column_layout_texts(const struct data_spec *spec, const struct records *digest,
                        struct column_layout **out, struct err *err)
{
    *out = mem_new(1, sizeof **out);
    return measure_columns(*out, spec, digest, err);
}

size_t column_layout_width(const struct column_layout *l)
{
    return l->width;
}

int column_layout_apply(const struct column_layout *l, const struct data_spec *spec,
                        struct records *r, struct err *err)
{
    return write_features(l, spec, r, err);
}
