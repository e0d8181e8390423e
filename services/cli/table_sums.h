/* SPDX-License-Identifier: Apache-2.0 */
/* A table of a job, summed up from the stats of its shards: sums, how even the load of the shards
 * is, and the hottest keys of all of them. */
#ifndef GRADUS_CLI_TABLE_SUMS_H
#define GRADUS_CLI_TABLE_SUMS_H

#include <stddef.h>

#include "gradus/v1/jobs.pb-c.h"

#define TABLE_SUMS_HOTTEST_MAX 20 /* keys */

struct table_sums_key {
    const Gradus__V1__HotKey *key;
    uint32_t shard;
};

struct table_sums {
    const char *name; /* borrows from the answer, as everything here does */
    /* Of all shards that have it; its name and hottest keys are not set. */
    Gradus__V1__TableStats sum;
    size_t shards;
    /* The largest share of a shard, in times of the mean; 0: no shard has anything. */
    double updated, read, load; /* load: of both together */
    struct table_sums_key hottest[TABLE_SUMS_HOTTEST_MAX];
    size_t hottest_count;
};

/* The stats of table @name on @shard; NULL: none. */
const Gradus__V1__TableStats *table_of_shard(const Gradus__V1__ShardTables *shard,
                                             const char *name);
void table_sums(const Gradus__V1__TablesResponse *r, const char *name, struct table_sums *out);
/* The names of all tables, each once, in the order in which they come. Returns owned: free(); the
 * names are borrowed. */
const char **table_names(const Gradus__V1__TablesResponse *r, size_t *count);

#endif
