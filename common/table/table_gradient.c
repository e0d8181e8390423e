/* SPDX-License-Identifier: Apache-2.0 */
/* Adds, writes and reads the gradients of a table. */
#include "table/table_gradient.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mutant.h"
#include "base/vector.h"
#include "table/table_squares.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "gradients are exchanged as they lie in memory");

void table_gradient_init(struct table_gradient *g, size_t dim)
{
    *g = (struct table_gradient){.dim = dim};
}

void table_gradient_release(struct table_gradient *g)
{
    free(g->keys);
    free(g->sightings);
    free(g->values);
    *g = (struct table_gradient){.dim = g->dim};
}

struct table_gradient_view table_gradient_view(const struct table_gradient *g)
{
    return (struct table_gradient_view){
        .dim = g->dim,
        .n = g->n,
        .keys = g->keys,
        .sightings = g->sightings,
        .values = g->values,
    };
}

/* @array with room for @n elements of @size bytes, or NULL: it is as it was. */
static void *larger(void *array, uint64_t n, uint64_t size)
{
    uint64_t bytes;
    return __builtin_mul_overflow(n, size, &bytes) || bytes > SIZE_MAX / 2
               ? NULL
               : realloc(array, (size_t)bytes);
}

static int reserve(struct table_gradient *g, uint64_t n, struct err *err)
{
    if (n <= g->capacity) {
        return 0;
    }
    const uint64_t more = g->capacity + g->capacity / 2;
    const uint64_t capacity = more > n ? more : n;
    void *keys = larger(g->keys, capacity, sizeof *g->keys);
    g->keys = keys == NULL ? g->keys : keys;
    void *sightings = larger(g->sightings, capacity, sizeof *g->sightings);
    g->sightings = sightings == NULL ? g->sightings : sightings;
    void *values = larger(g->values, capacity, g->dim * sizeof *g->values);
    g->values = values == NULL ? g->values : values;
    if (keys == NULL || sightings == NULL || values == NULL) {
        return err_set(err, ERR_EXHAUSTED, "gradient of a table: no memory for %llu rows",
                       (unsigned long long)n);
    }
    g->capacity = (size_t)capacity;
    return 0;
}

int table_gradient_begin(struct table_gradient *g, const struct table_keys *keys, struct err *err)
{
    int rc = reserve(g, keys->count, err);
    if (rc != 0) {
        return rc;
    }
    g->n = keys->count;
    if (g->n > 0) {
        memcpy(g->keys, keys->unique, g->n * sizeof *g->keys);
        memcpy(g->sightings, keys->sightings, g->n * sizeof *g->sightings);
        memset(g->values, 0, g->n * g->dim * sizeof *g->values);
    }
    return 0;
}

static size_t keys_of_both(const struct table_gradient *a, const struct table_gradient_view *b)
{
    size_t n = 0;
    for (size_t i = 0, j = 0; i < a->n && j < b->n;) {
        const uint64_t left = a->keys[i], right = b->keys[j];
        n += left == right;
        i += left <= right;
        j += right <= left;
    }
    return n;
}

VECTOR_INLINE void add_row(float *to, const float *left, const float *right, size_t dim)
{
    VECTOR_LOOP
    for (size_t i = 0; i < dim; i++) {
        to[i] = left[i] + right[i];
    }
}

/* Rows @i of @to (or none) and @j of @from (or none) become row @k of @to, which is @i or behind
 * it. */
VECTOR_INLINE void join_row(struct table_gradient *to, size_t k, const size_t *i,
                            const struct table_gradient_view *from, const size_t *j)
{
    const size_t dim = to->dim;
    float *out = to->values + k * dim;
    const float *left = i == NULL ? NULL : to->values + *i * dim;
    const float *right = j == NULL ? NULL : from->values + *j * dim;
    const uint32_t a = i == NULL ? 0 : to->sightings[*i];
    const uint32_t b = j == NULL ? 0 : from->sightings[*j];
    to->keys[k] = i == NULL ? from->keys[*j] : to->keys[*i];
    to->sightings[k] = a > UINT32_MAX - b                  ? UINT32_MAX
                       : MUTANT(sightings_of_one) && a > 0 ? a
                                                           : a + b;
    if (i != NULL && j != NULL) {
        add_row(out, left, right, dim);
    } else if (out != left) {
        memcpy(out, i == NULL ? right : left, dim * sizeof *out);
    }
}

/* Goes from the last row to the first, so that rows of @to move behind those that are still to be
 * read. */
VECTOR_CLONES
static void merge(struct table_gradient *to, const struct table_gradient_view *from, size_t n)
{
    size_t left = to->n, right = from->n; /* rows that were not moved yet */
    for (size_t k = n; right > 0;) {
        const size_t i = left - 1, j = right - 1;
        const bool has_left = left > 0 && to->keys[i] >= from->keys[j];
        const bool has_right = left == 0 || to->keys[i] <= from->keys[j];
        join_row(to, --k, has_left ? &i : NULL, from, has_right ? &j : NULL);
        left -= has_left;
        right -= has_right;
    }
    to->n = n;
}

int table_gradient_add(struct table_gradient *to, const struct table_gradient_view *from,
                       struct err *err)
{
    if (to->dim != from->dim) {
        return err_set(err, ERR_INVALID,
                       "gradient of a table: rows of %zu floats added to rows of %zu", from->dim,
                       to->dim);
    }
    const size_t n = to->n + from->n - keys_of_both(to, from);
    int rc = reserve(to, n, err);
    if (rc == 0) {
        merge(to, from, n);
    }
    return rc;
}

/* ---- bytes ---- */

void table_gradient_round(struct table_gradient *g, enum value_type type)
{
    if (g->n > 0) {
        values_round(type, g->values, g->n * g->dim);
    }
}

uint64_t table_gradient_bytes(enum value_type type, uint64_t rows, uint64_t dim)
{
    uint64_t row, all;
    if (__builtin_mul_overflow(dim, value_type_bytes(type), &row) ||
        __builtin_add_overflow(row, sizeof(uint64_t) + sizeof(uint32_t), &row) ||
        __builtin_mul_overflow(rows, row, &all) ||
        __builtin_add_overflow(all, TABLE_GRADIENT_HEADER_BYTES, &all)) {
        return UINT64_MAX;
    }
    return all;
}

static char *put(char *at, const void *from, size_t bytes)
{
    if (bytes > 0) {
        memcpy(at, from, bytes);
    }
    return at + bytes;
}

void table_gradient_encode(enum value_type type, const struct table_gradient_view *g, void *out)
{
    const uint64_t rows = g->n;
    const uint32_t dim_and_format[2] = {(uint32_t)g->dim, (uint32_t)type};
    char *at = put(out, &rows, sizeof rows);
    at = put(at, dim_and_format, sizeof dim_and_format);
    at = put(at, g->keys, g->n * sizeof *g->keys);
    at = put(at, g->sightings, g->n * sizeof *g->sightings);
    if (g->n > 0) {
        values_encode(type, g->values, g->n * g->dim, at);
    }
}

static int check_header(const struct table_gradient *g, enum value_type type, const char *bytes,
                        size_t n, uint64_t *rows, struct err *err)
{
    uint32_t dim_and_format[2];
    if (n < TABLE_GRADIENT_HEADER_BYTES) {
        return err_set(err, ERR_INVALID, "gradient of a table: %zu bytes are no header of %d", n,
                       TABLE_GRADIENT_HEADER_BYTES);
    }
    memcpy(rows, bytes, sizeof *rows);
    memcpy(dim_and_format, bytes + sizeof *rows, sizeof dim_and_format);
    if (dim_and_format[0] != g->dim) {
        return err_set(err, ERR_INVALID,
                       "gradient of a table: rows of %u floats; the table has rows of %zu",
                       dim_and_format[0], g->dim);
    }
    if (dim_and_format[1] >= VALUE_TYPES) {
        return err_set(err, ERR_INVALID, "gradient of a table: unknown format %u of values",
                       dim_and_format[1]);
    }
    if (dim_and_format[1] != (uint32_t)type) {
        return err_set(err, ERR_INVALID, "gradient of a table: values as %s; the push says %s",
                       value_type_names[dim_and_format[1]], value_type_names[type]);
    }
    const uint64_t expected = table_gradient_bytes(type, *rows, g->dim);
    if (expected != n) {
        return err_set(err, ERR_INVALID, "gradient of a table: %zu bytes; %llu rows have %llu", n,
                       (unsigned long long)*rows, (unsigned long long)expected);
    }
    return 0;
}

static int check_rows(const struct table_gradient *g, size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && g->keys[i - 1] >= g->keys[i]) {
            return err_set(err, ERR_INVALID,
                           "gradient of a table: row %zu: key %llu behind %llu: keys must rise", i,
                           (unsigned long long)g->keys[i], (unsigned long long)g->keys[i - 1]);
        }
        if (g->sightings[i] == 0) {
            return err_set(err, ERR_INVALID,
                           "gradient of a table: row %zu: key %llu has 0 sightings", i,
                           (unsigned long long)g->keys[i]);
        }
    }
    return 0;
}

static const char *take(void *to, const char *at, size_t bytes)
{
    if (bytes > 0) {
        memcpy(to, at, bytes);
    }
    return at + bytes;
}

int table_gradient_decode(struct table_gradient *g, enum value_type type, const void *bytes,
                          size_t n, struct err *err)
{
    uint64_t rows = 0;
    g->n = 0;
    int rc = check_header(g, type, bytes, n, &rows, err);
    rc = rc == 0 ? reserve(g, rows, err) : rc;
    if (rc != 0) {
        return rc;
    }
    const char *at = (const char *)bytes + TABLE_GRADIENT_HEADER_BYTES;
    at = take(g->keys, at, rows * sizeof *g->keys);
    at = take(g->sightings, at, rows * sizeof *g->sightings);
    if (rows > 0) {
        values_decode(type, at, rows * g->dim, g->values);
    }
    rc = check_rows(g, rows, err);
    g->n = rc == 0 ? rows : 0;
    return rc;
}

/* ---- clipping ---- */

size_t table_gradient_clip_rows(struct table_gradient *g, float scale, double norm_max)
{
    size_t clipped = 0;
    for (size_t i = 0; i < g->n; i++) {
        clipped += table_row_clip(g->values + i * g->dim, g->dim, scale, norm_max);
    }
    return clipped;
}
