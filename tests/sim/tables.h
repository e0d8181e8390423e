/* SPDX-License-Identifier: Apache-2.0 */
/* Sparse tables of the simulator's jobs: real ones (common/table, and services/ps/data/shard_tables
 * around them), small enough to be compared row by row, after every update, with a model that is
 * nothing but arrays.
 *
 * tables.c what a job's tables are, which rows a batch has and what it brings of them;
 * tables_model.c the model, and for sync jobs the rows of each version, computed from batches
 * alone; tables_shard.c the tables of a shard; tables_file.c their way into checkpoints and back.
 */
#ifndef GRADUS_SIM_TABLES_H
#define GRADUS_SIM_TABLES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ps/data/shard_tables.h"
#include "table/table.h"

#define SIM_TABLE_COUNT 2 /* of a job: a plain one, and one with all that tables can */
#define SIM_DIM_MAX 2
#define SIM_SLOTS_MAX 2
#define SIM_BUCKETS 12 /* few, so that limits of buckets are met */
#define SIM_BUCKET_KEYS 4
#define SIM_KEYS (SIM_BUCKETS * SIM_BUCKET_KEYS)
#define SIM_BATCH_KEYS 5 /* of one table in a batch */
#define SIM_COUNTERS 128 /* of one bucket of a Bloom filter, at most */
#define SIM_ROWS_BYTES                                                                             \
    (SIM_TABLE_COUNT * (TABLE_GRADIENT_HEADER_BYTES + SIM_KEYS * (12 + 4 * SIM_DIM_MAX)))

struct world;
struct sim_job;
struct sim_shard;
struct exchange;
struct gradient;
struct shard_action;

/* ---- tables.c ---- */

struct sim_table_plan { /* of a job's table */
    struct table_config config;
    struct rule_past past;
    uint64_t params[32];
    float first[SIM_KEYS][SIM_DIM_MAX]; /* values that rows begin with */
    bool tight;                         /* copies for pinned versions may not fit */
};

extern uint64_t sim_keys[SIM_KEYS]; /* rising; made by tables_plan() */

/* The tables of job @job of @w, which stay where they are. */
void tables_plan(struct world *w, uint32_t job);
void tables_config(const struct sim_job *j, uint32_t table, uint32_t shard, uint32_t shards,
                   struct table_config *out);
uint32_t tables_key_number(uint64_t key); /* SIM_KEYS: none */
uint32_t tables_bucket(uint32_t key);     /* of the few that there are, from 0 */

struct sim_batch_rows { /* of one table */
    uint32_t n;
    uint8_t key[SIM_BATCH_KEYS], sightings[SIM_BATCH_KEYS]; /* numbers of keys, rising */
};
const struct sim_batch_rows *tables_batch(uint64_t epoch, uint32_t batch, uint32_t table);

struct sim_values { /* of rows that were read */
    float of[SIM_TABLE_COUNT][SIM_KEYS][SIM_DIM_MAX];
};

struct sim_rows_gradient {
    struct {
        uint32_t sightings; /* 0: it has no such row */
        float values[SIM_DIM_MAX];
    } of[SIM_TABLE_COUNT][SIM_KEYS];
};
/* Of one batch. */
void tables_gradient_of(const struct sim_job *j, const struct sim_values *rows, const float *params,
                        uint64_t epoch, uint32_t batch, uint32_t records,
                        struct sim_rows_gradient *out);
/* What the rows of a batch do to its dense gradient. */
float tables_pull_of(const struct sim_job *j, const struct sim_values *rows, uint64_t epoch,
                     uint32_t batch);
/* The rows of @g as a gradient of a table in the arrays of @rows; those of @shard alone, unless
 * @shards is 0. */
struct sim_gradient_arrays {
    uint64_t keys[SIM_KEYS];
    uint32_t sightings[SIM_KEYS];
    float values[SIM_KEYS * SIM_DIM_MAX];
};
struct table_gradient_view tables_view(const struct sim_job *j, uint32_t table,
                                       const struct sim_rows_gradient *g,
                                       struct sim_gradient_arrays *arrays);

/* ---- tables_model.c ---- */

struct sim_row {
    bool there;
    uint32_t sightings, counted; /* in updates; without a row */
    uint64_t seen;
    float values[SIM_DIM_MAX], slots[SIM_SLOTS_MAX][SIM_DIM_MAX];
};

struct sim_rows { /* all rows of one version */
    struct sim_row of[SIM_TABLE_COUNT][SIM_KEYS];
    uint8_t counters[SIM_TABLE_COUNT][SIM_BUCKETS][SIM_COUNTERS];
};

struct sim_update {
    uint64_t examples;
    float lr_scale;
    bool scaled; /* by @factor, which comes of sums over all shards */
    float factor;
};
/* @to, of version @version, from @from and what an update brings. */
void rows_update(const struct sim_job *j, const struct sim_rows *from, struct sim_rows *to,
                 uint64_t version, const struct table_gradient_view gradient[SIM_TABLE_COUNT],
                 const struct sim_update *u);
/* As it is read at @version. */
void rows_read(const struct sim_job *j, uint32_t table, uint32_t key, const struct sim_row *row,
               uint64_t version, float *out);
/* Where @a and @b differ, of the keys of shard @shard of @shards: key and table. */
bool rows_differ(const struct sim_job *j, const struct sim_rows *a, const struct sim_rows *b,
                 uint32_t shard, uint32_t shards, uint32_t *table, uint32_t *key);
/* Over all that rows_differ() compares, of a shard as the job has them; goes on from @sum. */
uint64_t rows_sum(const struct sim_job *j, const struct sim_rows *rows, uint32_t shard,
                  uint64_t sum);
/* Rows of a sync job as they are at @version, by its batches alone. */
const struct sim_rows *rows_reference(struct world *w, uint32_t job, uint64_t version);
void rows_forget(struct world *w); /* all references; memory is kept */
void rows_free(struct world *w);

/* ---- tables_shard.c ---- */

#define SIM_PINS_MAX 16

struct sim_tables { /* of a shard */
    struct shard_tables *real;
    struct sim_rows *models; /* of each version that is a snapshot of the shard */
    uint64_t pins[SIM_PINS_MAX];
    bool lost[SIM_PINS_MAX]; /* given up, for want of memory */
    uint32_t pin_count;
    uint32_t writing;   /* files */
    bool kept;          /* the version before can be read, */
    uint64_t kept_from; /* from this one on */
};

/* After a step of the shard: who may read the version before is a matter of the mode. */
void tables_follow(const struct sim_shard *s);
/* NULL: the job has none. */
struct sim_tables *tables_open(struct world *w, const struct sim_shard *s, uint64_t version);
void tables_close(struct world *w, struct sim_tables *t); /* NULL is fine */
/* They begin anew, empty, at @version. */
void tables_renew(struct world *w, struct sim_shard *s, uint64_t version);
/* Of a version that is a snapshot. */
const struct sim_rows *tables_model(struct world *w, const struct sim_shard *s, uint64_t version);
/* What @x brings of rows goes with @g. */
void tables_take(struct world *w, const struct sim_shard *s, const struct exchange *x,
                 struct gradient *g);
void tables_add(struct world *w, struct gradient *to, struct gradient *from);
/* From snapshot @from to @to, with the version of @a. */
void tables_apply(struct world *w, struct sim_shard *s, const struct shard_action *a,
                  const struct gradient *g, uint32_t from, uint32_t to);
void tables_pin(struct world *w, struct sim_shard *s, uint64_t version);
void tables_unpin(struct world *w, struct sim_shard *s, uint64_t version);
void tables_pin_reader(const struct sim_shard *s);
void tables_unpin_reader(const struct sim_shard *s, uint64_t version);
/* The next @n rows of @table that a reader has pinned at @version; @rows were read so far. */
void tables_part(struct world *w, const struct sim_shard *s, uint64_t version, uint32_t table,
                 size_t n, struct table_cursor *cursor, uint32_t *rows);
bool tables_has(const struct sim_shard *s, uint64_t version); /* pinned */
/* Updates wait for a file. */
bool tables_wait(const struct sim_shard *s);
/* The rows that @q asks for, into @x, or a refusal. */
void tables_answer(struct world *w, struct sim_shard *s, const unsigned char *asked,
                   uint64_t version, struct exchange *x);
/* When the shard is at that version: all of it, and what can still be read, must be right. */
void tables_applied(struct world *w, const struct sim_shard *s);
/* All of @version as it lies must be what the model of snapshot @slot says. */
void tables_check(struct world *w, const struct sim_shard *s, uint32_t shards, uint64_t version,
                  uint32_t slot);

/* ---- tables_file.c ---- */

#define SIM_SAVED_MAX (SIM_KEYS + 1) /* rows, and room to see that there are no more */

struct sim_saved_table {
    uint32_t rows, counts;
    uint64_t keys[SIM_SAVED_MAX], seen[SIM_SAVED_MAX];
    uint32_t sightings[SIM_SAVED_MAX];
    float values[SIM_SAVED_MAX * SIM_DIM_MAX], slots[SIM_SLOTS_MAX][SIM_SAVED_MAX * SIM_DIM_MAX];
    bool gone[SIM_KEYS];           /* a delta's: since its base */
    uint64_t count_keys[SIM_KEYS]; /* or blocks */
    uint32_t count_values[SIM_KEYS];
    uint8_t count_blocks[SIM_KEYS][TABLE_BLOOM_BLOCK];
};

struct sim_saved {          /* a shard's part of a checkpoint */
    struct sim_saved *next; /* all that there are on the disk */
    uint64_t version;
    bool delta; /* only the rows that changed in versions above `since` */
    uint64_t since;
    struct sim_rows expected; /* by the model */
    struct sim_saved_table of[SIM_TABLE_COUNT];
    struct table_cursor rows_at[SIM_TABLE_COUNT],
        counts_at[SIM_TABLE_COUNT]; /* while it is written */
};

/* @file is to be a delta of what was saved at @since. False: it is not known what went since. */
bool tables_save_since(struct world *w, const struct sim_shard *s, struct sim_saved *file,
                       uint64_t since);
/* What @delta is with the rows of its base, into @out. */
void tables_unite(const struct sim_job *j, const struct sim_saved *base,
                  const struct sim_saved *delta, struct sim_saved *out);
/* The next @n rows of each table, and counts, or with @n 0 all that are left. Errors: those of
 * table_walk(). */
int tables_save(struct world *w, const struct sim_shard *s, struct sim_saved *file, size_t n,
                struct err *err);
int tables_save_one(struct world *w, const struct sim_shard *s, struct sim_saved *file,
                    uint32_t table, size_t n, struct err *err);
/* What is in @f, into the rows of a model that has none. */
void saved_rows(const struct table_config *c, uint32_t table, const struct sim_saved_table *f,
                struct sim_rows *out);
/* A shard's tables, empty, get what is theirs of @files, which are of all shards that there were.
 */
void tables_restore(struct world *w, const struct sim_job *j, struct table *const *tables,
                    struct sim_saved *const *files, uint32_t count);
/* What shard @shard of @shards must have then. */
void tables_expected(struct sim_saved *const *files, uint32_t count, uint32_t shard,
                     uint32_t shards, struct sim_rows *out);
/* Whatever number of shards they are restored on, they are the same tables. */
void tables_check_files(struct world *w, uint32_t job, struct sim_saved *const *files,
                        uint32_t count);

#endif
