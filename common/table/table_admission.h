/* SPDX-License-Identifier: Apache-2.0 */
/* Which keys get a row: most keys of a click log are seen once, and a row for each of them would be
 * most of a table.
 *
 * - all: every key.
 * - counted: keys seen @sightings times. The count is exact: 15 to 17.5 bytes for each key that has
 *   no row yet, of the table's budget.
 * - bloom: the same by a counting Bloom filter (Fan, Cao, Almeida, Broder 2000) of @bytes: counts
 *   are too high sometimes, never too low, so a key may get its row early. Four counters of a byte
 *   per key; with one key per ten bytes 1 % of keys are counted too high. Each bucket
 *   (table_bucket.h) has a filter of its own, so what it says is the same for any number of shards;
 *   a shard has those of its buckets.
 * - probability: a share of all keys, chosen by a hash of seed, table and key. A key's fate never
 *   changes.
 *
 * Of one version first all sightings are noted, then it is asked who is admitted. Notes are sums,
 * so neither their order nor how they were grouped changes an answer.
 *
 * Owner: one thread or strand. */
#ifndef GRADUS_TABLE_TABLE_ADMISSION_H
#define GRADUS_TABLE_TABLE_ADMISSION_H

#include "table/table_index.h"

#define TABLE_BLOOM_SIGHTINGS_MAX 255
#define TABLE_BLOOM_BLOCK 64 /* counters */

enum table_admission_kind {
    TABLE_ADMIT_ALL,
    TABLE_ADMIT_COUNTED,
    TABLE_ADMIT_BLOOM,
    TABLE_ADMIT_PROBABILITY,
};

struct table_admission_spec {
    enum table_admission_kind kind;
    uint32_t sightings; /* counted, bloom: 1 or more */
    uint64_t bytes;     /* bloom: of the table on all shards, of which each bucket has its share in
                           whole blocks of TABLE_BLOOM_BLOCK */
    uint32_t shard, shards; /* 0 of 0 is 0 of 1 */
    double probability;     /* 0 to 1 */
    uint64_t seed;
    const char *name; /* of the table; only read by table_admission_init() */
};

struct table_admission {
    enum table_admission_kind kind;
    uint32_t sightings;
    double probability;
    uint64_t hash_key;
    struct table_budget *budget;
    struct table_index counts; /* counted: sightings by key */
    uint8_t *counters;         /* bloom: [counter_count] */
    size_t counter_count;
    size_t bucket_counters; /* of one bucket */
    uint32_t bucket_first;  /* of this shard */
};

/* Keeps @budget. Errors: ERR_INVALID a setting is out of its range; ERR_EXHAUSTED. */
int table_admission_init(struct table_admission *a, const struct table_admission_spec *spec,
                         struct table_budget *budget, struct err *err);
void table_admission_release(struct table_admission *a); /* zeroed is fine */

/* Notes that each of @n keys, none of which has a row, was seen @sightings[i] times more (NULL:
 * once); keys may repeat. Errors: ERR_EXHAUSTED no memory for a count; the keys before the one
 * named are noted. */
int table_admission_note(struct table_admission *a, const uint64_t *keys, const uint32_t *sightings,
                         size_t n, struct err *err);
/* table_admission_note(), wholly or, with an error, not at all. @before ([n]) is what
 * table_admission_undo() needs to take it back, with the same keys and before anything else is
 * done. */
int table_admission_note_all(struct table_admission *a, const uint64_t *keys,
                             const uint32_t *sightings, size_t n, uint32_t *before,
                             struct err *err);
void table_admission_undo(struct table_admission *a, const uint64_t *keys, size_t n,
                          const uint32_t *before);
/* In which blocks of the filter (bloom) the four counters of @key are: of this shard, from 0. */
void table_admission_blocks(const struct table_admission *a, uint64_t key, size_t blocks[4]);
bool table_admission_admits(const struct table_admission *a, uint64_t key);
/* @key has its row now, or is given up: no count of it is kept any more. (In a Bloom filter it
 * shares its counters, which stay.) */
void table_admission_forget(struct table_admission *a, uint64_t key);

#endif
