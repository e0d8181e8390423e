/* SPDX-License-Identifier: Apache-2.0 */
/* From 64-bit keys to numbers of rows: a hash table of cache lines.
 *
 * A line holds five keys with their numbers. A key has a home, a line that is its mixed value as a
 * share of all lines; where the home is full, the key is in the first line behind that was not
 * (linear probing by lines; Knuth, The Art of Computer Programming 3, 6.4). A key is found when its
 * line is, and is absent when a line is not full, so 1.2 to 1.5 lines are read on average, one
 * behind the other. A removal fills its hole from behind: nothing is left that later searches have
 * to step over.
 *
 * It grows by an eighth when 85 % are used. A larger number of lines leaves the homes in their
 * order, so each key moves towards the end of the array: from the end on, sixteen lines are moved
 * with each insert, until all are; meanwhile a key's home says by itself whether it was moved. No
 * insert waits for more than that, and the table takes 15 to 17.5 bytes per key, whatever its size.
 *
 * All 2^64 keys are legal. Keys that somebody chose with the function in hand can make it slow, not
 * wrong. Numbers come and go with inserts, in no relation to keys; two indexes with the same
 * history of inserts and removes are the same in every byte.
 *
 * Owner: one thread or strand; readers may share it while nobody changes it. */
#ifndef GRADUS_TABLE_TABLE_INDEX_H
#define GRADUS_TABLE_TABLE_INDEX_H

#include <stdbool.h>

#include "table/table_memory.h"

#define TABLE_ROW_NONE UINT32_MAX /* no number of a row */

struct table_entry {
    uint64_t key;
    uint32_t row;
};

struct table_index {
    struct table_memory memory; /* of struct table_line */
    uint64_t count;
    uint64_t homes;     /* lines that are homes; behind them are those that the last ones need */
    uint64_t homes_new; /* while it grows: homes that it will have; else as many as it has */
    uint64_t unmoved;   /* while it grows: homes below this have not been moved; else all */
    uint64_t end;       /* lines from here on are empty */
    struct table_entry *moved; /* memory for lines while they are moved */
    size_t moved_capacity;
};

/* Keeps @budget. Errors: ERR_EXHAUSTED. */
int table_index_init(struct table_index *index, struct table_budget *budget, struct err *err);
void table_index_release(struct table_index *index); /* zeroed is fine */

/* Makes room for @n keys, before the first, for keys in the order of table_index_next(), which
 * would crowd at the begin of an index that grows. Errors: ERR_EXHAUSTED. */
int table_index_reserve(struct table_index *index, uint64_t n, struct err *err);

/* TABLE_ROW_NONE: @key is not there. */
uint32_t table_index_find(const struct table_index *index, uint64_t key);
/* The same for @n keys, their lines fetched ahead; keys may repeat. */
void table_index_find_batch(const struct table_index *index, const uint64_t *keys, size_t n,
                            uint32_t *rows);
/* Where the number of @key is, to be changed; until the next insert or remove. NULL: not there. */
uint32_t *table_index_at(struct table_index *index, uint64_t key);

/* @row is less than TABLE_ROW_NONE. Errors: ERR_EXISTS; ERR_EXHAUSTED. */
int table_index_insert(struct table_index *index, uint64_t key, uint32_t row, struct err *err);
/* The number that @key had; TABLE_ROW_NONE: it was not there. Memory stays with the index. */
uint32_t table_index_remove(struct table_index *index, uint64_t key);

/* The place of a walk over an index; begins zeroed. */
struct table_cursor {
    uint64_t from; /* a hash */
    bool end;
};

/* The next entries, @max at most and more than 0; 0 at the end. Their order is that of the keys'
 * hashes: a function of the set of keys alone, whatever was inserted and removed when, so this is
 * how a checkpoint is written. The index may change between the calls: keys that are there all the
 * time are listed once, those that come or go perhaps. O(1) for each entry. */
size_t table_index_next(const struct table_index *index, struct table_cursor *cursor,
                        struct table_entry *out, size_t max);

#endif
