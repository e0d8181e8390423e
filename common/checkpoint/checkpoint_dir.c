/* SPDX-License-Identifier: Apache-2.0 */
/* Looks through a job's directory, tells complete checkpoints from incomplete ones and sorts
 * them by generation, then step. For the master, which restores the newest and prunes the
 * oldest. */
#include "checkpoint/checkpoint_dir.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "checkpoint/claim.h"
#include "checkpoint/manifest.h"
#include "os/file.h"
#include "storage/storage.h"

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
    int rc = storage_remove(manifest, err);
    free(manifest);
    return rc == 0 ? storage_remove_tree(path, err) : rc;
}

int checkpoint_discard(const char *dir, uint64_t step, struct err *err)
{
    char *path = checkpoint_step_path(dir, step);
    int rc = remove_checkpoint(path, err);
    free(path);
    return rc;
}

int checkpoint_begin(const char *dir, uint64_t step, char **path, struct err *err)
{
    char *made = checkpoint_step_path(dir, step);
    int rc = remove_checkpoint(made, err);
    if (rc == 0) {
        rc = storage_make_dirs(made, err);
    }
    if (rc == 0) {
        rc = storage_sync_dir(dir, err);
    }
    if (rc == 0 && path != NULL) {
        *path = made;
    } else {
        free(made);
    }
    return rc;
}

struct entry {
    uint64_t step, generation;
    char *path;
    char *why; /* why it is not complete; NULL: it is complete */
    bool foreign;
    struct manifest manifest; /* as far as it could be read */
};
struct entries {
    struct entry *items;
    size_t count, capacity, complete;
};

static void entries_release(struct entries *e)
{
    for (size_t i = 0; i < e->count; i++) {
        free(e->items[i].path);
        free(e->items[i].why);
        manifest_release(&e->items[i].manifest);
    }
    free(e->items);
    *e = (struct entries){0};
}

/* Complete ones first, in the order of their making, newest first. A job that went back has later
 * generations at earlier steps; within a generation steps only rise. */
static int compare_newest(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    if ((x->why == NULL) != (y->why == NULL)) {
        return x->why == NULL ? -1 : 1;
    }
    if (x->generation != y->generation) {
        return x->generation > y->generation ? -1 : 1;
    }
    return (x->step < y->step) - (x->step > y->step);
}

static int list(const char *dir, struct entries *out, struct err *err)
{
    struct storage_names names = {0};
    int rc = storage_list(dir, &names, err);
    for (size_t i = 0; rc == 0 && i < names.count; i++) {
        const char *name = names.items[i], *digits = name + sizeof STEP_PREFIX - 1;
        int64_t step = 0;
        if (strncmp(name, STEP_PREFIX, sizeof STEP_PREFIX - 1) != 0 ||
            strspn(digits, "0123456789") != strlen(digits) || !text_to_int(digits, &step)) {
            continue;
        }
        out->items = mem_grow(out->items, &out->capacity, out->count + 1, sizeof *out->items);
        out->items[out->count++] =
            (struct entry){.step = (uint64_t)step, .path = file_join(dir, name)};
    }
    storage_names_release(&names);
    return rc;
}

/* The checkpoint is incomplete or damaged; other errors of reading it may pass. */
static bool is_damage(int rc)
{
    return rc == ERR_NOT_FOUND || rc == ERR_CORRUPT || rc == ERR_UNSUPPORTED;
}

static int look(struct entry *e, const char *owner, struct err *err)
{
    struct manifest *m = &e->manifest;
    int rc = manifest_read(e->path, m, err);
    rc = rc != 0 ? rc : manifest_check_files(e->path, m, false, err);
    if (rc == 0) {
        e->generation = m->generation;
        e->foreign = owner[0] != '\0' && m->owner[0] != '\0' && strcmp(m->owner, owner) != 0;
        if (e->foreign) {
            rc = err_set(err, ERR_CORRUPT, "checkpoint %s: of another master (owner %.32s)",
                         e->path, m->owner);
        }
    }
    return rc;
}

static const char *base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* Checks the base of a delta: it is complete, and the one that the delta was written for. */
static int look_for_base(const struct entries *all, struct entry *e, struct err *err)
{
    const char *name = e->manifest.base.directory;
    const struct entry *found = NULL;
    for (size_t i = 0; found == NULL && i < all->count; i++) {
        found = strcmp(base(all->items[i].path), name) == 0 ? &all->items[i] : NULL;
    }
    if (found == NULL || found->manifest.shards == NULL) {
        return err_set(err, ERR_NOT_FOUND, "checkpoint %s: its base %s is missing", e->path, name);
    }
    if (found->why != NULL) {
        return err_set(err, ERR_CORRUPT, "checkpoint %s: its base %s: %s", e->path, name,
                       found->why);
    }
    return manifest_check_base(e->path, &e->manifest, &found->manifest, err);
}

static void look_at_deltas(struct entries *all)
{
    for (size_t i = 0; i < all->count; i++) {
        struct entry *e = &all->items[i];
        struct err why = {0};
        if (e->why == NULL && e->manifest.base.directory[0] != '\0' &&
            look_for_base(all, e, &why) != 0) {
            e->why = mem_strdup(why.msg);
            all->complete--;
        }
    }
}

/* Looks at all checkpoints of @dir, and notes what is wrong with those that are not complete.
 * Errors: those of files, when nobody can say that. */
static int look_at_all(const char *dir, struct entries *out, struct err *err)
{
    char owner[CLAIM_OWNER_BYTES];
    int rc = claim_read(dir, owner, err);
    rc = rc != 0 ? rc : list(dir, out, err);
    for (size_t i = 0; rc == 0 && i < out->count; i++) {
        struct err why = {0};
        rc = look(&out->items[i], owner, &why);
        if (is_damage(rc)) {
            out->items[i].why = mem_strdup(why.msg);
            rc = 0;
        } else if (rc != 0) {
            (void)err_set(err, rc, "%s", why.msg);
        } else {
            out->complete++;
        }
    }
    if (rc == 0 && out->count > 0) {
        look_at_deltas(out);
        qsort(out->items, out->count, sizeof *out->items, compare_newest);
    }
    return rc;
}

static bool is_among(const char *path, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(base(path), base(names[i])) == 0) {
            return true;
        }
    }
    return false;
}

int checkpoint_find(const char *dir, const char *const *avoid, size_t avoid_count, char **path,
                    struct buf *skipped, struct err *err)
{
    struct entries all = {0};
    int rc = look_at_all(dir, &all, err);
    if (rc != 0) {
        entries_release(&all);
        return rc;
    }
    const struct entry *found = NULL;
    for (size_t i = 0; found == NULL && i < all.complete; i++) {
        if (!is_among(all.items[i].path, avoid, avoid_count)) {
            found = &all.items[i];
        } else if (skipped != NULL) {
            buf_printf(skipped, "checkpoint %s: could not be read\n", all.items[i].path);
        }
    }
    for (size_t i = all.complete; i < all.count; i++) {
        if (skipped != NULL && (found == NULL || all.items[i].step > found->step)) {
            buf_printf(skipped, "%s\n", all.items[i].why);
        }
    }
    if (found != NULL) {
        *path = mem_strdup(found->path);
    } else if (all.count == 0) {
        rc = err_set(err, ERR_NOT_FOUND, "no checkpoint in %s", dir);
    } else { /* the first one that was looked at is the newest */
        rc = err_set(err, ERR_NOT_FOUND, "no complete checkpoint in %s; %s", dir,
                     all.items[0].why == NULL ? "none could be read" : all.items[0].why);
    }
    entries_release(&all);
    return rc;
}

int checkpoint_latest(const char *dir, char **path, struct buf *skipped, struct err *err)
{
    return checkpoint_find(dir, NULL, 0, path, skipped, err);
}

int checkpoint_history(const char *dir, char ***paths, size_t *count, struct err *err)
{
    struct entries all = {0};
    const int rc = look_at_all(dir, &all, err);
    if (rc == 0) {
        char **found = mem_new(all.complete + 1, sizeof *found);
        const struct entry *next = NULL; /* newest first */
        size_t first = all.complete;
        for (size_t i = 0; i < all.complete; i++) {
            if (next == NULL || all.items[i].step < next->step) {
                next = &all.items[i];
                found[--first] = mem_strdup(next->path);
            }
        }
        *count = all.complete - first;
        memmove(found, found + first, *count * sizeof *found);
        *paths = found;
    }
    entries_release(&all);
    return rc;
}

/* True if the checkpoint is the base of one of the first @keep complete ones, or of one that is
 * @named. */
static bool is_needed(const struct entries *all, const char *path, size_t keep,
                      const char *const *named, size_t named_count)
{
    for (size_t i = 0; i < all->complete; i++) {
        const struct entry *e = &all->items[i];
        if ((i < keep || is_among(e->path, named, named_count)) &&
            strcmp(e->manifest.base.directory, base(path)) == 0) {
            return true;
        }
    }
    return false;
}

int checkpoint_prune(const char *dir, size_t keep, const char *const *named, size_t named_count,
                     struct err *err)
{
    enum storage_thing thing = STORAGE_NOTHING;
    int rc = keep == 0 ? 0 : storage_look(dir, &thing, err);
    if (rc != 0 || thing == STORAGE_NOTHING) {
        return rc;
    }
    struct entries all = {0};
    rc = look_at_all(dir, &all, err);
    for (size_t i = 0; rc == 0 && i < all.count; i++) {
        const struct entry *e = &all.items[i];
        bool goes = i < all.complete
                        ? i >= keep && !is_among(e->path, named, named_count) &&
                              !is_needed(&all, e->path, keep, named, named_count)
                        /* what comes after the newest may still be in the making */
                        : !e->foreign && all.complete > 0 && e->step < all.items[0].step;
        if (goes) {
            rc = remove_checkpoint(e->path, err);
        }
    }
    if (rc != 0) {
        (void)err_wrap(err, "remove old checkpoints of %s", dir);
    }
    entries_release(&all);
    return rc;
}
