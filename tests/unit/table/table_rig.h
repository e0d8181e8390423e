/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of limits and errors do with one table: updates of ranges of keys, and lists of all
 * rows. */
#ifndef GRADUS_TESTS_UNIT_TABLE_TABLE_RIG_H
#define GRADUS_TESTS_UNIT_TABLE_TABLE_RIG_H

#include "support/test.h"

#include "table/table.h"

#define RIG_KEYS_MAX 4000 /* of an update */
#define RIG_DIM_MAX 64

extern uint64_t rig_keys[RIG_KEYS_MAX]; /* of the last update, rising */

struct table *rig_open(const struct table_config *c);
/* An update of keys number @first to @first + @n - 1, each seen once, with gradients of ones. Key
 * number i is rng_u64(9, i). */
int rig_update(struct table *t, uint64_t first, size_t n, struct err *err);
uint64_t rig_rows(const struct table *t);
int rig_compare(const void *a, const void *b); /* two keys, for qsort() */

struct rig_listing { /* all rows of a version */
    size_t n;
    struct table_chunk chunk;
};
struct rig_listing rig_list(struct table *t, uint64_t version);
void rig_drop(struct rig_listing *l);
size_t rig_find(const struct rig_listing *l, uint64_t key); /* l->n: not there */
void rig_assert_same(const struct rig_listing *a, const struct rig_listing *b, size_t dim);

#endif
