/* SPDX-License-Identifier: Apache-2.0 */
/* Merges the rows of a delta with those of its base. Three streams rise in one order: rows of the
 * base, rows of the delta, keys that went. */
#include "checkpoint/table_union.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/table_part.h"

enum { OLD, NEW, GONE, STREAMS };

struct stream {
    struct table_reader *reader; /* NULL: it has none */
    size_t at, n;                /* of its part */
    uint64_t order;              /* of the key at @at */
    struct table_chunk rows;     /* but for GONE */
};

struct table_union {
    const struct shard_file *file;
    const struct table_file_info *info;
    struct stream streams[STREAMS];
    struct table_layout layout;
    struct table_part part; /* the part that a merge fills */
    bool merges, begun;
    uint64_t rows; /* so far */
};

struct table_union *table_union_new(const struct shard_file *file, const struct shard_file *base,
                                    size_t table, const struct table_file_slots *slots)
{
    struct table_union *u = mem_new(1, sizeof *u);
    u->file = file;
    u->info = &file->tables[table];
    u->merges = base != NULL;
    u->streams[NEW].reader = table_reader_new(file, u->info, slots, TABLE_PART_ROWS);
    if (u->merges) {
        u->streams[OLD].reader =
            table_reader_new(base, &base->tables[table], slots, TABLE_PART_ROWS);
        u->streams[GONE].reader = table_reader_new(file, u->info, slots, TABLE_PART_EVICTED);
    }
    table_layout_init(&u->layout, u->info, slots, TABLE_PART_ROWS);
    return u;
}

void table_union_free(struct table_union *u)
{
    if (u == NULL) {
        return;
    }
    for (size_t i = 0; i < STREAMS; i++) {
        table_reader_free(u->streams[i].reader);
    }
    table_part_release(&u->part);
    free(u);
}

/* @s->n is 0: it has no more. */
static int load(struct stream *s, struct err *err)
{
    s->at = 0;
    int rc = table_reader_next(s->reader, &s->n, err);
    if (rc == 0 && s->n > 0) {
        s->order = table_walk_order(table_reader_keys(s->reader)[0]);
        s->rows = table_reader_rows(s->reader);
    }
    return rc;
}

static int step(struct stream *s, struct err *err)
{
    if (++s->at == s->n) {
        return load(s, err);
    }
    s->order = table_walk_order(table_reader_keys(s->reader)[s->at]);
    return 0;
}

static void copy(struct table_union *u, const struct stream *s)
{
    const struct table_part *from = table_reader_part(s->reader);
    for (size_t column = 0; column < u->layout.column_count; column++) {
        const size_t bytes = (size_t)table_layout_bytes(&u->layout, column);
        memcpy((char *)u->part.columns[column] + u->part.n * bytes,
               (const char *)from->columns[column] + s->at * bytes, bytes);
    }
    u->part.n++;
}

/* The row of the base at which it is, unless it went or changed. */
static int take_old(struct table_union *u, struct err *err)
{
    struct stream *old = &u->streams[OLD], *gone = &u->streams[GONE];
    int rc = 0;
    while (rc == 0 && gone->n > 0 && gone->order < old->order) {
        rc = step(gone, err);
    }
    if (rc == 0 && !(gone->n > 0 && gone->order == old->order)) {
        copy(u, old);
    }
    return rc != 0 ? rc : step(old, err);
}

static int merge(struct table_union *u, struct err *err)
{
    struct stream *old = &u->streams[OLD], *new = &u->streams[NEW];
    int rc = 0;
    u->part.n = 0;
    while (rc == 0 && u->part.n < u->part.capacity && (old->n > 0 || new->n > 0)) {
        if (old->n > 0 && new->n > 0 && old->order == new->order) {
            rc = step(old, err);
        } else if (old->n > 0 && (new->n == 0 || old->order < new->order)) {
            rc = take_old(u, err);
        } else {
            copy(u, new);
            rc = step(new, err);
        }
    }
    return rc;
}

static int begin(struct table_union *u, struct err *err)
{
    const uint64_t fit = TABLE_FILE_PART_BYTES / u->layout.row_bytes;
    int rc = 0;
    u->begun = true;
    for (size_t i = 0; rc == 0 && u->merges && i < STREAMS; i++) {
        rc = load(&u->streams[i], err);
    }
    if (rc == 0 && u->merges) {
        rc = table_part_init(&u->part, &u->layout, fit == 0 ? 1 : fit, err);
    }
    return rc;
}

int table_union_next(struct table_union *u, struct table_chunk *out, struct err *err)
{
    struct stream *s = &u->streams[NEW];
    int rc = u->begun ? 0 : begin(u, err);
    if (rc == 0 && u->merges) {
        rc = merge(u, err);
        *out = table_part_rows(&u->part, 0);
        out->n = u->part.n;
    } else if (rc == 0) {
        rc = table_reader_next(s->reader, &s->n, err);
        *out = s->n == 0 ? (struct table_chunk){0} : table_reader_rows(s->reader);
        out->n = s->n;
    }
    if (rc != 0) {
        return rc;
    }
    u->rows += out->n;
    if (u->rows > u->info->all || (out->n == 0 && u->rows < u->info->all)) {
        return err_set(err, ERR_CORRUPT,
                       "read %s: table %s: with those of its base it has %s %" PRIu64
                       " rows: it is no delta of these",
                       u->file->file.path, u->info->name,
                       u->rows > u->info->all ? "more than" : "fewer than", u->info->all);
    }
    return 0;
}

uint64_t table_union_bytes(const struct table_union *u)
{
    return u->merges ? u->part.n * u->layout.row_bytes : table_reader_bytes(u->streams[NEW].reader);
}
