/* SPDX-License-Identifier: Apache-2.0 */
/* Reads at any place of files, by pread(2). */
#include "data/ranged_file.h"

#include <stdlib.h>

#include "base/checksum.h"
#include "base/mem.h"
#include "data/gunzip.h"
#include "data/raw_file.h"
#include "data/tfrecord.h"
#include "data/zstd_file.h"

#define SAMPLES 16
#define SAMPLE_BYTES 4096

struct ranged_file {
    struct raw_file *file;
};

/* Refuse what has to be read from the beginning. */
static int check_kind(const struct raw_file *file, const uint8_t *head, size_t n, struct err *err)
{
    if (tfrecord_begins(head, n)) {
        return 0;
    }
    const char *packed = zstd_file_begins(head, n)                               ? "zstd"
                         : gunzip_begins(head, n) || gunzip_begins_zlib(head, n) ? "gzip"
                                                                                 : NULL;
    return packed == NULL
               ? 0
               : err_set(err, ERR_UNSUPPORTED,
                         "%s: a %s file has to be read from its beginning, so that single records "
                         "cannot be read; unpack it, or set data.loading: memory",
                         raw_file_path(file), packed);
}

int ranged_file_open(const char *path, const struct data_roots *roots, struct ranged_file **out,
                     struct err *err)
{
    struct raw_file *file = NULL;
    uint8_t head[TFRECORD_HEAD_BYTES];
    size_t n = 0;
    int rc = raw_file_open(path, roots, &file, err);
    if (rc == 0 && raw_file_is_object(file)) {
        rc = err_set(err, ERR_UNSUPPORTED,
                     "%s: data.loading: stream reads files of this machine, no objects; copy it, "
                     "or set data.loading: memory",
                     path);
    }
    rc = rc != 0 ? rc : raw_file_peek(file, head, sizeof head, &n, err);
    rc = rc != 0 ? rc : check_kind(file, head, n, err);
    if (rc != 0) {
        raw_file_close(file);
        return rc;
    }
    struct ranged_file *f = mem_new(1, sizeof *f);
    f->file = file;
    *out = f;
    return 0;
}

void ranged_file_close(struct ranged_file *f)
{
    if (f != NULL) {
        raw_file_close(f->file);
        free(f);
    }
}

uint64_t ranged_file_bytes(const struct ranged_file *f)
{
    return raw_file_bytes(f->file);
}

const char *ranged_file_path(const struct ranged_file *f)
{
    return raw_file_path(f->file);
}

int ranged_file_read(struct ranged_file *f, uint64_t at, void *out, size_t n, struct err *err)
{
    return raw_file_read_at(f->file, at, out, n, err);
}

void ranged_file_expect(struct ranged_file *f, uint64_t at, size_t n)
{
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
