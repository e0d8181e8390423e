/* SPDX-License-Identifier: Apache-2.0 */
#include "tensorboard/event_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/file.h"

#define FILE_BYTES_MAX (64U << 20) /* about half a million evaluations */
#define FILES_MAX 1000             /* of one directory: so many are of others */

static int write_all(int fd, const char *path, const struct buf *all, struct err *err)
{
    const char *data = all->data;
    size_t n = all->len;
    while (n > 0) {
        const ssize_t written = write(fd, data, n);
        if (written < 0 && errno != EINTR) {
            return err_errno(err, errno, "write %s", path);
        }
        data += written > 0 ? written : 0;
        n -= written > 0 ? (size_t)written : 0;
    }
    return 0;
}

static int read_all(int fd, const char *path, struct buf *out, struct err *err)
{
    char block[16 << 10];
    ssize_t n;
    while ((n = read(fd, block, sizeof block)) != 0) {
        if (n < 0 && errno != EINTR) {
            return err_errno(err, errno, "read %s", path);
        }
        if (n > 0 && out->len + (size_t)n > FILE_BYTES_MAX) {
            return err_set(err, ERR_EXHAUSTED, "%s has more than %u MiB already", path,
                           FILE_BYTES_MAX >> 20);
        }
        buf_add(out, block, n > 0 ? (size_t)n : 0);
    }
    return 0;
}

/* Changes the file of @fd, which is held against other processes. */
static int change_open(int fd, const char *path, event_file_look *look, const void *ctx, bool *ours,
                       struct err *err)
{
    struct buf there = {0};
    struct event_change change = {.keep = 0};
    int rc = read_all(fd, path, &there, err);
    *ours = rc == 0 && look(ctx, &there, &change);
    if (*ours && change.keep < there.len && ftruncate(fd, (off_t)change.keep) != 0) {
        rc = err_errno(err, errno, "shorten %s", path);
    }
    if (rc == 0 && *ours) {
        rc = write_all(fd, path, &change.more, err);
    }
    buf_release(&there);
    buf_release(&change.more);
    return rc;
}

static int change_path(const char *path, event_file_look *look, const void *ctx, bool *ours,
                       struct err *err)
{
    const int flags = O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
    const int fd = open(path, flags, 0666);
    struct stat st;
    int rc = fd < 0 ? err_errno(err, errno, "open %s", path) : 0;
    if (rc == 0 && (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))) {
        rc = err_set(err, ERR_INVALID, "%s is no regular file", path);
    }
    if (rc == 0 && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        rc = errno == EWOULDBLOCK
                 ? err_set(err, ERR_UNAVAILABLE, "another process writes %s just now", path)
                 : err_errno(err, errno, "lock %s", path);
    }
    rc = rc == 0 ? change_open(fd, path, look, ctx, ours, err) : rc;
    if (fd >= 0 && close(fd) != 0 && rc == 0) {
        rc = err_errno(err, errno, "write %s", path);
    }
    return rc;
}

int event_file_change(const char *dir, int64_t number, event_file_look *look, const void *ctx,
                      struct err *err)
{
    int rc = file_make_dirs(dir, err);
    bool ours = false;
    for (unsigned i = 0; rc == 0 && !ours && i < FILES_MAX; i++) {
        char *path = mem_printf("%s/events.out.tfevents.%010" PRId64 ".gradus.%u", dir, number, i);
        rc = change_path(path, look, ctx, &ours, err);
        free(path);
    }
    return rc == 0 && !ours
               ? err_set(err, ERR_EXISTS, "%s has %d event files of other content", dir, FILES_MAX)
               : rc;
}
