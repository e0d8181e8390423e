/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of a batch, each once: most keys of a click log come more than once in a batch, and a
 * row is to be pulled and pushed once. They are sorted (by radix: Knuth, The Art of Computer
 * Programming 3, 5.2.5), since what is exchanged has rising keys.
 *
 * Owner: one thread. Memory: 52 bytes for each key of the largest batch there was. Time: O(keys),
 * about 15 ns for each of a batch of thousands, whatever the keys are; fewer when they differ in
 * few of their bits. */
#ifndef GRADUS_TABLE_TABLE_KEYS_H
#define GRADUS_TABLE_TABLE_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct table_keys_entry {
    uint64_t key;
    uint32_t position;
};

struct table_keys {      /* begins zeroed */
    size_t n;            /* keys of the batch */
    size_t count;        /* different ones */
    uint64_t *unique;    /* [count] rising */
    uint32_t *sightings; /* [count] how often the batch has each */
    uint32_t *index;     /* [n] for each key of the batch, which of `unique` it is */
    size_t capacity;
    struct table_keys_entry *sorted, *scratch; /* [capacity] */
};

/* Fills @k from @keys: @n of them, in any order, with repeats. Errors: ERR_INVALID more than
 * UINT32_MAX; ERR_EXHAUSTED. */
int table_keys_unique(struct table_keys *k, const uint64_t *keys, size_t n, struct err *err);
void table_keys_release(struct table_keys *k); /* zeroed is fine */

#endif
