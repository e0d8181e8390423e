/* SPDX-License-Identifier: Apache-2.0 */
/* Versions of files, as the file system tells them. */
#include "os/file_version.h"

#include <sys/stat.h>

struct file_version file_version(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0) {
        return (struct file_version){0};
    }
    return (struct file_version){.inode = st.st_ino,
                                 .bytes = (uint64_t)st.st_size,
                                 .changed_s = st.st_ctim.tv_sec,
                                 .changed_ns = st.st_ctim.tv_nsec};
}

bool file_version_same(const struct file_version *a, const struct file_version *b)
{
    return a->inode == b->inode && a->bytes == b->bytes && a->changed_s == b->changed_s &&
           a->changed_ns == b->changed_ns;
}
