/* SPDX-License-Identifier: Apache-2.0 */
/* The manifest of a checkpoint: what it is of, and which files with which sizes and checksums
 * belong to it. It is written last, so a directory without one is not a checkpoint. JSON; its last
 * member is the checksum of all text before that member's line. */
#ifndef GRADUS_CHECKPOINT_MANIFEST_H
#define GRADUS_CHECKPOINT_MANIFEST_H

#include "checkpoint/shard_file.h"
#include "job/progress/best.h"
#include "job/progress/ledger.h"
#include "job/plan/plan.h"
#include "rule/update/update.h"

#define MANIFEST_NAME "manifest.json"
#define MANIFEST_FORMAT_VERSION 1
#define MANIFEST_FORMAT_VERSION_TABLES 2 /* of a job with tables, which others could not read */
#define MANIFEST_FORMAT_VERSION_DELTA 3  /* of a delta, likewise */
#define MANIFEST_SUMS_MAX 65536
/* LEDGER_SPLITS_MAX runs, the longest job text and the longest encoding fit */
#define MANIFEST_BYTES_MAX (128U << 20)

struct manifest_shard {  /* one shard file, whose name is shard_file_name() */
    uint64_t generation; /* in the file's name; 0 or 1: not in the name */
    uint64_t version;    /* updates that the shard had applied */
    uint64_t bytes, checksum;
};

struct manifest_table {
    struct table_file_info info; /* rows, counts: of all shards */
    uint64_t *rows, *counts; /* [shard_count] each; of a delta together with those of its base */
};

/* A delta has some of its rows in an older checkpoint of the job, which is none itself. */
struct manifest_base {
    char directory[SHARD_FILE_BASE_BYTES]; /* name of the base's directory, beside this one:
                                              "step-000000500"; "": there is no base */
    uint64_t checksum;                     /* the checksum at the end of the base's manifest */
};

struct manifest_era { /* job/progress/era.h */
    uint64_t version;
    char *update; /* the section of the job file */
};

struct manifest {
    char *job;   /* id */
    char *owner; /* claim.h; "" of before there were any */
    char *text;  /* the canonical job file */
    /* What was measured on the train records, as JSON (data/encoding_json.h); NULL: not kept, as in
     * checkpoints older than this member. */
    char *encoding;
    /* Fingerprint of the ONNX file whose graph is the model, and of its weights (onnx_net.h), as
     * these are no part of the checkpoint; 0: the model is another one, or the checkpoint older
     * than this member. */
    uint64_t model_file;
    int mode; /* enum training_mode */
    char *rule;
    char *slots[UPDATE_SLOTS_MAX];
    enum rule_slot_kind slot_kinds[UPDATE_SLOTS_MAX];
    size_t slot_count;
    uint64_t generation;
    uint64_t step, epoch, records; /* progress; records: applied in all epochs */
    int64_t created_ms;            /* Unix time */
    struct ledger ledger;          /* data position of the job; split_count 0: none */
    uint64_t train_epoch;          /* the epoch of the last batch before the checkpoint */
    double *train_sums; /* training metrics of that epoch so far (metrics_pack()); NULL: none */
    size_t train_sum_count;
    struct best best;    /* by training.stop, at this step; count 0: nothing was evaluated */
    bool result_is_best; /* the job ended here, and what it keeps as the best is its result */
    struct variable_spec *variables; /* names and shapes; initialisers are not kept */
    size_t variable_count;
    struct manifest_shard *shards;
    uint32_t shard_count;
    struct manifest_table *tables;
    size_t table_count;
    struct manifest_base base;
    struct manifest_era *eras; /* none: the update section of the text is of all versions */
    size_t era_count;
    uint64_t checksum; /* the one at the end of the text that was read or written */
};

/* Copies what it is given; the caller fills in the numbers, the ledger and the shards. */
void manifest_init(struct manifest *m, const char *job, const char *text, enum training_mode mode,
                   const struct update_spec *update, const struct plan *plan);
void manifest_release(struct manifest *m);
/* One more table, without rows; @admission: enum table_admission_kind. */
void manifest_add_table(struct manifest *m, const char *name, uint64_t dim, int admission);
/* Adds an era behind the others. */
void manifest_add_era(struct manifest *m, uint64_t version, const char *update);
/* Fills in how many rows of the tables each file has, as the files say, which must be of these
 * tables. A base has to be there, and its checksum is filled in; when no file is a delta, @m has no
 * base afterwards. Errors: ERR_NOT_FOUND, ERR_CORRUPT; those of files. */
int manifest_take_tables(const char *dir, struct manifest *m, struct err *err);
/* The slots of all tables' rows, beside values; names borrowed. */
void manifest_table_slots(const struct manifest *m, struct table_file_slots *out);
/* Elements of a slot of @v: one for each parameter, each row, each column, or one. */
uint64_t manifest_slot_elements(const struct variable_spec *v, enum rule_slot_kind kind);

/* Write @dir/manifest.json, atomically and durably. Errors: ERR_INVALID not UTF-8; of files. */
int manifest_write(const char *dir, const struct manifest *m, struct err *err);
/* Checks that @base, the base of @m in @dir, is the one that @m was written for. Errors:
 * ERR_CORRUPT. */
int manifest_check_base(const char *dir, const struct manifest *m, const struct manifest *base,
                        struct err *err);
/* Checks that file @shard of @m, if it is a delta, is one of that file of @base. Errors:
 * ERR_CORRUPT. */
int manifest_check_delta(const struct manifest *m, const struct manifest *base, uint32_t shard,
                         const struct shard_file *f, struct err *err);
/* The path of the base; returns owned. */
char *manifest_base_path(const char *dir, const struct manifest *m);

/* @m is overwritten on success. Errors: ERR_NOT_FOUND no manifest; ERR_CORRUPT; ERR_UNSUPPORTED. */
int manifest_read(const char *dir, struct manifest *m, struct err *err);
/* Checks that the files are there, with their sizes and (@checksums) their content. Errors:
 * ERR_CORRUPT they are not; those of files when nobody can say. */
int manifest_check_files(const char *dir, const struct manifest *m, bool checksums,
                         struct err *err);

/* manifest_check_files() of shard @shard alone. */
int manifest_check_file(const char *dir, const struct manifest *m, uint32_t shard, bool checksum,
                        struct err *err);

/* ---- for those who write and read the file ---- */

struct json_t;
void manifest_tables_format(const struct manifest *m, struct buf *out);
/* Reads what the manifest says of tables, after slots and shards were read. Errors: ERR_CORRUPT. */
int manifest_tables_read(const struct json_t *root, struct manifest *m, struct err *err);
void manifest_tables_release(struct manifest *m);
void manifest_base_format(const struct manifest *m, struct buf *out);
void manifest_eras_format(const struct manifest *m, struct buf *out);
/* Errors: ERR_CORRUPT. */
int manifest_eras_read(const struct json_t *root, struct manifest *m, struct err *err);
void manifest_eras_release(struct manifest *m);
void manifest_best_format(const struct manifest *m, struct buf *out);
int manifest_best_read(const struct json_t *root, struct manifest *m, struct err *err);
int manifest_base_read(const struct json_t *root, struct manifest *m, struct err *err);
bool manifest_sum_parse(const char *text, uint64_t *out); /* "0x" and 16 digits */

/* "parameter", "row", "column", "variable": by enum rule_slot_kind, NULL at the end */
extern const char *const manifest_slot_kinds[];
/* "sync", "async", "bounded" */
extern const char *const manifest_mode_names[];

#endif
