/* SPDX-License-Identifier: Apache-2.0 */
/* Cells of a list are cut here, so that a cell is stored once however often it stands in a file. */
#include "data/column_vocabulary.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "base/text.h"
#include "config/field_texts.h"
#include "data/cells.h"
#include "data/csv_columns.h"
#include "data/encode.h"
#include "data/file_list.h"
#include "data/key_hash.h"
#include "data/lines.h"

/* Takes a category out of the cell at *@cell, which is moved behind it; NULL: none is left. The
 * category is not NUL-terminated. */
static const char *next_category(const struct data_column *c, const char **cell, size_t *n)
{
    if (c->as == COLUMN_CATEGORY) {
        const char *text = *cell;
        *n = strlen(text);
        *cell += *n;
        return *n > 0 ? text : NULL;
    }
    for (;;) {
        const char *text = *cell + strspn(*cell, " \t");
        if (*text == '\0') {
            return NULL;
        }
        size_t all = strcspn(text, c->separator), used = all;
        while (used > 0 && (text[used - 1] == ' ' || text[used - 1] == '\t')) {
            used--;
        }
        *cell = text + all + (text[all] != '\0');
        if (used > 0) {
            *n = used;
            return text;
        }
    }
}

static int add_known(struct column_vocabulary *v, const char *where, const char *category,
                     struct err *err)
{
    uint32_t number = 0;
    size_t before = v->known.count;
    struct err cause = {0};
    int rc = names_add(&v->known, category, &number, &cause);
    if (rc != 0) {
        return err_set(err, rc, "%s: %s; hash them (buckets)", where, cause.msg);
    }
    if (number < before) {
        char shown[64];
        return err_set(err, ERR_INVALID, "%s: the category %s stands there twice", where,
                       cells_mark(category, CSV_SHOWN_BYTES, true, shown, sizeof shown));
    }
    return 0;
}

static int read_list(struct column_vocabulary *v, const char *key, struct err *err)
{
    struct field_texts texts = {0};
    int rc = field_texts_read(v->column->vocabulary, &texts)
                 ? 0
                 : err_set(err, ERR_INVALID, "%s.vocabulary: this is no list", key);
    char *where = mem_printf("%s.vocabulary", key);
    for (size_t i = 0; i < texts.count && rc == 0; i++) {
        rc = add_known(v, where, texts.items[i], err);
    }
    free(where);
    field_texts_release(&texts);
    return rc;
}

static int read_lines(struct column_vocabulary *v, const struct data_spec *spec, const char *path,
                      struct err *err)
{
    struct lines *file;
    struct line line = {0};
    int rc = lines_open(path, spec->roots, &file, err);
    if (rc != 0) {
        return rc;
    }
    for (;;) {
        rc = lines_next(file, &line, err);
        if (rc != 0 || line.text == NULL) {
            break;
        }
        if (line.bytes == 0) {
            continue;
        }
        char *where = mem_printf("%s:%" PRIu64, path, line.number);
        rc = strlen(line.text) == line.bytes
                 ? add_known(v, where, line.text, err)
                 : err_set(err, ERR_CORRUPT, "%s: a NUL byte; this is not a text file", where);
        free(where);
        if (rc != 0) {
            break;
        }
    }
    lines_close(file);
    return rc == 0 && v->known.count == 0
               ? err_set(err, ERR_INVALID, "%s: there are no categories", path)
               : rc;
}

static int read_file(struct column_vocabulary *v, const struct data_spec *spec, const char *key,
                     struct err *err)
{
    struct file_list files = {0};
    char *name = mem_printf("%s.vocabulary_file", key);
    int rc = file_list_make(spec->roots, spec->dir, v->column->vocabulary_file, name, &files, err);
    if (rc == 0 && files.count != 1) {
        rc = err_set(err, ERR_INVALID, "%s means %zu files; one is expected", name, files.count);
    }
    rc = rc != 0 ? rc : read_lines(v, spec, files.paths[0], err);
    free(name);
    file_list_release(&files);
    return rc;
}

static int take_known(struct column_vocabulary *v, const char *key, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < v->column->known->count && rc == 0; i++) {
        rc = add_known(v, key, v->column->known->texts[i], err);
    }
    return rc;
}

static int by_text(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* The categories of train records, sorted, so that their numbers depend on the set of them only. */
static int measure(struct column_vocabulary *v, const char *where,
                   const struct category_column *cells, uint64_t records, struct err *err)
{
    struct names found = {.limit = ENCODE_FEATURES_MAX};
    bool *used = mem_new(cells->values.count + 1, sizeof *used);
    for (uint64_t i = 0; i < records; i++) {
        if (cells->cells[i] != RECORDS_CATEGORY_NONE) {
            used[cells->cells[i]] = true;
        }
    }
    int rc = 0;
    struct err cause = {0};
    for (size_t i = 0; i < cells->values.count && rc == 0; i++) {
        const char *cell = cells->values.texts[i], *text;
        size_t n = 0;
        while (rc == 0 && used[i] && (text = next_category(v->column, &cell, &n)) != NULL) {
            char *category = mem_printf("%.*s", (int)n, text);
            uint32_t number;
            rc = names_add(&found, category, &number, &cause);
            free(category);
        }
    }
    free(used);
    if (rc != 0) {
        char shown[64];
        rc =
            err_set(err, rc, "%s: column %s: %s; hash them (buckets)", where,
                    cells_mark(cells->name, CSV_SHOWN_BYTES, true, shown, sizeof shown), cause.msg);
    } else {
        if (found.count > 0) {
            qsort(found.texts, found.count, sizeof *found.texts, by_text);
        }
        uint32_t number;
        for (size_t i = 0; i < found.count; i++) {
            (void)names_add(&v->known, found.texts[i], &number, NULL); /* fits: as many */
        }
    }
    names_release(&found);
    return rc;
}

/* Texts make no keys by themselves. */
static int check_hash(const struct data_column *c, const char *key, struct err *err)
{
    return c->hash != COLUMN_HASH_NONE
               ? 0
               : err_set(err, ERR_INVALID,
                         "%s.hash: the cells of a CSV file are texts, which are no keys without a "
                         "hash; allowed: xxh3, fnv1a or a vocabulary",
                         key);
}

int column_vocabulary_init(struct column_vocabulary *v, const struct data_spec *spec, size_t number,
                           bool own_missing, const struct category_column *cells, uint64_t records,
                           struct err *err)
{
    const struct data_column *c = &spec->columns[number];
    const bool list = c->vocabulary != NULL && c->vocabulary[0] != '\0';
    const bool file = c->vocabulary_file != NULL && c->vocabulary_file[0] != '\0';
    const bool keys = c->as == COLUMN_SPARSE;
    const bool own_unknown =
        c->unknown == COLUMN_UNKNOWN_OWN || (c->unknown == COLUMN_UNKNOWN_AUTO && (list || file));
    *v = (struct column_vocabulary){.column = c,
                                    .known.limit = ENCODE_FEATURES_MAX,
                                    .first = own_missing,
                                    .missing = own_missing ? 0 : RECORDS_CATEGORY_NONE,
                                    .unknown = RECORDS_CATEGORY_NONE};
    if (c->buckets > 0) {
        v->width = v->first + (size_t)c->buckets;
        return 0;
    }
    char *key = mem_printf("data.columns.%zu", number);
    int rc = list                       ? read_list(v, key, err)
             : file && c->known != NULL ? take_known(v, key, err)
             : file                     ? read_file(v, spec, key, err)
             : keys                     ? check_hash(c, key, err)
                                        : measure(v, key, cells, records, err);
    free(key);
    if (rc != 0) {
        column_vocabulary_release(v);
        return rc;
    }
    v->width = v->first + v->known.count;
    if (own_unknown) {
        v->unknown = (uint32_t)v->width++;
    }
    return 0;
}

bool column_needs_texts(const struct data_column *c)
{
    const bool list = c->vocabulary != NULL && c->vocabulary[0] != '\0';
    const bool file = c->vocabulary_file != NULL && c->vocabulary_file[0] != '\0';
    return (c->as == COLUMN_CATEGORY || c->as == COLUMN_LIST) && c->buckets <= 0 && !list && !file;
}

void column_vocabulary_release(struct column_vocabulary *v)
{
    names_release(&v->known);
    *v = (struct column_vocabulary){0};
}

uint64_t column_vocabulary_hash(const struct data_column *c, const char *text, size_t n)
{
    return c->hash == COLUMN_HASH_FNV1A ? key_hash_fnv1a(text, n) : checksum_of(text, n);
}

/* The number of a category in the vocabulary. */
static bool find(const struct column_vocabulary *v, const char *text, size_t n, uint32_t *number)
{
    char *category = mem_printf("%.*s", (int)n, text);
    bool known = names_find(&v->known, category, number);
    free(category);
    return known;
}

static uint32_t id_of(const struct column_vocabulary *v, const char *text, size_t n)
{
    const struct data_column *c = v->column;
    if (c->buckets > 0) {
        return (uint32_t)(v->first + column_vocabulary_hash(c, text, n) % (uint64_t)c->buckets);
    }
    uint32_t number;
    return find(v, text, n, &number) ? (uint32_t)v->first + number : v->unknown;
}

static int by_id(const void *a, const void *b)
{
    const uint32_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

void column_vocabulary_ids(const struct column_vocabulary *v, const char *text,
                           struct column_ids *out)
{
    const size_t begin = out->count;
    size_t n = 0;
    for (const char *category; (category = next_category(v->column, &text, &n)) != NULL;) {
        uint32_t id = id_of(v, category, n);
        if (id != RECORDS_CATEGORY_NONE) {
            out->ids = mem_grow(out->ids, &out->capacity, out->count + 1, sizeof *out->ids);
            out->ids[out->count++] = id;
        }
    }
    if (out->count - begin < 2) {
        return;
    }
    qsort(out->ids + begin, out->count - begin, sizeof *out->ids, by_id);
    size_t kept = begin + 1;
    for (size_t i = kept; i < out->count; i++) {
        if (out->ids[i] != out->ids[kept - 1]) {
            out->ids[kept++] = out->ids[i];
        }
    }
    out->count = kept;
}

bool column_vocabulary_lacks(const struct column_vocabulary *v, const char *text)
{
    const bool hashes =
        v->column->buckets > 0 || (v->column->as == COLUMN_SPARSE && v->known.count == 0);
    bool lacks = false;
    size_t n = 0;
    uint32_t number;
    if (hashes || v->unknown != RECORDS_CATEGORY_NONE) {
        return false;
    }
    for (const char *category;
         !lacks && (category = next_category(v->column, &text, &n)) != NULL;) {
        lacks = !find(v, category, n, &number);
    }
    return lacks;
}

bool column_vocabulary_key(const struct column_vocabulary *v, const char *text, size_t n,
                           uint64_t *key)
{
    uint32_t number = v->unknown;
    bool known = find(v, text, n, &number) || number != RECORDS_CATEGORY_NONE;
    *key = number;
    return known;
}

void column_vocabulary_keys(const struct column_vocabulary *v, const char *text,
                            struct column_keys *out)
{
    size_t n = 0;
    for (const char *category; (category = next_category(v->column, &text, &n)) != NULL;) {
        uint64_t key = 0;
        if (v->known.count == 0) {
            key = column_vocabulary_hash(v->column, category, n);
        } else if (!column_vocabulary_key(v, category, n, &key)) {
            continue;
        }
        out->keys = mem_grow(out->keys, &out->capacity, out->count + 1, sizeof *out->keys);
        out->keys[out->count++] = key;
    }
}
