/* SPDX-License-Identifier: Apache-2.0 */
/* A summary of the sparse fields of records that are not in memory: enough for plans, checks and
 * the memory of batches. */
#ifndef GRADUS_DATA_SPARSE_SUMMARY_H
#define GRADUS_DATA_SPARSE_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/sparse_fields.h"

struct sparse_field_summary {
    uint64_t keys;                    /* of all records */
    struct sparse_extreme longest;    /* the longest list; count 0: there are no keys */
    struct sparse_extreme of_largest; /* list with the largest key */
    uint64_t without_one;             /* records that have not one key */
    struct sparse_extreme not_one;    /* the first of them */
};

struct sparse_summary {
    struct sparse_field_summary *fields; /* [count] */
    size_t count;
    uint64_t records;
    uint64_t *with_keys; /* [longest + 1] records with so many keys in fields that are no columns */
    size_t with_keys_count;
};

struct sparse_summary *sparse_summary_new(size_t fields);
void sparse_summary_free(struct sparse_summary *s); /* NULL is fine */
/* The next records. */
void sparse_summary_add(struct sparse_summary *s, const struct sparse_fields *block);
/* As sparse_fields_beyond(). */
bool sparse_summary_beyond(const struct sparse_summary *s, size_t field, uint64_t keys,
                           size_t length, struct sparse_extreme *found);

#endif
