/* SPDX-License-Identifier: Apache-2.0 */
/* A data file that is wanted in memory as a whole: a model, not records. */
#ifndef GRADUS_DATA_WHOLE_FILE_H
#define GRADUS_DATA_WHOLE_FILE_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "data/data_roots.h"

/* Append all of @path, unpacked, below @roots (NULL: any). Errors: ERR_INVALID over @bytes_max; as
 * source_open() and source_read(). */
int whole_file_read(const char *path, const struct data_roots *roots, size_t bytes_max,
                    struct buf *out, struct err *err);

#endif
