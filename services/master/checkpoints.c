/* SPDX-License-Identifier: Apache-2.0 */
#include "master/checkpoints.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/manifest.h"

#define NUMBER_DIGITS_MAX 18 /* one more is still an int64_t, as the store has */

/* ---- prepare ---- */

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

int checkpoints_prepare(const char *root, const char *directory, struct err *err)
{
    char *job = mem_strdup(directory);
    char *slash = strchr(job, '/');
    uint64_t step = 0;
    if (slash != NULL) {
        *slash = '\0';
    }
    if (slash == NULL || job[0] == '\0' || job[0] == '.' || !step_of(job, directory, &step)) {
        free(job);
        return err_set(err, ERR_INVALID, "%.128s is not the directory of a checkpoint", directory);
    }
    char *dir = file_join(root, job);
    int rc = checkpoint_begin(dir, step, NULL, err);
    free(dir);
    free(job);
    return rc;
}

/* ---- find ---- */

void checkpoint_found_release(struct checkpoint_found *f)
{
    free(f->directory);
    free(f->path);
    ledger_release(&f->ledger);
    buf_release(&f->skipped);
    memset(f, 0, sizeof *f);
}

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
static int take(const char *job, char *path, struct checkpoint_found *out, struct err *err)
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
    }
    manifest_release(&m);
    return rc;
}

int checkpoints_find(const char *root, const char *job, struct checkpoint_found *out,
                     struct err *err)
{
    memset(out, 0, sizeof *out);
    char *dir = file_join(root, job), *path = NULL;
    struct err local = {0};
    int rc = checkpoint_latest(dir, &path, &out->skipped, &local); /* checks the files' sizes */
    rc = rc < 0 ? rc : take(job, path, out, &local);
    free(path);
    free(dir);
    if (rc == ERR_NOT_FOUND) {
        return 0;
    }
    return rc < 0 ? err_set(err, rc, "find the checkpoint of job %s: %s", job, local.msg) : 0;
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

int checkpoints_next_number(const char *root, const char *name, uint64_t *number, struct err *err)
{
    DIR *d = opendir(root);
    if (d == NULL) {
        return err_errno(err, errno, "open %s", root);
    }
    uint64_t highest = 0;
    size_t name_bytes = strlen(name);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        uint64_t n = number_of(e->d_name, name, name_bytes);
        highest = n > highest ? n : highest;
    }
    (void)closedir(d);
    *number = highest + 1;
    return 0;
}
