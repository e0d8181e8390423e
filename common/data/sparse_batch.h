/* SPDX-License-Identifier: Apache-2.0 */
/* Fills the lists of a mini-batch (tensor/batch.h) from sparse fields. Of a field that is fed as
 * columns alone the lists of a batch are empty.
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
/* Bytes that sparse_batch_init() takes. */
uint64_t sparse_batch_bytes(const struct sparse_fields *f, size_t capacity);
void sparse_batch_release(struct sparse_batch *b); /* zeroed struct is fine */
/* Keys of a record in fields that are not fed as columns. */
uint64_t sparse_batch_keys_of(const struct sparse_fields *f, uint64_t record);
/* Read @count different records (at most capacity). */
void sparse_batch_read(struct sparse_batch *b, const struct sparse_fields *f,
                       const uint64_t *records, size_t count);

#endif
