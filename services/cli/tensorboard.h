/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluations of a job as event files, which TensorBoard shows: below a directory JOB/train and
 * JOB/test, the same metrics in both, with step and time. */
#ifndef GRADUS_CLI_TENSORBOARD_H
#define GRADUS_CLI_TENSORBOARD_H

#include <stddef.h>

#include "base/err.h"
#include "gradus/v1/jobs.pb-c.h"

/* Adds the first @count evaluations of @job to its files below @dir, as far as they are not in
 * them; files are appended to, so that who reads them goes on. A job that went back to a
 * checkpoint, and has other evaluations now, begins another file. Errors: those of files, with
 * their paths. */
int tensorboard_write(const char *dir, const Gradus__V1__Job *job, size_t count, struct err *err);

#endif
