/* SPDX-License-Identifier: Apache-2.0 */
/* From what a user says to a checkpoint's directory. */
#ifndef GRADUS_CLI_FIND_CHECKPOINT_H
#define GRADUS_CLI_FIND_CHECKPOINT_H

#include "base/err.h"

/* @what is a checkpoint's directory, a directory of checkpoints, or a job id: then the newest of
 * that job, asked of
 * @master when it is given, else looked for in @state_dir (its default when empty). @path returns
 * owned. Errors: ERR_NOT_FOUND says where it looked. */
int find_checkpoint(const char *what, const char *master, const char *state_dir, char **path,
                    struct err *err);

#endif
