/* SPDX-License-Identifier: Apache-2.0 */
/* The table is a skippable frame: an entry for each frame (packed and unpacked bytes, maybe a sum),
 * then their number, a byte of flags and a magic number; all numbers are 32 bits, lowest first. */
#include "data/zstd_seek.h"

#include <inttypes.h>
#include <stdlib.h>
#include <zstd.h>

#include "base/mem.h"

#define SKIPPABLE_MAGIC UINT32_C(0x184D2A5E)
#define SEEKABLE_MAGIC UINT32_C(0x8F92EAB1)
#define HEAD_BYTES 8 /* magic, bytes that follow */
#define FOOT_BYTES 9 /* number of frames, flags, magic */
#define FLAG_SUMS 0x80U
#define FLAGS_RESERVED 0x7CU
#define FRAMES_MAX UINT32_C(0x8000000) /* of the format */
#define FRAME_BYTES_MAX (256U << 20)   /* of what we unpack */
/* unpacked bytes of one packed byte, at most: the smallest block, 4 bytes, has 128 KiB */
#define UNPACKED_MAX 32768U

struct zstd_seek {
    uint64_t *packed, *content; /* [frames + 1] where each begins */
    size_t frames;
};

static uint32_t read_32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static int misfit(const struct raw_file *file, struct err *err)
{
    return err_set(err, ERR_CORRUPT, "%s: its table of frames does not fit the file",
                   raw_file_path(file));
}

/* @entries: of the table, each @each bytes long. */
static int take_entries(struct zstd_seek *z, const struct raw_file *file, const uint8_t *entries,
                        size_t each, uint64_t table_at, struct err *err)
{
    for (size_t i = 0; i < z->frames; i++) {
        const uint32_t packed = read_32(entries + i * each);
        const uint32_t bytes = read_32(entries + i * each + 4);
        z->packed[i + 1] = z->packed[i] + packed;
        z->content[i + 1] = z->content[i] + bytes;
        if (bytes > FRAME_BYTES_MAX) {
            return err_set(err, ERR_EXHAUSTED, "%s: frame %zu has more than %u MiB",
                           raw_file_path(file), i, FRAME_BYTES_MAX >> 20);
        }
        if (bytes > (uint64_t)packed * UNPACKED_MAX) {
            return misfit(file, err);
        }
    }
    return z->packed[z->frames] == table_at ? 0 : misfit(file, err);
}

/* Checks that frames of which no byte is ever asked for are empty. */
static int check_empty(const struct zstd_seek *z, const struct raw_file *file, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < z->frames && rc == 0; i++) {
        if (z->content[i + 1] == z->content[i] && z->packed[i + 1] > z->packed[i]) {
            char *none = NULL;
            size_t n = 0;
            rc = zstd_seek_unpack(z, file, i, &none, &n, err);
            free(none);
        }
    }
    return rc;
}

int zstd_seek_find(const struct raw_file *file, struct zstd_seek **out, struct err *err)
{
    uint8_t foot[FOOT_BYTES], head[HEAD_BYTES];
    const uint64_t bytes = raw_file_bytes(file);
    *out = NULL;
    if (bytes < HEAD_BYTES + FOOT_BYTES) {
        return 0;
    }
    int rc = raw_file_read_at(file, bytes - FOOT_BYTES, foot, sizeof foot, err);
    if (rc != 0 || read_32(foot + 5) != SEEKABLE_MAGIC) {
        return rc;
    }
    const size_t frames = read_32(foot), each = (foot[4] & FLAG_SUMS) != 0 ? 12 : 8;
    const uint64_t table = (uint64_t)frames * each + FOOT_BYTES;
    if (frames > FRAMES_MAX || (foot[4] & FLAGS_RESERVED) != 0 || table + HEAD_BYTES > bytes) {
        return misfit(file, err);
    }
    const uint64_t at = bytes - table - HEAD_BYTES;
    rc = raw_file_read_at(file, at, head, sizeof head, err);
    if (rc == 0 && (read_32(head) != SKIPPABLE_MAGIC || read_32(head + 4) != table)) {
        return misfit(file, err);
    }
    uint8_t *entries = mem_new(frames * each + 1, 1);
    struct zstd_seek *z = mem_new(1, sizeof *z);
    z->frames = frames;
    z->packed = mem_new(frames + 1, sizeof *z->packed);
    z->content = mem_new(frames + 1, sizeof *z->content);
    rc = rc != 0 ? rc : raw_file_read_at(file, at + HEAD_BYTES, entries, frames * each, err);
    rc = rc != 0 ? rc : take_entries(z, file, entries, each, at, err);
    rc = rc != 0 ? rc : check_empty(z, file, err);
    free(entries);
    if (rc != 0) {
        zstd_seek_free(z);
        return rc;
    }
    *out = z;
    return 0;
}

void zstd_seek_free(struct zstd_seek *z)
{
    if (z != NULL) {
        free(z->packed);
        free(z->content);
        free(z);
    }
}

uint64_t zstd_seek_bytes(const struct zstd_seek *z)
{
    return z->content[z->frames];
}

size_t zstd_seek_frame(const struct zstd_seek *z, uint64_t at)
{
    size_t low = 0, high = z->frames;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (z->content[middle] <= at) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

uint64_t zstd_seek_begin(const struct zstd_seek *z, size_t frame)
{
    return z->content[frame];
}

void zstd_seek_place(const struct zstd_seek *z, size_t frame, uint64_t *at, size_t *bytes)
{
    *at = z->packed[frame];
    *bytes = (size_t)(z->packed[frame + 1] - z->packed[frame]);
}

int zstd_seek_unpack(const struct zstd_seek *z, const struct raw_file *file, size_t frame,
                     char **out, size_t *n, struct err *err)
{
    uint64_t at;
    size_t bytes;
    zstd_seek_place(z, frame, &at, &bytes);
    const size_t expected = (size_t)(z->content[frame + 1] - z->content[frame]);
    char *packed = mem_try_aligned(bytes, 1, "a packed frame", err);
    char *content = packed == NULL ? NULL : mem_try_aligned(expected, 1, "a frame", err);
    int rc = content == NULL ? ERR_EXHAUSTED : raw_file_read_at(file, at, packed, bytes, err);
    if (rc == 0) {
        const size_t got = ZSTD_decompress(content, expected, packed, bytes);
        if (ZSTD_isError(got) || got != expected) {
            rc = err_set(err, ERR_CORRUPT, "%s: frame %zu, at byte %" PRIu64 ", is damaged: %s",
                         raw_file_path(file), frame, at,
                         ZSTD_isError(got) ? ZSTD_getErrorName(got) : "it is too short");
        }
    }
    free(packed);
    if (rc != 0) {
        free(content);
        return rc;
    }
    *out = content;
    *n = expected;
    return 0;
}

/* ---- writing ---- */

static void add_32(struct buf *b, uint64_t number)
{
    for (unsigned i = 0; i < 4; i++) {
        buf_add_char(b, (char)(uint8_t)(number >> (8 * i)));
    }
}

int zstd_seek_create(struct zstd_seek_writer *w, const char *path, int level, struct err *err)
{
    *w = (struct zstd_seek_writer){.file.fd = -1};
    ZSTD_CCtx *context = ZSTD_createCCtx();
    if (context == NULL) {
        return err_set(err, ERR_EXHAUSTED, "write %s: no memory for zstd", path);
    }
    (void)ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, level);
    (void)ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
    w->context = context;
    int rc = file_writer_open(&w->file, path, err);
    if (rc != 0) {
        (void)ZSTD_freeCCtx(context);
        w->context = NULL;
    }
    return rc;
}

int zstd_seek_add(struct zstd_seek_writer *w, const char *bytes, size_t n, struct err *err)
{
    const size_t room = ZSTD_compressBound(n);
    if (n > FRAME_BYTES_MAX || w->frames >= FRAMES_MAX) {
        return err_set(err, ERR_EXHAUSTED, "write %s: more than %s", w->file.path,
                       n > FRAME_BYTES_MAX ? "256 MiB in one block" : "134217728 blocks");
    }
    char *packed = mem_try_aligned(room, 1, "a packed frame", err);
    if (packed == NULL) {
        return ERR_EXHAUSTED;
    }
    const size_t got = ZSTD_compress2(w->context, packed, room, bytes, n);
    int rc = ZSTD_isError(got)
                 ? err_set(err, ERR_INTERNAL, "write %s: %s", w->file.path, ZSTD_getErrorName(got))
                 : file_writer_add(&w->file, packed, got, err);
    free(packed);
    add_32(&w->table, got);
    add_32(&w->table, n);
    w->frames++;
    w->content += n;
    return rc;
}

int zstd_seek_commit(struct zstd_seek_writer *w, struct err *err)
{
    struct buf head = {0};
    add_32(&w->table, w->frames);
    buf_add_char(&w->table, 0);
    add_32(&w->table, SEEKABLE_MAGIC);
    add_32(&head, SKIPPABLE_MAGIC);
    add_32(&head, w->table.len);
    int rc = file_writer_add(&w->file, head.data, head.len, err);
    rc = rc != 0 ? rc : file_writer_add(&w->file, w->table.data, w->table.len, err);
    rc = rc != 0 ? rc : file_writer_commit(&w->file, err);
    buf_release(&head);
    zstd_seek_abort(w);
    return rc;
}

void zstd_seek_abort(struct zstd_seek_writer *w)
{
    if (w->context != NULL) {
        file_writer_abort(&w->file);
        (void)ZSTD_freeCCtx(w->context);
        buf_release(&w->table);
        w->context = NULL;
    }
}
