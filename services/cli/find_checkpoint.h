/* SPDX-License-Identifier: Apache-2.0 */
/* From what a user says to a checkpoint's directory. */
#ifndef GRADUS_CLI_FIND_CHECKPOINT_H
#define GRADUS_CLI_FIND_CHECKPOINT_H

#include "base/err.h"
#include "cli/cli.h"

/* @what is a checkpoint's directory, a directory of checkpoints, or a job id: then the newest of
 * that job, which is looked for as find_job() does; of one that ended with its best version as its
 * result, that. A master that is named is asked, unless @what has a '/'; else a directory goes
 * before a job. @best, or @what ends with "@best": the best version that is kept beside it
 * (training.checkpoints_keep_best).
 * @path returns owned. Errors: ERR_NOT_FOUND says where it looked, or that no best version is kept;
 * those of find_job(). */
int find_checkpoint(const char *what, const struct cli_common *common, bool best, char **path,
                    struct err *err);
/* The same, or a file that `gradus export` wrote: @what, which has no versions to choose from. */
int find_model(const char *what, const struct cli_common *common, bool best, char **path,
               struct err *err);
/* As checkpoint_resolve(); of newer ones that are damaged a warning is printed. */
int find_checkpoint_in(const char *dir, char **path, struct err *err);

/* "digits-1@best" is "digits-1", and sets *@best; anything else is as it is. Returns owned. */
char *find_checkpoint_name(const char *what, bool *best);

#endif
