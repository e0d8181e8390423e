/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers are those of cluster.workers in the job's file. */
#include "cli/text_wanted.h"

#include <inttypes.h>
#include <string.h>

#include "cli/find_job.h"
#include "job/spec/job_spec.h"

void text_wanted(const Gradus__V1__Job *job, struct buf *out)
{
    struct job_spec spec = {0};
    struct diags diags = {0};
    if (!job_has_ended(job) && job->text[0] != '\0' &&
        job_spec_parse(job->text, strlen(job->text), job->id, NULL, 0, &spec, &diags) == 0 &&
        job->n_workers < (size_t)spec.cluster.workers.max) {
        const int64_t least = spec.cluster.workers.min, most = spec.cluster.workers.max;
        buf_printf(out,
                   "wanted      %" PRId64 " worker%s; begins with %" PRId64
                   ", goes on with fewer when it has begun\n",
                   most, most == 1 ? "" : "s", least);
    }
    job_spec_release(&spec);
    diags_release(&diags);
}
