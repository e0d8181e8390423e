/* SPDX-License-Identifier: Apache-2.0 */
/* Reads data files as they are, or unpacked. */
#include "data/source.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/foreign_file.h"
#include "data/gunzip.h"
#include "data/raw_file.h"
#include "data/tfrecord.h"
#include "data/zstd_file.h"

struct source {
    struct raw_file *file;
    const char *path, *bytes; /* borrowed: of a part in memory, in place of a file */
    size_t byte_count;
    struct gunzip *gunzip;  /* of gzip and zlib files */
    struct zstd_file *zstd; /* of zstd files */
    uint64_t offset;
};

/* Checks that the file is not of a kind that nobody here reads. The first bytes of TFRecord and IDX
 * files may be any, so such files are recognised otherwise. */
static int check_beginning(const char *path, const uint8_t *head, size_t n, struct err *err)
{
    return n == 0 || head[0] == 0 || tfrecord_begins(head, n)
               ? 0
               : foreign_file_check(path, head, n, err);
}

/* Give the file to the library that its first bytes ask for. */
static int begin_reading(struct source *s, struct err *err)
{
    uint8_t head[FOREIGN_FILE_HEAD_BYTES];
    size_t n = 0;
    int rc = raw_file_peek(s->file, head, sizeof head, &n, err);
    rc = rc != 0 ? rc : check_beginning(raw_file_path(s->file), head, n, err);
    if (rc != 0 || tfrecord_begins(head, n)) {
        return rc;
    }
    if (zstd_file_begins(head, n)) {
        rc = zstd_file_open(s->file, &s->zstd, err);
    } else if (gunzip_begins(head, n) || gunzip_begins_zlib(head, n)) {
        rc = gunzip_open(s->file, !gunzip_begins(head, n), &s->gunzip, err);
    }
    return rc;
}

/* Takes @file. */
static int open_file(struct raw_file *file, struct source **out, struct err *err)
{
    struct source *s = mem_new(1, sizeof *s);
    s->file = file;
    int rc = begin_reading(s, err);
    if (rc != 0) {
        source_close(s);
        return rc;
    }
    *out = s;
    return 0;
}

int source_open(const char *path, const struct data_roots *roots, struct source **out,
                struct err *err)
{
    struct raw_file *file = NULL;
    int rc = raw_file_open(path, roots, &file, err);
    return rc != 0 ? rc : open_file(file, out, err);
}

int source_open_input(struct source **out, struct err *err)
{
    struct raw_file *file = NULL;
    int rc = raw_file_open_input(&file, err);
    return rc != 0 ? rc : open_file(file, out, err);
}

void source_of_bytes(const char *path, const char *bytes, size_t n, struct source **out)
{
    struct source *s = mem_new(1, sizeof *s);
    *s = (struct source){.path = path, .bytes = bytes, .byte_count = n};
    *out = s;
}

void source_close(struct source *s)
{
    if (s != NULL) {
        gunzip_close(s->gunzip);
        zstd_file_close(s->zstd);
        raw_file_close(s->file);
        free(s);
    }
}

static int read_plain(struct source *s, char *out, size_t n, size_t *got, struct err *err)
{
    size_t done = 0, k = 1;
    while (done < n && k > 0) {
        int rc = raw_file_read(s->file, out + done, n - done, &k, err);
        if (rc != 0) {
            return rc;
        }
        done += k;
    }
    *got = done;
    return 0;
}

static void read_bytes(struct source *s, void *out, size_t n, size_t *got)
{
    const size_t left = s->byte_count - (size_t)s->offset;
    *got = n < left ? n : left;
    memcpy(out, s->bytes + s->offset, *got);
    s->offset += *got;
}

int source_read(struct source *s, void *out, size_t n, size_t *got, struct err *err)
{
    if (s->bytes != NULL) {
        read_bytes(s, out, n, got);
        return 0;
    }
    int rc = s->zstd != NULL     ? zstd_file_read(s->zstd, out, n, got, err)
             : s->gunzip != NULL ? gunzip_read(s->gunzip, out, n, got, err)
                                 : read_plain(s, out, n, got, err);
    if (rc == 0 && s->offset == 0 && (s->zstd != NULL || s->gunzip != NULL)) {
        rc = check_beginning(source_path(s), out, *got, err); /* unpacked */
    }
    s->offset += rc == 0 ? *got : 0;
    return rc;
}

const char *source_path(const struct source *s)
{
    return s->bytes != NULL ? s->path : raw_file_path(s->file);
}

uint64_t source_offset(const struct source *s)
{
    return s->offset;
}

bool source_size(const struct source *s, uint64_t *bytes)
{
    if (s->zstd != NULL || s->gunzip != NULL || (s->file != NULL && raw_file_is_input(s->file))) {
        return false;
    }
    *bytes = s->bytes != NULL ? s->byte_count : raw_file_bytes(s->file);
    return true;
}
