/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the name of a server's Unix socket without asking, makes its directory, which no other user
 * may enter, and removes the sockets that killed processes left behind. */
#include "host/local_socket.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/checksum.h"
#include "base/mem.h"
#include "os/file.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define NETWORK "/proc/self/ns/net"
#define IDENTITY_BYTES_MAX 256

_Static_assert(LOCAL_SOCKET_BYTES == sizeof(((struct sockaddr_un *)NULL)->sun_path),
               "paths of sockets are so long");

/* Reads an id that only processes share which reach the same 127.0.0.1. */
static int read_host(struct buf *out, struct err *err)
{
    char network[64];
    ssize_t n = readlink(NETWORK, network, sizeof network - 1);
    if (n <= 0 || file_read(BOOT_ID, IDENTITY_BYTES_MAX, out, NULL) != 0) {
        return err_set(err, ERR_UNAVAILABLE, "%s and %s cannot be read", BOOT_ID, NETWORK);
    }
    network[n] = '\0';
    buf_printf(out, "%s\n", network);
    return 0;
}

int local_socket_path(const char *dir, const char *address, char path[LOCAL_SOCKET_BYTES],
                      struct err *err)
{
    struct buf identity = {0};
    int rc = read_host(&identity, err);
    if (rc == 0) {
        char own[64];
        buf_printf(&identity, "%s", address);
        (void)snprintf(own, sizeof own, "/tmp/gradus-%lu", (unsigned long)geteuid());
        int n = snprintf(path, LOCAL_SOCKET_BYTES, "%s/%016" PRIx64,
                         strcmp(dir, "auto") == 0 ? own : dir,
                         checksum_of(buf_str(&identity), identity.len));
        if (n >= LOCAL_SOCKET_BYTES) {
            rc = err_set(err, ERR_RANGE, "%s: the path of a socket has less than %d bytes", dir,
                         LOCAL_SOCKET_BYTES);
        }
    }
    buf_release(&identity);
    return rc;
}

static char *directory_of(const char *path)
{
    char *dir = mem_strdup(path);
    char *slash = strrchr(dir, '/');
    if (slash != NULL) {
        *slash = '\0';
    }
    return dir;
}

static bool is_ours_alone(const char *dir)
{
    struct stat s;
    return lstat(dir, &s) == 0 && S_ISDIR(s.st_mode) && s.st_uid == geteuid() &&
           (s.st_mode & 077) == 0;
}

/* A connection to @path, or -1 with errno. */
static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t n = strlen(path);
    if (n >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path, path, n + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) != 0) {
        int reason = errno;
        (void)close(fd);
        errno = reason;
        return -1;
    }
    return fd;
}

bool local_socket_answers(const char *path)
{
    char *dir = directory_of(path);
    bool ours = is_ours_alone(dir);
    free(dir);
    int fd = ours ? connect_to(path) : -1;
    if (fd >= 0) {
        (void)close(fd);
    }
    return fd >= 0;
}

/* Removes the sockets of processes that were killed. */
static void remove_dead(const char *dir)
{
    DIR *entries = opendir(dir);
    if (entries == NULL) {
        return;
    }
    for (const struct dirent *e = readdir(entries); e != NULL; e = readdir(entries)) {
        struct stat s;
        if (fstatat(dirfd(entries), e->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISSOCK(s.st_mode)) {
            continue;
        }
        char *path = file_join(dir, e->d_name);
        int fd = connect_to(path);
        if (fd >= 0) {
            (void)close(fd);
        } else if (errno == ECONNREFUSED) {
            (void)unlink(path);
        }
        free(path);
    }
    (void)closedir(entries);
}

int local_socket_prepare(const char *path, struct err *err)
{
    char *dir = directory_of(path);
    int rc = 0;
    if (mkdir(dir, 0700) != 0 && errno != EEXIST) {
        rc = err_errno(err, errno, "make %s", dir);
    } else if (!is_ours_alone(dir)) {
        rc = err_set(err, ERR_UNAVAILABLE, "%s is not a directory that only this user may enter",
                     dir);
    } else {
        remove_dead(dir);
    }
    free(dir);
    return rc;
}
