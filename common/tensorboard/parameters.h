/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms of a job's parameters for TensorBoard: one for each variable and checkpoint, by step,
 * in a directory of their own beside train and test; and of the gradients with which these
 * parameters were made, where the checkpoint tells of them, in another one. Rows of tables are no
 * parameters of these. */
#ifndef GRADUS_TENSORBOARD_PARAMETERS_H
#define GRADUS_TENSORBOARD_PARAMETERS_H

#include "base/err.h"
#include "gradus/v1/jobs.pb-c.h"

/* Adds those of the @count checkpoints @paths of @job, whose steps rise, to its files below @dir;
 * as tensorboard_write() does: what is there stays, but for what a job that went back has made
 * anew. Reads all of the checkpoints, 1 MiB at a time. Errors: ERR_CORRUPT, ERR_NOT_FOUND a
 * checkpoint, those of event_file_change(). */
int parameters_write(const char *dir, const Gradus__V1__Job *job, char *const *paths, size_t count,
                     struct err *err);

#endif
