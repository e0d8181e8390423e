/* SPDX-License-Identifier: Apache-2.0 */
/* Reads data at places of files that lie beside a data file and that it names, as ONNX files have
 * tensors beside them. One of them is open at a time.
 *
 * Owner: one thread. */
#ifndef GRADUS_DATA_BESIDE_FILE_H
#define GRADUS_DATA_BESIDE_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/data_roots.h"

struct beside_file;

/* Beside the file at @path, below @roots (NULL: any; borrowed). Nothing is opened yet. */
struct beside_file *beside_file_new(const char *path, const struct data_roots *roots);
void beside_file_free(struct beside_file *b); /* NULL is fine */
/* @bytes bytes at @offset of @file, a path from the directory of the first; @ctx is the struct
 * beside_file. Errors: ERR_INVALID it ends before; as raw_file_open(). */
int beside_file_read(void *ctx, const char *file, uint64_t offset, void *out, size_t bytes,
                     struct err *err);

#endif
