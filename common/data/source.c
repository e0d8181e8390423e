/* SPDX-License-Identifier: Apache-2.0 */
/* Reads data files through zlib, which unpacks gzip and passes all else through, zstd excepted.
 * Only regular files are opened; errors name the byte at which reading stopped. */
#include "data/source.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/mem.h"
#include "data/zstd_file.h"

#define SOURCE_BUFFER_BYTES (256U * 1024U) /* zlib's own 8 KiB cost a system call each */
#define SOURCE_READ_BYTES (1U << 30)       /* gzread() counts in an int */

struct source {
    gzFile file;            /* NULL for zstd */
    struct zstd_file *zstd; /* NULL for all else */
    char *path;
    uint64_t offset;
    uint64_t file_bytes; /* as stored */
};

static int open_regular(const char *path, int *out, uint64_t *bytes, struct err *err)
{
    /* Without O_NONBLOCK, opening a FIFO would wait for a writer that never comes. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        return err_errno(err, errno, "open %s", path);
    }
    struct stat st;
    int rc = 0;
    if (fstat(fd, &st) != 0) {
        rc = err_errno(err, errno, "open %s", path);
    } else if (!S_ISREG(st.st_mode)) {
        rc = err_set(err, ERR_INVALID, "open %s: this is %s, not a file", path,
                     S_ISDIR(st.st_mode) ? "a directory" : "a device, pipe or socket");
    }
    if (rc != 0) {
        (void)close(fd);
        return rc;
    }
    *out = fd;
    *bytes = (uint64_t)st.st_size;
    return 0;
}

/* Give the file to the library that its first bytes ask for. */
static int begin_reading(struct source *s, int fd, const char *path, struct err *err)
{
    uint8_t head[4];
    ssize_t n = pread(fd, head, sizeof head, 0);
    if (n > 0 && zstd_file_begins(head, (size_t)n)) {
        return zstd_file_open(fd, path, &s->zstd, err);
    }
    s->file = gzdopen(fd, "rb");
    if (s->file == NULL) {
        return err_set(err, ERR_EXHAUSTED, "open %s: no memory for zlib", path);
    }
    (void)gzbuffer(s->file, SOURCE_BUFFER_BYTES);
    return 0;
}

int source_open(const char *path, struct source **out, struct err *err)
{
    int fd = -1;
    uint64_t bytes = 0;
    int rc = open_regular(path, &fd, &bytes, err);
    if (rc != 0) {
        return rc;
    }
    struct source made = {.file_bytes = bytes};
    rc = begin_reading(&made, fd, path, err);
    if (rc != 0) {
        (void)close(fd);
        return rc;
    }
    struct source *s = mem_new(1, sizeof *s);
    *s = made;
    s->path = mem_strdup(path);
    *out = s;
    return 0;
}

void source_close(struct source *s)
{
    if (s != NULL) {
        if (s->file != NULL) {
            (void)gzclose_r(s->file);
        }
        zstd_file_close(s->zstd);
        free(s->path);
        free(s);
    }
}

/* Turn the state that gzread() left into an error, or 0 when there is none. */
static int read_error(struct source *s, struct err *err)
{
    int code = Z_OK;
    const char *text = gzerror(s->file, &code);
    switch (code) {
    case Z_OK:
    case Z_STREAM_END:
        return 0;
    case Z_ERRNO:
        return err_errno(err, errno, "read %s at byte %" PRIu64, s->path, s->offset);
    case Z_BUF_ERROR:
        return err_set(err, ERR_CORRUPT,
                       "%s: the gzip file is cut off: it ends at its byte %" PRIu64
                       " (byte %" PRIu64 " of the content) without the end mark",
                       s->path, s->file_bytes, s->offset);
    default:
        return err_set(err, ERR_CORRUPT,
                       "%s: the gzip file is damaged near its byte %" PRIu64 " (byte %" PRIu64
                       " of the content): %s",
                       s->path, (uint64_t)gzoffset(s->file), s->offset, text);
    }
}

int source_read(struct source *s, void *out, size_t n, size_t *got, struct err *err)
{
    if (s->zstd != NULL) {
        int rc = zstd_file_read(s->zstd, out, n, got, err);
        s->offset += rc == 0 ? *got : 0;
        return rc;
    }
    char *p = out;
    size_t done = 0;
    while (done < n) {
        size_t want = n - done < SOURCE_READ_BYTES ? n - done : SOURCE_READ_BYTES;
        int k = gzread(s->file, p + done, (unsigned)want);
        if (k > 0) {
            done += (size_t)k;
            s->offset += (uint64_t)k;
        }
        if (k < (int)want) {
            int rc = read_error(s, err);
            if (rc != 0) {
                return rc;
            }
            break;
        }
    }
    *got = done;
    return 0;
}

const char *source_path(const struct source *s)
{
    return s->path;
}

uint64_t source_offset(const struct source *s)
{
    return s->offset;
}

bool source_size(const struct source *s, uint64_t *bytes)
{
    if (s->zstd != NULL || gzdirect(s->file) == 0) {
        return false;
    }
    *bytes = s->file_bytes;
    return true;
}
