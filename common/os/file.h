/* SPDX-License-Identifier: Apache-2.0 */
/* Files: whole reads with a limit, and writes that are there completely or not at all. */
#ifndef GRADUS_OS_FILE_H
#define GRADUS_OS_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* Append the content of @path to @out. Errors: not found, permission; ERR_EXHAUSTED over
 * @bytes_max. */
int file_read(const char *path, size_t bytes_max, struct buf *out, struct err *err);

/* Write @n bytes to @path: temporary file beside it, fsync, rename, fsync of the directory. Of a
 * link its target is replaced; what is no regular file (a device, a pipe) is written into. */
int file_write_atomic(const char *path, const void *data, size_t n, struct err *err);

/* The same in pieces. @tmp_path is "<path>.tmp.<pid>"; commit renames; abort removes. */
struct file_writer {
    int fd; /* -1 when closed */
    char *path;
    char *tmp_path; /* when the file is written in place: the same as @path */
    bool direct;    /* nothing is renamed, synced or removed */
    uint64_t offset;
};
#define FILE_STDOUT "/dev/stdout" /* standard output, whatever that is */
int file_writer_open(struct file_writer *w, const char *path, struct err *err);
int file_writer_add(struct file_writer *w, const void *data, size_t n, struct err *err);
int file_writer_commit(struct file_writer *w, struct err *err); /* closes in any case */
void file_writer_abort(struct file_writer *w);                  /* safe after commit */

/* fsync of a directory, so that its entries outlive a crash. */
int file_sync_dir(const char *path, struct err *err);
/* fsync of the directory that @path is in */
int file_sync_parent(const char *path, struct err *err);

/* mkdir -p. */
int file_make_dirs(const char *path, struct err *err);
/* rm -r of a directory tree; missing is fine. Never follows links. */
int file_remove_tree(const char *path, struct err *err);
bool file_exists(const char *path);
/* @dir "/" @name, or @name when it is absolute or @dir is NULL or empty; returns owned. */
char *file_join(const char *dir, const char *name);

#endif
