/* SPDX-License-Identifier: Apache-2.0 */
/* What a kind of storage has to do, function by function as in storage.h. The locations that it is
 * given are without "file://", and with "s3://".
 *
 * To add a kind: a file with its `const struct storage_kind`, and a line in the list of storage.c.
 */
#ifndef GRADUS_STORAGE_STORAGE_KIND_H
#define GRADUS_STORAGE_STORAGE_KIND_H

#include "storage/storage.h"

struct storage_kind {
    const char *scheme; /* "file" */
    int (*check)(const char *location, struct err *err);
    int (*look)(const char *location, enum storage_thing *thing, struct err *err);
    int (*stamp)(const char *location, struct buf *out, struct err *err);
    int (*open)(struct storage_reader *r, const char *location, struct err *err);
    int (*read_at)(const struct storage_reader *r, uint64_t at, void *out, size_t n,
                   struct err *err);
    void (*close)(struct storage_reader *r);
    int (*list)(const char *location, struct storage_names *out, struct err *err);
    int (*find)(const char *dir, const char *pattern, struct storage_names *out,
                struct err *err); /* NULL: ERR_UNSUPPORTED */
    int (*create)(struct storage_writer *w, const char *location, struct err *err);
    int (*add)(struct storage_writer *w, const void *data, size_t n, struct err *err);
    int (*commit)(struct storage_writer *w, struct err *err); /* frees the state in any case */
    void (*abort)(struct storage_writer *w);
    int (*write)(const char *location, const void *data, size_t n, struct err *err);
    int (*claim)(const char *location, const void *data, size_t n, struct err *err);
    int (*remove)(const char *location, struct err *err);
    int (*remove_tree)(const char *location, struct err *err);
    int (*make_dirs)(const char *location, struct err *err);
    int (*make_dir)(const char *location, struct err *err);
    void (*remove_dir)(const char *location);
    int (*sync_dir)(const char *location, struct err *err);
};

extern const struct storage_kind storage_file, storage_s3;

/* Add a copy of the @n bytes at @name. */
void storage_names_add(struct storage_names *names, const char *name, size_t n);

#endif
