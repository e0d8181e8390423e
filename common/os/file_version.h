/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a file is another one than before, for who reads it again when it changes. */
#ifndef GRADUS_OS_FILE_VERSION_H
#define GRADUS_OS_FILE_VERSION_H

#include <stdbool.h>
#include <stdint.h>

/* What the file system says of a file, which changes when the file is replaced or written; zeroed:
 * there is no file. */
struct file_version {
    uint64_t inode;
    uint64_t bytes;
    int64_t changed_s;
    int64_t changed_ns;
};

/* The version of the file @path now. */
struct file_version file_version(const char *path);
bool file_version_same(const struct file_version *a, const struct file_version *b);

#endif
