/* SPDX-License-Identifier: Apache-2.0 */
/* Three tables of a job on any number of shards: one that counts sightings exactly and evicts, one
 * that counts them in a Bloom filter and has few rows, one that catches up. They are updated with
 * keys that follow from the version, saved, and restored. */
#ifndef GRADUS_TESTS_UNIT_CHECKPOINT_TABLES_RIG_H
#define GRADUS_TESTS_UNIT_CHECKPOINT_TABLES_RIG_H

#include "checkpoint_rig.h"

#include "table/table.h"

#define TABLES 3
#define SHARDS_MAX 5

struct fleet {
    const struct rule *rule;
    void *params;
    struct rule_past *past; /* stays where it is */
    uint32_t shards;
    uint64_t version;
    struct table *tables[TABLES][SHARDS_MAX];
};

extern const char *const fleet_names[TABLES];
extern const size_t fleet_dims[TABLES];

void fleet_open(struct fleet *f, const char *rule, uint32_t shards, uint64_t version);
void fleet_close(struct fleet *f);
/* As many updates of all tables. */
void fleet_update(struct fleet *f, unsigned updates);
/* All that table @table has, in an order of its own: rows as they are kept, and counts. */
void fleet_dump(struct fleet *f, size_t table, struct buf *out);
void fleet_assert_same(struct fleet *a, struct fleet *b);
/* A checkpoint of the present version, in parts of @part_bytes; with @goes_on updates come between
 * any two parts, and the fleet is at a later version when it is written. Returns its path. */
char *fleet_save(struct fleet *f, struct fixture *fixture, uint64_t part_bytes, bool goes_on);
/* The same of a delta of @base, which was saved of the same tables. */
char *fleet_save_delta(struct fleet *f, struct fixture *fixture, uint64_t part_bytes, bool goes_on,
                       const char *base);
/* Into @f, which was opened. */
int fleet_restore(struct fleet *f, const char *path, enum checkpoint_check check, struct err *err);

#endif
