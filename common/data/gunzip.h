/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks a gzip file from its beginning to its end, member after member; what follows the last
 * member and is none is left out, as gzip does. The only user of zlib's reading half.
 *
 * Owner: one thread. Memory: a buffer, and zlib's window of 32 KiB. */
#ifndef GRADUS_DATA_GUNZIP_H
#define GRADUS_DATA_GUNZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/raw_file.h"

struct gunzip;

/* Does a file that begins with these bytes look like gzip, or like zlib (RFC 1950), the same
 * compression in another frame? */
bool gunzip_begins(const uint8_t *head, size_t n);
bool gunzip_begins_zlib(const uint8_t *head, size_t n);
/* @file is borrowed, and stands at its beginning. Errors: ERR_EXHAUSTED. */
int gunzip_open(struct raw_file *file, bool zlib, struct gunzip **out, struct err *err);
void gunzip_close(struct gunzip *g); /* NULL is fine */
/* As source_read(). */
int gunzip_read(struct gunzip *g, void *out, size_t n, size_t *got, struct err *err);

#endif
