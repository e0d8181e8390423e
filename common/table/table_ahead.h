/* SPDX-License-Identifier: Apache-2.0 */
/* Walks over the rows of many keys with memory fetched ahead. A block of keys goes through three
 * steps, one with each call: the lines of the index are fetched; these name the rows, whose lines
 * are fetched; the rows are visited. Three blocks are on the way at once, so a core waits for many
 * lines at a time instead of one. Only common/table includes this. */
#ifndef GRADUS_TABLE_TABLE_AHEAD_H
#define GRADUS_TABLE_TABLE_AHEAD_H

#include "table/table_line.h"
#include "table/table_rows.h"

#define TABLE_BLOCK 32 /* keys: twice the lines that a core of today can wait for */
#define TABLE_LINE_BYTES 64

struct table_ahead {
    const struct table_rows *rows;
    const uint64_t *keys;
    const uint32_t *known; /* their rows; NULL: they are looked up */
    size_t n;
    size_t record_bytes; /* of the record, to be fetched */
    bool notes;          /* these, too */
    const struct table_line *homes[2][TABLE_BLOCK];
    uint32_t found[2][TABLE_BLOCK];
};

/* The number of keys of block @block. */
VECTOR_INLINE size_t table_block_keys(const struct table_ahead *a, size_t block)
{
    const size_t begin = block * TABLE_BLOCK;
    const size_t left = begin < a->n ? a->n - begin : 0;
    return left < TABLE_BLOCK ? left : TABLE_BLOCK;
}

VECTOR_INLINE void table_fetch_homes(struct table_ahead *a, size_t block)
{
    const struct table_line *lines = table_lines(&a->rows->index);
    const uint64_t *keys = a->keys + block * TABLE_BLOCK;
    const size_t n = table_block_keys(a, block);
    for (size_t i = 0; i < n && a->known == NULL; i++) {
        const struct table_line *line = lines + table_home(&a->rows->index, keys[i]);
        a->homes[block % 2][i] = line;
        __builtin_prefetch(line);
    }
}

VECTOR_INLINE void table_fetch_rows(struct table_ahead *a, size_t block)
{
    const uint64_t *keys = a->keys + block * TABLE_BLOCK;
    const size_t n = table_block_keys(a, block);
    for (size_t i = 0; i < n; i++) {
        const uint32_t row = a->known != NULL ? a->known[block * TABLE_BLOCK + i]
                                              : table_line_search(a->homes[block % 2][i], keys[i]);
        a->found[block % 2][i] = row;
        if (row == TABLE_ROW_NONE) {
            continue;
        }
        const char *record = (const char *)table_rows_record(a->rows, row);
        for (size_t at = 0; at < a->record_bytes; at += TABLE_LINE_BYTES) {
            __builtin_prefetch(record + at);
        }
        /* a record may begin in the middle of a line */
        __builtin_prefetch(record + a->record_bytes - 1);
        if (a->notes) {
            __builtin_prefetch(table_rows_note(a->rows, row));
        }
    }
}

/* Called with @step 0, 1, 2, … until it returns false. @found: the rows of block @step − 2, @count
 * of them (0 in the first two steps), TABLE_ROW_NONE where there is none. */
VECTOR_INLINE bool table_ahead_step(struct table_ahead *a, size_t step, const uint32_t **found,
                                    size_t *count)
{
    table_fetch_homes(a, step);
    if (step >= 1) {
        table_fetch_rows(a, step - 1);
    }
    *found = a->found[step % 2];
    *count = step >= 2 ? table_block_keys(a, step - 2) : 0;
    return step < 2 || *count > 0;
}

#endif
