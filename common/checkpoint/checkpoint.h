/* SPDX-License-Identifier: Apache-2.0 */
/* A complete checkpoint, opened for reading: the values and slots of a job as whole variables,
 * however many shards wrote them, so that it restores onto any number of parameter servers.
 *
 * Threads may read from one open checkpoint at the same time. Keeps one file open per shard. */
#ifndef GRADUS_CHECKPOINT_CHECKPOINT_H
#define GRADUS_CHECKPOINT_CHECKPOINT_H

#include <stdatomic.h>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "tensor/histogram.h"

enum checkpoint_check {
    CHECKPOINT_QUICK, /* the files are there with the right sizes and headers */
    CHECKPOINT_FULL,  /* and their content has the checksums of the manifest */
    /* As CHECKPOINT_QUICK, and what is read later is checked as far as it is read; a file without
     * checksums of its chunks is checked as a whole. */
    CHECKPOINT_PIECES,
};

struct checkpoint;

/* @path: the directory of the checkpoint. Every element of every variable and slot must be in
 * exactly one file; of slots per column and per variable, every row must have one copy. Errors:
 * ERR_NOT_FOUND no manifest, or a file is missing; ERR_CORRUPT says which file and why;
 * ERR_UNSUPPORTED; those of files. */
int checkpoint_open(const char *path, enum checkpoint_check check, struct checkpoint **out,
                    struct err *err);
void checkpoint_close(struct checkpoint *c); /* NULL is fine */
/* From now on add the bytes that were read to @bytes (borrowed), so that others see it go on. */
void checkpoint_count(struct checkpoint *c, atomic_ullong *bytes);

const struct manifest *checkpoint_manifest(const struct checkpoint *c);

/* Elements @first .. @first+@count-1 (flat, row-major) of @variable, or of its slot @slot when that
 * is not NULL; of slots per row, column or variable: of what there is of the whole variable.
 * Errors: ERR_NOT_FOUND no such variable or slot; ERR_RANGE; ERR_CORRUPT, also when copies of a
 * slot per column or variable differ. */
int checkpoint_read(const struct checkpoint *c, const char *variable, const char *slot,
                    uint64_t first, uint64_t count, float *out, struct err *err);
/* What the gradient of the update was like that made the newest version of each shard: histograms
 * into @out, one for each variable of the manifest, of those that have none (statistics of layers)
 * without a value. False: the job did not want them, or a shard did not know. Errors: ERR_CORRUPT.
 */
int checkpoint_gradients(const struct checkpoint *c, struct histogram *out, bool *found,
                         struct err *err);
/* Reads all of one shard of @plan, which may have any number of shards: values into the flat buffer
 * @values, and slots into @slots as @update of that shard has them (@rule NULL: no slots). Copies
 * of slots per column and per variable are compared where this shard joins rows of several copies.
 * Errors: ERR_INVALID another rule, a variable that the checkpoint lacks or has in another shape, a
 * slot of another kind; ERR_NOT_FOUND a slot that it lacks; ERR_CORRUPT copies differ. */
int checkpoint_read_shard(const struct checkpoint *c, const struct plan *plan, uint32_t shard,
                          const char *rule, const struct update *update, float *values,
                          float *const *slots, struct err *err);

/* Slots alone, of variables that may have other names there: @names [plan->variable_count]. Errors:
 * as checkpoint_read_shard(). */
int checkpoint_read_slots(const struct checkpoint *c, const struct plan *plan, uint32_t shard,
                          const char *const *names, const struct update *update,
                          float *const *slots, struct err *err);

struct checkpoint_table { /* a table that is to be restored; everything is borrowed */
    const char *name;
    int admission; /* enum table_admission_kind of its config */
    struct table *table;
};
/* Restores the @count tables of shard @shard of @shards, which are new: the rows, and the counts of
 * admission, whose keys belong to that shard. Files whose shards share no key with it are not read;
 * of the others one part is in memory at a time. Errors: ERR_INVALID other tables than the
 * checkpoint has, or with another dim, rule or admission; ERR_CORRUPT; ERR_EXHAUSTED; those of
 * files. */
int checkpoint_restore_tables(const struct checkpoint *c, const struct checkpoint_table *tables,
                              size_t count, uint32_t shard, uint32_t shards, struct err *err);

/* Rows of a table that catches up are kept as their last updates left them. */
struct checkpoint_past {
    const char *table;
    const struct rule *rule;
    const struct rule_past *past;
};
/* From now on such rows are exported, and taken, as they read (all borrowed). */
void checkpoint_catch_up(struct checkpoint *c, const struct checkpoint_past *pasts, size_t count);

/* The rows of table @name alone into @table, which is new and of shard @shard of @shards: values as
 * an export has them, and sightings; with @slots also slots, and versions at which they were seen
 * last, else those of new rows. Errors: ERR_NOT_FOUND no such table; ERR_INVALID another dim, with
 * @slots another rule, or a value that is not finite; others as of checkpoint_restore_tables(). */
int checkpoint_take_rows(const struct checkpoint *c, const char *name, bool slots,
                         struct table *table, uint32_t shard, uint32_t shards, struct err *err);

/* Writes one safetensors file of whole variables; without metadata equal values give equal bytes.
 * @slot NULL: the parameters; else what that slot ("average") has for each of them. A table "ads"
 * becomes "ads.keys" (U64) and "ads.values" (F32, a row for each key); 8 MiB of each file are in
 * memory at a time. Errors: ERR_NOT_FOUND no such slot; ERR_INVALID it is not per parameter; those
 * of files. */
int checkpoint_export(const struct checkpoint *c, const char *slot, const char *out_path,
                      struct err *err);
/* As checkpoint_export(), with metadata in which the file says what it is. */
int checkpoint_export_described(const struct checkpoint *c, const char *slot, const char *out_path,
                                const struct safetensors_meta *meta, size_t meta_count,
                                struct err *err);

#endif
