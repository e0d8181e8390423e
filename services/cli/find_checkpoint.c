/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/find_checkpoint.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"
#include "checkpoint/checkpoint_dir.h"
#include "cli/cli.h"
#include "cli/client.h"

static int ask_master(const char *job, const char *master, char **path, struct err *err)
{
    struct client client = {0};
    int rc = client_open(&client, master, err);
    if (rc != 0) {
        return rc;
    }
    Gradus__V1__GetJobRequest request = GRADUS__V1__GET_JOB_REQUEST__INIT;
    char *id = mem_strdup(job);
    request.job = id;
    struct rpc_msg *reply = NULL;
    rc = client_call(&client, "Get", &request.base, CLIENT_TIMEOUT_MS, &reply, err);
    if (rc == 0) {
        const Gradus__V1__Job *found = (const Gradus__V1__Job *)reply->body;
        if (found->checkpoint[0] == '\0') {
            rc = err_set(err, ERR_NOT_FOUND, "job %s has no checkpoint yet", job);
        } else {
            *path = mem_strdup(found->checkpoint);
        }
    }
    rpc_msg_unref(reply);
    free(id);
    client_close(&client);
    return rc;
}

static bool is_directory(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int find_checkpoint(const char *what, const char *master, const char *state_dir, char **path,
                    struct err *err)
{
    if (master != NULL && master[0] != '\0') {
        return ask_master(what, master, path, err);
    }
    if (what[0] == '\0') {
        return err_set(err, ERR_INVALID, "the name of the job is empty");
    }
    if (is_directory(what)) {
        return checkpoint_resolve(what, path, err);
    }
    char *state = cli_state_dir(state_dir);
    char *all = file_join(state, "checkpoints");
    char *dir = file_join(all, what);
    int rc;
    if (strchr(what, '/') != NULL) {
        rc = err_set(err, ERR_NOT_FOUND, "%s: no such directory", what);
    } else if (!is_directory(dir)) {
        rc =
            err_set(err, ERR_NOT_FOUND,
                    "no checkpoint of job %s in %s; give --state-dir, --master or the directory of "
                    "a checkpoint",
                    what, all);
    } else {
        rc = checkpoint_resolve(dir, path, err);
    }
    free(dir);
    free(all);
    free(state);
    return rc;
}
