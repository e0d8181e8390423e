/* SPDX-License-Identifier: Apache-2.0 */
/* The arrays that file formats read records into: split into train and test by a seeded draw per
 * record, and checked to fit each other. */
#include "data/records.h"

#include <float.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "data/cells.h"

void records_drop_columns(struct records *r)
{
    for (size_t i = 0; r->columns != NULL && i < r->numbers; i++) {
        free(r->columns[i]);
    }
    free(r->columns);
    r->columns = NULL;
    for (size_t i = 0; i < r->category_count; i++) {
        free(r->categories[i].name);
        free(r->categories[i].cells);
        names_release(&r->categories[i].values);
    }
    free(r->categories);
    free(r->declared);
    r->declared = NULL;
    r->categories = NULL;
    r->category_count = 0;
}

bool records_is_weight(double value)
{
    return value >= 0 && value <= (double)FLT_MAX;
}

static void sparse_release(struct sparse_rows *s)
{
    free(s->ends);
    free(s->indices);
    free(s->values);
    *s = (struct sparse_rows){0};
}

void records_release(struct records *r)
{
    records_drop_columns(r);
    free(r->where);
    free(r->labels_where);
    for (size_t i = 0; i < r->file_count; i++) {
        free(r->files[i]);
    }
    free(r->files);
    free(r->bytes);
    free(r->values);
    sparse_release(&r->sparse);
    sparse_fields_release(&r->fields);
    free(r->labels);
    names_release(&r->label_texts);
    free(r->label_cells);
    free(r->weights);
    free(r->places);
    free(r->bad_first);
    buf_release(&r->ids);
    *r = (struct records){0};
}

void records_where_label(const struct records *r, uint64_t record, struct buf *out)
{
    const char *file = r->labels_where != NULL ? r->labels_where : r->where;
    uint64_t number = record;
    if (r->places != NULL) {
        file = r->files != NULL ? r->files[r->places[record].file] : file;
        number = r->places[record].number;
    }
    buf_printf(out, r->by_line ? "%s:%" PRIu64 : "%s: record %" PRIu64, file, number);
}

int records_spread(struct records *r, size_t numbers, struct err *err)
{
    const struct sparse_rows *s = &r->sparse;
    if (s->ends == NULL) {
        return 0;
    }
    char what[96];
    (void)snprintf(what, sizeof what, "%" PRIu64 " records of %zu features each", r->count,
                   numbers);
    size_t bytes = 0, values = 0;
    struct err cause = {0};
    float *all = NULL;
    if (!mem_mul(numbers, sizeof *all, &bytes) || !mem_mul((size_t)r->count, numbers, &values) ||
        records_check_memory(r->count, bytes, what, &cause) != 0 ||
        (all = mem_try_aligned(values, sizeof *all, what, &cause)) == NULL) {
        return err_set(err, ERR_EXHAUSTED,
                       "%s: %s; take fewer (data.train.limit, data.test.limit), or a file with "
                       "fewer features",
                       r->where, cause.msg);
    }
    uint64_t at = 0;
    for (uint64_t i = 0; i < r->count; i++) {
        float *record = all + i * numbers;
        for (; at < s->ends[i]; at++) {
            if (s->indices[at] < numbers) {
                record[s->indices[at]] = s->values[at];
            }
        }
    }
    sparse_release(&r->sparse);
    r->values = all;
    r->numbers = numbers;
    r->shape = (struct shape){.rank = 1, .dims = {numbers}};
    return 0;
}

/* Record @from of @b becomes record @to of @a, which has the same arrays. */
static void copy_record(struct records *a, uint64_t to, const struct records *b, uint64_t from)
{
    size_t n = a->numbers;
    if (b->bytes != NULL) {
        memmove(a->bytes + to * n, b->bytes + from * n, n);
    }
    if (b->values != NULL) {
        memmove(a->values + to * n, b->values + from * n, n * sizeof *a->values);
    }
    for (size_t i = 0; i < a->category_count; i++) {
        a->categories[i].cells[to] = b->categories[i].cells[from];
    }
    if (b->labels != NULL) {
        a->labels[to] = b->labels[from];
    }
    if (b->label_cells != NULL) {
        a->label_cells[to] = b->label_cells[from];
    }
    if (b->weights != NULL) {
        a->weights[to] = b->weights[from];
    }
    if (b->places != NULL) {
        a->places[to] = b->places[from];
    }
}

static struct names names_copy(const struct names *n, bool texts)
{
    struct names copy = {.limit = n->limit};
    uint32_t number;
    for (size_t i = 0; texts && i < n->count; i++) {
        (void)names_add(&copy, n->texts[i], &number, NULL); /* fits: the original did */
    }
    return copy;
}

int records_leave_out(struct records *r, uint64_t had, uint64_t allowed, int rc,
                      const struct err *cause, struct err *err)
{
    bool content = rc == ERR_INVALID || rc == ERR_CORRUPT;
    if (content && had + r->bad_count < allowed) {
        r->bad_first = r->bad_first == NULL ? mem_strdup(cause->msg) : r->bad_first;
        r->bad_count++;
        return 0;
    }
    if (content && allowed == 0 && r->count > 0) {
        return err_set(
            err, rc, "%s; %zu record%s before it %s good: data.bad_records: 1 leaves one out",
            cause->msg, r->count, r->count == 1 ? "" : "s", r->count == 1 ? "is" : "are");
    }
    if (!content || allowed == 0) {
        return err_set(err, rc, "%s", cause->msg);
    }
    return err_set(err, rc, "%s; these are more bad records than data.bad_records: %" PRIu64,
                   cause->msg, allowed);
}

static void *rows(const void *like, uint64_t count, size_t size, bool *ok, struct err *err)
{
    if (like == NULL || !*ok) {
        return NULL;
    }
    void *p = mem_try_aligned((size_t)count, size, "test records", err);
    *ok = p != NULL;
    return p;
}

/* An empty twin of @all with room for @count records, and with its @texts. */
static int twin(const struct records *all, bool texts, uint64_t count, struct records *out,
                struct err *err)
{
    bool ok = true;
    struct records t = {
        .where = mem_strdup(all->where),
        .labels_where = mem_strdup(all->labels_where),
        .count = count,
        .shape = all->shape,
        .numbers = all->numbers,
        .bytes = rows(all->bytes, count, all->numbers, &ok, err),
        .values = rows(all->values, count, all->numbers * sizeof(float), &ok, err),
        .labels = rows(all->labels, count, sizeof(double), &ok, err),
        .label_texts = names_copy(&all->label_texts, texts),
        .label_cells = rows(all->label_cells, count, sizeof(uint32_t), &ok, err),
        .places = rows(all->places, count, sizeof(struct place), &ok, err),
        .by_line = all->by_line,
        .named = all->named,
        .usual_scale = all->usual_scale,
        .fields = sparse_fields_twin(&all->fields),
    };
    if (all->columns != NULL) {
        t.columns = mem_new(all->numbers, sizeof *t.columns);
        for (size_t i = 0; i < all->numbers; i++) {
            t.columns[i] = mem_strdup(all->columns[i]);
        }
    }
    if (all->declared != NULL) {
        const size_t n = all->numbers + all->category_count;
        t.declared = mem_new(n, sizeof *t.declared);
        memcpy(t.declared, all->declared, n * sizeof *t.declared);
    }
    t.files = all->files == NULL ? NULL : mem_new(all->file_count, sizeof *t.files);
    for (size_t i = 0; i < all->file_count; i++) {
        t.files[t.file_count++] = mem_strdup(all->files[i]);
    }
    t.categories = mem_new(all->category_count, sizeof *t.categories);
    for (size_t i = 0; i < all->category_count; i++) {
        const struct category_column *c = &all->categories[i];
        t.categories[t.category_count++] = (struct category_column){
            .name = mem_strdup(c->name),
            .values = names_copy(&c->values, texts),
            .cells = rows(c->cells, count, sizeof *c->cells, &ok, err),
        };
    }
    if (!ok) {
        records_release(&t);
        return ERR_EXHAUSTED;
    }
    *out = t;
    return 0;
}

int records_number(struct records *r, struct err *err)
{
    if (r->places != NULL) {
        return 0;
    }
    r->places = mem_try_aligned((size_t)r->count, sizeof *r->places, "records", err);
    if (r->places == NULL) {
        return ERR_EXHAUSTED;
    }
    for (uint64_t i = 0; i < r->count; i++) {
        r->places[i].number = (uint32_t)i;
    }
    return 0;
}

int records_like(const struct records *r, struct records *out, struct err *err)
{
    return twin(r, true, 0, out, err);
}

int records_kind(const struct records *r, struct records *out, struct err *err)
{
    return twin(r, false, 0, out, err);
}

bool records_is_test(uint64_t seed_key, uint64_t record, double test_fraction)
{
    return rng_uniform(seed_key, record) < test_fraction;
}

uint64_t records_split_key(uint64_t seed)
{
    return rng_key(seed, "test_fraction");
}

/* The sparse fields of both parts. */
static int divide_fields(struct records *all, uint64_t first, uint64_t key, double test_fraction,
                         struct records *test, struct err *err)
{
    struct sparse_fields train = sparse_fields_twin(&all->fields);
    int rc = 0;
    for (uint64_t i = 0; i < all->fields.records && train.count > 0 && rc == 0; i++) {
        bool to_test = records_is_test(key, first + i, test_fraction);
        rc = sparse_fields_copy(to_test ? &test->fields : &train, &all->fields, i, all->where, err);
    }
    struct sparse_fields *done = rc == 0 ? &all->fields : &train, old = *done;
    if (rc == 0) {
        *done = train;
    }
    sparse_fields_release(&old);
    return rc;
}

int records_divide(struct records *all, uint64_t first, double test_fraction, uint64_t seed,
                   struct records *test, struct err *err)
{
    const uint64_t key = records_split_key(seed);
    uint64_t count = 0;
    for (uint64_t i = 0; i < all->count; i++) {
        count += records_is_test(key, first + i, test_fraction);
    }
    struct records t;
    int rc = records_number(all, err); /* messages name the record in the file, not in its part */
    if (rc == 0) {
        rc = twin(all, true, count, &t, err);
    }
    if (rc != 0) {
        return rc;
    }
    bool ok = true;
    t.weights = rows(all->weights, count, sizeof *t.weights, &ok, err);
    rc = ok ? divide_fields(all, first, key, test_fraction, &t, err) : ERR_EXHAUSTED;
    if (rc != 0) {
        records_release(&t);
        return rc;
    }
    uint64_t to_test = 0, to_train = 0;
    for (uint64_t i = 0; i < all->count; i++) {
        if (records_is_test(key, first + i, test_fraction)) {
            copy_record(&t, to_test++, all, i);
        } else {
            copy_record(all, to_train++, all, i);
        }
    }
    all->count = to_train;
    *test = t;
    return 0;
}

int records_split_empty(const char *where, double test_fraction, uint64_t all, bool no_test,
                        struct err *err)
{
    return err_set(err, ERR_INVALID,
                   "%s: data.test_fraction %g of %" PRIu64 " records leaves no record for %s",
                   where, test_fraction, all, no_test ? "test" : "train");
}

int records_split(struct records *all, double test_fraction, uint64_t seed, struct records *test,
                  struct err *err)
{
    const uint64_t had = all->count;
    int rc = records_divide(all, 0, test_fraction, seed, test, err);
    return rc == 0 && (all->count == 0 || test->count == 0)
               ? records_split_empty(all->where, test_fraction, had, test->count == 0, err)
               : rc;
}

void records_limit(struct records *r, uint64_t limit)
{
    if (limit > 0 && r->count > limit) {
        r->count = limit;
        sparse_fields_limit(&r->fields, limit);
    }
}

static const char *column_name(const struct records *r, size_t i)
{
    return i < r->numbers ? r->columns[i] : r->categories[i - r->numbers].name;
}

#define COLUMNS_SHOWN 300 /* bytes of a list */

static void list_columns(const struct records *r, struct buf *out)
{
    const size_t begin = out->len, n = r->numbers + r->category_count;
    for (size_t i = 0; i < n; i++) {
        char shown[80];
        if (out->len - begin > COLUMNS_SHOWN) {
            buf_printf(out, ", and %zu more", n - i);
            return;
        }
        buf_printf(out, "%s%s", i == 0 ? "" : ", ",
                   cells_mark(column_name(r, i), 40, false, shown, sizeof shown));
    }
    buf_add_str(out, n == 0 ? "none" : "");
}

/* Named columns have to be the same; the message has both lists. */
static int match_columns(const struct records *train, const struct records *test, struct err *err)
{
    const size_t n = train->numbers + train->category_count;
    const bool named =
        train->named && test->named && train->columns != NULL && test->columns != NULL;
    bool same = train->numbers == test->numbers && train->category_count == test->category_count;
    for (size_t i = 0; named && same && i < n; i++) {
        same = strcmp(column_name(train, i), column_name(test, i)) == 0;
    }
    if (!named || same) {
        return 0;
    }
    struct buf text = {0};
    buf_printf(&text, "%s: its columns are ", test->where);
    list_columns(test, &text);
    buf_printf(&text, "; those of %s are ", train->where);
    list_columns(train, &text);
    err_set(err, ERR_INVALID, "%s", buf_str(&text));
    buf_release(&text);
    return ERR_INVALID;
}

int records_match(const struct records *train, const struct records *test, struct err *err)
{
    int rc = match_columns(train, test, err);
    if (rc != 0) {
        return rc;
    }
    if (!shape_equal(&train->shape, &test->shape)) {
        char a[96], b[96];
        return err_set(err, ERR_INVALID, "%s: a record has shape %s, in %s it has %s", test->where,
                       shape_format(&test->shape, b, sizeof b), train->where,
                       shape_format(&train->shape, a, sizeof a));
    }
    if ((train->bytes == NULL) != (test->bytes == NULL)) {
        return err_set(err, ERR_INVALID, "%s holds %s, %s holds %s", test->where,
                       test->bytes != NULL ? "bytes" : "other numbers", train->where,
                       train->bytes != NULL ? "bytes" : "other numbers");
    }
    if ((train->labels == NULL) != (test->labels == NULL)) {
        return err_set(err, ERR_INVALID, "%s and %s have labels of different kinds", test->where,
                       train->where);
    }
    if (train->category_count != test->category_count) {
        return err_set(err, ERR_INVALID, "%s has %zu categorical columns, %s has %zu", test->where,
                       test->category_count, train->where, train->category_count);
    }
    if (!sparse_fields_equal(&train->fields, &test->fields)) {
        return err_set(err, ERR_INVALID, "%s: its sparse fields are not those of %s", test->where,
                       train->where);
    }
    return 0;
}
