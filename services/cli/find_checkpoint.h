/* SPDX-License-Identifier: Apache-2.0 */
/* From what a user says to a checkpoint's directory. */
#ifndef GRADUS_CLI_FIND_CHECKPOINT_H
#define GRADUS_CLI_FIND_CHECKPOINT_H

#include "base/err.h"
#include "cli/cli.h"

/* @what is a checkpoint's directory, a directory of checkpoints, or a job id: then the newest of
 * that job, which is looked for as find_job() does. A master that is named is asked, unless @what
 * has a '/'; else a directory goes before a job. @path returns owned. Errors: ERR_NOT_FOUND says
 * where it looked; those of find_job(). */
int find_checkpoint(const char *what, const struct cli_common *common, char **path,
                    struct err *err);

#endif
