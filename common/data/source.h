/* SPDX-License-Identifier: Apache-2.0 */
/* A file as a stream of bytes, plain, gzip or zstd, that knows where it is for error messages.
 *
 * Owner: one thread. The only user of zlib's reading half. */
#ifndef GRADUS_DATA_SOURCE_H
#define GRADUS_DATA_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct source;

/* Open @path, a regular file. Gzip and zstd are recognised by their first bytes, whatever the
 * name.
 * Errors: ERR_NOT_FOUND, ERR_PERMISSION, ERR_INVALID not a regular file. */
int source_open(const char *path, struct source **out, struct err *err);
void source_close(struct source *s); /* NULL is fine */

/* Read @n bytes to @out; *@got is smaller only at the end of the file.
 * Errors: ERR_CORRUPT a damaged or cut gzip or zstd file, with the byte; read errors of the system.
 */
int source_read(struct source *s, void *out, size_t n, size_t *got, struct err *err);

const char *source_path(const struct source *s);
uint64_t source_offset(const struct source *s); /* decoded bytes read so far */
/* Decoded bytes of the whole file; false when it is packed. */
bool source_size(const struct source *s, uint64_t *bytes);

#endif
