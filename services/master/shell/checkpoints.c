/* SPDX-License-Identifier: Apache-2.0 */
/* Looks after the checkpoints on disk for the master: makes the directory of a job, finds its
 * newest complete checkpoint, removes old ones. First it always checks whose directory it is. */
#include "master/shell/checkpoints.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/manifest.h"
#include "os/file.h"
#include "storage/storage.h"

/* with one digit more a number still fits an int64_t, as the store has */
#define NUMBER_DIGITS_MAX 18
#define CLAIM_TRIES_MAX 1000 /* masters that submit at the same moment */
#define FIND_WRONG_MAX 16    /* complete checkpoints in a row that cannot be ours */

/* ---- one checkpoint ---- */

/* The step in "digits-1/step-000000500"; false for names that checkpoint_step_path() does not make.
 */
static bool step_of(const char *job, const char *directory, uint64_t *step)
{
    const char *dash = strrchr(directory, '-');
    int64_t value = -1;
    if (dash == NULL || !text_to_int(dash + 1, &value) || value < 0) {
        return false;
    }
    char *made = checkpoint_step_path(job, (uint64_t)value);
    bool same = strcmp(made, directory) == 0;
    free(made);
    *step = (uint64_t)value;
    return same;
}

/* "digits-1" and the step of "digits-1/step-000000500", which must be a checkpoint of @job. */
static int parse(const struct checkpoints_job *job, const char *directory, uint64_t *step,
                 struct err *err)
{
    size_t n = strlen(job->id);
    if (n == 0 || job->id[0] == '.' || strncmp(directory, job->id, n) != 0 || directory[n] != '/' ||
        !step_of(job->id, directory, step)) {
        return err_set(err, ERR_INVALID, "%.128s is not the directory of a checkpoint of %.128s",
                       directory, job->id);
    }
    return 0;
}

int checkpoints_prepare(const struct checkpoints *c, const struct checkpoints_job *job,
                        const char *directory, struct err *err)
{
    uint64_t step = 0;
    int rc = parse(job, directory, &step, err);
    rc = rc < 0 ? rc : checkpoints_check(c, job, true, err);
    if (rc == 0) {
        char *dir = file_join(c->root, job->id);
        rc = checkpoint_begin(dir, step, NULL, err);
        free(dir);
    }
    return rc;
}

int checkpoints_discard(const struct checkpoints *c, const struct checkpoints_job *job,
                        const char *directory, struct err *err)
{
    uint64_t step = 0;
    int rc = parse(job, directory, &step, err);
    rc = rc < 0 ? rc : checkpoints_check(c, job, false, err);
    if (rc == 0) {
        char *dir = file_join(c->root, job->id);
        rc = checkpoint_discard(dir, step, err);
        free(dir);
    }
    return rc;
}

int checkpoints_prune(const struct checkpoints *c, const struct checkpoints_job *job, size_t keep,
                      struct err *err)
{
    int rc = checkpoints_check(c, job, false, err);
    if (rc == 0) {
        char *dir = file_join(c->root, job->id);
        const char *named[2];
        size_t count = 0;
        if (job->named[0] != '\0') {
            named[count++] = job->named;
        }
        if (job->best != NULL && job->best[0] != '\0') {
            named[count++] = job->best;
        }
        rc = checkpoint_prune(dir, keep, named, count, err);
        free(dir);
    }
    return rc;
}

int checkpoints_remove(const struct checkpoints *c, const struct checkpoints_job *job,
                       struct err *err)
{
    int rc = checkpoints_check(c, job, false, err);
    if (rc == 0) {
        char *dir = file_join(c->root, job->id);
        rc = storage_remove_tree(dir, err);
        free(dir);
    }
    return rc == ERR_NOT_FOUND ? 0 : rc;
}

/* ---- whose ---- */

/* The row names a checkpoint, and it lies in the directory of that job in our root. */
static bool has_named(const struct checkpoints *c, const struct checkpoints_job *job)
{
    const char *name = strrchr(job->named, '/');
    bool has = false;
    if (name != NULL) {
        struct manifest m = {0};
        char *dir = file_join(c->root, job->id), *path = file_join(dir, name + 1);
        has = manifest_read(path, &m, NULL) == 0 && strcmp(m.job, job->id) == 0;
        manifest_release(&m);
        free(path);
        free(dir);
    }
    return has;
}

int checkpoints_check(const struct checkpoints *c, const struct checkpoints_job *job, bool make,
                      struct err *err)
{
    int rc = claim_root_check(c->root, err);
    bool there = false;
    rc = rc < 0 ? rc : claim_check(c->root, job->id, c->owner, &there, err);
    if (rc != ERR_NOT_FOUND) {
        return rc;
    }
    if (!there) {
        return make ? claim_make(c->root, job->id, c->owner, job->submitted_ms, err) : rc;
    }
    if (has_named(c, job)) {
        return claim_adopt(c->root, job->id, c->owner, job->submitted_ms, err);
    }
    return err_set(err, ERR_STATE,
                   "%s/%s was not made for this job, which has no checkpoint in it: move it away",
                   c->root, job->id);
}

/* ---- find ---- */

void checkpoint_found_release(struct checkpoint_found *f)
{
    free(f->train_sums);
    free(f->directory);
    free(f->best_path);
    free(f->encoding);
    free(f->path);
    ledger_release(&f->ledger);
    buf_release(&f->skipped);
    memset(f, 0, sizeof *f);
}

/* Refuses a manifest that is of no checkpoint that we wrote. */
static int check(const struct manifest *m, const char *job, const char *path, struct err *err)
{
    if (strcmp(m->job, job) != 0) {
        return err_set(err, ERR_CORRUPT, "%s is a checkpoint of job %.128s, not of %s", path,
                       m->job, job);
    }
    if (m->ledger.split_count == 0 || m->shard_count == 0) {
        return err_set(err, ERR_CORRUPT, "%s does not say where in the data it is", path);
    }
    for (uint32_t i = 1; i < m->shard_count; i++) {
        if (m->shards[i].version != m->shards[0].version) {
            return err_set(err, ERR_CORRUPT,
                           "%s is not one state: shard 0 is at version %" PRIu64 ", shard %" PRIu32
                           " at %" PRIu64,
                           path, m->shards[0].version, i, m->shards[i].version);
        }
    }
    return 0;
}

/* Fills @out but for @skipped, on success only. */
static int take(const struct checkpoints *c, const char *job, char *path,
                struct checkpoint_found *out, struct err *err)
{
    struct manifest m = {0};
    int rc = manifest_read(path, &m, err);
    rc = rc < 0 ? rc : check(&m, job, path, err);
    if (rc == 0) {
        out->found = true;
        out->path = mem_strdup(path);
        out->directory = checkpoint_step_path(job, m.step);
        out->step = m.step;
        out->version = m.shards[0].version;
        ledger_copy(&out->ledger, &m.ledger);
        out->train_epoch = m.train_epoch;
        out->train_sums = m.train_sums; /* moved */
        out->train_sum_count = m.train_sum_count;
        m.train_sums = NULL;
        out->best = m.best;
        out->encoding = m.encoding; /* moved */
        m.encoding = NULL;
        if (m.best.kept && checkpoint_best(path, &out->best_path, NULL) == 0 &&
            m.best.kept_step != m.step) { /* as rows have it */
            free(out->best_path);
            char *dir = file_join(c->root, job);
            out->best_path = checkpoint_step_path(dir, m.best.kept_step);
            free(dir);
        }
    }
    manifest_release(&m);
    return rc;
}

int checkpoints_find(const struct checkpoints *c, const struct checkpoints_job *job,
                     const char *const *avoid, size_t avoid_count, struct checkpoint_found *out,
                     struct err *err)
{
    memset(out, 0, sizeof *out);
    struct err local = {0};
    int rc = checkpoints_check(c, job, false, &local);
    const char **not = mem_new(avoid_count + FIND_WRONG_MAX, sizeof *not );
    char *wrong[FIND_WRONG_MAX], *dir = file_join(c->root, job->id);
    struct buf reasons = {0};
    size_t count = 0;
    for (size_t i = 0; i < avoid_count; i++) {
        not [i] = avoid[i];
    }
    while (rc == 0 && !out->found) {
        char *path = NULL;
        buf_reset(&out->skipped);
        rc = checkpoint_find(dir, not, avoid_count + count, &path, &out->skipped, &local);
        rc = rc < 0 ? rc : take(c, job->id, path, out, &local);
        if (rc == ERR_CORRUPT && path != NULL && count < FIND_WRONG_MAX) { /* an older one, then */
            not [avoid_count + count] = wrong[count] = path;
            buf_printf(&reasons, "%s\n", local.msg);
            count++;
            rc = 0;
        } else {
            free(path);
        }
    }
    if (count > 0) {
        buf_release(&out->skipped);
        out->skipped = reasons;
    }
    while (count > 0) {
        free(wrong[--count]);
    }
    free(not );
    free(dir);
    if (rc == ERR_NOT_FOUND) {
        if (out->skipped.len == 0) {
            buf_printf(&out->skipped, "%s\n", local.msg);
        }
        return 0;
    }
    return rc < 0 ? err_set(err, rc, "find the checkpoint of job %s: %s", job->id, local.msg) : 0;
}

/* ---- numbers ---- */

/* N of "<name>-N" as we write it; 0: another name. */
static uint64_t number_of(const char *entry, const char *name, size_t name_bytes)
{
    const char *digits = entry + name_bytes + 1;
    if (strncmp(entry, name, name_bytes) != 0 || entry[name_bytes] != '-' || digits[0] == '0') {
        return 0;
    }
    size_t n = strspn(digits, "0123456789");
    if (n == 0 || n > NUMBER_DIGITS_MAX || digits[n] != '\0') {
        return 0;
    }
    return strtoull(digits, NULL, 10);
}

static int highest_number(const char *root, const char *name, uint64_t *highest, struct err *err)
{
    struct storage_names names = {0};
    int rc = storage_list(root, &names, err);
    if (rc < 0) {
        return rc;
    }
    size_t name_bytes = strlen(name);
    *highest = 0;
    for (size_t i = 0; i < names.count; i++) {
        uint64_t n = number_of(names.items[i], name, name_bytes);
        *highest = n > *highest ? n : *highest;
    }
    storage_names_release(&names);
    return 0;
}

int checkpoints_claim(const struct checkpoints *c, const char *name, uint64_t least,
                      int64_t submitted_ms, uint64_t *number, struct err *err)
{
    uint64_t highest = 0;
    int rc = claim_root_check(c->root, err);
    rc = rc < 0 ? rc : highest_number(c->root, name, &highest, err);
    if (rc < 0) {
        return rc;
    }
    uint64_t n = least > highest ? least : highest + 1;
    for (unsigned tries = 0; tries < CLAIM_TRIES_MAX; tries++, n++) {
        char *job = mem_printf("%s-%" PRIu64, name, n);
        rc = claim_make(c->root, job, c->owner, submitted_ms, err);
        free(job);
        if (rc == 0) {
            *number = n;
        }
        if (rc != ERR_EXISTS) { /* otherwise another master was faster */
            return rc;
        }
    }
    return rc;
}

void checkpoints_release(const struct checkpoints *c, const char *job)
{
    claim_release(c->root, job, c->owner);
}
