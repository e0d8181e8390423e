/* SPDX-License-Identifier: Apache-2.0 */
/* Appends the records of one file to those of the files before it. Texts have other numbers in each
 * file, so cells that refer to them are translated. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/records.h"

/* Resize *@array to @count elements of @size and copy those of @more behind the first @had. */
static int join(void **array, uint64_t had, const void *more, uint64_t count, size_t size,
                const char *where, struct err *err)
{
    if (more == NULL) {
        return 0;
    }
    char *p = records_resize(*array, had + count, size, where, err);
    if (p == NULL) {
        return ERR_EXHAUSTED;
    }
    memcpy(p + had * size, more, (size_t)count * size);
    *array = p;
    return 0;
}

/* Join cells and the texts that they number. */
static int join_texts(struct names *texts, uint32_t **cells, uint64_t had, const struct names *more,
                      const uint32_t *more_cells, uint64_t count, const char *where,
                      struct err *err)
{
    uint32_t *numbers = mem_new(more->count + 1, sizeof *numbers);
    int rc = 0;
    for (size_t i = 0; i < more->count && rc == 0; i++) {
        struct err cause;
        rc = names_add(texts, more->texts[i], &numbers[i], &cause);
        if (rc != 0) {
            rc = err_set(err, rc, "%s: %s", where, cause.msg);
        }
    }
    void *joined = *cells;
    if (rc == 0) {
        rc = join(&joined, had, more_cells, count, sizeof **cells, where, err);
        *cells = joined;
    }
    for (uint64_t i = had; rc == 0 && more_cells != NULL && i < had + count; i++) {
        uint32_t *cell = &(*cells)[i];
        *cell = *cell == RECORDS_CATEGORY_NONE ? *cell : numbers[*cell];
    }
    free(numbers);
    return rc;
}

static int join_sparse(struct records *all, const struct records *more, struct err *err)
{
    struct sparse_rows *s = &all->sparse;
    const struct sparse_rows *m = &more->sparse;
    if (s->ends == NULL) {
        return 0;
    }
    const uint64_t had = all->count > 0 ? s->ends[all->count - 1] : 0;
    const uint64_t count = more->count > 0 ? m->ends[more->count - 1] : 0;
    void *ends = s->ends, *indices = s->indices, *values = s->values;
    int rc = join(&ends, all->count, m->ends, more->count, sizeof *s->ends, more->where, err);
    if (rc == 0) {
        rc = join(&indices, had, m->indices, count, sizeof *s->indices, more->where, err);
    }
    if (rc == 0) {
        rc = join(&values, had, m->values, count, sizeof *s->values, more->where, err);
    }
    *s = (struct sparse_rows){.ends = ends, .indices = indices, .values = values};
    for (uint64_t i = all->count; rc == 0 && i < all->count + more->count; i++) {
        s->ends[i] += had;
    }
    return rc;
}

/* Numbers, of whichever type. */
static int join_numbers(struct records *all, const struct records *more, struct err *err)
{
    void *bytes = all->bytes, *values = all->values;
    const char *where = more->where;
    int rc = join(&bytes, all->count, more->bytes, more->count, all->numbers, where, err);
    if (rc == 0) {
        rc = join(&values, all->count, more->values, more->count,
                  all->numbers * sizeof *all->values, where, err);
    }
    all->bytes = bytes;
    all->values = values;
    return rc != 0 ? rc : join_sparse(all, more, err);
}

static int join_labels(struct records *all, const struct records *more, struct err *err)
{
    void *labels = all->labels;
    int rc =
        join(&labels, all->count, more->labels, more->count, sizeof *all->labels, more->where, err);
    all->labels = labels;
    return rc != 0
               ? rc
               : join_texts(&all->label_texts, &all->label_cells, all->count, &more->label_texts,
                            more->label_cells, more->count, more->where, err);
}

int records_weights_differ(const char *where, bool weighted, const char *before, struct err *err)
{
    return err_set(err, ERR_INVALID,
                   "%s %s the weights that data.weight names, %s %s; either all test files have "
                   "them or none",
                   where, weighted ? "has" : "has not", before, weighted ? "has not" : "has");
}

static int join_weights(struct records *all, const struct records *more, struct err *err)
{
    if (all->count > 0 && more->count > 0 && (all->weights == NULL) != (more->weights == NULL)) {
        return records_weights_differ(more->where, more->weights != NULL, all->where, err);
    }
    void *weights = all->weights;
    int rc = join(&weights, all->count, more->weights, more->count, sizeof *all->weights,
                  more->where, err);
    all->weights = weights;
    return rc;
}

static char *label_file(const struct records *r)
{
    return mem_strdup(r->labels_where != NULL ? r->labels_where : r->where);
}

/* Remember the file of each record. */
static int join_places(struct records *all, const struct records *more, struct err *err)
{
    int rc = records_number(all, err);
    void *places = all->places;
    if (rc == 0) {
        places =
            records_resize(places, all->count + more->count, sizeof *all->places, more->where, err);
        rc = places == NULL ? ERR_EXHAUSTED : 0;
    }
    if (rc != 0) {
        return rc;
    }
    all->places = places;
    if (all->files == NULL) {
        all->files = mem_new(1, sizeof *all->files);
        all->files[all->file_count++] = label_file(all);
    }
    all->files = mem_resize(all->files, all->file_count + 1, sizeof *all->files);
    all->files[all->file_count] = label_file(more);
    for (uint64_t i = 0; i < more->count; i++) {
        all->places[all->count + i] = (struct place){
            .file = (uint32_t)all->file_count,
            .number = more->places != NULL ? more->places[i].number : (uint32_t)i,
        };
    }
    all->file_count++;
    return 0;
}

int records_headers_differ(const char *where, bool header, const char *before, struct err *err)
{
    return err_set(err, ERR_INVALID,
                   "%s begins with %s, %s with %s; data.header: true or false says what holds for "
                   "all files",
                   where, header ? "a header line" : "a record", before,
                   header ? "a record" : "a header line");
}

/* Texts follow each other. */
static void join_ids(struct records *all, const struct records *more)
{
    buf_add(&all->ids, more->ids.data, more->ids.len);
}

int records_append(struct records *all, const struct records *more, struct err *err)
{
    int rc = all->named == more->named
                 ? 0
                 : records_headers_differ(more->where, more->named, all->where, err);
    if (rc == 0) {
        rc = records_match(all, more, err);
    }
    if (rc == 0) {
        rc = join_numbers(all, more, err);
    }
    if (rc == 0) {
        rc = join_labels(all, more, err);
    }
    if (rc == 0) {
        rc = join_weights(all, more, err);
    }
    if (rc == 0) {
        rc = sparse_fields_append(&all->fields, &more->fields, more->where, err);
    }
    for (size_t i = 0; i < all->category_count && rc == 0; i++) {
        const struct category_column *m = &more->categories[i];
        struct category_column *c = &all->categories[i];
        rc = join_texts(&c->values, &c->cells, all->count, &m->values, m->cells, more->count,
                        more->where, err);
    }
    if (rc == 0) {
        rc = join_places(all, more, err);
    }
    if (rc == 0) {
        join_ids(all, more);
        all->count += more->count;
        all->bad_count += more->bad_count;
        all->bad_first = all->bad_first == NULL ? mem_strdup(more->bad_first) : all->bad_first;
        all->numbers = more->numbers > all->numbers ? more->numbers : all->numbers;
    }
    return rc;
}
