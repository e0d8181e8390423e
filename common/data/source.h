/* SPDX-License-Identifier: Apache-2.0 */
/* A file as a stream of bytes, plain, gzip, zlib or zstd, that knows where it is for error
 * messages.
 *
 * Owner: one thread. Memory: of raw_file.h and of what unpacks it. */
#ifndef GRADUS_DATA_SOURCE_H
#define GRADUS_DATA_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/data_roots.h"

struct source;

/* Opens @path, a regular file or an object ("s3://bucket/key") below @roots (NULL: any). Gzip, zlib
 * and zstd are recognised by their first bytes, whatever the name; the length at the beginning of a
 * TFRecord file, which its checksum follows, is never mistaken for one of them. Errors: as
 * raw_file_open(). */
int source_open(const char *path, const struct data_roots *roots, struct source **out,
                struct err *err);
/* The same of standard input, which may be packed, too. */
int source_open_input(struct source **out, struct err *err);
/* A part of the file @path that is in memory already, unpacked; both are borrowed. */
void source_of_bytes(const char *path, const char *bytes, size_t n, struct source **out);
void source_close(struct source *s); /* NULL is fine */

/* Read @n bytes to @out; *@got is smaller only at the end of the file.
 * Errors: ERR_CORRUPT a damaged or cut gzip or zstd file, with the byte; as raw_file_read(). */
int source_read(struct source *s, void *out, size_t n, size_t *got, struct err *err);

const char *source_path(const struct source *s);
uint64_t source_offset(const struct source *s); /* decoded bytes read so far */
/* Decoded bytes of the whole file; false when it is packed, or standard input. */
bool source_size(const struct source *s, uint64_t *bytes);

#endif
