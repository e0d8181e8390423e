/* SPDX-License-Identifier: Apache-2.0 */
/* Streams a zstd file through a buffer of the size that libzstd asks for. */
#include "data/zstd_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>

#include "base/mem.h"

struct zstd_file {
    int fd;
    char *path;
    ZSTD_DCtx *context;
    void *buffer; /* of packed bytes */
    size_t capacity;
    ZSTD_inBuffer in;
    bool pending; /* the last call filled its output: there may be more without new input */
    bool whole;   /* what was read so far ends with a frame */
    uint64_t packed, unpacked; /* bytes so far */
};

bool zstd_file_begins(const uint8_t *head, size_t n)
{
    static const uint8_t magic[4] = {0x28, 0xB5, 0x2F, 0xFD}; /* RFC 8878, section 3.1.1 */
    return n >= sizeof magic && memcmp(head, magic, sizeof magic) == 0;
}

int zstd_file_open(int fd, const char *path, struct zstd_file **out, struct err *err)
{
    ZSTD_DCtx *context = ZSTD_createDCtx();
    if (context == NULL) {
        return err_set(err, ERR_EXHAUSTED, "open %s: no memory for zstd", path);
    }
    struct zstd_file *z = mem_new(1, sizeof *z);
    *z = (struct zstd_file){
        .fd = fd, .path = mem_strdup(path), .context = context, .capacity = ZSTD_DStreamInSize()};
    z->buffer = mem_new(z->capacity, 1);
    z->in.src = z->buffer;
    *out = z;
    return 0;
}

void zstd_file_close(struct zstd_file *z)
{
    if (z != NULL) {
        (void)close(z->fd);
        (void)ZSTD_freeDCtx(z->context);
        free(z->buffer);
        free(z->path);
        free(z);
    }
}

/* Read more packed bytes; *@ended: there are none. */
static int refill(struct zstd_file *z, bool *ended, struct err *err)
{
    ssize_t n;
    do {
        n = read(z->fd, z->buffer, z->capacity);
    } while (n < 0 && errno == EINTR);
    if (n < 0) {
        return err_errno(err, errno, "read %s at byte %" PRIu64, z->path, z->packed);
    }
    *ended = n == 0;
    z->in.size = (size_t)n;
    z->in.pos = 0;
    z->packed += (uint64_t)n;
    if (n == 0 && !z->whole) {
        return err_set(err, ERR_CORRUPT,
                       "%s: the zstd file is cut off: it ends at its byte %" PRIu64
                       " (byte %" PRIu64 " of the content) within a frame",
                       z->path, z->packed, z->unpacked);
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
                           z->path, z->packed - (z->in.size - z->in.pos), z->unpacked,
                           ZSTD_getErrorName(left));
        }
        z->whole = left == 0;
        z->pending = left != 0 && to.pos == n;
    }
    *got = to.pos;
    return 0;
}
