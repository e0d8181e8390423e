/* SPDX-License-Identifier: Apache-2.0 */
/* glob(3) takes functions in place of opendir(3), stat(2) and their like, but tells them nothing:
 * for what pattern they are called stands in a variable of the thread. */
#include "data/file_glob.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static _Thread_local struct {
    const struct data_roots *roots;
    bool outside;
} current;

/* The descriptor of @path, below the roots; -1 with errno. */
static int find(const char *path)
{
    int fd = -1;
    struct err err = {0};
    int rc = data_roots_find(current.roots, path, &fd, &err);
    if (rc != 0) {
        errno = rc == ERR_NOT_FOUND ? ENOENT : EACCES;
        return -1;
    }
    return fd;
}

static void *open_dir(const char *path)
{
    int at = find(path);
    if (at < 0) {
        /* ENOENT is no error: a directory of the pattern is not there */
        current.outside = current.outside || errno == EACCES;
        return NULL;
    }
    int fd = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)close(at);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && dir == NULL) {
        (void)close(fd);
    }
    return dir;
}

static struct dirent *read_dir(void *dir)
{
    return readdir(dir);
}

static void close_dir(void *dir)
{
    (void)closedir(dir);
}

static int stat_inside(const char *restrict path, struct stat *restrict out)
{
    int at = find(path);
    if (at < 0) {
        return -1;
    }
    int rc = fstat(at, out);
    (void)close(at);
    return rc;
}

int file_glob(const struct data_roots *roots, const char *pattern, glob_t *found, bool *outside)
{
    *found = (glob_t){0};
    *outside = false;
    if (!data_roots_bind(roots)) {
        return glob(pattern, GLOB_ERR | GLOB_NOSORT, NULL, found);
    }
    current.roots = roots;
    current.outside = false;
    found->gl_opendir = open_dir;
    found->gl_readdir = read_dir;
    found->gl_closedir = close_dir;
    found->gl_stat = stat_inside;
    found->gl_lstat = stat_inside;
    int code = glob(pattern, GLOB_ERR | GLOB_NOSORT | GLOB_ALTDIRFUNC, NULL, found);
    *outside = current.outside;
    return code;
}
