/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of an index, and how a key is found in them: for the loops that look up many keys. Only
 * common/table includes this. */
#ifndef GRADUS_TABLE_TABLE_LINE_H
#define GRADUS_TABLE_TABLE_LINE_H

#include "base/vector.h"
#include "table/table_index.h"

#define TABLE_LINE_KEYS 5

struct table_line {
    uint64_t keys[TABLE_LINE_KEYS]; /* keys from @count on mean nothing */
    uint32_t rows[TABLE_LINE_KEYS];
    uint32_t count;
};
_Static_assert(sizeof(struct table_line) == 64, "a line of the index is a cache line");

/* The finalizer of SplitMix64 (Steele, Lea, Flood 2014), a bijection, behind a constant of its own:
 * what decides by another hash which shard has a key must not leave lines of that shard empty. */
VECTOR_INLINE uint64_t table_mix(uint64_t key)
{
    key ^= 0x6A09E667F3BCC909U; /* of the root of 2 */
    key = (key ^ (key >> 30)) * 0xBF58476D1CE4E5B9U;
    key = (key ^ (key >> 27)) * 0x94D049BB133111EBU;
    return key ^ (key >> 31);
}

/* The key whose table_mix() is @hash: each step undone, by the inverses of the two factors. */
VECTOR_INLINE uint64_t table_unmix(uint64_t hash)
{
    hash = (hash ^ (hash >> 31) ^ (hash >> 62)) * 0x319642B2D24D8EC3U;
    hash = (hash ^ (hash >> 27) ^ (hash >> 54)) * 0x96DE1B173F119089U;
    return hash ^ (hash >> 30) ^ (hash >> 60) ^ 0x6A09E667F3BCC909U;
}

__extension__ typedef unsigned __int128 table_wide; /* a compiler extension on 64-bit targets */

/* @hash as a share of 2^64, of @n lines: keeps the order of hashes. */
VECTOR_INLINE uint64_t table_share(uint64_t hash, uint64_t n)
{
    return (uint64_t)((table_wide)hash * n >> 64);
}

/* The home of keys with @hash; homes have the order of hashes, also while the index grows. */
VECTOR_INLINE uint64_t table_hash_home(const struct table_index *index, uint64_t hash)
{
    const uint64_t home = table_share(hash, index->homes);
    return home < index->unmoved ? home : table_share(hash, index->homes_new);
}

VECTOR_INLINE uint64_t table_home(const struct table_index *index, uint64_t key)
{
    return table_hash_home(index, table_mix(key));
}

VECTOR_INLINE struct table_line *table_lines(const struct table_index *index)
{
    return (struct table_line *)(void *)index->memory.base;
}

/* The position of @key in @line, or TABLE_LINE_KEYS. */
VECTOR_INLINE unsigned table_line_find(const struct table_line *line, uint64_t key)
{
    unsigned hits = 0;
    for (unsigned i = 0; i < TABLE_LINE_KEYS; i++) {
        hits |= (unsigned)(line->keys[i] == key) << i;
    }
    hits &= (1U << line->count) - 1;
    return (unsigned)__builtin_ctz(hits | 1U << TABLE_LINE_KEYS);
}

/* The number of @key, for which the search begins at @line. */
VECTOR_INLINE uint32_t table_line_search(const struct table_line *line, uint64_t key)
{
    for (;; line++) {
        const unsigned at = table_line_find(line, key);
        if (at < TABLE_LINE_KEYS) {
            return line->rows[at];
        }
        if (line->count < TABLE_LINE_KEYS) {
            return TABLE_ROW_NONE;
        }
    }
}

#endif
