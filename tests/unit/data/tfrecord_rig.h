/* SPDX-License-Identifier: Apache-2.0 */
/* Writes TFRecord files: frames with a tf.train.Example each. */
#ifndef GRADUS_TESTS_TFRECORD_RIG_H
#define GRADUS_TESTS_TFRECORD_RIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* A feature of an example, whose bytes are @features; @packed: as writers of numbers do today. */
void example_add_ints(struct buf *features, const char *name, bool packed, const int64_t *values,
                      size_t count);
void example_add_floats(struct buf *features, const char *name, bool packed, const float *values,
                        size_t count);
void example_add_texts(struct buf *features, const char *name, const char *const *texts,
                       size_t count);
/* A field of bytes of any message. */
void example_add_bytes(struct buf *out, unsigned number, const void *data, size_t n);
void tfrecord_add_frame(struct buf *out, const struct buf *bytes);
/* An example of @features, which are released. */
void tfrecord_add_example(struct buf *file, struct buf *features);

#endif
