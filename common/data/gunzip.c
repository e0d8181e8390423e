/* SPDX-License-Identifier: Apache-2.0 */
/* Streams a gzip file through a buffer; zlib finds the members' headers and checks their sums. */
#include "data/gunzip.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#define ZLIB_CONST /* next_in points to what zlib only reads */
#include <zlib.h>

#include "base/mem.h"

#define GUNZIP_BUFFER_BYTES ((size_t)256 * 1024)
#define GUNZIP_OUT_BYTES (1U << 30) /* zlib counts in an unsigned int */
#define GUNZIP_WINDOW_BITS 15       /* + 16: gzip instead of zlib framing */

struct gunzip {
    struct raw_file *file;
    const char *kind; /* for messages */
    z_stream stream;
    uint8_t *buffer;   /* of packed bytes */
    bool between;      /* a member has ended, and none has begun */
    bool ended;        /* all was unpacked */
    uint64_t unpacked; /* bytes so far */
};

bool gunzip_begins(const uint8_t *head, size_t n)
{
    return n >= 2 && head[0] == 0x1F && head[1] == 0x8B; /* RFC 1952, section 2.3.1 */
}

/* Deflate, a window of 32 KiB, no preset dictionary, and the check of RFC 1950, section 2.2. */
bool gunzip_begins_zlib(const uint8_t *head, size_t n)
{
    return n >= 2 && head[0] == 0x78 && (head[1] == 0x01 || head[1] == 0x9C || head[1] == 0xDA);
}

int gunzip_open(struct raw_file *file, bool zlib, struct gunzip **out, struct err *err)
{
    struct gunzip *g = mem_new(1, sizeof *g);
    if (inflateInit2(&g->stream, GUNZIP_WINDOW_BITS + (zlib ? 0 : 16)) != Z_OK) {
        free(g);
        return err_set(err, ERR_EXHAUSTED, "open %s: no memory for zlib", raw_file_path(file));
    }
    g->file = file;
    g->kind = zlib ? "zlib" : "gzip";
    g->buffer = mem_new(GUNZIP_BUFFER_BYTES, 1);
    *out = g;
    return 0;
}

void gunzip_close(struct gunzip *g)
{
    if (g != NULL) {
        (void)inflateEnd(&g->stream);
        free(g->buffer);
        free(g);
    }
}

/* Read more packed bytes behind the few that are left; *@ended: there are none. */
static int refill(struct gunzip *g, bool *ended, struct err *err)
{
    z_stream *z = &g->stream;
    size_t left = z->avail_in, got = 0;
    if (left > 0) {
        memmove(g->buffer, z->next_in, left);
    }
    int rc = raw_file_read(g->file, g->buffer + left, GUNZIP_BUFFER_BYTES - left, &got, err);
    if (rc == 0) {
        z->next_in = g->buffer;
        z->avail_in = (unsigned)(left + got);
        *ended = got == 0;
    }
    return rc;
}

/* Called behind a member: another one begins, or the file ends. */
static int begin_member(struct gunzip *g, struct err *err)
{
    bool over = false;
    while (g->stream.avail_in < 2 && !over) {
        int rc = refill(g, &over, err);
        if (rc != 0) {
            return rc;
        }
    }
    g->between = false;
    g->ended = !gunzip_begins(g->stream.next_in, g->stream.avail_in);
    (void)inflateReset(&g->stream);
    return 0;
}

static int cut_off(const struct gunzip *g, struct err *err)
{
    return err_set(err, ERR_CORRUPT,
                   "%s: the %s file is cut off: it ends at its byte %" PRIu64 " (byte %" PRIu64
                   " of the content) without the end mark",
                   raw_file_path(g->file), g->kind, raw_file_offset(g->file), g->unpacked);
}

static int damaged(const struct gunzip *g, struct err *err)
{
    return err_set(err, ERR_CORRUPT,
                   "%s: the %s file is damaged near its byte %" PRIu64 " (byte %" PRIu64
                   " of the content): %s",
                   raw_file_path(g->file), g->kind, raw_file_offset(g->file) - g->stream.avail_in,
                   g->unpacked, g->stream.msg != NULL ? g->stream.msg : "it makes no sense");
}

/* Unpacks some of the buffer. */
static int unpack(struct gunzip *g, struct err *err)
{
    unsigned room = g->stream.avail_out;
    int state = inflate(&g->stream, Z_NO_FLUSH);
    g->unpacked += room - g->stream.avail_out;
    if (state == Z_MEM_ERROR) {
        return err_set(err, ERR_EXHAUSTED, "read %s: no memory for zlib", raw_file_path(g->file));
    }
    g->between = state == Z_STREAM_END;
    return state == Z_OK || state == Z_STREAM_END || state == Z_BUF_ERROR ? 0 : damaged(g, err);
}

int gunzip_read(struct gunzip *g, void *out, size_t n, size_t *got, struct err *err)
{
    uint8_t *p = out;
    uint64_t first = g->unpacked;
    int rc = 0;
    while (rc == 0 && g->unpacked - first < n && !g->ended) {
        size_t done = (size_t)(g->unpacked - first), room = n - done;
        bool over = false;
        if (g->between) {
            rc = begin_member(g, err);
            continue;
        }
        if (g->stream.avail_in == 0) {
            rc = refill(g, &over, err);
        }
        g->stream.next_out = p + done;
        g->stream.avail_out = (unsigned)(room < GUNZIP_OUT_BYTES ? room : GUNZIP_OUT_BYTES);
        rc = rc != 0 ? rc : unpack(g, err); /* zlib may have more without new input */
        if (rc == 0 && over && !g->between && g->unpacked - first == done) {
            rc = cut_off(g, err);
        }
    }
    if (rc == 0) {
        *got = (size_t)(g->unpacked - first);
    }
    return rc;
}
