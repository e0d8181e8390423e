/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are no data files: packings that are not read, files of other programs, and what a
 * failed download leaves. They are told by their first bytes. */
#ifndef GRADUS_DATA_FOREIGN_FILE_H
#define GRADUS_DATA_FOREIGN_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* So many first bytes are enough to recognise all of them. */
#define FOREIGN_FILE_HEAD_BYTES 512

/* Returns 0 if a file that begins with @head[@n] may be data. ERR_INVALID: what kind of file it is,
 * with @path, and what to do. */
int foreign_file_check(const char *path, const uint8_t *head, size_t n, struct err *err);

#endif
