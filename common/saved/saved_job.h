/* SPDX-License-Identifier: Apache-2.0 */
/* What a checkpoint, or a file that was exported from one, says of its model, the job file above
 * all. */
#ifndef GRADUS_SAVED_SAVED_JOB_H
#define GRADUS_SAVED_SAVED_JOB_H

#include "checkpoint/checkpoint.h"
#include "job/spec/job_spec.h"

struct saved_about {      /* texts borrowed */
    const char *job;      /* id */
    const char *text;     /* the canonical job file */
    const char *encoding; /* what was measured on the train records; NULL: not kept */
    uint64_t step, epoch;
    uint64_t model_file; /* as in the manifest; 0: nothing is known of it */
    uint64_t version;    /* updates applied, of the server with the most */
};

void saved_about_checkpoint(const struct checkpoint *c, struct saved_about *out);
/* The job file of what lies at @path, with @sets ("key=value"). @spec: job_spec_release(), also
 * after an error. Errors: ERR_INVALID says all that is wrong. */
int saved_job_read(const struct saved_about *about, const char *path, const char *const *sets,
                   size_t set_count, struct job_spec *spec, struct err *err);

#endif
