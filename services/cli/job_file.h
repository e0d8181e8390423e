/* Reading a job file for a command. */
#ifndef GRADUS_CLI_JOB_FILE_H
#define GRADUS_CLI_JOB_FILE_H

#include "base/buf.h"
#include "cli/cli.h"
#include "data/dataset.h"
#include "graph/model.h"
#include "job/job_spec.h"

#define JOB_FILE_BYTES_MAX (1U << 20)

/* Read and check @path ("-": stdin) with the --set of @args. Prints every error as
 * file:line:column. @spec is zeroed by the caller and released by it. Returns an exit code. */
int job_file_read(const char *path, const struct cli_args *args, struct job_spec *spec);
/* Build the model of @spec for model.input, or else for the data itself, which is opened for it
 * (@train may come back NULL). Errors: what the data or the model has. */
int job_file_model(const struct job_spec *spec, struct model **model, struct dataset **train,
                   struct dataset **test, struct err *err);

#endif
