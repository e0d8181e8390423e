/* SPDX-License-Identifier: Apache-2.0 */
/* TFRecord files: records of bytes, each with its length before it and both checked by sums.
 *
 *   length (8 bytes, lowest first), masked CRC-32C of these 8 bytes (4),
 *   the bytes, masked CRC-32C of them (4)
 *
 * as tensorflow/core/lib/io/record_writer.h describes them. Owner: one thread. */
#ifndef GRADUS_DATA_TFRECORD_H
#define GRADUS_DATA_TFRECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/data_roots.h"

#define TFRECORD_HEAD_BYTES 12
#define TFRECORD_AROUND_BYTES (TFRECORD_HEAD_BYTES + 4) /* bytes of a record beside its content */
#define TFRECORD_BYTES_MAX (64U << 20)                  /* of one record */

struct tfrecord;

struct tfrecord_item {
    /* [size]; NULL at the end of the file; valid until the next one is read */
    const uint8_t *bytes;
    size_t size;
    uint64_t number; /* number of the record, from 0 */
    uint64_t offset; /* of the record's length in the unpacked file */
};

/* Does a file that begins with these bytes begin with a record? */
bool tfrecord_begins(const uint8_t *head, size_t n);
/* Four bytes of a file as a number, the lowest first. */
uint32_t tfrecord_number(const uint8_t *bytes);
/* Errors: as source_open(). */
int tfrecord_open(const char *path, const struct data_roots *roots, struct tfrecord **out,
                  struct err *err);
/* Records that are in memory; the first is number @number, @offset bytes from the beginning of the
 * file. All is borrowed. */
void tfrecord_of_bytes(const char *path, const char *bytes, size_t n, uint64_t number,
                       uint64_t offset, struct tfrecord **out);
void tfrecord_close(struct tfrecord *t); /* NULL is fine */
/* The next record. Errors, with file, record and byte: ERR_CORRUPT a wrong sum, or the file ends in
 * the record; ERR_EXHAUSTED a record that is too long; as source_read(). After a wrong sum of the
 * bytes, *@framed, the next record can be read. */
int tfrecord_next(struct tfrecord *t, struct tfrecord_item *item, bool *framed, struct err *err);

#endif
