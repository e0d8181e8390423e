/* SPDX-License-Identifier: Apache-2.0 */
/* The relative paths of a job file: they start from data.dir, and that from the directory which the
 * file is in. */
#ifndef GRADUS_CLI_JOB_PATHS_H
#define GRADUS_CLI_JOB_PATHS_H

#include "cli/job_file.h"

/* Make the data.dir of @file, which was just read, one that starts from this process's directory.
 * What --set says was typed there and stays, as do absolute paths and locations in stores. A job
 * file that was written for the old way, from the directory of the process, is read like that, and
 * stderr says so, when only there its files are. */
void job_paths_resolve(struct job_file *file, const struct cli_args *args);
/* The relative training.tensorboard of @file as an absolute path: from the directory of the file,
 * or where --set gave it from this process's. Returns owned; NULL: there is none. */
char *job_paths_tensorboard(const struct job_file *file, const struct cli_args *args);
/* Whether any file of @spec is below its data.dir. */
bool job_paths_used(const struct job_spec *spec);
/* Neither absolute nor in a store, nor empty. */
bool job_paths_is_relative(const char *path);

#endif
