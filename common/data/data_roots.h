/* SPDX-License-Identifier: Apache-2.0 */
/* The directories and prefixes of object stores below which a process reads data files, whatever a
 * job names: "/data", "s3://bucket/prefix".
 *
 * Of a path, what it leads to counts: links and ".." are followed first, by opening what is there
 * without any right to it (O_PATH), then asking the kernel where that lies, then reading through
 * that descriptor alone. So no name that is exchanged meanwhile leads out. A name that leads out is
 * refused with the same sentence whether there is such a file or not. A second name of a file that
 * was made below a root (a hard link, a bind mount) lies below it.
 *
 * NULL in place of roots, or none of them: every file is read. Read-only after it was made: any
 * thread. */
#ifndef GRADUS_DATA_DATA_ROOTS_H
#define GRADUS_DATA_DATA_ROOTS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct data_roots {
    char **items; /* [count] absolute paths, and s3:// URLs without a slash at the end */
    size_t count;
};

/* @text: one, or a list: [/data, s3://bucket/prefix]. @out is zeroed. Nothing has to be there yet.
 * Errors: ERR_INVALID a relative path, another scheme, no list. */
int data_roots_read(const char *text, struct data_roots *out, struct err *err);
void data_roots_release(struct data_roots *roots);

/* Are there any? */
bool data_roots_bind(const struct data_roots *roots);
/* What the path @path leads to, as a descriptor of O_PATH: "/proc/self/fd/N" opens it. With roots
 * alone. Errors: ERR_PERMISSION outside of all roots; why it cannot be opened. */
int data_roots_find(const struct data_roots *roots, const char *path, int *fd, struct err *err);
/* Checks that @location, a path or a URL, may be read. Errors: those of data_roots_find(). */
int data_roots_check(const struct data_roots *roots, const char *location, struct err *err);
/* The sentence. Returns ERR_PERMISSION. */
int data_roots_refuse(const struct data_roots *roots, const char *location, struct err *err);

#endif
