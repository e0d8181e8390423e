/* SPDX-License-Identifier: Apache-2.0 */
/* From keys to numbers of copies: an open-addressing hash table whose entries lie in the order of
 * their hashes (Amble, Knuth, "Ordered hash tables", 1974), so that a walk in this order, as a walk
 * over the index of a table is, reads on from where it was. Nothing is removed from one.
 *
 * Memory: 24 bytes for each entry that fits, of a budget, and 16 more of address space, touched
 * only when hashes are crowded at the end. Half as many again fit when it grows. Keys that somebody
 * chose can make it slow, not wrong. Only common/table includes this. */
#ifndef GRADUS_TABLE_TABLE_COPY_MAP_H
#define GRADUS_TABLE_TABLE_COPY_MAP_H

#include "table/table_index.h"

struct table_copy {
    uint64_t hash; /* table_mix() of the key */
    uint32_t number;
    uint32_t taken; /* 0: the place is free */
};

struct table_copy_map {         /* begins zeroed, with a budget */
    struct table_copy *entries; /* [homes + fit] */
    size_t homes, fit, count;
    struct table_budget *budget;
};

/* Makes @n more fit. Errors: ERR_EXHAUSTED; unchanged then. */
int table_copy_map_reserve(struct table_copy_map *m, size_t n, struct err *err);
void table_copy_map_release(struct table_copy_map *m);
void table_copy_map_clear(struct table_copy_map *m); /* keeps the memory */

/* Have the place of @hash brought from memory. */
void table_copy_map_fetch(const struct table_copy_map *m, uint64_t hash);
/* TABLE_ROW_NONE: it is not there. */
uint32_t table_copy_map_find(const struct table_copy_map *m, uint64_t hash);
/* Inserts; room was reserved. @number is less than TABLE_ROW_NONE. False: @hash is there already,
 * and stays as it is. */
bool table_copy_map_insert(struct table_copy_map *m, uint64_t hash, uint32_t number);
/* The first @max entries from hash @from on, in their order. */
size_t table_copy_map_next(const struct table_copy_map *m, uint64_t from, struct table_copy *out,
                           size_t max);

#endif
