/* SPDX-License-Identifier: Apache-2.0 */
/* Data sets that do not fit memory: records are read from their files when they are asked for.
 *
 * The first time, all records are read, checked and measured, in blocks, and an index is written;
 * afterwards the index is enough, while the files are the same. The same records, the same bits as
 * dataset_open() of records in memory gives. */
#ifndef GRADUS_DATA_DATASET_STREAM_H
#define GRADUS_DATA_DATASET_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "data/dataset.h"

struct dataset_stream;

/* As dataset_open(). Errors: also ERR_UNSUPPORTED data that can only be read as a whole. */
int dataset_stream_open(const struct data_spec *spec, enum data_label_kind label_kind,
                        struct dataset **train, struct dataset **test, struct err *err);
/* dataset_read() of a streamed data set. */
int dataset_stream_read(const struct dataset *d, const uint64_t *records, size_t count,
                        struct batch *b, struct err *err);
/* for labels that are classes */
void dataset_stream_class_counts(const struct dataset *d, uint64_t *out);
uint64_t dataset_stream_bytes(const struct dataset_stream *s); /* of memory, at most */
const char *dataset_stream_note(const struct dataset_stream *s);
void dataset_stream_free(struct dataset_stream *s); /* by each owner; NULL is fine */

#endif
