/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the least rows of a table, which make room for others (table_least.c evicts them). Which
 * rows they are depends on the keys and notes of all rows and on nothing else: not on the order in
 * which they came, nor on where they lie. Takes no memory, so a full table can be made emptier.
 *
 * Memory of evicted rows stays with the table, for others. A table that is to hold @bytes holds
 * table_rows_in() rows.
 *
 * Owner: that of the rows. */
#ifndef GRADUS_TABLE_TABLE_EVICTION_H
#define GRADUS_TABLE_TABLE_EVICTION_H

#include "table/table_rows.h"

/* Rows that fit in @bytes for sure, by the formula of table_rows.h. */
uint64_t table_rows_in(const struct table_rows *rows, uint64_t bytes);

enum table_least {
    TABLE_LEAST_RECENT,   /* `seen` decides, */
    TABLE_LEAST_FREQUENT, /* or `sightings`; then the smaller key */
};

/* The limit between the least rows and the others. */
struct table_least_limit {
    uint64_t rank, key; /* the greatest that goes, of rows with that rank the greatest key */
};

/* Finds the limit of the @n least rows, 1 or more and no more than there are. A row whose `seen` is
 * TABLE_SEEN_UNUSED is none of them. Cost: a walk over the notes for each byte of the greatest
 * rank, and where not all rows of one rank are among them, some over the index to find the key. */
struct table_least_limit table_least_find(const struct table_rows *rows, enum table_least least,
                                          uint64_t n);
bool table_least_has(const struct table_rows *rows, enum table_least least,
                     const struct table_least_limit *limit, const struct table_entry *e);

#endif
