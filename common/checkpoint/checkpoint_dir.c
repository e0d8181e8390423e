/* SPDX-License-Identifier: Apache-2.0 */
#include "checkpoint/checkpoint_dir.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "checkpoint/manifest.h"

#define STEP_PREFIX "step-"

char *checkpoint_step_path(const char *dir, uint64_t step)
{
    char *name = mem_printf(STEP_PREFIX "%09" PRIu64, step);
    char *path = file_join(dir, name);
    free(name);
    return path;
}

/* Take the manifest away, durably, and then the rest. */
static int remove_checkpoint(const char *path, struct err *err)
{
    char *manifest = file_join(path, MANIFEST_NAME);
    int rc = 0;
    if (unlink(manifest) == 0) {
        rc = file_sync_dir(path, err);
    } else if (errno != ENOENT && errno != ENOTDIR) {
        rc = err_errno(err, errno, "remove %s", manifest);
    }
    free(manifest);
    return rc == 0 ? file_remove_tree(path, err) : rc;
}

int checkpoint_begin(const char *dir, uint64_t step, char **path, struct err *err)
{
    char *made = checkpoint_step_path(dir, step);
    int rc = remove_checkpoint(made, err);
    if (rc == 0) {
        rc = file_make_dirs(made, err);
    }
    if (rc == 0) {
        rc = file_sync_dir(dir, err);
    }
    if (rc == 0 && path != NULL) {
        *path = made;
    } else {
        free(made);
    }
    return rc;
}

struct entry {
    uint64_t step;
    char *path;
};
struct entries { /* newest first */
    struct entry *items;
    size_t count, capacity;
};

static void entries_release(struct entries *e)
{
    for (size_t i = 0; i < e->count; i++) {
        free(e->items[i].path);
    }
    free(e->items);
    *e = (struct entries){0};
}

static int compare_newest(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    return (x->step < y->step) - (x->step > y->step);
}

static int list(const char *dir, struct entries *out, struct err *err)
{
    DIR *d = opendir(dir);
    if (d == NULL) {
        return err_errno(err, errno, "open %s", dir);
    }
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        const char *digits = e->d_name + sizeof STEP_PREFIX - 1;
        int64_t step = 0;
        if (strncmp(e->d_name, STEP_PREFIX, sizeof STEP_PREFIX - 1) != 0 ||
            strspn(digits, "0123456789") != strlen(digits) || !text_to_int(digits, &step)) {
            continue;
        }
        out->items = mem_grow(out->items, &out->capacity, out->count + 1, sizeof *out->items);
        out->items[out->count++] = (struct entry){(uint64_t)step, file_join(dir, e->d_name)};
    }
    (void)closedir(d);
    if (out->count > 0) {
        qsort(out->items, out->count, sizeof *out->items, compare_newest);
    }
    return 0;
}

static bool is_complete(const char *path, struct err *err)
{
    struct manifest m = {0};
    bool complete =
        manifest_read(path, &m, err) == 0 && manifest_check_files(path, &m, false, err) == 0;
    manifest_release(&m);
    return complete;
}

int checkpoint_latest(const char *dir, char **path, struct buf *skipped, struct err *err)
{
    struct entries all = {0};
    int rc = list(dir, &all, err);
    if (rc != 0) {
        return rc;
    }
    struct err none;
    rc = err_set(&none, ERR_NOT_FOUND, "no checkpoint in %s", dir);
    for (size_t i = 0; rc != 0 && i < all.count; i++) {
        struct err why = {0};
        if (is_complete(all.items[i].path, &why)) {
            *path = mem_strdup(all.items[i].path);
            rc = 0;
            continue;
        }
        if (i == 0) { /* the newest is the one that was meant */
            (void)err_set(&none, rc, "no complete checkpoint in %s; %s", dir, why.msg);
        }
        if (skipped != NULL) {
            buf_printf(skipped, "%s\n", why.msg);
        }
    }
    if (rc != 0) {
        (void)err_set(err, rc, "%s", none.msg);
    }
    entries_release(&all);
    return rc;
}

int checkpoint_resolve(const char *path, char **out, struct err *err)
{
    char *manifest = file_join(path, MANIFEST_NAME);
    bool is_checkpoint = file_exists(manifest);
    free(manifest);
    if (is_checkpoint) {
        *out = mem_strdup(path);
        return 0;
    }
    return checkpoint_latest(path, out, NULL, err);
}

int checkpoint_prune(const char *dir, size_t keep, struct err *err)
{
    if (keep == 0 || !file_exists(dir)) {
        return 0;
    }
    struct entries all = {0};
    int rc = list(dir, &all, err);
    size_t complete = 0;
    for (size_t i = 0; rc == 0 && i < all.count; i++) {
        bool whole = complete < keep && is_complete(all.items[i].path, NULL);
        if (whole) {
            complete++;
        } else if (complete > 0) { /* what comes before the newest may still be in the making */
            rc = remove_checkpoint(all.items[i].path, err);
        }
    }
    if (rc != 0) {
        (void)err_wrap(err, "remove old checkpoints of %s", dir);
    }
    entries_release(&all);
    return rc;
}
