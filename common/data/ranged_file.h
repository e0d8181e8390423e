/* SPDX-License-Identifier: Apache-2.0 */
/* The content of a data file of this machine at any place of it: of a plain file, or of a zstd file
 * with a table of its frames (zstd_seek.h). Packed files that can be read from the beginning only
 * are refused.
 *
 * Any thread may read. */
#ifndef GRADUS_DATA_RANGED_FILE_H
#define GRADUS_DATA_RANGED_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/data_roots.h"
#include "data/frame_cache.h"

struct ranged_file;

/* What shows that a file was replaced or changed. */
struct ranged_stamp {
    uint64_t bytes;     /* as it is stored */
    int64_t changed_ns; /* when it was changed last */
    uint64_t samples;   /* checksum of some of its bytes */
};

/* @cache (borrowed) keeps what is unpacked. Errors: as raw_file_open(); ERR_UNSUPPORTED an object,
 * or packed so that its content has to be read from the beginning. */
int ranged_file_open(const char *path, const struct data_roots *roots, struct frame_cache *cache,
                     struct ranged_file **out, struct err *err);
void ranged_file_close(struct ranged_file *f);           /* NULL is fine */
uint64_t ranged_file_bytes(const struct ranged_file *f); /* of the content, when it was opened */
/* Errors: as raw_file_read_at(). */
int ranged_file_read(struct ranged_file *f, uint64_t at, void *out, size_t n, struct err *err);
/* Says that these bytes are read next. */
void ranged_file_expect(struct ranged_file *f, uint64_t at, size_t n);
/* Reads samples of the file. */
int ranged_file_stamp(const struct ranged_file *f, struct ranged_stamp *out, struct err *err);
/* True if the open file has the size and time of @stamp. */
bool ranged_file_is(const struct ranged_file *f, const struct ranged_stamp *stamp);

#endif
