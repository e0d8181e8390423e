/* SPDX-License-Identifier: Apache-2.0 */
/* All that the tables of a shard are at one version, as parts of bytes, and back: rows as they lie
 * with slots and notes, and what admission has counted. So tables that are made of the parts go on
 * with the same bits. Memory is that of one part, and a part is read in a fraction of a
 * millisecond, between two updates.
 *
 * A part, little-endian:
 *
 *     u32  table          its number
 *     u32  what           0 rows, 1 counts of keys, 2 blocks of a Bloom filter
 *     u64  n              so many of them
 *     u64  rows, counts   that the table has about in all; of the present version
 *     u64  keys[n]
 *     rows:    u64 seen[n], u32 sightings[n], values [n x dim], slots one after the other
 *     counts:  u32 counts[n]
 *     blocks:  TABLE_BLOOM_BLOCK bytes each
 *
 * Owner: the shard's strand. */
#ifndef GRADUS_PS_DATA_TABLES_STATE_H
#define GRADUS_PS_DATA_TABLES_STATE_H

#include "ps/data/shard_tables.h"

#define TABLES_STATE_PART_BYTES (UINT64_C(128) << 10) /* or one row */

/* How far it is read. Begins with tables_state_begin(), as often as one likes. */
struct tables_state {
    struct shard_tables *tables;
    uint64_t version; /* pinned */
    size_t table;
    bool counts;
    struct table_cursor cursor;
};
void tables_state_begin(struct tables_state *st, struct shard_tables *t, uint64_t version);
/* The next part, to be freed; NULL with @bytes 0: there are no more. Errors: ERR_RANGE the pin was
 * given up; ERR_EXHAUSTED; ERR_STATE the tables are closed. */
int tables_state_next(struct tables_state *st, void **part, size_t *bytes, struct err *err);
/* Puts a part, which lies on an address that is a multiple of 8, into @t, which nothing was done to
 * but this. Errors: ERR_INVALID it is no such thing; those of table_restore_rows(). */
int tables_state_take(struct shard_tables *t, const void *part, size_t bytes, struct err *err);

#endif
