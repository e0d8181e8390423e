/* SPDX-License-Identifier: Apache-2.0 */
/* A wrong length could mean any number of bytes, so nothing behind it is read; wrong bytes have the
 * next record behind them. */
#include "data/tfrecord.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "data/source.h"

#define SUM_BYTES 4
/* a length is trusted for so many bytes before they have come */
#define CHUNK_BYTES ((size_t)1 << 20)

struct tfrecord {
    struct source *source;
    uint8_t *bytes; /* of the record in hand, with its sum */
    size_t capacity;
    uint64_t number, offset;
    uint64_t begin; /* place in the file where the source begins */
};

int tfrecord_open(const char *path, const struct data_roots *roots, struct tfrecord **out,
                  struct err *err)
{
    struct source *source;
    int rc = source_open(path, roots, &source, err);
    if (rc == 0) {
        *out = mem_new(1, sizeof **out);
        (*out)->source = source;
    }
    return rc;
}

void tfrecord_of_bytes(const char *path, const char *bytes, size_t n, uint64_t number,
                       uint64_t offset, struct tfrecord **out)
{
    struct tfrecord *t = mem_new(1, sizeof *t);
    *t = (struct tfrecord){.number = number, .offset = offset, .begin = offset};
    source_of_bytes(path, bytes, n, &t->source);
    *out = t;
}

void tfrecord_close(struct tfrecord *t)
{
    if (t != NULL) {
        source_close(t->source);
        free(t->bytes);
        free(t);
    }
}

/* "clicks.tfrecord: record 3 at byte 728: <what>". */
static int record_error(const struct tfrecord *t, int code, const char *what, struct err *err)
{
    return err_set(err, code, "%s: record %" PRIu64 " at byte %" PRIu64 ": %s",
                   source_path(t->source), t->number, t->offset, what);
}

/* The bytes of the record and their sum. */
static int read_bytes(struct tfrecord *t, size_t size, struct err *err)
{
    const size_t all = size + SUM_BYTES;
    for (size_t had = 0; had < all;) {
        size_t want = all - had < CHUNK_BYTES ? all - had : CHUNK_BYTES, got = 0;
        t->bytes = mem_grow(t->bytes, &t->capacity, had + want, 1);
        int rc = source_read(t->source, t->bytes + had, want, &got, err);
        if (rc != 0) {
            return rc;
        }
        had += got;
        if (got < want) {
            char what[160];
            (void)snprintf(what, sizeof what,
                           "the file is cut off: it ends at byte %" PRIu64
                           ", and the record has %zu bytes and a checksum",
                           t->begin + source_offset(t->source), size);
            return record_error(t, ERR_CORRUPT, what, err);
        }
    }
    return 0;
}

int tfrecord_next(struct tfrecord *t, struct tfrecord_item *item, bool *framed, struct err *err)
{
    uint8_t head[TFRECORD_HEAD_BYTES];
    size_t got = 0;
    *framed = false;
    *item = (struct tfrecord_item){.number = t->number, .offset = t->offset};
    int rc = source_read(t->source, head, sizeof head, &got, err);
    if (rc != 0 || got == 0) {
        return rc;
    }
    if (got < sizeof head) {
        return record_error(t, ERR_CORRUPT, "the file is cut off: it ends in the record's length",
                            err);
    }
    if (!tfrecord_begins(head, sizeof head)) {
        return record_error(t, ERR_CORRUPT,
                            t->number == 0
                                ? "the checksum of its length is wrong: this is no TFRecord file, "
                                  "or a damaged one"
                                : "the checksum of its length is wrong: the file is damaged",
                            err);
    }
    const uint64_t size = (uint64_t)tfrecord_number(head) | (uint64_t)tfrecord_number(head + 4)
                                                                << 32;
    if (size > TFRECORD_BYTES_MAX) {
        return record_error(t, ERR_EXHAUSTED, "it has more than 64 MiB", err);
    }
    rc = read_bytes(t, (size_t)size, err);
    if (rc != 0) {
        return rc;
    }
    *framed = true;
    *item = (struct tfrecord_item){
        .bytes = t->bytes, .size = (size_t)size, .number = t->number, .offset = t->offset};
    if (crc32c_masked(t->bytes, (size_t)size) != tfrecord_number(t->bytes + size)) {
        rc = record_error(t, ERR_CORRUPT, "the checksum of its bytes is wrong: it is damaged", err);
    }
    t->number++;
    t->offset = t->begin + source_offset(t->source);
    return rc;
}
