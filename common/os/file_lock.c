/* SPDX-License-Identifier: Apache-2.0 */
#include "os/file_lock.h"

#include <errno.h>
#include <string.h>
#include <sys/file.h>

int file_lock(int fd, const char *path, enum file_lock_kind kind, bool wait, struct err *err)
{
    int operation = (kind == FILE_LOCK_ALONE ? LOCK_EX : LOCK_SH) | (wait ? 0 : LOCK_NB);
    int rc = 0;
    do {
        rc = flock(fd, operation);
    } while (rc != 0 && errno == EINTR);
    switch (rc == 0 ? 0 : errno) {
    case 0:
        return 0;
    case EWOULDBLOCK:
        return err_set(err, ERR_STATE, "%s is locked by another process", path);
    case ENOLCK:
    case ENOSYS:
    case EOPNOTSUPP:
        return err_set(err, ERR_UNSUPPORTED,
                       "%s cannot be locked (%s): give a directory of a file system that has locks",
                       path, strerror(errno));
    default:
        return err_errno(err, errno, "lock %s", path);
    }
}
