/* SPDX-License-Identifier: Apache-2.0 */
/* The job file that lies in a checkpoint. */
#ifndef GRADUS_SAVED_SAVED_JOB_H
#define GRADUS_SAVED_SAVED_JOB_H

#include "checkpoint/checkpoint.h"
#include "job/spec/job_spec.h"

/* That of the checkpoint at @path, with @sets ("key=value"). @spec: job_spec_release(), also after
 * an error. Errors: ERR_INVALID says all that is wrong. */
int saved_job_read(const struct checkpoint *c, const char *path, const char *const *sets,
                   size_t set_count, struct job_spec *spec, struct err *err);

#endif
