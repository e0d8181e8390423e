/* SPDX-License-Identifier: Apache-2.0 */
/* Files and directories of this machine, or of a shared file system. Durable is what was synced
 * with its directory; exclusive is link(2), also on NFS. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/file.h"
#include "storage/storage_kind.h"

static int check(const char *path, struct err *err)
{
    return path[0] != '\0' ? 0 : err_set(err, ERR_INVALID, "the path is empty");
}

static int look(const char *path, enum storage_thing *thing, struct err *err)
{
    struct stat st;
    if (stat(path, &st) == 0) {
        *thing = S_ISREG(st.st_mode)   ? STORAGE_FILE
                 : S_ISDIR(st.st_mode) ? STORAGE_DIRECTORY
                                       : STORAGE_OTHER;
    } else if (errno == ENOENT || errno == ENOTDIR) {
        *thing = STORAGE_NOTHING;
    } else {
        return err_errno(err, errno, "look for %s", path);
    }
    return 0;
}

static int stamp(const char *path, struct buf *out, struct err *err)
{
    struct stat s;
    if (stat(path, &s) != 0) {
        return err_errno(err, errno, "look for %s", path);
    }
    buf_printf(out, "%" PRIu64 ":%" PRIu64 " %" PRIu64 " %lld.%09ld", (uint64_t)s.st_dev,
               (uint64_t)s.st_ino, (uint64_t)s.st_size, (long long)s.st_mtim.tv_sec,
               s.st_mtim.tv_nsec);
    return 0;
}

/* ---- reading ---- */

static int open_reader(struct storage_reader *r, const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_errno(err, errno, "open %s", path);
    }
    struct stat st;
    int rc = 0;
    if (fstat(fd, &st) != 0) {
        rc = err_errno(err, errno, "read %s: stat", path);
    } else if (!S_ISREG(st.st_mode)) {
        rc = err_set(err, ERR_INVALID, "read %s: not a file", path);
    }
    if (rc != 0) {
        (void)close(fd);
        return rc;
    }
    r->fd = fd;
    r->bytes = (uint64_t)st.st_size;
    return 0;
}

/* With pread(), so that a file cut later gives an error and not a signal. */
static int read_at(const struct storage_reader *r, uint64_t at, void *out, size_t n,
                   struct err *err)
{
    char *p = out;
    while (n > 0) {
        ssize_t k = pread(r->fd, p, n, (off_t)at);
        if (k < 0) {
            if (errno == EINTR) {
                continue;
            }
            return err_errno(err, errno, "byte %" PRIu64, at);
        }
        if (k == 0) {
            return err_set(err, ERR_CORRUPT, "the file ends at byte %" PRIu64, at);
        }
        p += k;
        at += (uint64_t)k;
        n -= (size_t)k;
    }
    return 0;
}

static void close_reader(struct storage_reader *r)
{
    (void)close(r->fd);
}

static int list(const char *path, struct storage_names *out, struct err *err)
{
    DIR *d = opendir(path);
    if (d == NULL) {
        return err_errno(err, errno, "open %s", path);
    }
    int rc = 0;
    for (;;) {
        errno = 0;
        struct dirent *e = readdir(d);
        if (e == NULL) {
            rc = errno == 0 ? 0 : err_errno(err, errno, "read %s", path);
            break;
        }
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            storage_names_add(out, e->d_name, strlen(e->d_name));
        }
    }
    (void)closedir(d);
    return rc;
}

/* ---- writing ---- */

static int create(struct storage_writer *w, const char *path, struct err *err)
{
    struct file_writer *file = mem_new(1, sizeof *file);
    int rc = file_writer_open(file, path, err);
    if (rc != 0) {
        free(file);
        return rc;
    }
    w->state = file;
    return 0;
}

static int add(struct storage_writer *w, const void *data, size_t n, struct err *err)
{
    return file_writer_add(w->state, data, n, err);
}

static int commit(struct storage_writer *w, struct err *err)
{
    int rc = file_writer_commit(w->state, err);
    free(w->state);
    return rc;
}

static void abort_writer(struct storage_writer *w)
{
    file_writer_abort(w->state);
    free(w->state);
}

/* A file that is complete gets the name. link() says by the number of links whether it did, also
 * when its answer was lost. Some file systems have no links: there the name is taken first. */
static int take_name(const char *temporary, const char *path, struct err *err)
{
    struct stat st = {0};
    int linked = link(temporary, path) == 0 ? 0 : errno;
    if (stat(temporary, &st) == 0 && st.st_nlink > 1) {
        linked = 0;
    }
    if (linked == EPERM || linked == ENOTSUP || linked == ENOSYS || linked == EMLINK) {
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        linked = fd < 0 ? errno : 0;
        if (fd >= 0) {
            (void)close(fd);
            linked = rename(temporary, path) == 0 ? 0 : errno;
        }
    }
    return linked == 0 ? file_sync_parent(path, err) : err_errno(err, linked, "make %s", path);
}

/* The temporary name is random: others who share the file system may try at the same time. */
static int claim(const char *path, const void *data, size_t n, struct err *err)
{
    uint64_t random = 0;
    while (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) {
    }
    char *temporary = mem_printf("%s.%016" PRIx64, path, random);
    int rc = file_write_atomic(temporary, data, n, err);
    rc = rc != 0 ? rc : take_name(temporary, path, err);
    (void)unlink(temporary);
    free(temporary);
    return rc;
}

static int remove_file(const char *path, struct err *err)
{
    if (unlink(path) == 0) {
        return file_sync_parent(path, err);
    }
    return errno == ENOENT || errno == ENOTDIR ? 0 : err_errno(err, errno, "remove %s", path);
}

/* ---- directories ---- */

static int make_dir(const char *path, struct err *err)
{
    return mkdir(path, 0755) == 0 ? 0 : err_errno(err, errno, "make directory %s", path);
}

static void remove_dir(const char *path)
{
    (void)rmdir(path);
}

const struct storage_kind storage_file = {
    .scheme = "file",
    .check = check,
    .look = look,
    .stamp = stamp,
    .open = open_reader,
    .read_at = read_at,
    .close = close_reader,
    .list = list,
    .create = create,
    .add = add,
    .commit = commit,
    .abort = abort_writer,
    .write = file_write_atomic,
    .claim = claim,
    .remove = remove_file,
    .remove_tree = file_remove_tree,
    .make_dirs = file_make_dirs,
    .make_dir = make_dir,
    .remove_dir = remove_dir,
    .sync_dir = file_sync_dir,
};
