/* SPDX-License-Identifier: Apache-2.0 */
/* Lets several masters share one root of checkpoints: each marks the directories of its jobs as
 * its own. Of all who claim the owner file one gets it (storage.h). */
#include "checkpoint/claim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/mem.h"
#include "os/file.h"
#include "storage/storage.h"

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
    enum storage_thing thing = STORAGE_NOTHING;
    int rc = storage_look(mark, &thing, err);
    if (rc == 0 && thing == STORAGE_NOTHING) {
        rc = err_set(err, ERR_UNAVAILABLE,
                     "checkpoint directory %s is not there: is its disk mounted? (It has no file "
                     "%s; if it is meant to be empty, make that file)",
                     root, CLAIM_ROOT_MARK);
    }
    free(mark);
    return rc;
}

int claim_root_make(const char *root, struct err *err)
{
    static const char text[] =
        "Checkpoints of Gradus. Without this file a master takes the directory for one whose disk "
        "is not mounted.\n";
    int rc = storage_make_dirs(root, err);
    if (rc != 0 || claim_root_check(root, NULL) == 0) {
        return rc;
    }
    char *mark = file_join(root, CLAIM_ROOT_MARK);
    /* two masters that make the mark write the same bytes */
    rc = storage_write(mark, text, sizeof text - 1, err);
    free(mark);
    return rc;
}

/* ---- the owner file ---- */

int claim_read(const char *dir, char owner[CLAIM_OWNER_BYTES], struct err *err)
{
    char *path = file_join(dir, CLAIM_NAME);
    struct buf text = {0};
    int rc = storage_read(path, CLAIM_BYTES_MAX, &text, err);
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
    bool exists = rc != 0 || found[0] != '\0';
    if (rc == 0 && !exists) {
        enum storage_thing thing = STORAGE_NOTHING;
        rc = storage_look(dir, &thing, err);
        exists = rc != 0 || thing != STORAGE_NOTHING;
    }
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

/* @dir/owner, which must not be there. */
static int write_owner(const char *dir, const char *job, const char *owner, int64_t submitted_ms,
                       struct err *err)
{
    char *path = file_join(dir, CLAIM_NAME);
    char *text =
        mem_printf(CLAIM_FORMAT "%s\njob %s\nsubmitted_ms %" PRId64 "\n", owner, job, submitted_ms);
    int rc = storage_claim(path, text, strlen(text), err);
    free(text);
    free(path);
    return rc;
}

int claim_make(const char *root, const char *job, const char *owner, int64_t submitted_ms,
               struct err *err)
{
    char *dir = file_join(root, job);
    int rc = claim_root_check(root, err);
    rc = rc != 0 ? rc : storage_make_dir(dir, err);
    if (rc == 0) {
        rc = write_owner(dir, job, owner, submitted_ms, err);
        rc = rc != 0 ? rc : storage_sync_dir(root, err);
        if (rc != 0) {
            storage_remove_dir(dir); /* what is left of the directory belongs to nobody */
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
    char *dir = file_join(root, job), *path = file_join(dir, CLAIM_NAME);
    struct storage_names names = {0};
    bool empty = storage_list(dir, &names, NULL) == 0;
    for (size_t i = 0; i < names.count; i++) {
        empty = empty && strcmp(names.items[i], CLAIM_NAME) == 0;
    }
    if (empty && storage_remove(path, NULL) == 0) {
        storage_remove_dir(dir);
    }
    storage_names_release(&names);
    free(path);
    free(dir);
}
