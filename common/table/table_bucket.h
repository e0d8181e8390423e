/* SPDX-License-Identifier: Apache-2.0 */
/* Which shard has a key.
 *
 * All keys are in TABLE_BUCKETS buckets, by a hash; a shard has the buckets of a range. What is
 * limited in a table as a whole (its rows, the bytes of a Bloom filter) is limited in each bucket,
 * which has its share, so what happens in a bucket is the same on whichever shard it lies, and the
 * same for any number of shards. (A cache with as many sets: Hill, Smith 1989 tell how little is
 * lost by it.) At most one of two shards has one bucket more than the other.
 *
 * The hash is the finalizer of MurmurHash3 (Appleby 2011), which has nothing in common with that of
 * the index (table_line.h): the keys of a shard are spread over all of its index. */
#ifndef GRADUS_TABLE_TABLE_BUCKET_H
#define GRADUS_TABLE_TABLE_BUCKET_H

#include <stdint.h>

#define TABLE_BUCKETS 1024U /* and as many shards at most */

static inline uint32_t table_bucket_of(uint64_t key)
{
    key = (key ^ (key >> 33)) * 0xFF51AFD7ED558CCDU;
    key = (key ^ (key >> 33)) * 0xC4CEB9FE1A85EC53U;
    return (uint32_t)((key ^ (key >> 33)) >> 54);
}

/* The first bucket of shard @shard of @shards; of @shard == @shards: TABLE_BUCKETS. */
static inline uint32_t table_bucket_first(uint32_t shard, uint32_t shards)
{
    return (uint32_t)(((uint64_t)TABLE_BUCKETS * shard + shards - 1) / shards);
}

/* 0 to @shards - 1; @shards is 1 to TABLE_BUCKETS. */
static inline uint32_t table_shard_of(uint64_t key, uint32_t shards)
{
    return (uint32_t)((uint64_t)table_bucket_of(key) * shards / TABLE_BUCKETS);
}

/* The share of bucket @bucket in @total, a number of all of the table. */
static inline uint64_t table_bucket_share(uint32_t bucket, uint64_t total)
{
    return total / TABLE_BUCKETS + (bucket < total % TABLE_BUCKETS);
}

#endif
