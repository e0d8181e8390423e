/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the lists of a mini-batch (tensor/batch.h) from sparse fields. Of a field that is fed as
 * columns (its width is not 0) the lists of a batch are empty.
 *
 * Memory: sparse_batch_init() takes all that any batch of different records may need; to read one
 * allocates nothing. */
#ifndef GRADUS_DATA_SPARSE_BATCH_H
#define GRADUS_DATA_SPARSE_BATCH_H

#include "data/sparse_fields.h"
#include "tensor/batch.h"

/* Errors: ERR_EXHAUSTED. */
int sparse_batch_init(struct sparse_batch *b, const struct sparse_fields *f, size_t capacity,
                      struct err *err);
/* What that takes in memory. */
uint64_t sparse_batch_bytes(const struct sparse_fields *f, size_t capacity);
void sparse_batch_release(struct sparse_batch *b); /* zeroed struct is fine */
/* Read @count different records (at most capacity). */
void sparse_batch_read(struct sparse_batch *b, const struct sparse_fields *f,
                       const uint64_t *records, size_t count);

#endif
