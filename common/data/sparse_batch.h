/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of a mini-batch, field by field, as layers that look keys up want them: all keys of a
 * field lie together. The list of record i in field f is keys[k] and weights[k] for k from
 * offsets[f × (capacity + 1) + i] up to the next offset.
 *
 * Memory: sparse_batch_init() takes all that any batch of different records may need; to read one
 * allocates nothing. */
#ifndef GRADUS_DATA_SPARSE_BATCH_H
#define GRADUS_DATA_SPARSE_BATCH_H

#include "data/sparse_fields.h"

struct sparse_batch {
    size_t capacity, count; /* records that fit, and are there */
    size_t fields;
    size_t keys_capacity;
    uint64_t *offsets; /* [fields × (capacity + 1)] */
    uint64_t *keys;    /* [keys_capacity] */
    float *weights;    /* [keys_capacity]; NULL: all are 1 */
};

/* Errors: ERR_EXHAUSTED. */
int sparse_batch_init(struct sparse_batch *b, const struct sparse_fields *f, size_t capacity,
                      struct err *err);
void sparse_batch_release(struct sparse_batch *b); /* zeroed struct is fine */
/* Read @count different records (at most capacity). */
void sparse_batch_read(struct sparse_batch *b, const struct sparse_fields *f,
                       const uint64_t *records, size_t count);

#endif
