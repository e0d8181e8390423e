/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a job among its checkpoints: the newest, or the best version that it keeps. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/manifest.h"
#include "os/file.h"
#include "storage/storage.h"

int checkpoint_best(const char *dir, char **path, struct err *err)
{
    struct manifest m = {0}, best = {0};
    int rc = manifest_read(dir, &m, err);
    if (rc == 0 && !m.best.kept) {
        rc = err_set(err, ERR_NOT_FOUND,
                     "checkpoint %s: no best version was kept; training.checkpoints_keep.best of "
                     "the job file does it",
                     dir);
    }
    if (rc == 0 && m.best.kept_step == m.step) {
        *path = mem_strdup(dir);
    } else if (rc == 0) {
        char *parent = file_join(dir, ".."),
             *there = checkpoint_step_path(parent, m.best.kept_step);
        rc = manifest_read(there, &best, err);
        rc = rc != 0 ? rc : manifest_check_files(there, &best, false, err);
        if (rc == 0 && strcmp(best.job, m.job) != 0) {
            rc = err_set(err, ERR_CORRUPT, "%s is a checkpoint of job %.128s, not of %s", there,
                         best.job, m.job);
        }
        if (rc == 0) {
            *path = there;
        } else {
            (void)err_wrap(err, "the best version of checkpoint %s", dir);
            free(there);
        }
        free(parent);
    }
    manifest_release(&best);
    manifest_release(&m);
    return rc;
}

/* The job's end may say that its result is another version than its last. */
static void checkpoint_result(const char *dir, char **path)
{
    struct manifest m = {0};
    bool other = manifest_read(dir, &m, NULL) == 0 && m.result_is_best;
    manifest_release(&m);
    if (!other || checkpoint_best(dir, path, NULL) != 0) {
        *path = mem_strdup(dir);
    }
}

int checkpoint_resolve(const char *path, char **out, struct buf *skipped, struct err *err)
{
    char *manifest = file_join(path, MANIFEST_NAME);
    enum storage_thing thing = STORAGE_NOTHING;
    int rc = storage_look(manifest, &thing, err);
    free(manifest);
    if (rc == 0 && thing != STORAGE_NOTHING) {
        *out = mem_strdup(path);
        return 0;
    }
    char *newest = NULL;
    rc = rc != 0 ? rc : checkpoint_latest(path, &newest, skipped, err);
    if (rc == 0) {
        checkpoint_result(newest, out);
    }
    free(newest);
    return rc;
}
