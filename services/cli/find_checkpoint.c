/* SPDX-License-Identifier: Apache-2.0 */
/* Turns what a user typed, a path or the id of a job, into the place of one model. No
 * master has to run, and none needs to know the job: its directory may have been copied here. */
#include "cli/find_checkpoint.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "checkpoint/checkpoint_dir.h"
#include "cli/find_job.h"
#include "os/file.h"
#include "storage/storage.h"

/* ERR_NOT_FOUND: it is none. */
static int look_for(const char *location, struct err *err)
{
    enum storage_thing thing = STORAGE_NOTHING;
    int rc = storage_look(location, &thing, err);
    return rc == 0 && thing != STORAGE_DIRECTORY
               ? err_set(err, ERR_NOT_FOUND, "%s: no such directory", location)
               : rc;
}

/* The directory of all checkpoints of @job below @state_dir, a path, or NULL. Returns owned. */
static char *job_dir(const char *state_dir, const char *job)
{
    char *all = file_join(state_dir, "checkpoints"), *dir = file_join(all, job);
    free(all);
    if (look_for(dir, NULL) != 0) {
        free(dir);
        dir = NULL;
    }
    return dir;
}

int find_checkpoint_in(const char *dir, char **path, struct err *err)
{
    struct buf skipped = {0};
    int rc = checkpoint_resolve(dir, path, &skipped, err);
    if (rc == 0 && skipped.len > 0) {
        cli_note("warning: %sthe one before it is taken: %s", buf_str(&skipped), *path);
    }
    buf_release(&skipped);
    return rc;
}

/* The checkpoint that the master, or its row, names. Where the state directory was moved, the
 * checkpoint is looked for in it. */
static int of_job(const struct found_job *found, char **path, struct err *err)
{
    const Gradus__V1__Job *job = found->job;
    char *dir = found->row != NULL ? job_dir(found->state_dir, job->id) : NULL;
    int rc = job->checkpoint[0] == '\0' ? ERR_NOT_FOUND : look_for(job->checkpoint, err);
    if (rc == 0) {
        *path = mem_strdup(job->checkpoint);
    } else if (rc != ERR_NOT_FOUND && storage_is_url(job->checkpoint)) {
        (void)err_wrap(err, "the checkpoint of job %s", job->id);
    } else if (dir != NULL) {
        rc = find_checkpoint_in(dir, path, err);
    } else if (job->checkpoint[0] != '\0') {
        rc = err_set(
            err, ERR_NOT_FOUND,
            "the checkpoint of job %s is %s where its cluster runs, and not on this machine",
            job->id, job->checkpoint);
    } else {
        rc = err_set(err, ERR_NOT_FOUND, "job %s has no checkpoint yet", job->id);
    }
    free(dir);
    return rc;
}

/* Checkpoints may have been copied to a place where no master ever was. */
static int of_directory(const struct cli_common *common, const char *job, char **path,
                        struct err *err)
{
    char *state_dir = cli_state_dir(common->state_dir), *dir = job_dir(state_dir, job);
    int rc = dir != NULL ? find_checkpoint_in(dir, path, err) : ERR_NOT_FOUND;
    free(dir);
    free(state_dir);
    return rc;
}

static int by_name(const char *what, const struct cli_common *common, char **path, struct err *err)
{
    struct found_job found = {0};
    struct err local = {0}, other = {0};
    int rc = find_job(common, what, &found, &local);
    if (rc == 0) {
        rc = of_job(&found, path, &local);
    } else if (rc != ERR_INVALID && common->master[0] == '\0') {
        int moved = of_directory(common, what, path, &other);
        rc = moved == 0 ? 0 : rc;
    }
    found_job_release(&found);
    if (rc == ERR_NOT_FOUND || rc == ERR_UNAVAILABLE) {
        return err_set(err, rc, "%s; the directory of a checkpoint does as well", local.msg);
    }
    return rc == 0 ? 0 : err_set(err, local.code, "%s", local.msg);
}

static int find_result(const char *what, const struct cli_common *common, char **path,
                       struct err *err)
{
    bool is_path = strchr(what, '/') != NULL;
    if (what[0] == '\0') {
        return err_set(err, ERR_INVALID, "the name of the job is empty");
    }
    if (is_path || common->master[0] == '\0') {
        int rc = look_for(what, err);
        if (rc == 0) {
            return find_checkpoint_in(what, path, err);
        }
        if (is_path) {
            return rc;
        }
    }
    return by_name(what, common, path, err);
}

char *find_checkpoint_name(const char *what, bool *best)
{
    static const char suffix[] = "@best";
    const size_t n = strlen(what), m = sizeof suffix - 1;
    const bool has = n > m && strcmp(what + n - m, suffix) == 0;
    *best = *best || has;
    return mem_printf("%.*s", (int)(has ? n - m : n), what);
}

int find_checkpoint(const char *what, const struct cli_common *common, bool best, char **path,
                    struct err *err)
{
    char *result = NULL;
    /* A directory may be called so. */
    char *name = look_for(what, NULL) == 0 ? mem_strdup(what) : find_checkpoint_name(what, &best);
    int rc = find_result(name, common, &result, err);
    free(name);
    if (rc == 0 && best) {
        rc = checkpoint_best(result, path, err);
        free(result);
    } else if (rc == 0) {
        *path = result;
    }
    return rc;
}

int find_model(const char *what, const struct cli_common *common, bool best, char **path,
               struct err *err)
{
    enum storage_thing thing = STORAGE_NOTHING;
    const bool is_path = strchr(what, '/') != NULL;
    bool chosen = best;
    char *name = find_checkpoint_name(what, &chosen);
    int rc = is_path || common->master[0] == '\0' ? storage_look(name, &thing, err) : 0;
    if (rc == 0 && thing == STORAGE_FILE && !chosen) {
        *path = name;
        return 0;
    }
    if (rc == 0 && thing == STORAGE_FILE) {
        rc = err_set(err, ERR_INVALID,
                     "%s is one model in a file; the best version is of a job, or of a directory "
                     "of checkpoints",
                     name);
    } else if (rc == 0 && is_path && look_for(what, NULL) != 0 && thing == STORAGE_NOTHING) {
        rc = err_set(err, ERR_NOT_FOUND, "%s: no such file or directory", name);
    } else if (rc == 0) {
        rc = find_checkpoint(what, common, best, path, err);
    }
    free(name);
    return rc;
}
