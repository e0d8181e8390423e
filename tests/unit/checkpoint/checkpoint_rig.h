/* SPDX-License-Identifier: Apache-2.0 */
/* A small job in a temporary directory, and checkpoints of it with any number of shards. */
#ifndef GRADUS_TESTS_UNIT_CHECKPOINT_CHECKPOINT_RIG_H
#define GRADUS_TESTS_UNIT_CHECKPOINT_CHECKPOINT_RIG_H

#include "support/test.h"
#include "support/tmp_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "base/rng.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/shard_file.h"
#include "job/plan/plan_update.h"
#include "os/file.h"

#define JOB_TEXT "name: \"t\"\nupdate: {rule: adam} # \xc3\xa9\t\\\n"
#define VARIABLE_COUNT 4

struct fixture {
    char *dir;
    struct variable_spec variables[VARIABLE_COUNT];
    struct update_spec update;
    struct ledger ledger;
    int64_t partitions;                     /* of each variable, as far as it has rows */
    const struct table_file_source *tables; /* of each shard; NULL: none */
    const struct shard_file_base *bases;    /* likewise */
};

void fixture_use_rule(struct fixture *f, const char *name);
void open_good(const char *path, struct checkpoint **c);
int fixture_setup(void **state);
int fixture_teardown(void **state);
/* What element @i of column @k (0: values, then slots) of variable @v holds at @seed. */
float element(uint64_t seed, uint32_t v, size_t k, uint64_t i);
void make_plan(const struct fixture *f, uint32_t shards, struct plan *plan);
struct update *make_update(const struct fixture *f, const struct plan *plan, uint32_t shard);
/* The flat buffers of one shard: [0] values, then the slots. */
void make_shard(const struct fixture *f, const struct plan *plan, uint32_t shard, uint64_t seed,
                float *buffers[1 + UPDATE_SLOTS_MAX]);
void free_shard(float *buffers[1 + UPDATE_SLOTS_MAX]);
void write_buffers(const struct fixture *f, const char *path, const struct plan *plan,
                   uint32_t shard, uint64_t step, float *buffers[1 + UPDATE_SLOTS_MAX],
                   struct manifest_shard *out);
void write_shard(const struct fixture *f, const char *path, const struct plan *plan, uint32_t shard,
                 uint64_t step, uint64_t seed, struct manifest_shard *out);
/* A complete checkpoint below the fixture's directory; returns its path, owned. */
char *write_checkpoint(const struct fixture *f, uint32_t shards, uint64_t step, uint64_t seed);
void read_whole(const char *dir, const char *name, struct buf *out);
/* Over the old bytes, without the waiting for the disk of file_write_atomic(). */
void write_whole(const char *dir, const char *name, const void *data, size_t n);

#define assert_message(err, part)                                                                  \
    do {                                                                                           \
        if (strstr((err).msg, (part)) == NULL) {                                                   \
            fail_msg("\"%s\" does not say \"%s\"", (err).msg, (part));                             \
        }                                                                                          \
    } while (0)

#endif
