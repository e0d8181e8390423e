/* SPDX-License-Identifier: Apache-2.0 */
/* How tables lie in the file of a shard. The rows of a table are cut into parts, each of as many
 * rows as a writer or a reader holds at once, and so is what admission has counted:
 *
 *     ads/r00003.keys         U64 [rows]
 *     ads/r00003.values       F32 [rows, dim]
 *     ads/r00003#m            F32 [rows, dim]   slot m; of slots per row: [rows]
 *     ads/r00003.seen         U64 [rows]        the version that the row's last update made
 *     ads/r00003.sightings    U32 [rows]
 *     ads/r00003.sum          U64 [1]           XXH3 of these, in this order
 *
 *     ads/c00000.keys         U64 [n]           keys that have no row yet, or numbers of blocks
 *     ads/c00000.counts       U32 [n]           how often they were seen; of a Bloom filter
 *     ads/c00000.counters     U8  [n, 64]
 *     ads/c00000.sum          U64 [1]
 *
 *     ads/e00000.keys         U64 [n]           rows of the base that are not there any more
 *     ads/e00000.sum          U64 [1]
 *
 * The file of a delta has those rows that changed since its base, and the last of these; counts are
 * all there.
 *
 * Rows, exact counts and keys come in the order of table_walk_order() of their keys, blocks in that
 * of their numbers: all of it, and where it is cut, follows from what there is and from nothing
 * else. Rows are `kept` ones (table.h).
 *
 * Only common/checkpoint includes this.
 *
 * Why in parts (decision 52): a second copy of a table would be most of a server's memory, and its
 * pinned version is there anyway. The thread that writes asks the strand for a few hundred rows at
 * a time and waits for the disk alone. A header has to say all sizes first, so a tensor for each
 * column of the whole table would need a walk for each. Rows are written as kept, not as read: with
 * catch-up the two differ, and only kept rows go on with the same bits. In the order of hashes
 * equal tables have equal files, and files of several shards can be merged; whoever restores makes
 * the index large enough first, because in this order an index that grows fills slowly. The file's
 * sealed header says what it has; the master copies that into the manifest. */
#ifndef GRADUS_CHECKPOINT_TABLE_PART_H
#define GRADUS_CHECKPOINT_TABLE_PART_H

#include "checkpoint/safetensors.h"
#include "checkpoint/table_file.h"

#define TABLE_PART_COLUMNS_MAX (RULE_SLOTS_MAX + 4)
#define TABLE_PART_SUFFIX_BYTES 72

struct table_part_column {
    char suffix[TABLE_PART_SUFFIX_BYTES]; /* ".keys", "#m" */
    enum safetensors_dtype dtype;
    uint64_t width; /* elements for each row; 0: one, and the tensor is a vector */
};

struct table_layout {
    const char *table; /* borrowed */
    enum table_part_kind kind;
    size_t slot_count;
    size_t column_count;
    struct table_part_column columns[TABLE_PART_COLUMNS_MAX];
    uint64_t row_bytes;
};

/* Of the rows of a table, what its admission counted, or keys of rows that went. No columns: it
 * counts nothing. */
void table_layout_init(struct table_layout *l, const struct table_file_info *table,
                       const struct table_file_slots *slots, enum table_part_kind kind);
/* The number of tensors of the layout. */
uint64_t table_layout_count(const struct table_layout *l, const struct table_file_info *table);
extern const char *const table_part_words[TABLE_PART_KINDS]; /* "rows", "counts", "keys" */
/* The tensor of column @column of part @part, without a name; @column == column_count: the sum. */
void table_layout_tensor(const struct table_layout *l, size_t column, uint64_t rows,
                         struct safetensors_tensor *out);
char *table_layout_name(const struct table_layout *l, uint64_t part, size_t column); /* owned */
/* Bytes of a row in @column. */
uint64_t table_layout_bytes(const struct table_layout *l, size_t column);

/* Rows in memory. */
struct table_part {
    const struct table_layout *layout;
    size_t capacity, n;
    void *columns[TABLE_PART_COLUMNS_MAX];
};

/* Room for @capacity rows. Errors: ERR_EXHAUSTED. */
int table_part_init(struct table_part *p, const struct table_layout *l, uint64_t capacity,
                    struct err *err);
void table_part_release(struct table_part *p); /* zeroed is fine */
/* Rows from @first on as others see them: room up to the capacity; n is 0. */
struct table_chunk table_part_rows(const struct table_part *p, size_t first);
struct table_counts_chunk table_part_counts(const struct table_part *p, size_t first);
uint64_t table_part_sum(const struct table_part *p);
const struct table_part *table_reader_part(const struct table_reader *r); /* the present one */

#endif
