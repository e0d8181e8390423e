/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/export_events.h"

#include <stdio.h>

#include "base/file.h"
#include "cli/find_job.h"
#include "cli/metrics_csv.h"
#include "cli/output.h"
#include "tensorboard/tensorboard.h"

static void tell(const struct cli_common *common, const Gradus__V1__Job *job, bool csv,
                 const char *path, FILE *said)
{
    if (common->json) {
        struct buf out = {0};
        output_object(&out, "job", job->id, csv ? "file" : "directory", path, (const char *)NULL);
        (void)fputs(buf_str(&out), said);
        buf_release(&out);
    } else {
        (void)fprintf(said, "%zu evaluation%s of job %s in %s%s\n", job->n_evaluations,
                      job->n_evaluations == 1 ? "" : "s", job->id, path,
                      csv ? "" : ", for TensorBoard");
    }
}

static int write_csv(const Gradus__V1__Job *job, const char *path, struct err *err)
{
    struct buf text = {0};
    metrics_csv(job, &text);
    const int rc = file_write_atomic(path, text.data, text.len, err);
    buf_release(&text);
    return rc;
}

int export_events(const struct cli_common *common, const char *id, bool csv, const char *out)
{
    struct found_job found = {0};
    struct err err = {0};
    FILE *said = stdout;
    const char *path = csv ? cli_output(out, &said) : out;
    int rc = find_job(common, id, &found, &err);
    if (rc == 0 && found.job->n_evaluations == 0) {
        rc = err_set(&err, ERR_NOT_FOUND, "job %s has no evaluations", found.job->id);
    }
    if (rc == 0) {
        rc = csv ? write_csv(found.job, path, &err)
                 : tensorboard_write(path, found.job, found.job->text, found.job->n_evaluations,
                                     &err);
    }
    if (rc == 0) {
        tell(common, found.job, csv, path, said);
    }
    found_job_release(&found);
    return rc == 0 ? CLI_OK : cli_fail(&err);
}
