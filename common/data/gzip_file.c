/* SPDX-License-Identifier: Apache-2.0 */
/* Compresses with zlib's fastest level into a file that gets its name only when it is complete. */
#include "data/gzip_file.h"

#include <stdlib.h>
#define ZLIB_CONST /* next_in points to what zlib only reads */
#include <zlib.h>

#include "base/mem.h"
#include "os/file.h"

#define GZIP_OUT_BYTES 65536U
#define GZIP_IN_BYTES (1U << 30)   /* zlib counts in an unsigned int */
#define GZIP_LEVEL 1               /* three times as fast as 6 for a tenth more bytes */
#define GZIP_WINDOW_BITS (15 + 16) /* + 16: gzip instead of zlib framing */

struct gzip_file {
    struct file_writer writer;
    z_stream stream;
    unsigned char out[GZIP_OUT_BYTES];
};

int gzip_file_open(const char *path, struct gzip_file **out, struct err *err)
{
    struct gzip_file *g = mem_new(1, sizeof *g);
    int rc = file_writer_open(&g->writer, path, err);
    if (rc == 0 && deflateInit2(&g->stream, GZIP_LEVEL, Z_DEFLATED, GZIP_WINDOW_BITS, 8,
                                Z_DEFAULT_STRATEGY) != Z_OK) {
        file_writer_abort(&g->writer);
        rc = err_set(err, ERR_EXHAUSTED, "create %s: no memory for zlib", path);
    }
    if (rc != 0) {
        free(g);
        return rc;
    }
    *out = g;
    return 0;
}

/* Compress what the stream has; until it wants more input, or with Z_FINISH until the end. */
static int pump(struct gzip_file *g, int flush, struct err *err)
{
    for (;;) {
        g->stream.next_out = g->out;
        g->stream.avail_out = GZIP_OUT_BYTES;
        int state = deflate(&g->stream, flush);
        int rc = file_writer_add(&g->writer, g->out, GZIP_OUT_BYTES - g->stream.avail_out, err);
        if (rc != 0) {
            return rc;
        }
        if (flush == Z_FINISH ? state == Z_STREAM_END : g->stream.avail_out > 0) {
            return 0;
        }
    }
}

int gzip_file_add(struct gzip_file *g, const void *data, size_t n, struct err *err)
{
    const unsigned char *p = data;
    int rc = 0;
    while (rc == 0 && n > 0) {
        size_t k = n < GZIP_IN_BYTES ? n : GZIP_IN_BYTES;
        g->stream.next_in = p;
        g->stream.avail_in = (unsigned)k;
        rc = pump(g, Z_NO_FLUSH, err);
        p += k;
        n -= k;
    }
    return rc;
}

int gzip_file_commit(struct gzip_file *g, struct err *err)
{
    int rc = pump(g, Z_FINISH, err);
    (void)deflateEnd(&g->stream);
    if (rc == 0) {
        rc = file_writer_commit(&g->writer, err);
    } else {
        file_writer_abort(&g->writer);
    }
    free(g);
    return rc;
}

void gzip_file_abort(struct gzip_file *g)
{
    if (g != NULL) {
        (void)deflateEnd(&g->stream);
        file_writer_abort(&g->writer);
        free(g);
    }
}
