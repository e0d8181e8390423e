/* SPDX-License-Identifier: Apache-2.0 */
/* Lets several masters share one root of checkpoints: each marks the directories of its jobs as
 * its own. The owner file is complete before link(2) gives it its name, and only one link
 * succeeds. */
#include "checkpoint/claim.h"

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

#include "base/file.h"
#include "base/mem.h"

#define CLAIM_BYTES_MAX 4096
#define CLAIM_FORMAT "gradus-owner 1\n"

void claim_owner_new(char out[CLAIM_OWNER_BYTES])
{
    unsigned char random[(CLAIM_OWNER_BYTES - 1) / 2];
    while (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random) {
    }
    for (size_t i = 0; i < sizeof random; i++) {
        (void)snprintf(out + 2 * i, 3, "%02x", random[i]);
    }
}

/* ---- the root ---- */

int claim_root_check(const char *root, struct err *err)
{
    char *mark = file_join(root, CLAIM_ROOT_MARK);
    struct stat st;
    int rc = 0;
    if (stat(mark, &st) != 0) {
        rc = errno == ENOENT || errno == ENOTDIR
                 ? err_set(err, ERR_UNAVAILABLE,
                           "checkpoint directory %s is not there: is its disk mounted? (It has no "
                           "file %s; if it is meant to be empty, make that file)",
                           root, CLAIM_ROOT_MARK)
                 : err_errno(err, errno, "look for %s", mark);
    }
    free(mark);
    return rc;
}

int claim_root_make(const char *root, struct err *err)
{
    static const char text[] =
        "Checkpoints of Gradus. Without this file a master takes the directory for one whose disk "
        "is not mounted.\n";
    int rc = file_make_dirs(root, err);
    if (rc != 0 || claim_root_check(root, NULL) == 0) {
        return rc;
    }
    char *mark = file_join(root, CLAIM_ROOT_MARK);
    rc = file_write_atomic(mark, text, sizeof text - 1, err); /* whoever makes it: it is the same */
    free(mark);
    return rc;
}

/* ---- the owner file ---- */

int claim_read(const char *dir, char owner[CLAIM_OWNER_BYTES], struct err *err)
{
    char *path = file_join(dir, CLAIM_NAME);
    struct buf text = {0};
    int rc = file_read(path, CLAIM_BYTES_MAX, &text, err);
    owner[0] = '\0';
    if (rc == 0) {
        const char *p = buf_str(&text);
        size_t format = sizeof CLAIM_FORMAT - 1;
        if (strncmp(p, CLAIM_FORMAT, format) != 0 ||
            strspn(p + format, "0123456789abcdef") != CLAIM_OWNER_BYTES - 1) {
            rc = err_set(err, ERR_CORRUPT, "%s does not say whose the directory is", path);
        } else {
            memcpy(owner, p + format, CLAIM_OWNER_BYTES - 1);
            owner[CLAIM_OWNER_BYTES - 1] = '\0';
        }
    } else if (rc == ERR_NOT_FOUND) {
        rc = 0;
    }
    buf_release(&text);
    free(path);
    return rc;
}

int claim_check(const char *root, const char *job, const char *owner, bool *there, struct err *err)
{
    char *dir = file_join(root, job);
    char found[CLAIM_OWNER_BYTES];
    int rc = claim_read(dir, found, err);
    bool exists = rc != 0 || found[0] != '\0' || file_exists(dir);
    if (rc == 0 && found[0] == '\0') {
        rc = err_set(err, ERR_NOT_FOUND, exists ? "%s has no file " CLAIM_NAME : "%s is missing",
                     dir);
    } else if (rc == 0 && strcmp(found, owner) != 0) {
        rc = err_set(err, ERR_PERMISSION,
                     "%s belongs to another master (owner %s, not %s) and is left alone", dir,
                     found, owner);
    }
    if (there != NULL) {
        *there = exists;
    }
    free(dir);
    return rc;
}

/* @dir/owner, which must not be there: a file that is complete gets the name. link() says by the
 * number of links whether it did, also when its answer was lost. Some file systems have no links:
 * there the name is taken first. */
static int write_owner(const char *dir, const char *job, const char *owner, int64_t submitted_ms,
                       struct err *err)
{
    char *path = file_join(dir, CLAIM_NAME);
    char *temporary = mem_printf("%s.%s.%ld", path, owner, (long)getpid());
    char *text =
        mem_printf(CLAIM_FORMAT "%s\njob %s\nsubmitted_ms %" PRId64 "\n", owner, job, submitted_ms);
    int rc = file_write_atomic(temporary, text, strlen(text), err);
    if (rc == 0) {
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
        rc = linked == 0 ? file_sync_dir(dir, err) : err_errno(err, linked, "make %s", path);
    }
    (void)unlink(temporary);
    free(text);
    free(temporary);
    free(path);
    return rc;
}

int claim_make(const char *root, const char *job, const char *owner, int64_t submitted_ms,
               struct err *err)
{
    char *dir = file_join(root, job);
    int rc = claim_root_check(root, err);
    if (rc == 0 && mkdir(dir, 0755) != 0) {
        rc = err_errno(err, errno, "make directory %s", dir);
    } else if (rc == 0) {
        rc = write_owner(dir, job, owner, submitted_ms, err);
        rc = rc != 0 ? rc : file_sync_dir(root, err);
        if (rc != 0) {
            (void)rmdir(dir); /* what was made of it stays and is nobody's */
        }
    }
    free(dir);
    return rc;
}

int claim_adopt(const char *root, const char *job, const char *owner, int64_t submitted_ms,
                struct err *err)
{
    char *dir = file_join(root, job);
    int rc = write_owner(dir, job, owner, submitted_ms, err);
    free(dir);
    return rc == ERR_EXISTS ? claim_check(root, job, owner, NULL, err) : rc;
}

void claim_release(const char *root, const char *job, const char *owner)
{
    if (claim_check(root, job, owner, NULL, NULL) != 0) {
        return;
    }
    char *path = file_join(root, job);
    DIR *dir = opendir(path);
    bool empty = dir != NULL;
    for (struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        empty = empty && (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
                          strcmp(e->d_name, CLAIM_NAME) == 0);
    }
    if (empty && unlinkat(dirfd(dir), CLAIM_NAME, 0) == 0) {
        (void)rmdir(path);
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
    free(path);
}
