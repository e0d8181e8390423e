/* SPDX-License-Identifier: Apache-2.0 */
/* The file master.lock of a state directory. */
#include "master/store/store_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "os/file.h"
#include "os/file_lock.h"
#include "os/log.h"

/* Writes the owner over that of before, which needs no room. A failure does not matter. */
static void say_owner(int fd, const char *owner)
{
    size_t bytes = strlen(owner);
    ssize_t written = pwrite(fd, owner, bytes, 0);
    if (ftruncate(fd, written == (ssize_t)bytes ? written : 0) != 0) {
        log_warn("lock_file_not_written", "errno=%d", errno);
    }
}

/* One master per directory. The lock ends with its process, however that ends; the file's content
 * only tells others which process has it. */
int store_lock(const char *state_dir, const char *owner, int *fd, struct err *err)
{
    char *path = file_join(state_dir, "master.lock");
    int rc = 0;
    *fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    if (*fd < 0) {
        rc = err_errno(err, errno, "open %s", path);
    } else {
        rc = file_lock(*fd, path, FILE_LOCK_ALONE, false, err);
    }
    if (rc == ERR_STATE) {
        char who[256] = "unknown";
        ssize_t n = read(*fd, who, sizeof who - 1);
        who[n > 0 ? n : 0] = '\0';
        rc = err_set(err, ERR_STATE, "state directory %s is in use by %s", state_dir,
                     n > 0 ? who : "another master");
    } else if (rc == 0) {
        say_owner(*fd, owner);
    }
    free(path);
    return rc;
}
