/* SPDX-License-Identifier: Apache-2.0 */
/* From the id of a job to its record, and to the master that has it. */
#ifndef GRADUS_CLI_FIND_JOB_H
#define GRADUS_CLI_FIND_JOB_H

#include "client/master_client.h"
#include "cli/places.h"

/* A zeroed one is valid and empty. */
struct found_job {
    const Gradus__V1__Job *job; /* as its master, or the row that a master left, has it */
    struct client client;       /* to its master; no channel when none runs */
    char *state_dir;            /* where it was found; NULL: at a master that was named */
    struct rpc_msg *reply;      /* one of these two holds @job */
    Gradus__V1__Job *row;
};

/* Look for job @id in all places (places.h). Errors: ERR_NOT_FOUND says where it looked;
 * ERR_INVALID more than one has it: all are named; ERR_UNAVAILABLE there is no place to look; those
 * of the call to a master that was named. */
int find_job(const struct cli_common *common, const char *id, struct found_job *out,
             struct err *err);
/* The same, for what only a master can do. Errors: ERR_STATE no master runs where the job is, which
 * @out says all the same (its row). */
int find_live_job(const struct cli_common *common, const char *id, struct found_job *out,
                  struct err *err);
void found_job_release(struct found_job *f);
bool job_has_ended(const Gradus__V1__Job *job);

/* Jobs of a state directory that no master uses, the newest first, at most @limit. @jobs returns
 * owned: release each with gradus__v1__job__free_unpacked() and the array with free(). Errors:
 * ERR_NOT_FOUND no master ever used it; those of the store. */
int find_rows(const char *state_dir, size_t limit, Gradus__V1__Job ***jobs, size_t *count,
              struct err *err);

#endif
