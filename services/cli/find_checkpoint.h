/* SPDX-License-Identifier: Apache-2.0 */
/* From the words of a user to a checkpoint's directory. */
#ifndef GRADUS_CLI_FIND_CHECKPOINT_H
#define GRADUS_CLI_FIND_CHECKPOINT_H

#include "base/err.h"
#include "cli/cli.h"

/* Finds the checkpoint that @what means: a checkpoint's directory; a directory of checkpoints; or a
 * job id, whose newest checkpoint it is, found as find_job() finds the job, or its best version if
 * the job ended with that as its result. A master that is named is asked, unless @what has a '/';
 * otherwise a directory goes before a job. @best, or "@best" at the end of @what: the best version
 * that is kept beside it (training.checkpoints_keep.best). @path returns owned. Errors:
 * ERR_NOT_FOUND says where it looked, or that no best version is kept; those of find_job(). */
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
