/* SPDX-License-Identifier: Apache-2.0 */
/* The file that keeps what one pass over data found out: where groups of records begin, and what
 * was measured on them. It is written beside the data or in a directory for such files, and is
 * there completely or not at all.
 *
 *   entries   8 bytes each, lowest first (stream_source.h)
 *   notes     what was measured (struct notes)
 *   end       "GRADUSIX", version, bytes of entries and notes, checksum of all before it */
#ifndef GRADUS_DATA_STREAM_INDEX_H
#define GRADUS_DATA_STREAM_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/checksum.h"
#include "base/err.h"
#include "data/data_spec.h"
#include "os/file.h"

/* The path of the index of the data of @spec; @settings is a text of everything that decides what
 * is read. Owned in *@out. Errors: ERR_PERMISSION no directory for indexes is configured, and it
 * may not lie beside the data. */
int stream_index_path(const struct data_spec *spec, const char *first_file, const char *settings,
                      char **out, struct err *err);

/* ---- writing ---- */

struct stream_index_writer {
    struct file_writer file;
    struct checksum *sum;
    struct buf pending;
    uint64_t entries; /* bytes */
};

int stream_index_begin(struct stream_index_writer *w, const char *path, struct err *err);
int stream_index_add(struct stream_index_writer *w, uint64_t entry, struct err *err);
int stream_index_commit(struct stream_index_writer *w, const struct buf *notes, struct err *err);
void stream_index_abort(struct stream_index_writer *w); /* safe after commit, and zeroed */

/* ---- reading ---- */

/* Open and check it all. @notes gets what was noted, *@fd stays open for entries. Errors:
 * ERR_NOT_FOUND; ERR_CORRUPT cut off, damaged or of another version. */
int stream_index_open(const char *path, struct buf *notes, int *fd, struct err *err);

/* ---- notes ---- */

void notes_add_number(struct buf *b, uint64_t number);
void notes_add_bytes(struct buf *b, const void *data, size_t n);
void notes_add_text(struct buf *b, const char *text); /* NULL is another text than "" */

/* Takes notes in the order in which they were made. Where they are not as expected, ok is false
 * from then on, and everything is 0. */
struct notes {
    const char *data;
    size_t bytes, at;
    bool ok;
};
uint64_t notes_number(struct notes *n);
/* A count of things of which each has at least @least bytes. */
size_t notes_count(struct notes *n, size_t least);
const void *notes_bytes(struct notes *n, size_t *bytes);
char *notes_text(struct notes *n); /* owned */

#endif
