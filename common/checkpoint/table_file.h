/* SPDX-License-Identifier: Apache-2.0 */
/* Tables in the file of a shard: what they are, where a writer gets them, and how they are read.
 * How they lie there is told in table_part.h.
 *
 * Both ways go part by part: memory is that of one part, TABLE_FILE_PART_BYTES, and more only when
 * a table is larger than thousands of them. */
#ifndef GRADUS_CHECKPOINT_TABLE_FILE_H
#define GRADUS_CHECKPOINT_TABLE_FILE_H

#include "base/buf.h"
#include "checkpoint/safetensors.h"
#include "table/table.h"

#define TABLE_FILE_TABLES_MAX 256
#define TABLE_FILE_NAME_BYTES_MAX 128
#define TABLE_FILE_PART_BYTES (UINT64_C(8) << 20)

struct table_file_info { /* a table in one file */
    char *name;
    uint64_t dim;
    int admission;         /* enum table_admission_kind */
    uint64_t rows, counts; /* counts: keys, or blocks of a Bloom filter */
    uint64_t evicted;      /* keys of evicted rows; of a delta */
    uint64_t all;          /* rows of the table; of a delta more than those in the file, perhaps */
};

enum table_part_kind { /* kinds of a table's parts in a file */
                       TABLE_PART_ROWS,
                       TABLE_PART_COUNTS,
                       TABLE_PART_EVICTED,
                       TABLE_PART_KINDS,
};

struct table_file_slots { /* of each row */
    size_t count;
    const char *names[RULE_SLOTS_MAX];
    enum rule_slot_kind kinds[RULE_SLOTS_MAX]; /* per parameter or per row */
};

/* ---- a list of tables as JSON, in headers and manifests ---- */

/* "all", "counted", "bloom", "probability": by enum table_admission_kind, NULL at the end */
extern const char *const table_file_admissions[];

struct json_t;
/* The members that name a table: "name", "dim", "admission"; without braces. */
void table_file_format_info(const struct table_file_info *t, struct buf *out);
/* Reads back what table_file_add_info() wrote; the name is owned. Errors: ERR_CORRUPT. */
int table_file_read_info(const struct json_t *object, struct table_file_info *t, struct err *err);
/* [{..., "rows": 3, "counts": 0}], of a @delta with "evicted" and "all"; returned owned. */
char *table_file_format(const struct table_file_info *tables, size_t count, bool delta);
/* The same back; @out owned, by table_file_infos_free(). Errors: ERR_CORRUPT. */
int table_file_parse(const char *text, bool delta, struct table_file_info **out, size_t *count,
                     struct err *err);
void table_file_infos_free(struct table_file_info *tables, size_t count);

/* ---- writing ---- */

/* Where rows come from while a file is written. Each call brings the next ones of a table, as many
 * as fit in the chunk or fewer; none when there are no more. */
struct table_file_source {
    size_t count;
    const struct table_file_info *tables; /* [count] with how many rows and counts will come */
    struct table_file_slots slots;
    uint64_t part_bytes; /* 0: TABLE_FILE_PART_BYTES */
    int (*rows)(void *ctx, size_t table, struct table_chunk *chunk, struct err *err);
    int (*counts)(void *ctx, size_t table, struct table_counts_chunk *chunk, struct err *err);
    const uint64_t *const *evicted; /* keys of evicted rows of each table, in a delta; else NULL */
    void *ctx;
};

struct table_writer;
/* @source is borrowed. */
struct table_writer *table_writer_new(const struct table_file_source *source);
void table_writer_free(struct table_writer *w);
size_t table_writer_tensors(const struct table_writer *w);
/* Declares all tensors; their names stay the writer's. */
void table_writer_declare(const struct table_writer *w, struct safetensors_tensor *out);
/* Adds the data of tensor @i of these, in the order of names. Errors: ERR_STATE there are fewer
 * rows than was said; those of the source and of files. */
int table_writer_add(struct table_writer *w, size_t i, struct safetensors_writer *out,
                     struct err *err);

/* ---- reading ---- */

struct shard_file;

/* Are all tensors of table @t there, as they should be? Adds how many they are to @tensors. Errors:
 * ERR_CORRUPT. */
int table_file_check(const struct shard_file *f, const struct table_file_info *t,
                     const struct table_file_slots *slots, size_t *tensors, struct err *err);

struct table_reader;
/* The rows of a table that was checked, or what else its parts are of; @f, @t and @slots are
 * borrowed. */
struct table_reader *table_reader_new(const struct shard_file *f, const struct table_file_info *t,
                                      const struct table_file_slots *slots,
                                      enum table_part_kind kind);
void table_reader_free(struct table_reader *r); /* NULL is fine */
/* Reads the next part into the reader's memory; @rows 0: there are no more. Errors: ERR_CORRUPT its
 * checksum differs, a key is not of the file's shard, comes twice or out of order; ERR_EXHAUSTED;
 * those of files. */
int table_reader_next(struct table_reader *r, size_t *rows, struct err *err);
uint64_t table_reader_bytes(const struct table_reader *r); /* of the present part */
/* The present part: n rows, in memory of the reader. */
struct table_chunk table_reader_rows(const struct table_reader *r);
struct table_counts_chunk table_reader_counts(const struct table_reader *r);
const uint64_t *table_reader_keys(const struct table_reader *r); /* of any kind */

#endif
