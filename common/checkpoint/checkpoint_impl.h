/* SPDX-License-Identifier: Apache-2.0 */
/* An open checkpoint, as the files that read it see it. Only common/checkpoint includes this. */
#ifndef GRADUS_CHECKPOINT_CHECKPOINT_IMPL_H
#define GRADUS_CHECKPOINT_CHECKPOINT_IMPL_H

#include <string.h>

#include "checkpoint/checkpoint.h"
#include "checkpoint/shard_file.h"
#include "checkpoint/table_union.h"

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
    size_t *column_begin;    /* [columns + 1]: the pieces of a column */
    struct checkpoint *base; /* the checkpoint of which this is a delta; NULL: it is no delta */
    atomic_ullong *bytes;    /* counter of bytes that were read; NULL: nobody counts */
    const struct checkpoint_past *pasts; /* [past_count] */
    size_t past_count;
};

/* ---- columns ---- */

static inline size_t checkpoint_columns_per_variable(const struct checkpoint *c)
{
    return 1 + c->manifest.slot_count;
}

static inline const struct variable_spec *checkpoint_find_variable(const struct checkpoint *c,
                                                                   const char *name)
{
    for (size_t i = 0; i < c->manifest.variable_count; i++) {
        if (strcmp(c->manifest.variables[i].name, name) == 0) {
            return &c->manifest.variables[i];
        }
    }
    return NULL;
}

/* The place of a slot among the columns of a variable; 0 stands for the values, -1 for no such
 * slot. */
static inline int checkpoint_slot_column(const struct checkpoint *c, const char *slot)
{
    if (slot == NULL || slot[0] == '\0') {
        return 0;
    }
    for (size_t k = 0; k < c->manifest.slot_count; k++) {
        if (strcmp(c->manifest.slots[k], slot) == 0) {
            return (int)k + 1;
        }
    }
    return -1;
}

/* Whether @column of a variable is per parameter, row, column or variable; values are per
 * parameter. */
static inline enum rule_slot_kind checkpoint_column_kind(const struct checkpoint *c, size_t column)
{
    return column == 0 ? RULE_SLOT_PARAMETER : c->manifest.slot_kinds[column - 1];
}

static inline bool checkpoint_is_copied(enum rule_slot_kind kind)
{
    return kind == RULE_SLOT_COLUMN || kind == RULE_SLOT_VARIABLE;
}

/* ---- tables (checkpoint_tables.c) ---- */

/* Is what file @shard has of tables what the manifest says? Adds how many tensors that are to
 * @tensors. Errors: ERR_CORRUPT. */
int checkpoint_check_tables(const struct checkpoint *c, uint32_t shard, size_t *tensors,
                            struct err *err);
/* True if @tensor is the name of a tensor of one of the tables. */
bool checkpoint_is_of_table(const struct checkpoint *c, const char *tensor);

/* All rows of table @table in the file of @shard, with those of its base; @slots borrowed. */
struct table_union *checkpoint_rows(const struct checkpoint *c, uint32_t shard, size_t table,
                                    const struct table_file_slots *slots);

/* Brings rows of table @table of any file to the newest version of all shards, as
 * checkpoint_catch_up() says; nothing to do is fine. */
void checkpoint_catch_rows(const struct checkpoint *c, size_t table, struct table_chunk *rows);

/* The keys of table @table, or with @values its values (or slot @slot, not NULL), of all files, in
 * the order of table_walk_order(). Errors: those of files; ERR_CORRUPT. */
int checkpoint_export_table(const struct checkpoint *c, size_t table, bool values, const char *slot,
                            struct safetensors_writer *w, struct err *err);

#endif
