/* SPDX-License-Identifier: Apache-2.0 */
/* Streams a zstd file through a buffer of the size that libzstd asks for. */
#include "data/zstd_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/mem.h"

struct zstd_file {
    struct raw_file *file;
    ZSTD_DCtx *context;
    void *buffer; /* of packed bytes */
    size_t capacity;
    ZSTD_inBuffer in;
    bool pending;      /* the last call filled its output: there may be more without new input */
    bool whole;        /* the bytes that were read so far end with a frame */
    uint64_t unpacked; /* bytes so far */
};

bool zstd_file_begins(const uint8_t *head, size_t n)
{
    static const uint8_t magic[4] = {0x28, 0xB5, 0x2F, 0xFD}; /* RFC 8878, section 3.1.1 */
    return n >= sizeof magic && memcmp(head, magic, sizeof magic) == 0;
}

int zstd_file_open(struct raw_file *file, struct zstd_file **out, struct err *err)
{
    ZSTD_DCtx *context = ZSTD_createDCtx();
    if (context == NULL) {
        return err_set(err, ERR_EXHAUSTED, "open %s: no memory for zstd", raw_file_path(file));
    }
    struct zstd_file *z = mem_new(1, sizeof *z);
    *z = (struct zstd_file){.file = file, .context = context, .capacity = ZSTD_DStreamInSize()};
    z->buffer = mem_new(z->capacity, 1);
    z->in.src = z->buffer;
    *out = z;
    return 0;
}

void zstd_file_close(struct zstd_file *z)
{
    if (z != NULL) {
        (void)ZSTD_freeDCtx(z->context);
        free(z->buffer);
        free(z);
    }
}

/* Reads more packed bytes; *@ended: there are no more. */
static int refill(struct zstd_file *z, bool *ended, struct err *err)
{
    size_t n = 0;
    int rc = raw_file_read(z->file, z->buffer, z->capacity, &n, err);
    if (rc != 0) {
        return rc;
    }
    *ended = n == 0;
    z->in.size = n;
    z->in.pos = 0;
    if (n == 0 && !z->whole) {
        return err_set(err, ERR_CORRUPT,
                       "%s: the zstd file is cut off: it ends at its byte %" PRIu64
                       " (byte %" PRIu64 " of the content) within a frame",
                       raw_file_path(z->file), raw_file_offset(z->file), z->unpacked);
    }
    return 0;
}

int zstd_file_read(struct zstd_file *z, void *out, size_t n, size_t *got, struct err *err)
{
    ZSTD_outBuffer to = {.dst = out, .size = n};
    bool ended = false;
    while (to.pos < n && !ended) {
        if (z->in.pos == z->in.size && !z->pending) {
            int rc = refill(z, &ended, err);
            if (rc != 0) {
                return rc;
            }
            continue;
        }
        size_t before = to.pos, left = ZSTD_decompressStream(z->context, &to, &z->in);
        z->unpacked += to.pos - before;
        if (ZSTD_isError(left)) {
            return err_set(err, ERR_CORRUPT,
                           "%s: the zstd file is damaged near its byte %" PRIu64 " (byte %" PRIu64
                           " of the content): %s",
                           raw_file_path(z->file),
                           raw_file_offset(z->file) - (z->in.size - z->in.pos), z->unpacked,
                           ZSTD_getErrorName(left));
        }
        z->whole = left == 0;
        z->pending = left != 0 && to.pos == n;
    }
    *got = to.pos;
    return 0;
}
