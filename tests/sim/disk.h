/* SPDX-License-Identifier: Apache-2.0 */
/* What is on the disk: only disk.c and disk_ops.c include this. */
#ifndef GRADUS_SIM_DISK_H
#define GRADUS_SIM_DISK_H

#include "sim/sim.h"

#define DIRECTORIES_MAX 256
#define READS 5 /* that a file takes rows of tables in */

struct part { /* a shard's file */
    bool present, delta;
    uint64_t version, examples, checksum, opened;
    uint64_t base_checksum; /* of a delta: of that shard's file in the base */
    struct tensor values, slot;
    struct ids ids;
    struct flat_ledger ledger;
    struct sim_saved *tables; /* NULL: none */
};

#define STARTS_MAX 8 /* of a job, while a directory is there */

struct directory {
    char name[80];
    uint32_t job;
    bool there, manifest;
    bool damaged; /* a bit of it is not what was written */
    /* A file's name has the generation that its shard was opened with. */
    struct part parts[SIM_SHARDS_MAX][STARTS_MAX];
    /* of the manifest */
    char base[80]; /* of which it is a delta; "": none */
    uint64_t base_checksums[SIM_SHARDS_MAX];
    uint64_t generation, step, version, examples, opened, checksums[SIM_SHARDS_MAX];
    uint32_t shard_count;
    struct flat_ledger ledger;
    struct best best;
    char encoding[16];
};

enum op_kind { OP_PREPARE, OP_DISCARD, OP_MANIFEST, OP_PRUNE, OP_FIND, OP_PART };
#define AVOID_NAMES_MAX 8

struct op { /* that is going on */
    enum op_kind kind;
    bool used, done; /* done: only its owner does not know yet */
    uint32_t node, life, job, shard, unary, attempt;
    uint64_t number, generation, step, examples, version;
    size_t keep;
    char name[80];      /* PRUNE: of the checkpoint that the job's row has */
    char base[80];      /* MANIFEST */
    char encoding[16];  /* likewise */
    char best_name[80]; /* PRUNE: of the best version */
    struct best best;   /* MANIFEST */
    char avoid[AVOID_NAMES_MAX][80];
    uint32_t avoid_count;
    struct part part;
    uint32_t serial; /* PART: of the shard */
    struct flat_ledger ledger;
    uint64_t checksums[SIM_SHARDS_MAX], versions[SIM_SHARDS_MAX], opened[SIM_SHARDS_MAX];
    uint32_t shard_count;
    int code;
    char why[120];
};

struct disk {
    struct directory directories[DIRECTORIES_MAX];
    uint32_t directory_count;
    struct op *ops;
    size_t op_count, op_capacity;
    struct sim_saved *saved; /* all that there are */
    struct job_record rows[SIM_JOBS_MAX];
    bool has_row[SIM_JOBS_MAX];
};

struct directory *directory_find(struct disk *d, const char *name);
struct part *directory_part(struct directory *dir, uint32_t shard, uint64_t opened);
struct directory *directory_make(struct world *w, const char *name, uint32_t job);
struct directory *directory_newest(struct disk *d, uint32_t job, const struct op *op);
void directory_mend(struct disk *d, uint32_t job);
bool disk_is_gone(const struct world *w);
struct sim_saved *disk_new_saved(struct disk *d);
void directory_prune(struct disk *d, uint32_t job, size_t keep, const char *named,
                     const char *best);
/* The checkpoint of @job at @step, complete; NULL: there is none. */
struct directory *directory_of_step(struct disk *d, uint32_t job, uint64_t step);

#endif
