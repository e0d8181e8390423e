/* SPDX-License-Identifier: Apache-2.0 */
/* Files by read(2), of which only regular ones are opened; all else by the storage room. */
#include "data/raw_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "storage/storage.h"
#include "storage/storage_stream.h"

struct raw_file {
    char *path;
    int fd;                        /* of files */
    struct storage_stream *stream; /* of all else */
    uint64_t bytes, offset;
    bool input; /* fd is standard input, of which the first bytes are in hand: */
    size_t head_bytes;
    char head[RAW_FILE_PEEK_BYTES];
};

/* A descriptor of @path, if it lies where @roots say: of the very thing that they looked at. */
static int open_inside(const char *path, const struct data_roots *roots, int *out, struct err *err)
{
    char link[32] = "";
    int at = -1;
    int rc = data_roots_bind(roots) ? data_roots_find(roots, path, &at, err) : 0;
    if (rc != 0) {
        return rc;
    }
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", at);
    /* Without O_NONBLOCK, opening a FIFO would wait for a writer that never comes. */
    *out = open(at >= 0 ? link : path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    rc = *out >= 0 ? 0 : err_errno(err, errno, "open %s", path);
    if (at >= 0) {
        (void)close(at);
    }
    return rc;
}

static int open_regular(const char *path, const struct data_roots *roots, int *out, uint64_t *bytes,
                        struct err *err)
{
    int fd = -1;
    int rc = open_inside(path, roots, &fd, err);
    if (rc != 0) {
        return rc;
    }
    struct stat st;
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

int raw_file_error(int rc)
{
    switch (rc) {
    case ERR_UNAUTHENTICATED:
        return ERR_PERMISSION;
    case ERR_STATE: /* the bucket, or its region */
        return ERR_NOT_FOUND;
    default:
        return rc;
    }
}

static int open_stream(const char *path, const struct data_roots *roots, struct raw_file *f,
                       struct err *err)
{
    struct err local = {0};
    int rc = data_roots_check(roots, path, err);
    if (rc != 0) {
        return rc;
    }
    rc = storage_stream_open(path, &f->stream, &local);
    if (rc != 0) {
        return err_set(err, raw_file_error(rc), "open %s: %s", path, local.msg);
    }
    f->bytes = storage_stream_bytes(f->stream);
    return 0;
}

int raw_file_open(const char *path, const struct data_roots *roots, struct raw_file **out,
                  struct err *err)
{
    struct raw_file made = {.fd = -1};
    int rc = storage_is_url(path) ? open_stream(path, roots, &made, err)
                                  : open_regular(path, roots, &made.fd, &made.bytes, err);
    if (rc != 0) {
        return rc;
    }
    struct raw_file *f = mem_new(1, sizeof *f);
    *f = made;
    f->path = mem_strdup(path);
    *out = f;
    return 0;
}

void raw_file_close(struct raw_file *f)
{
    if (f != NULL) {
        if (f->fd >= 0 && !f->input) {
            (void)close(f->fd);
        }
        storage_stream_close(f->stream);
        free(f->path);
        free(f);
    }
}

static int stream_error(const struct raw_file *f, const struct err *cause, struct err *err)
{
    return err_set(err, raw_file_error(cause->code), "read %s at byte %" PRIu64 ": %s", f->path,
                   f->offset, cause->msg);
}

static int system_error(const struct raw_file *f, struct err *err)
{
    return err_errno(err, errno, "read %s at byte %" PRIu64, f->path, f->offset);
}

/* Some of the next bytes of the descriptor. */
static int read_some(const struct raw_file *f, void *out, size_t n, size_t *got, struct err *err)
{
    ssize_t k;
    do {
        k = read(f->fd, out, n);
    } while (k < 0 && errno == EINTR);
    if (k < 0) {
        return system_error(f, err);
    }
    *got = (size_t)k;
    return 0;
}

int raw_file_open_input(struct raw_file **out, struct err *err)
{
    struct raw_file *f = mem_new(1, sizeof *f);
    *f = (struct raw_file){.fd = STDIN_FILENO, .input = true, .path = mem_strdup("standard input")};
    int rc = 0;
    size_t got = 1;
    while (rc == 0 && got > 0 && f->head_bytes < sizeof f->head) {
        rc = read_some(f, f->head + f->head_bytes, sizeof f->head - f->head_bytes, &got, err);
        f->head_bytes += rc == 0 ? got : 0;
    }
    if (rc != 0) {
        raw_file_close(f);
        return rc;
    }
    *out = f;
    return 0;
}

int raw_file_peek(struct raw_file *f, void *out, size_t n, size_t *got, struct err *err)
{
    if (f->stream != NULL) {
        struct err local = {0};
        int rc = storage_stream_peek(f->stream, out, n, got, &local);
        return rc == 0 ? 0 : stream_error(f, &local, err);
    }
    if (f->input) {
        *got = n < f->head_bytes ? n : f->head_bytes;
        memcpy(out, f->head, *got);
        return 0;
    }
    ssize_t k = pread(f->fd, out, n, 0);
    if (k < 0) {
        return system_error(f, err);
    }
    *got = (size_t)k;
    return 0;
}

int raw_file_read(struct raw_file *f, void *out, size_t n, size_t *got, struct err *err)
{
    if (f->stream != NULL) {
        struct err local = {0};
        int rc = storage_stream_read(f->stream, out, n, got, &local);
        if (rc != 0) {
            return stream_error(f, &local, err);
        }
    } else if (f->input && f->offset < f->head_bytes) {
        const size_t left = f->head_bytes - (size_t)f->offset;
        *got = n < left ? n : left;
        memcpy(out, f->head + f->offset, *got);
    } else {
        int rc = read_some(f, out, n, got, err);
        if (rc != 0) {
            return rc;
        }
    }
    f->offset += *got;
    return 0;
}

int raw_file_read_at(const struct raw_file *f, uint64_t at, void *out, size_t n, struct err *err)
{
    char *to = out;
    while (n > 0) {
        ssize_t k = pread(f->fd, to, n, (off_t)at);
        if (k < 0 && errno == EINTR) {
            continue;
        }
        if (k < 0) {
            return err_errno(err, errno, "read %s at byte %" PRIu64, f->path, at);
        }
        if (k == 0) {
            return err_set(err, ERR_CORRUPT, "read %s at byte %" PRIu64 ": the file ends there",
                           f->path, at);
        }
        to += k;
        at += (uint64_t)k;
        n -= (size_t)k;
    }
    return 0;
}

void raw_file_expect(const struct raw_file *f, uint64_t at, size_t n)
{
    (void)posix_fadvise(f->fd, (off_t)at, (off_t)n, POSIX_FADV_WILLNEED);
}

bool raw_file_is_object(const struct raw_file *f)
{
    return f->stream != NULL;
}

bool raw_file_is_input(const struct raw_file *f)
{
    return f->input;
}

int64_t raw_file_changed_ns(const struct raw_file *f)
{
    struct stat st;
    return fstat(f->fd, &st) == 0
               ? (int64_t)st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec
               : 0;
}

const char *raw_file_path(const struct raw_file *f)
{
    return f->path;
}

uint64_t raw_file_bytes(const struct raw_file *f)
{
    return f->bytes;
}

uint64_t raw_file_offset(const struct raw_file *f)
{
    return f->offset;
}
