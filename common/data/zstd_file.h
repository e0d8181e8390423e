/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks a zstd file from its beginning to its end, frame after frame.
 *
 * Owner: one thread. Memory: the window of the file, of at most 128 MiB (zstd refuses larger ones).
 */
#ifndef GRADUS_DATA_ZSTD_FILE_H
#define GRADUS_DATA_ZSTD_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/raw_file.h"

struct zstd_file;

/* True if a file that begins with these bytes looks like zstd. */
bool zstd_file_begins(const uint8_t *head, size_t n);
/* @file is borrowed, and stands at its beginning. Errors: ERR_EXHAUSTED. */
int zstd_file_open(struct raw_file *file, struct zstd_file **out, struct err *err);
void zstd_file_close(struct zstd_file *z); /* NULL is fine */
/* As source_read(). */
int zstd_file_read(struct zstd_file *z, void *out, size_t n, size_t *got, struct err *err);

#endif
