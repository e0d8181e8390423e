/* SPDX-License-Identifier: Apache-2.0 */
/* Where bytes are kept: one small interface to directories and object stores.
 *
 * A location is a path, or a URL: "/var/lib/gradus/checkpoints", "file:///var/lib/gradus",
 * "s3://bucket/prefix" (docs/storage.md; settings and credentials: s3_config.h). Other schemes are
 * refused by every function with ERR_UNSUPPORTED. Locations are joined with file_join(). What holds
 * of every kind of storage:
 *
 * - a file is there completely or not at all, and when the function that made it has returned, it
 *   is durable and everybody sees it;
 * - ERR_NOT_FOUND means that the storage answered, and there is no such file. That it does not
 *   answer, or does not let us look, is another error;
 * - of several who claim a file, one gets it; docs/storage.md says for which object stores.
 *
 * Everything here may block. Any thread may call it; a reader may be read by several threads, a
 * writer is used by one.
 *
 * Locations pass through settings, rows and messages as they are, so nothing between them knows a
 * second kind (decision 48). The functions are those whose promises both kinds can keep; what only
 * a directory needs does nothing in a store. libcurl carries the protocol and signs requests,
 * because it is in every distribution and its faults are looked after; libs3 has no conditional
 * writes. The libcurl of Debian 12 signs the hash of a body without making it, and takes queries as
 * they are: the hash is OpenSSL's, and our queries are sorted. Settings of a store come from the
 * environment alone, under the names of AWS's tools: who runs a container has set them, and secrets
 * do not belong on a command line. */
#ifndef GRADUS_STORAGE_STORAGE_H
#define GRADUS_STORAGE_STORAGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

struct storage_kind; /* the functions of one kind: storage_kind.h */

/* ---- locations ---- */

/* True if it has a scheme, as "s3://bucket/prefix" has. Without one it is a path. */
bool storage_is_url(const char *location);
/* Is it a location that can be used? Errors: ERR_UNSUPPORTED another scheme; ERR_INVALID. */
int storage_check(const char *location, struct err *err);
/* The same place for processes that run in other directories: a path becomes absolute, a URL loses
 * the slashes at its end. Links are not resolved. Returns owned. */
char *storage_absolute(const char *location);
/* @name below the directory @dir; a name that is a URL or begins with a slash is a location of its
 * own. Returns owned. */
char *storage_join(const char *dir, const char *name);

enum storage_thing { STORAGE_NOTHING, STORAGE_FILE, STORAGE_DIRECTORY, STORAGE_OTHER };

/* Looks whether a file or a directory is at @location. Nothing there is no error. Errors: those of
 * the storage. */
int storage_look(const char *location, enum storage_thing *thing, struct err *err);
/* Append a text that is another one when the file is. Errors: ERR_NOT_FOUND; of the storage. */
int storage_stamp(const char *location, struct buf *out, struct err *err);

/* ---- reading ---- */

struct storage_reader {
    const struct storage_kind *kind; /* NULL: closed */
    uint64_t bytes;                  /* of the file, when it was opened */
    int fd;                          /* of files */
    void *state;                     /* of other kinds */
    const atomic_bool *stop;         /* may be set by the user: once it is true, what waits for a
                                        store ends soon, with ERR_CANCELLED */
};

/* @r is written on success. Errors: ERR_NOT_FOUND; ERR_INVALID not a file; of the storage. */
int storage_open(struct storage_reader *r, const char *location, struct err *err);
/* Reads all of @n bytes at @at. Errors: ERR_CORRUPT the file ends before; those of the storage. The
 * message does not name the location. */
int storage_read_at(const struct storage_reader *r, uint64_t at, void *out, size_t n,
                    struct err *err);
void storage_close(struct storage_reader *r); /* safe on a zeroed struct */

/* Append the whole file to @out. Errors: ERR_NOT_FOUND; ERR_EXHAUSTED over @bytes_max. */
int storage_read(const char *location, size_t bytes_max, struct buf *out, struct err *err);

/* The names of what is directly beneath a directory, in any order. */
struct storage_names {
    char **items;
    size_t count, capacity;
};
/* @out must be empty. Errors: ERR_NOT_FOUND no such directory; those of the storage. */
int storage_list(const char *location, struct storage_names *out, struct err *err);
void storage_names_release(struct storage_names *n);

/* Object stores only: the locations of the files below the directory @dir whose names, from there,
 * fit @pattern: *, ? and [ ] as glob(3) has them, so none of them is a slash, nor a dot at the
 * beginning of a name. In any order; none is no error. @out must be empty. Errors:
 * ERR_UNSUPPORTED; ERR_INVALID @dir is no place; those of the storage. */
int storage_find(const char *dir, const char *pattern, struct storage_names *out, struct err *err);

/* ---- writing ---- */

struct storage_writer {
    const struct storage_kind *kind; /* NULL: closed */
    char *location;                  /* what was given */
    uint64_t bytes;                  /* added so far */
    void *state;
};

/* Begin a file in place of one that may be there; nothing is seen of it until it is committed. */
int storage_create(struct storage_writer *w, const char *location, struct err *err);
int storage_add(struct storage_writer *w, const void *data, size_t n, struct err *err);
int storage_commit(struct storage_writer *w, struct err *err); /* closes in any case */
void storage_abort(struct storage_writer *w);                  /* safe after commit */

/* A small file at once. */
int storage_write(const char *location, const void *data, size_t n, struct err *err);
/* As storage_write(), where no file may be yet: one of all who try succeeds. Errors: ERR_EXISTS. */
int storage_claim(const char *location, const void *data, size_t n, struct err *err);

/* Removes one file, durably. A file that is not there is no error. */
int storage_remove(const char *location, struct err *err);
/* Removes a directory with all that is in it. A directory that is not there is no error. */
int storage_remove_tree(const char *location, struct err *err);

/* ---- directories ----
 *
 * In an object store a directory is there as long as something is in it, and the functions that
 * make, remove or sync one do nothing. */

/* mkdir -p. */
int storage_make_dirs(const char *location, struct err *err);
/* Makes a directory that must not be there yet. Errors: ERR_EXISTS. In an object store two may
 * succeed at the same time: a caller that needs to know claims a file in it. */
int storage_make_dir(const char *location, struct err *err);
/* Removes a directory when it is empty; else does nothing. */
void storage_remove_dir(const char *location);
/* Makes the entries directly beneath it outlive a crash. */
int storage_sync_dir(const char *location, struct err *err);

#endif
