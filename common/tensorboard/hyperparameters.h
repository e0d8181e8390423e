/* SPDX-License-Identifier: Apache-2.0 */
/* What a job is trained with, as a session of TensorBoard's HPARAMS tab: the keys of the job file
 * that decide what comes out, by their dotted names, and how the job ended. The metrics of the
 * session are those of the directories below its own. */
#ifndef GRADUS_TENSORBOARD_HYPERPARAMETERS_H
#define GRADUS_TENSORBOARD_HYPERPARAMETERS_H

#include "base/err.h"
#include "gradus/v1/jobs.pb-c.h"

/* Writes the session's file in @dir. @text: the canonical job file of @job. A file that has less
 * is appended to; of a job whose keys have changed, or which was resumed, the file is written anew:
 * where the disk is full then, what it had is gone until the next call has room.
 * Blocks on files. Errors: as event_file_change(). */
int hyperparameters_write(const char *dir, const Gradus__V1__Job *job, const char *text,
                          struct err *err);

#endif
