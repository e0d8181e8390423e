/* SPDX-License-Identifier: Apache-2.0 */
/* Writes tables into the file of a shard: rows come once, part by part, and each part is cut into
 * its tensors. The number of rows has to be known before the first row, because the header comes
 * first. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/table_part.h"

/* Of all tables of a file, about; the header has an entry of 100 bytes for each column of each. */
#define PARTS_MAX 4096
#define PARTS_MIN 16 /* parts of a table at least, if there are rows for them */

struct item { /* a tensor */
    char *name;
    size_t cut; /* number of the layout */
    uint64_t part;
    size_t column;
};

struct cut { /* the rows of a table, its counts, or keys of rows that went */
    struct table_layout layout;
    uint64_t rows, part_rows;
    uint64_t next; /* the part that has not been loaded yet */
};

struct table_writer {
    const struct table_file_source *source;
    struct cut *cuts; /* [TABLE_PART_KINDS × tables] */
    struct item *items;
    size_t item_count, item_capacity;
    struct table_part part; /* the part `loaded` holds; its number is next - 1 */
    const struct cut *loaded;
    uint64_t sum;
};

static uint64_t parts_of(const struct cut *c)
{
    return c->rows / c->part_rows + (c->rows % c->part_rows != 0);
}

static uint64_t rows_of(const struct cut *c, uint64_t part)
{
    const uint64_t left = c->rows - part * c->part_rows;
    return left < c->part_rows ? left : c->part_rows;
}

static void add_items(struct table_writer *w, size_t cut)
{
    const struct cut *c = &w->cuts[cut];
    for (uint64_t part = 0; part < parts_of(c); part++) {
        for (size_t column = 0; column <= c->layout.column_count; column++) {
            w->items = mem_grow(w->items, &w->item_capacity, w->item_count + 1, sizeof *w->items);
            w->items[w->item_count++] =
                (struct item){table_layout_name(&c->layout, part, column), cut, part, column};
        }
    }
}

struct table_writer *table_writer_new(const struct table_file_source *source)
{
    struct table_writer *w = mem_new(1, sizeof *w);
    const size_t cuts = TABLE_PART_KINDS * source->count;
    const uint64_t share = PARTS_MAX / (2 * (source->count + 1));
    const uint64_t most = share < PARTS_MIN ? PARTS_MIN : share;
    const uint64_t bytes = source->part_bytes == 0 ? TABLE_FILE_PART_BYTES : source->part_bytes;
    w->source = source;
    w->cuts = mem_new(cuts + 1, sizeof *w->cuts);
    for (size_t i = 0; i < cuts; i++) {
        const struct table_file_info *t = &source->tables[i / TABLE_PART_KINDS];
        struct cut *c = &w->cuts[i];
        table_layout_init(&c->layout, t, &source->slots,
                          (enum table_part_kind)(i % TABLE_PART_KINDS));
        c->rows = table_layout_count(&c->layout, t);
        c->rows = c->layout.column_count == 0 ? 0 : c->rows;
        c->part_rows = c->rows == 0 ? 1 : bytes / c->layout.row_bytes;
        c->part_rows = c->part_rows == 0 ? 1 : c->part_rows;
        if (parts_of(c) > most) {
            c->part_rows = c->rows / most + (c->rows % most != 0);
        }
        add_items(w, i);
    }
    return w;
}

void table_writer_free(struct table_writer *w)
{
    for (size_t i = 0; i < w->item_count; i++) {
        free(w->items[i].name);
    }
    free(w->items);
    free(w->cuts);
    table_part_release(&w->part);
    free(w);
}

size_t table_writer_tensors(const struct table_writer *w)
{
    return w->item_count;
}

void table_writer_declare(const struct table_writer *w, struct safetensors_tensor *out)
{
    for (size_t i = 0; i < w->item_count; i++) {
        const struct item *item = &w->items[i];
        const struct cut *c = &w->cuts[item->cut];
        table_layout_tensor(&c->layout, item->column, rows_of(c, item->part), &out[i]);
        out[i].name = item->name;
    }
}

/* Takes the next rows behind those that the part has. */
static int take(struct table_writer *w, size_t cut, size_t *n, struct err *err)
{
    const struct table_file_source *s = w->source;
    const struct cut *c = &w->cuts[cut];
    const size_t table = cut / TABLE_PART_KINDS;
    int rc = 0;
    if (c->layout.kind == TABLE_PART_ROWS) {
        struct table_chunk chunk = table_part_rows(&w->part, w->part.n);
        rc = s->rows(s->ctx, table, &chunk, err);
        *n = chunk.n;
    } else if (c->layout.kind == TABLE_PART_COUNTS) {
        struct table_counts_chunk chunk = table_part_counts(&w->part, w->part.n);
        rc = s->counts(s->ctx, table, &chunk, err);
        *n = chunk.n;
    } else {
        *n = w->part.capacity;
        memcpy(w->part.columns[0], s->evicted[table] + c->next * c->part_rows,
               *n * sizeof(uint64_t));
    }
    return rc;
}

static int load(struct table_writer *w, size_t cut, struct err *err)
{
    struct cut *c = &w->cuts[cut];
    const uint64_t rows = rows_of(c, c->next);
    table_part_release(&w->part);
    w->loaded = NULL;
    int rc = table_part_init(&w->part, &c->layout, rows, err);
    while (rc == 0 && w->part.n < rows) {
        size_t n = 0;
        rc = take(w, cut, &n, err);
        w->part.n += rc == 0 ? n : 0;
        if (rc == 0 && n == 0) {
            rc = err_set(err, ERR_STATE, "table %s ends behind %" PRIu64 " of %" PRIu64 " %s",
                         c->layout.table, c->next * c->part_rows + w->part.n, c->rows,
                         table_part_words[c->layout.kind]);
        }
    }
    if (rc == 0) {
        w->sum = table_part_sum(&w->part);
        w->loaded = c;
        c->next++;
    }
    return rc;
}

int table_writer_add(struct table_writer *w, size_t i, struct safetensors_writer *out,
                     struct err *err)
{
    const struct item *item = &w->items[i];
    const struct cut *c = &w->cuts[item->cut];
    int rc = 0;
    if (w->loaded != c || c->next != item->part + 1) {
        rc = c->next == item->part
                 ? load(w, item->cut, err)
                 : err_set(err, ERR_STATE, "tensor %s: out of its turn", item->name);
    }
    if (rc != 0) {
        return rc;
    }
    if (item->column == c->layout.column_count) {
        return safetensors_writer_add(out, &w->sum, sizeof w->sum, err);
    }
    const uint64_t bytes = table_layout_bytes(&c->layout, item->column);
    return safetensors_writer_add(out, w->part.columns[item->column], w->part.n * (size_t)bytes,
                                  err);
}
