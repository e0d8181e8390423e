/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluations of a job as event files, which TensorBoard shows: below a directory JOB/train and
 * JOB/test, the same metrics in both, with step and time; and what it is trained with, in JOB
 * (hyperparameters.h). */
#ifndef GRADUS_TENSORBOARD_TENSORBOARD_H
#define GRADUS_TENSORBOARD_TENSORBOARD_H

#include <stddef.h>

#include "base/err.h"
#include "gradus/v1/jobs.pb-c.h"

/* Adds the first @count evaluations of @job to its files below @dir, as far as they are not in
 * them. @text: the job file; NULL or "": it is not known, and not written. Files are appended to,
 * so that who reads them goes on, and each evaluation is there once however often this is called,
 * by whichever process. What the job has measured anew since (it went back to a checkpoint) takes
 * the place of what it was: an event says from which step on what came before counts no more. A
 * record that was cut off (a full disk, a kill) is removed first. A file that is none of ours is
 * left, and the next number taken. Blocks on files.
 *
 * Errors: those of files, with their paths; ERR_UNAVAILABLE another process writes there just now;
 * ERR_INVALID an id that is no name. */
int tensorboard_write(const char *dir, const Gradus__V1__Job *job, const char *text, size_t count,
                      struct err *err);

#endif
