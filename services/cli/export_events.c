/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/export_events.h"

#include <stdio.h>

#include "cli/find_job.h"
#include "cli/output.h"
#include "cli/tensorboard.h"

static void tell(const struct cli_common *common, const Gradus__V1__Job *job, const char *dir)
{
    if (common->json) {
        struct buf out = {0};
        output_object(&out, "job", job->id, "directory", dir, (const char *)NULL);
        (void)fputs(buf_str(&out), stdout);
        buf_release(&out);
    } else {
        (void)printf("%zu evaluation%s of job %s in %s, for TensorBoard\n", job->n_evaluations,
                     job->n_evaluations == 1 ? "" : "s", job->id, dir);
    }
}

int export_events(const struct cli_common *common, const char *id, const char *dir)
{
    struct found_job found = {0};
    struct err err = {0};
    int rc = find_job(common, id, &found, &err);
    if (rc == 0 && found.job->n_evaluations == 0) {
        rc = err_set(&err, ERR_NOT_FOUND, "job %s has no evaluations", found.job->id);
    }
    rc = rc != 0 ? rc : tensorboard_write(dir, found.job, found.job->n_evaluations, &err);
    if (rc == 0) {
        tell(common, found.job, dir);
    }
    found_job_release(&found);
    return rc == 0 ? CLI_OK : cli_fail(&err);
}
