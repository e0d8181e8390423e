/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a gzip file that is there completely or not at all. No time stamp and no name in the
 * header: equal content gives equal bytes. The only user of zlib's writing half. */
#ifndef GRADUS_DATA_GZIP_FILE_H
#define GRADUS_DATA_GZIP_FILE_H

#include <stddef.h>

#include "base/err.h"

struct gzip_file;

int gzip_file_open(const char *path, struct gzip_file **out, struct err *err);
int gzip_file_add(struct gzip_file *g, const void *data, size_t n, struct err *err);
/* Rename to the final path. Frees @g in any case. */
int gzip_file_commit(struct gzip_file *g, struct err *err);
void gzip_file_abort(struct gzip_file *g); /* removes the unfinished file; frees @g; NULL is fine */

#endif
