/* SPDX-License-Identifier: Apache-2.0 */
/* A mini-batch in memory of the caller's choosing: what a dataset fills and a model computes:
 * numbers, and lists of keys of sparse fields. Plain data. */
#ifndef GRADUS_TENSOR_BATCH_H
#define GRADUS_TENSOR_BATCH_H

#include <stddef.h>
#include <stdint.h>

/* Names of the sparse fields of records, in the order in which a batch has their lists. Borrows. */
struct sparse_names {
    const char *const *names; /* [count] */
    size_t count;
};

/* The lists of a mini-batch, field by field, as layers that look keys up want them: all keys of a
 * field lie together. The list of record i in field f is keys[k] and weights[k] for k from
 * offsets[f × (capacity + 1) + i] up to the next offset. */
struct sparse_batch {
    size_t capacity, count; /* records that fit, and that are there */
    size_t fields;
    size_t keys_capacity;
    uint64_t *offsets; /* [fields × (capacity + 1)] */
    uint64_t *keys;    /* [keys_capacity] */
    float *weights;    /* [keys_capacity]; NULL: all are 1 */
};

struct batch {
    size_t capacity;           /* records that fit */
    size_t count;              /* records present */
    float *features;           /* [count × elements of one record] */
    int32_t *classes;          /* [count]; 0..classes-1 (class labels) */
    float *targets;            /* [count]; the class number, or the scaled real label */
    float *weights;            /* [count] what each counts, from 0 on; NULL: 1 */
    struct sparse_batch lists; /* of the same records; no fields: the records have none */
};

#endif
