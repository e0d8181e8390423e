/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes whole files and directory trees. A file is written as PATH.tmp.PID, synced
 * and renamed to PATH, so after a crash there is the old file or the new one, never half of one. */
#include "os/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define LINKS_MAX 40 /* links in a row, as many as the kernel follows */

int file_read(const char *path, size_t bytes_max, struct buf *out, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return err_errno(err, errno, "open %s", path);
    }
    size_t before = out->len;
    int rc = 0;
    char chunk[65536];
    for (;;) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n < 0) {
            if (errno == EINTR) {
                continue;
            }
            rc = err_errno(err, errno, "read %s", path);
            break;
        }
        if (n == 0) {
            break;
        }
        if (out->len - before + (size_t)n > bytes_max) {
            rc = err_set(err, ERR_EXHAUSTED, "read %s: larger than %zu bytes", path, bytes_max);
            break;
        }
        buf_add(out, chunk, (size_t)n);
    }
    (void)close(fd);
    if (rc != 0 && out->data != NULL) {
        out->len = before;
        out->data[before] = '\0';
    }
    return rc;
}

/* The path behind @path, link by link, whether or not a file is there; owned. NULL with errno: the
 * links lead nowhere. */
static char *follow_links(const char *path)
{
    char *at = mem_strdup(path), target[PATH_MAX];
    for (int i = 0; i < LINKS_MAX; i++) {
        const ssize_t n = readlink(at, target, sizeof target - 1);
        if (n < 0) {
            return at; /* no link */
        }
        target[n] = '\0';
        char *slash = strrchr(at, '/');
        if (slash != NULL) {
            slash[slash == at ? 1 : 0] = '\0';
        }
        char *next = file_join(slash == NULL ? NULL : at, target);
        free(at);
        at = next;
    }
    free(at);
    errno = ELOOP;
    return NULL;
}

/* Opens a writer into a device or a pipe, which is written in place. */
static int open_direct(struct file_writer *w, const char *path, struct err *err)
{
    int fd = strcmp(path, FILE_STDOUT) == 0 ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0)
                                            : open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
    if (fd < 0) {
        return err_errno(err, errno, "open %s", path);
    }
    *w = (struct file_writer){
        .fd = fd, .path = mem_strdup(path), .tmp_path = mem_strdup(path), .direct = true};
    return 0;
}

int file_writer_open(struct file_writer *w, const char *path, struct err *err)
{
    struct stat st;
    if (strcmp(path, FILE_STDOUT) == 0 ||
        (stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))) {
        return open_direct(w, path, err);
    }
    char *target = follow_links(path);
    if (target == NULL) {
        return err_errno(err, errno, "create %s", path);
    }
    char *tmp = mem_printf("%s.tmp.%ld", target, (long)getpid());
    int fd = open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0) {
        int rc = err_errno(err, errno, "create %s", tmp);
        free(tmp);
        free(target);
        return rc;
    }
    *w = (struct file_writer){.fd = fd, .path = target, .tmp_path = tmp};
    return 0;
}

int file_writer_add(struct file_writer *w, const void *data, size_t n, struct err *err)
{
    const char *p = data;
    while (n > 0) {
        ssize_t k = write(w->fd, p, n);
        if (k < 0) {
            if (errno == EINTR) {
                continue;
            }
            return err_errno(err, errno, "write %s", w->tmp_path);
        }
        p += k;
        n -= (size_t)k;
        w->offset += (uint64_t)k;
    }
    return 0;
}

int file_sync_dir(const char *path, struct err *err)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return err_errno(err, errno, "open %s", path);
    }
    int rc = fsync(fd) == 0 ? 0 : err_errno(err, errno, "fsync %s", path);
    (void)close(fd);
    return rc;
}

int file_sync_parent(const char *path, struct err *err)
{
    char dir[PATH_MAX];
    (void)snprintf(dir, sizeof dir, "%s", path);
    char *slash = strrchr(dir, '/');
    if (slash == NULL) {
        (void)snprintf(dir, sizeof dir, ".");
    } else if (slash == dir) {
        dir[1] = '\0';
    } else {
        *slash = '\0';
    }
    return file_sync_dir(dir, err);
}

static void writer_free(struct file_writer *w)
{
    free(w->path);
    free(w->tmp_path);
    *w = (struct file_writer){.fd = -1};
}

int file_writer_commit(struct file_writer *w, struct err *err)
{
    int rc = 0;
    if (!w->direct && fsync(w->fd) != 0) {
        rc = err_errno(err, errno, "fsync %s", w->tmp_path);
    }
    if (close(w->fd) != 0 && rc == 0) {
        rc = err_errno(err, errno, "close %s", w->tmp_path);
    }
    w->fd = -1;
    if (w->direct) {
        writer_free(w);
        return rc;
    }
    if (rc == 0 && rename(w->tmp_path, w->path) != 0) {
        rc = err_errno(err, errno, "rename %s to %s", w->tmp_path, w->path);
    }
    if (rc == 0) {
        rc = file_sync_parent(w->path, err);
    } else {
        (void)unlink(w->tmp_path);
    }
    writer_free(w);
    return rc;
}

void file_writer_abort(struct file_writer *w)
{
    if (w->tmp_path == NULL) {
        return;
    }
    if (w->fd >= 0) {
        (void)close(w->fd);
    }
    if (!w->direct) {
        (void)unlink(w->tmp_path);
    }
    writer_free(w);
}

int file_write_atomic(const char *path, const void *data, size_t n, struct err *err)
{
    struct file_writer w;
    int rc = file_writer_open(&w, path, err);
    if (rc != 0) {
        return rc;
    }
    rc = file_writer_add(&w, data, n, err);
    if (rc != 0) {
        file_writer_abort(&w);
        return rc;
    }
    return file_writer_commit(&w, err);
}

int file_make_dirs(const char *path, struct err *err)
{
    char *copy = mem_strdup(path);
    int rc = 0;
    for (char *p = copy + 1; copy[0] != '\0'; p++) {
        char c = *p;
        if (c == '/' || c == '\0') {
            *p = '\0';
            if (mkdir(copy, 0755) != 0 && errno != EEXIST) {
                rc = err_errno(err, errno, "make directory %s", copy);
                break;
            }
            *p = c;
        }
        if (c == '\0') {
            break;
        }
    }
    if (rc == 0) {
        struct stat st;
        if (stat(path, &st) != 0) {
            rc = err_errno(err, errno, "make directory %s", path);
        } else if (!S_ISDIR(st.st_mode)) {
            rc = err_set(err, ERR_EXISTS, "make directory %s: a file of that name is in the way",
                         path);
        }
    }
    free(copy);
    return rc;
}

static int remove_at(int parent, const char *name, struct err *err)
{
    if (unlinkat(parent, name, 0) == 0 || errno == ENOENT) {
        return 0;
    }
    if (errno != EISDIR && errno != EPERM) {
        return err_errno(err, errno, "remove %s", name);
    }
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) {
        return err_errno(err, errno, "open %s", name);
    }
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        (void)close(fd);
        return err_errno(err, errno, "open %s", name);
    }
    int rc = 0;
    for (struct dirent *e; rc == 0 && (e = readdir(dir)) != NULL;) {
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) {
            rc = remove_at(dirfd(dir), e->d_name, err);
        }
    }
    (void)closedir(dir);
    if (rc == 0 && unlinkat(parent, name, AT_REMOVEDIR) != 0 && errno != ENOENT) {
        rc = err_errno(err, errno, "remove directory %s", name);
    }
    return rc;
}

int file_remove_tree(const char *path, struct err *err)
{
    return remove_at(AT_FDCWD, path, err);
}

bool file_exists(const char *path)
{
    return access(path, F_OK) == 0;
}

char *file_join(const char *dir, const char *name)
{
    if (name[0] == '/' || dir == NULL || dir[0] == '\0') {
        return mem_strdup(name);
    }
    size_t n = strlen(dir);
    return mem_printf("%s%s%s", dir, dir[n - 1] == '/' ? "" : "/", name);
}
