/* SPDX-License-Identifier: Apache-2.0 */
/* A table with versions, as the files that make it up see it: table.c, table_update.c,
 * table_least.c, table_walk.c. */
#ifndef GRADUS_TABLE_TABLE_IMPL_H
#define GRADUS_TABLE_TABLE_IMPL_H

#include "table/table.h"
#include "table/table_copies.h"
#include "table/table_evicted.h"

struct table_scratch { /* of an update; [capacity] each */
    size_t capacity;
    uint32_t *found;     /* of each key of the gradient: its row, or none */
    uint64_t *absent;    /* keys that have no row, in their order */
    uint32_t *sightings; /* of the absent keys */
    uint32_t *before;    /* what admission had counted of them before */
    uint64_t *admitted;  /* the absent keys that get rows */
    uint64_t *seen;      /* of each key of the gradient, while room is made */
};

struct table {
    struct table_rows rows;
    struct table_admission admission;
    struct table_budget counts_budget; /* of admission */
    struct table_copies copies;
    struct table_evicted evicted;
    struct table_eviction_spec eviction;
    const struct rule_past *past;
    enum table_full on_full;
    bool keeps_previous;
    uint64_t kept_from; /* with keeps_previous: the first version whose changes were copied */
    bool opened;        /* an update or a pin has been made: no more rows are put in */
    char *name;
    uint64_t version;
    uint64_t making;   /* the version that the present or the last update makes */
    uint64_t given_up; /* pins of versions below this one were given up for want of memory */
    uint64_t rows_fit;
    uint32_t shard, shards;
    uint32_t bucket_first, bucket_count;
    uint32_t *bucket_rows; /* [bucket_count] */
    struct table_scratch scratch;
    struct table_stats stats; /* of these the ones that are counted */
};

/* ---- table.c ---- */

/* Finds the sets of copies from which @version is read: the set *@first and those behind it;
 * copies.count for the present version. Errors: ERR_RANGE. */
int table_find_version(const struct table *t, uint64_t version, size_t *first, struct err *err);
/* The number of the first block of this shard's Bloom filter. */
static inline size_t table_first_block(const struct table *t)
{
    return t->bucket_first * (t->admission.bucket_counters / TABLE_BLOOM_BLOCK);
}
/* Frees the sets of copies that no reader can ask for any more. */
void table_settle(struct table *t);
static inline uint32_t table_bucket(const struct table *t, uint64_t key)
{
    return table_bucket_of(key) - t->bucket_first;
}

/* ---- table_least.c ---- */

/* Evicts the @going least rows, except rows whose key is among @keys ([n], each once); the caller
 * knows that there are as many. Each row is copied first to @set, which has room for it; NULL: no
 * copies. @seen: [n] of scratch. */
void table_evict_room(struct table *t, struct table_copy_set *set, uint64_t going,
                      const uint64_t *keys, size_t n, uint64_t *seen);
/* Evicts in a pass over all rows, for the update that has made @version: rows unseen for too long,
 * rows above `rows_max`. @set as above. */
void table_evict_pass(struct table *t, struct table_copy_set *set, uint64_t version);
/* The number of rows that such a pass evicts at most, when the update has added rows of @n keys,
 * not counting rows that the update touches. */
uint64_t table_evict_bound(const struct table *t, uint64_t version, const uint64_t *added,
                           size_t n);

#endif
