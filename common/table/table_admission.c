/* SPDX-License-Identifier: Apache-2.0 */
/* Counts sightings of keys, exactly or in a filter, and says which keys have enough. */
#include "table/table_admission.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "table/table_bucket.h"
#include "table/table_line.h"

#define BLOOM_HASHES 4
#define BLOOM_BYTES_MIN 65536U
_Static_assert(BLOOM_BYTES_MIN == TABLE_BUCKETS * TABLE_BLOOM_BLOCK, "a block for each bucket");
#define COUNT_MAX (TABLE_ROW_NONE - 1)

static int check(const struct table_admission_spec *spec, struct err *err)
{
    const bool counts = spec->kind == TABLE_ADMIT_COUNTED || spec->kind == TABLE_ADMIT_BLOOM;
    const bool bloom = spec->kind == TABLE_ADMIT_BLOOM;
    const uint32_t max = bloom ? TABLE_BLOOM_SIGHTINGS_MAX : COUNT_MAX;
    if (counts && (spec->sightings < 1 || spec->sightings > max)) {
        return err_set(err, ERR_INVALID, "table %s: admission after %u sightings is not in 1..%u",
                       spec->name, spec->sightings, max);
    }
    if (bloom && (spec->bytes < BLOOM_BYTES_MIN || spec->bytes > SIZE_MAX / 2)) {
        return err_set(err, ERR_INVALID, "table %s: a Bloom filter of %llu bytes; at least %u",
                       spec->name, (unsigned long long)spec->bytes, BLOOM_BYTES_MIN);
    }
    if (spec->shards > TABLE_BUCKETS || spec->shard >= (spec->shards == 0 ? 1 : spec->shards)) {
        return err_set(err, ERR_INVALID, "table %s: shard %u of %u", spec->name, spec->shard,
                       spec->shards);
    }
    if (spec->kind == TABLE_ADMIT_PROBABILITY &&
        !(spec->probability >= 0 && spec->probability <= 1)) {
        return err_set(err, ERR_INVALID, "table %s: admission with probability %g is not in 0..1",
                       spec->name, spec->probability);
    }
    return 0;
}

static int take_counters(struct table_admission *a, size_t count, struct err *err)
{
    int rc = table_budget_take(a->budget, count, "Bloom filter of a table", err);
    if (rc != 0) {
        return rc;
    }
    a->counters = mem_try_aligned(count, 1, "Bloom filter of a table", err);
    if (a->counters == NULL) {
        table_budget_give(a->budget, count);
        return ERR_EXHAUSTED;
    }
    a->counter_count = count;
    return 0;
}

int table_admission_init(struct table_admission *a, const struct table_admission_spec *spec,
                         struct table_budget *budget, struct err *err)
{
    int rc = check(spec, err);
    if (rc != 0) {
        return rc;
    }
    *a = (struct table_admission){
        .kind = spec->kind,
        .sightings = spec->sightings,
        .probability = spec->probability,
        .hash_key = rng_key_mix(rng_key(spec->seed, spec->name), 1),
        .budget = budget,
    };
    if (spec->kind == TABLE_ADMIT_COUNTED) {
        rc = table_index_init(&a->counts, budget, err);
    } else if (spec->kind == TABLE_ADMIT_BLOOM) {
        const uint32_t shards = spec->shards == 0 ? 1 : spec->shards;
        a->bucket_first = table_bucket_first(spec->shard, shards);
        a->bucket_counters =
            (size_t)(spec->bytes / TABLE_BUCKETS / TABLE_BLOOM_BLOCK * TABLE_BLOOM_BLOCK);
        const uint32_t buckets = table_bucket_first(spec->shard + 1, shards) - a->bucket_first;
        rc = take_counters(a, buckets * a->bucket_counters, err);
    }
    return rc == 0 ? 0 : err_wrap(err, "table %s", spec->name);
}

void table_admission_release(struct table_admission *a)
{
    if (a->counters != NULL) {
        table_budget_give(a->budget, a->counter_count);
    }
    free(a->counters);
    table_index_release(&a->counts);
    memset(a, 0, sizeof *a);
}

static int count(struct table_admission *a, uint64_t key, uint32_t sightings, struct err *err)
{
    uint32_t *n = table_index_at(&a->counts, key);
    if (n == NULL) {
        return table_index_insert(&a->counts, key, sightings < COUNT_MAX ? sightings : COUNT_MAX,
                                  err);
    }
    *n = sightings < COUNT_MAX - *n ? *n + sightings : COUNT_MAX;
    return 0;
}

/* The counters of @key: two hashes make all of them (Kirsch, Mitzenmacher 2008). */
static void counters_of(const struct table_admission *a, uint64_t key, size_t at[BLOOM_HASHES])
{
    uint64_t hash = rng_key_mix(a->hash_key, key);
    const uint64_t step = rng_key_mix(hash, 2) | 1;
    const size_t filter = (table_bucket_of(key) - a->bucket_first) * a->bucket_counters;
    for (size_t i = 0; i < BLOOM_HASHES; i++, hash += step) {
        at[i] = filter + (size_t)table_share(hash, a->bucket_counters);
    }
}

void table_admission_blocks(const struct table_admission *a, uint64_t key, size_t blocks[4])
{
    counters_of(a, key, blocks);
    for (size_t i = 0; i < BLOOM_HASHES; i++) {
        blocks[i] /= TABLE_BLOOM_BLOCK;
    }
}

/* Sums that stop at the maximum do not depend on the order of their parts. */
static uint32_t count_in_filter(struct table_admission *a, uint64_t key, uint32_t sightings)
{
    size_t at[BLOOM_HASHES];
    uint32_t before = 0; /* the counters, one behind the other: two of them may be the same one */
    counters_of(a, key, at);
    for (size_t i = 0; i < BLOOM_HASHES; i++) {
        uint8_t *counter = &a->counters[at[i]];
        const uint32_t left = (uint32_t)(UINT8_MAX - *counter);
        before = before << 8 | *counter;
        *counter = (uint8_t)(*counter + (sightings < left ? sightings : left));
    }
    return before;
}

int table_admission_note(struct table_admission *a, const uint64_t *keys, const uint32_t *sightings,
                         size_t n, struct err *err)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t times = sightings == NULL ? 1 : sightings[i];
        if (a->kind == TABLE_ADMIT_BLOOM) {
            (void)count_in_filter(a, keys[i], times);
        } else if (a->kind == TABLE_ADMIT_COUNTED) {
            int rc = count(a, keys[i], times, err);
            if (rc != 0) {
                return err_wrap(err, "sightings of key %llu", (unsigned long long)keys[i]);
            }
        }
    }
    return 0;
}

static void undo_one(struct table_admission *a, uint64_t key, uint32_t before)
{
    size_t at[BLOOM_HASHES];
    uint32_t *n;
    if (a->kind == TABLE_ADMIT_BLOOM) {
        counters_of(a, key, at);
        for (size_t i = BLOOM_HASHES; i-- > 0; before >>= 8) {
            a->counters[at[i]] = (uint8_t)before;
        }
    } else if (a->kind == TABLE_ADMIT_COUNTED) {
        n = table_index_at(&a->counts, key);
        if (before == TABLE_ROW_NONE) {
            (void)table_index_remove(&a->counts, key);
        } else if (n != NULL) {
            *n = before;
        }
    }
}

void table_admission_undo(struct table_admission *a, const uint64_t *keys, size_t n,
                          const uint32_t *before)
{
    for (size_t i = n; i-- > 0;) {
        undo_one(a, keys[i], before[i]);
    }
}

int table_admission_note_all(struct table_admission *a, const uint64_t *keys,
                             const uint32_t *sightings, size_t n, uint32_t *before, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < n; i++) {
        if (a->kind == TABLE_ADMIT_BLOOM) {
            before[i] = count_in_filter(a, keys[i], sightings[i]);
        } else if (a->kind == TABLE_ADMIT_COUNTED) {
            before[i] = table_index_find(&a->counts, keys[i]);
            rc = table_admission_note(a, keys + i, sightings + i, 1, err);
        }
        if (rc != 0) {
            table_admission_undo(a, keys, i, before);
            return rc;
        }
    }
    return 0;
}

static uint32_t filter_count(const struct table_admission *a, uint64_t key)
{
    size_t at[BLOOM_HASHES];
    uint32_t least = UINT8_MAX;
    counters_of(a, key, at);
    for (size_t i = 0; i < BLOOM_HASHES; i++) {
        least = a->counters[at[i]] < least ? a->counters[at[i]] : least;
    }
    return least;
}

bool table_admission_admits(const struct table_admission *a, uint64_t key)
{
    switch (a->kind) {
    case TABLE_ADMIT_ALL:
        break;
    case TABLE_ADMIT_COUNTED: {
        const uint32_t n = table_index_find(&a->counts, key);
        return n != TABLE_ROW_NONE && n >= a->sightings;
    }
    case TABLE_ADMIT_BLOOM:
        return filter_count(a, key) >= a->sightings;
    case TABLE_ADMIT_PROBABILITY:
        return rng_uniform(a->hash_key, key) < a->probability;
    }
    return true;
}

void table_admission_forget(struct table_admission *a, uint64_t key)
{
    if (a->kind == TABLE_ADMIT_COUNTED) {
        (void)table_index_remove(&a->counts, key);
    }
}
