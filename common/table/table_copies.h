/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of what changed since versions that can still be read.
 *
 * Each such version has a set of copies; the sets are in order. A row that changes is copied to the
 * newest set, unless it is there: so a set holds, as of its version, what changed between it and
 * the next one. A reader of version v looks in the set of v, then in the sets behind it, then in
 * the table. When nobody needs a set any more its copies fall to the set before it, which keeps its
 * own, or are freed when there is none before it.
 *
 * Beside rows, a set holds what admission had counted, in the same way: by key, or in blocks of a
 * Bloom filter. Only common/table includes this. Owner: that of the table. */
#ifndef GRADUS_TABLE_TABLE_COPIES_H
#define GRADUS_TABLE_TABLE_COPIES_H

#include "table/table.h"
#include "table/table_copy_map.h"

/* in place of a number: there was no row, or no count */
#define TABLE_COPY_ABSENT (TABLE_ROW_NONE - 1)
#define TABLE_SETS_MAX 32 /* pins, the previous version, and some that could not be merged */

struct table_copy_set {
    uint64_t version;
    uint64_t rows; /* rows of the table at that version */
    unsigned pins;
    struct table_copy_map map;   /* of rows: numbers of records */
    struct table_memory records; /* each a struct table_note and the record's floats */
    uint32_t made;
    /* by key: the count of before; by block: the number of its copy */
    struct table_copy_map counts;
    struct table_memory blocks;
    uint32_t blocks_made;
};

struct table_copies {
    struct table_budget budget;
    size_t stride;                               /* floats of a record */
    size_t record_bytes;                         /* of a copy */
    struct table_copy_set *sets[TABLE_SETS_MAX]; /* by version */
    size_t count;
    struct table_copy_set *spare; /* a set whose memory is used again; NULL: none */
    bool keeps_spare;
};

/* @keeps_spare: sets come and go with each update. */
void table_copies_init(struct table_copies *c, size_t stride, uint64_t bytes_max, bool keeps_spare);
/* Says whether the memory of a freed set is kept for the next one. */
void table_copies_keep_spare(struct table_copies *c, bool keeps);
void table_copies_release(struct table_copies *c); /* zeroed is fine */

/* Adds a set behind all others. Errors: ERR_EXHAUSTED. */
int table_copies_add(struct table_copies *c, uint64_t version, uint64_t rows,
                     struct table_copy_set **out, struct err *err);
/* The newest; NULL. */
struct table_copy_set *table_copies_newest(const struct table_copies *c);
/* The number of the set of @version; c->count: none. */
size_t table_copies_find(const struct table_copies *c, uint64_t version);
/* Removes set @i: its copies fall to the set before it. False: there is no memory for that; it
 * stays. */
bool table_copies_drop(struct table_copies *c, size_t i);
/* Memory for what table_copies_drop() of set @i, 1 or more, adds to the one before.
 * Errors: ERR_EXHAUSTED. */
int table_copies_reserve_drop(struct table_copies *c, size_t i, struct err *err);
unsigned table_copies_pinned(const struct table_copies *c); /* sets with pins */

struct table_copy_room {
    size_t rows, absent; /* copies of rows; of keys that had none */
    size_t counts;       /* by key */
    size_t blocks;
};
/* Makes room for as many more. Errors: ERR_EXHAUSTED. */
int table_copy_set_reserve(struct table_copies *c, struct table_copy_set *s,
                           const struct table_copy_room *room, struct err *err);
/* Have what the copy of the row of @key will touch of the set brought from memory. */
void table_copy_fetch(const struct table_copy_set *s, uint64_t key);
/* Copies a row into memory that was reserved. A copy that is there already stays. */
void table_copy_row(struct table_copies *c, struct table_copy_set *s, uint64_t key,
                    const struct table_note *note, const float *record);
void table_copy_no_row(struct table_copy_set *s, uint64_t key);
void table_copy_count(struct table_copy_set *s, uint64_t key, uint32_t count);
void table_copy_block(struct table_copy_set *s, uint64_t number, const uint8_t *counters);

static inline struct table_note *table_copy_note(const struct table_copies *c,
                                                 const struct table_copy_set *s, uint32_t number)
{
    return (struct table_note *)(void *)(s->records.base + (size_t)number * c->record_bytes);
}

static inline float *table_copy_record(const struct table_copies *c, const struct table_copy_set *s,
                                       uint32_t number)
{
    return (float *)(void *)(table_copy_note(c, s, number) + 1);
}

#endif
