/* SPDX-License-Identifier: Apache-2.0 */
/* An open checkpoint, as the files that read it see it. Only common/checkpoint includes this. */
#ifndef GRADUS_CHECKPOINT_CHECKPOINT_IMPL_H
#define GRADUS_CHECKPOINT_CHECKPOINT_IMPL_H

#include "checkpoint/checkpoint.h"
#include "checkpoint/shard_file.h"

/* What one shard file holds of a column, that is of a variable's values or of one of its slots.
 * `first` and `count` are elements. A slot per column or per variable is whole in each piece; there
 * they are the rows of the partition that this copy of the slot belongs to. */
struct piece {
    size_t column; /* variable · (1 + slots) + (0: values, k: slot k - 1) */
    uint64_t first, count;
    uint32_t shard;
    const struct safetensors_tensor *tensor;
};

struct checkpoint {
    char *path;
    struct manifest manifest;
    struct shard_file *files; /* [shard_count] */
    struct piece *pieces;     /* sorted by column, then first */
    size_t piece_count;
    size_t *column_begin;                /* [columns + 1]: the pieces of a column */
    atomic_ullong *bytes;                /* read; NULL: nobody counts */
    const struct checkpoint_past *pasts; /* [past_count] */
    size_t past_count;
};

/* ---- tables (checkpoint_tables.c) ---- */

/* Is what file @shard has of tables what the manifest says? Adds how many tensors that are to
 * @tensors. Errors: ERR_CORRUPT. */
int checkpoint_check_tables(const struct checkpoint *c, uint32_t shard, size_t *tensors,
                            struct err *err);
/* Is it the name of a tensor of one of the tables? */
bool checkpoint_is_of_table(const struct checkpoint *c, const char *tensor);

/* The keys of table @table, or with @values its values (or slot @slot, not NULL), of all files, in
 * the order of table_walk_order(). Errors: those of files; ERR_CORRUPT. */
int checkpoint_export_table(const struct checkpoint *c, size_t table, bool values, const char *slot,
                            struct safetensors_writer *w, struct err *err);

#endif
