/* SPDX-License-Identifier: Apache-2.0 */
/* The section `from` of a job file, as far as a command can know its source before a worker reads
 * it. */
#ifndef GRADUS_CLI_FROM_SOURCE_H
#define GRADUS_CLI_FROM_SOURCE_H

#include "cli/cli.h"
#include "cli/job_file.h"
#include "graph/model.h"

/* Replaces a job id in from.checkpoint by the directory of the job's result, or of the best version
 * that it keeps, in file->spec and in file->from, which goes with the file to the master. Nothing
 * to do is no error. Errors: those of find_checkpoint(), with the key. */
int from_source_resolve(struct job_file *file, const struct cli_common *common, struct err *err);
/* What the source has measured, for data_spec.measured: warm_encoding_read(). *@out is owned, and
 * NULL where there is none, or the source is not here. */
int from_source_measured(const struct job_spec *spec, char **out, struct err *err);
/* Checks that the source fits the variables of @model. A source that is not here, or cannot be
 * reached from here, is no error: workers may have it; stderr says that nobody looked. Errors:
 * those of warm_start_open(). */
int from_source_check(const struct job_spec *spec, const struct model *model, struct err *err);

#endif
