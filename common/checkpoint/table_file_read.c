/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the tables of a shard's file, part by part. Errors name the tensor that is wrong. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/shard_file.h"
#include "checkpoint/table_part.h"

/* ---- is everything there? ---- */

static int wrong(const struct shard_file *f, char *name, const char *what, struct err *err)
{
    int rc = err_set(err, ERR_CORRUPT, "read %s: tensor %s: %s", f->file.path, name, what);
    free(name);
    return rc;
}

static bool same_shape(const struct safetensors_tensor *a, const struct safetensors_tensor *b)
{
    return a->dtype == b->dtype && a->rank == b->rank &&
           memcmp(a->dims, b->dims, a->rank * sizeof a->dims[0]) == 0;
}

/* The number of rows of part @part, by the tensor of its keys. */
static int check_part(const struct shard_file *f, const struct table_layout *l, uint64_t part,
                      uint64_t *rows, struct err *err)
{
    for (size_t column = 0; column <= l->column_count; column++) {
        char *name = table_layout_name(l, part, column);
        const struct safetensors_tensor *t = safetensors_find(&f->file, name);
        struct safetensors_tensor right;
        if (t == NULL) {
            return wrong(f, name, "missing", err);
        }
        if (column == 0) {
            *rows = t->rank == 1 ? t->dims[0] : 0;
        }
        table_layout_tensor(l, column, *rows, &right);
        if (*rows == 0 || !same_shape(t, &right)) {
            return wrong(f, name, "not of the type and the shape that it has to be", err);
        }
        free(name);
    }
    return 0;
}

static int check_parts(const struct shard_file *f, const struct table_file_info *t,
                       const struct table_layout *l, size_t *tensors, struct err *err)
{
    const uint64_t all = table_layout_count(l, t);
    uint64_t found = 0, rows = 0;
    int rc = 0;
    if (l->column_count == 0 && all > 0) {
        return err_set(err, ERR_CORRUPT, "read %s: table %s: counts of who counts nothing",
                       f->file.path, l->table);
    }
    for (uint64_t part = 0; rc == 0 && found < all; part++) {
        rc = check_part(f, l, part, &rows, err);
        if (rc == 0 && rows > all - found) {
            rc = err_set(err, ERR_CORRUPT, "read %s: table %s: more than %" PRIu64 " %s",
                         f->file.path, l->table, all, table_part_words[l->kind]);
        }
        found += rows;
        *tensors += l->column_count + 1;
    }
    return rc;
}

int table_file_check(const struct shard_file *f, const struct table_file_info *t,
                     const struct table_file_slots *slots, size_t *tensors, struct err *err)
{
    int rc = 0;
    for (int kind = 0; rc == 0 && kind < TABLE_PART_KINDS; kind++) {
        struct table_layout l;
        table_layout_init(&l, t, slots, (enum table_part_kind)kind);
        rc = check_parts(f, t, &l, tensors, err);
    }
    return rc;
}

/* ---- rows ---- */

struct table_reader {
    const struct shard_file *file;
    struct table_layout layout;
    struct table_part part;
    uint64_t next, left;
    bool blocks; /* the keys are numbers of blocks of a Bloom filter */
    bool begun;
    uint64_t last; /* the place of the key before, once it has begun */
};

struct table_reader *table_reader_new(const struct shard_file *f, const struct table_file_info *t,
                                      const struct table_file_slots *slots,
                                      enum table_part_kind kind)
{
    struct table_reader *r = mem_new(1, sizeof *r);
    r->file = f;
    r->blocks = kind == TABLE_PART_COUNTS && t->admission == TABLE_ADMIT_BLOOM;
    table_layout_init(&r->layout, t, slots, kind);
    r->left = table_layout_count(&r->layout, t);
    return r;
}

void table_reader_free(struct table_reader *r)
{
    if (r != NULL) {
        table_part_release(&r->part);
        free(r);
    }
}

static int read_tensor(const struct table_reader *r, size_t column, void *out, struct err *err)
{
    char *name = table_layout_name(&r->layout, r->next, column);
    const struct safetensors_tensor *t = safetensors_find(&r->file->file, name);
    if (t == NULL) {
        return wrong(r->file, name, "missing", err);
    }
    free(name);
    return safetensors_read(&r->file->file, t, 0, out, (size_t)t->bytes, err);
}

static int read_part(struct table_reader *r, uint64_t rows, struct err *err)
{
    uint64_t noted = 0;
    int rc = 0;
    if (r->part.capacity < rows) {
        table_part_release(&r->part);
        rc = table_part_init(&r->part, &r->layout, rows, err);
    }
    for (size_t column = 0; rc == 0 && column < r->layout.column_count; column++) {
        rc = read_tensor(r, column, r->part.columns[column], err);
    }
    rc = rc != 0 ? rc : read_tensor(r, r->layout.column_count, &noted, err);
    r->part.n = rc == 0 ? (size_t)rows : 0;
    if (rc == 0 && table_part_sum(&r->part) != noted) {
        char *name = table_layout_name(&r->layout, r->next, r->layout.column_count);
        return wrong(r->file, name, "the checksum of the part differs: damaged", err);
    }
    return rc;
}

static int check_keys(struct table_reader *r, struct err *err)
{
    const uint64_t *keys = r->part.columns[0];
    const struct shard_file *f = r->file;
    for (size_t i = 0; i < r->part.n; i++) {
        const uint64_t place = r->blocks ? keys[i] : table_walk_order(keys[i]);
        const char *what = NULL;
        if (r->begun && place <= r->last) {
            what = place == r->last ? "comes twice" : "is out of order";
        } else if (!r->blocks && table_shard_of(keys[i], f->shard_count) != f->shard) {
            what = "is of another shard";
        }
        if (what != NULL) {
            return err_set(err, ERR_CORRUPT, "read %s: table %s: %s %" PRIu64 " %s", f->file.path,
                           r->layout.table, r->blocks ? "block" : "key", keys[i], what);
        }
        r->last = place;
        r->begun = true;
    }
    return 0;
}

int table_reader_next(struct table_reader *r, size_t *rows, struct err *err)
{
    uint64_t n = 0;
    *rows = 0;
    if (r->left == 0) {
        return 0;
    }
    int rc = check_part(r->file, &r->layout, r->next, &n, err);
    rc = rc != 0 ? rc : read_part(r, n, err);
    rc = rc != 0 ? rc : check_keys(r, err);
    if (rc == 0) {
        r->next++;
        r->left -= n;
        *rows = (size_t)n;
    }
    return rc;
}

uint64_t table_reader_bytes(const struct table_reader *r)
{
    return r->part.n * r->layout.row_bytes;
}

struct table_chunk table_reader_rows(const struct table_reader *r)
{
    struct table_chunk chunk = table_part_rows(&r->part, 0);
    chunk.n = r->part.n;
    return chunk;
}

const struct table_part *table_reader_part(const struct table_reader *r)
{
    return &r->part;
}

const uint64_t *table_reader_keys(const struct table_reader *r)
{
    return r->part.columns[0];
}

struct table_counts_chunk table_reader_counts(const struct table_reader *r)
{
    struct table_counts_chunk chunk = table_part_counts(&r->part, 0);
    chunk.n = r->part.n;
    return chunk;
}
