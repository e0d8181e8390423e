/* SPDX-License-Identifier: Apache-2.0 */
/* The file of one shard in a checkpoint: safetensors, one tensor per partition and slot.
 *
 *     dense_1.kernel[0:392]      values of rows 0 to 391 of variable dense_1.kernel
 *     dense_1.kernel[0:392]#m    slot m of the same rows
 *
 * Slots per row are vectors. Those per column and per variable are of the whole variable, and
 * vectors, too; every partition has the copy that its shard holds.
 *
 * Rows of tables: table_part.h.
 *
 * A delta has all of the partitions, and of tables what changed since its base, the file of the
 * same shard in an older checkpoint of the job, which is none itself.
 *
 * Metadata: base (JSON), checksums, format, format_version, generation, gradients (JSON,
 * gradient_json.h), job, ledger (JSON), rule, seal, shard, shards, step, tables (JSON), version.
 * The ledger is the shard's own: the pushes that its values hold.
 *
 * Whoever reads a part of it reads no more than that: the data of each tensor are cut into chunks
 * of SHARD_FILE_CHUNK_BYTES, and `checksums` has the XXH3 (64 bits, 16 hex digits) of each, in the
 * order of the tensors' names; `seal` is that of the header. Files of before have neither. Parts of
 * tables have a checksum beside them. */
#ifndef GRADUS_CHECKPOINT_SHARD_FILE_H
#define GRADUS_CHECKPOINT_SHARD_FILE_H

#include "checkpoint/safetensors.h"
#include "checkpoint/table_file.h"
#include "job/progress/ledger.h"
#include "job/plan/plan.h"
#include "rule/update/update.h"

#define SHARD_FILE_FORMAT "gradus-shard"
#define SHARD_FILE_VERSION "1"
/* format_version of files with tables, which older programs cannot read */
#define SHARD_FILE_VERSION_TABLES "2"
/* format_version of deltas, which older programs cannot read */
#define SHARD_FILE_VERSION_DELTA "3"
#define SHARD_FILE_BASE_BYTES 32 /* "step-9223372036854775807" */
#define SHARD_FILE_NAME_BYTES 72 /* "shard-1023-of-1024-g18446744073709551615.safetensors" */
#define SHARD_FILE_SLOT_BYTES 64
#define SHARD_FILE_CHUNK_BYTES (UINT64_C(1) << 20)

/* Writes "shard-0-of-2.safetensors" into @out, or "shard-0-of-2-g7.safetensors" for a shard that
 * was opened with @generation 7, above 1: a server that was given up and wakes up later cannot
 * write over the files of the servers that came after it. Returns @out. */
const char *shard_file_name(uint32_t shard, uint32_t shard_count, uint64_t generation,
                            char out[SHARD_FILE_NAME_BYTES]);
/* Is @name such a name of @shard of @shard_count? @generation becomes 0 when it has none. */
bool shard_file_name_parse(const char *name, uint32_t shard, uint32_t shard_count,
                           uint64_t *generation);

/* The file of which a delta is one. */
struct shard_file_base {
    char directory[SHARD_FILE_BASE_BYTES]; /* name of the base's directory, beside this one:
                                              "step-000000500"; "": no delta */
    uint64_t version, checksum;            /* of the file there */
};
/* True if @name is the name of a checkpoint's directory, without a path. */
bool shard_file_base_named(const char *name);

/* What a shard writes; everything borrowed. */
struct shard_file_state {
    const char *job;
    const struct plan *plan;
    uint32_t shard;
    const char *rule;
    /* update of this shard: which slots there are, and where they lie */
    const struct update *update;
    uint64_t version, generation, step;
    const struct ledger *ledger;
    const float *values;                    /* the shard's flat buffer */
    float *const *slots;                    /* [update_slot_count] */
    const struct table_file_source *tables; /* NULL: the job has none */
    const struct shard_file_base *base;     /* NULL: it is no delta */
    /* of the update that made @version, the mean over its records; as @values. NULL: it is not
     * known, or nobody wants to see what it was like */
    const float *gradient;
};
/* Errors: ERR_INVALID (no such shard); those of files and of @tables. Nothing has the name @path
 * until all is written. */
int shard_file_write(const char *path, const struct shard_file_state *state,
                     struct safetensors_written *out, struct err *err);

struct shard_file {
    struct safetensors file;
    const char *job, *rule; /* borrow from @file */
    uint32_t shard, shard_count;
    uint64_t version, generation, step;
    struct ledger ledger;
    uint64_t *sums;                 /* checksums of all chunks; NULL: the file has none */
    size_t *sum_of;                 /* the first of each tensor of @file */
    struct table_file_info *tables; /* NULL: it says nothing of tables */
    size_t table_count;
    struct shard_file_base base;
};
/* @f is overwritten on success. Errors: ERR_CORRUPT. */
int shard_file_open(struct shard_file *f, const char *path, struct err *err);
/* safetensors_read() with checks: where the file has checksums, those of the chunks that the read
 * touches are compared. Errors: those, and ERR_CORRUPT. */
int shard_file_read(const struct shard_file *f, const struct safetensors_tensor *t,
                    uint64_t first_byte, void *out, size_t bytes, struct err *err);
void shard_file_close(struct shard_file *f); /* safe on a zeroed struct */

/* The parts of a tensor's name. */
struct shard_file_tensor {
    char variable[VARIABLE_NAME_BYTES];
    uint64_t row_first, row_count;
    char slot[SHARD_FILE_SLOT_BYTES]; /* empty: values */
};
bool shard_file_tensor_parse(const char *name, struct shard_file_tensor *out);

#endif
