/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is read from its beginning to its end. Of an object store, the next parts are fetched
 * by several threads while one is used, each by a request of its own, with the attempts and pauses
 * of all requests; the object is never held as a whole.
 *
 * Used by one thread. Memory: none for files; STREAM_PARTS_AHEAD parts of an object, and none
 * before what follows its first STREAM_HEAD_BYTES is read. */
#ifndef GRADUS_STORAGE_STORAGE_STREAM_H
#define GRADUS_STORAGE_STORAGE_STREAM_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define STREAM_PART_BYTES ((size_t)8 << 20)
#define STREAM_PARTS_AHEAD 4
/* bytes that come with the request that opens the stream */
#define STREAM_HEAD_BYTES ((size_t)64 << 10)

struct storage_stream;

/* Errors: as storage_open(). */
int storage_stream_open(const char *location, struct storage_stream **out, struct err *err);
/* Gives up what is on its way, which may take a second. NULL is fine. */
void storage_stream_close(struct storage_stream *s);
uint64_t storage_stream_bytes(const struct storage_stream *s); /* of the file */
/* The first @n bytes (at most STREAM_HEAD_BYTES), or all of a shorter file, without taking them.
 * Errors: as storage_read_at(). */
int storage_stream_peek(struct storage_stream *s, void *out, size_t n, size_t *got,
                        struct err *err);
/* Some of the next bytes, at least one and at most @n; none at the end. Errors: as
 * storage_read_at(); ERR_NOT_FOUND, ERR_CORRUPT it was removed or replaced since it was opened.
 * Again the same error when it is called again. */
int storage_stream_read(struct storage_stream *s, void *out, size_t n, size_t *got,
                        struct err *err);

#endif
