/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a data file as they are stored, from the first to the last: a file of this machine,
 * or an object of a store ("s3://bucket/key"), which is read some parts ahead (storage_stream.h)
 * and never held as a whole. Every data file is opened here.
 *
 * Owner: one thread. */
#ifndef GRADUS_DATA_RAW_FILE_H
#define GRADUS_DATA_RAW_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/data_roots.h"

#define RAW_FILE_PEEK_BYTES 512

struct raw_file;

/* Opens a file that @roots (NULL: any) allow. Errors: ERR_NOT_FOUND there is no such file, object
 * or bucket; ERR_PERMISSION the process may not read it, or it is outside of all roots; ERR_INVALID
 * not a regular file; ERR_UNAVAILABLE the store does not answer. */
int raw_file_open(const char *path, const struct data_roots *roots, struct raw_file **out,
                  struct err *err);
/* Standard input, which is read once, from its beginning; its size is not known. Errors: of reading
 * its first bytes. */
int raw_file_open_input(struct raw_file **out, struct err *err);
void raw_file_close(struct raw_file *f); /* NULL is fine */

/* The first @n bytes (at most RAW_FILE_PEEK_BYTES) again, or all of a shorter file. Before reading
 * only. */
int raw_file_peek(struct raw_file *f, void *out, size_t n, size_t *got, struct err *err);
/* Some of the next bytes, at least one and at most @n; none at the end. Errors: as
 * raw_file_open(); ERR_CORRUPT an object was replaced meanwhile; read errors of the system. */
int raw_file_read(struct raw_file *f, void *out, size_t n, size_t *got, struct err *err);

/* All of @n bytes at @at, of a file of this machine; moves nothing. Any thread. Errors: ERR_CORRUPT
 * it ends before; read errors of the system. */
int raw_file_read_at(const struct raw_file *f, uint64_t at, void *out, size_t n, struct err *err);
/* Tell the system that the @n bytes at @at are asked for next. */
void raw_file_expect(const struct raw_file *f, uint64_t at, size_t n);
bool raw_file_is_object(const struct raw_file *f); /* of a store */
bool raw_file_is_input(const struct raw_file *f);  /* standard input */
/* When the file was changed last, in ns; of a file of this machine. */
int64_t raw_file_changed_ns(const struct raw_file *f);

/* The code @rc of a storage in the words of this room: what a wrong key or bucket is to whoever
 * wants data. Others would read something about the process that passes the code on. */
int raw_file_error(int rc);

const char *raw_file_path(const struct raw_file *f);
uint64_t raw_file_bytes(const struct raw_file *f);  /* when it was opened */
uint64_t raw_file_offset(const struct raw_file *f); /* bytes read so far */

#endif
