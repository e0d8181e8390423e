/* SPDX-License-Identifier: Apache-2.0 */
/* Reads at any place of files, by pread(2), and of frames that it unpacks. */
#include "data/ranged_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "data/gunzip.h"
#include "data/raw_file.h"
#include "data/tfrecord.h"
#include "data/zstd_file.h"
#include "data/zstd_seek.h"

#define SAMPLES 16
#define SAMPLE_BYTES 4096

struct ranged_file {
    struct raw_file *file;
    struct zstd_seek *frames; /* NULL: a plain file */
    struct frame_cache *cache;
    uint64_t number; /* in the cache */
};

/* Refuses a file that can only be read from the beginning. */
static int check_kind(struct ranged_file *f, const uint8_t *head, size_t n, struct err *err)
{
    const char *packed = NULL;
    int rc = 0;
    if (tfrecord_begins(head, n)) {
        return 0;
    }
    if (zstd_file_begins(head, n)) {
        rc = zstd_seek_find(f->file, &f->frames, err);
        packed = f->frames == NULL ? "zstd" : NULL;
    } else if (gunzip_begins(head, n) || gunzip_begins_zlib(head, n)) {
        packed = "gzip";
    }
    return rc != 0 || packed == NULL
               ? rc
               : err_set(err, ERR_UNSUPPORTED,
                         "%s: a %s file has to be read from its beginning, so that single records "
                         "cannot be read; 'gradus convert' writes one that can be read anywhere, "
                         "or set data.loading: memory",
                         raw_file_path(f->file), packed);
}

int ranged_file_open(const char *path, const struct data_roots *roots, struct frame_cache *cache,
                     struct ranged_file **out, struct err *err)
{
    struct ranged_file made = {.cache = cache};
    uint8_t head[TFRECORD_HEAD_BYTES];
    size_t n = 0;
    int rc = raw_file_open(path, roots, &made.file, err);
    if (rc == 0 && raw_file_is_object(made.file)) {
        rc = err_set(err, ERR_UNSUPPORTED,
                     "%s: data.loading: stream reads files of this machine, no objects; copy it, "
                     "or set data.loading: memory",
                     path);
    }
    rc = rc != 0 ? rc : raw_file_peek(made.file, head, sizeof head, &n, err);
    rc = rc != 0 ? rc : check_kind(&made, head, n, err);
    struct ranged_file *f = mem_new(1, sizeof *f);
    *f = made;
    if (rc != 0) {
        ranged_file_close(f);
        return rc;
    }
    f->number = f->frames == NULL ? 0 : frame_cache_file(cache);
    *out = f;
    return 0;
}

void ranged_file_close(struct ranged_file *f)
{
    if (f != NULL) {
        zstd_seek_free(f->frames);
        raw_file_close(f->file);
        free(f);
    }
}

uint64_t ranged_file_bytes(const struct ranged_file *f)
{
    return f->frames != NULL ? zstd_seek_bytes(f->frames) : raw_file_bytes(f->file);
}

/* The unpacked frame @number, held. */
static int take_frame(struct ranged_file *f, size_t number, struct frame **out, struct err *err)
{
    char *bytes = NULL;
    size_t n = 0;
    *out = frame_cache_take(f->cache, f->number, number);
    if (*out != NULL) {
        return 0;
    }
    int rc = zstd_seek_unpack(f->frames, f->file, number, &bytes, &n, err);
    if (rc == 0) {
        *out = frame_cache_add(f->cache, f->number, number, bytes, n);
    }
    return rc;
}

static int read_frames(struct ranged_file *f, uint64_t at, char *out, size_t n, struct err *err)
{
    if (at > zstd_seek_bytes(f->frames) || n > zstd_seek_bytes(f->frames) - at) {
        return err_set(err, ERR_CORRUPT, "read %s at byte %" PRIu64 " of its content: it ends",
                       raw_file_path(f->file), at);
    }
    while (n > 0) {
        const size_t number = zstd_seek_frame(f->frames, at);
        struct frame *frame;
        int rc = take_frame(f, number, &frame, err);
        if (rc != 0) {
            return rc;
        }
        const size_t from = (size_t)(at - zstd_seek_begin(f->frames, number));
        const size_t left = frame_size(frame) - from, k = n < left ? n : left;
        memcpy(out, frame_bytes(frame) + from, k);
        frame_cache_give(f->cache, frame);
        out += k;
        at += k;
        n -= k;
    }
    return 0;
}

int ranged_file_read(struct ranged_file *f, uint64_t at, void *out, size_t n, struct err *err)
{
    return f->frames != NULL ? read_frames(f, at, out, n, err)
                             : raw_file_read_at(f->file, at, out, n, err);
}

void ranged_file_expect(struct ranged_file *f, uint64_t at, size_t n)
{
    if (f->frames != NULL && at < zstd_seek_bytes(f->frames)) {
        zstd_seek_place(f->frames, zstd_seek_frame(f->frames, at), &at, &n);
    }
    raw_file_expect(f->file, at, n);
}

int ranged_file_stamp(const struct ranged_file *f, struct ranged_stamp *out, struct err *err)
{
    uint8_t sample[SAMPLE_BYTES];
    const uint64_t bytes = raw_file_bytes(f->file);
    const size_t n = bytes < sizeof sample ? (size_t)bytes : sizeof sample;
    struct checksum *c = checksum_new();
    int rc = 0;
    for (uint64_t i = 0; i < SAMPLES && rc == 0; i++) {
        const uint64_t at = (bytes - n) / (SAMPLES - 1) * i; /* the last but a few bytes, too */
        rc = raw_file_read_at(f->file, i == SAMPLES - 1 ? bytes - n : at, sample, n, err);
        checksum_add(c, sample, n);
    }
    *out = (struct ranged_stamp){
        .bytes = bytes, .changed_ns = raw_file_changed_ns(f->file), .samples = checksum_value(c)};
    checksum_free(c);
    return rc;
}

bool ranged_file_is(const struct ranged_file *f, const struct ranged_stamp *stamp)
{
    return raw_file_bytes(f->file) == stamp->bytes &&
           raw_file_changed_ns(f->file) == stamp->changed_ns;
}
