/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/export_events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "checkpoint/checkpoint_dir.h"
#include "cli/find_checkpoint.h"
#include "cli/find_job.h"
#include "cli/metrics_csv.h"
#include "cli/output.h"
#include "os/file.h"
#include "tensorboard/parameters.h"
#include "tensorboard/tensorboard.h"

static void tell(const struct cli_common *common, const Gradus__V1__Job *job, bool csv,
                 size_t checkpoints, const char *path, FILE *said)
{
    if (common->json) {
        struct buf out = {0};
        output_object(&out, "job", job->id, csv ? "file" : "directory", path, (const char *)NULL);
        (void)fputs(buf_str(&out), said);
        buf_release(&out);
    } else {
        char histograms[64] = "";
        if (checkpoints > 0) {
            (void)snprintf(histograms, sizeof histograms, " and histograms of %zu checkpoint%s",
                           checkpoints, checkpoints == 1 ? "" : "s");
        }
        (void)fprintf(said, "%zu evaluation%s%s of job %s in %s%s\n", job->n_evaluations,
                      job->n_evaluations == 1 ? "" : "s", histograms, job->id, path,
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

/* Of all checkpoints that there are of the job. */
static int write_histograms(const struct cli_common *common, const Gradus__V1__Job *job,
                            const char *out, size_t *count, struct err *err)
{
    char *newest = NULL, **paths = NULL;
    int rc = find_checkpoint(job->id, common, false, &newest, err);
    if (rc == 0) {
        char *slash = strrchr(newest, '/');
        *slash = '\0';
        rc = checkpoint_history(newest, &paths, count, err);
    }
    rc = rc == 0 ? parameters_write(out, job, paths, *count, err) : rc;
    for (size_t i = 0; i < *count; i++) {
        free(paths[i]);
    }
    free(paths);
    free(newest);
    return rc;
}

int export_events(const struct cli_common *common, const char *id, enum export_events_what what,
                  const char *out)
{
    const bool csv = what == EXPORT_CSV;
    size_t checkpoints = 0;
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
    if (rc == 0 && what == EXPORT_HISTOGRAMS) {
        rc = write_histograms(common, found.job, path, &checkpoints, &err);
    }
    if (rc == 0) {
        tell(common, found.job, csv, checkpoints, path, said);
    }
    found_job_release(&found);
    return rc == 0 ? CLI_OK : cli_fail(&err);
}
