/* SPDX-License-Identifier: Apache-2.0 */
/* Zstd files that can be read at any place: their content is cut into frames that are packed one by
 * one, and a table at the end says where each begins. It is the seekable format that comes with
 * zstd (contrib/seekable_format/zstd_seekable_compression_format.md), so other programs read such
 * files, too, and those that know nothing of it read them from the beginning. */
#ifndef GRADUS_DATA_ZSTD_SEEK_H
#define GRADUS_DATA_ZSTD_SEEK_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/raw_file.h"
#include "os/file.h"

/* ---- reading ---- */

struct zstd_seek; /* the table; any thread */

/* *@out is NULL where @file has no table. Errors: ERR_CORRUPT it has one that does not fit. */
int zstd_seek_find(const struct raw_file *file, struct zstd_seek **out, struct err *err);
void zstd_seek_free(struct zstd_seek *z);            /* NULL is fine */
uint64_t zstd_seek_bytes(const struct zstd_seek *z); /* of the content */
/* The frame that has the byte @at of the content, which is not behind its end. */
size_t zstd_seek_frame(const struct zstd_seek *z, uint64_t at);
/* Where the content of a frame begins. */
uint64_t zstd_seek_begin(const struct zstd_seek *z, size_t frame);
/* Where a frame lies in the file. */
void zstd_seek_place(const struct zstd_seek *z, size_t frame, uint64_t *at, size_t *bytes);
/* Unpack a frame; owned in *@out, [*@n]. Errors: ERR_CORRUPT; ERR_EXHAUSTED. */
int zstd_seek_unpack(const struct zstd_seek *z, const struct raw_file *file, size_t frame,
                     char **out, size_t *n, struct err *err);

/* ---- writing ---- */

struct zstd_seek_writer {
    struct file_writer file;
    struct buf table;
    uint64_t frames, content;
    void *context;
};

/* @level: of zstd. Errors: of writing. */
int zstd_seek_create(struct zstd_seek_writer *w, const char *path, int level, struct err *err);
/* One frame more. */
int zstd_seek_add(struct zstd_seek_writer *w, const char *bytes, size_t n, struct err *err);
int zstd_seek_commit(struct zstd_seek_writer *w, struct err *err); /* closes in any case */
void zstd_seek_abort(struct zstd_seek_writer *w);                  /* safe after commit */

#endif
