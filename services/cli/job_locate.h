/* SPDX-License-Identifier: Apache-2.0 */
/* Where in a job file stands what an error of its data is about. */
#ifndef GRADUS_CLI_JOB_LOCATE_H
#define GRADUS_CLI_JOB_LOCATE_H

#include "cli/job_file.h"

/* The line and column, from 1, of the key that @message names ("data.label"), or of the data file
 * in whose name it speaks. False: it is about no data, or the key is not in the file. */
bool job_locate(const struct job_file *file, const char *message, unsigned *line, unsigned *column);
/* Put "FILE:LINE:COLUMN: " in front of the message of @err, where it can be said. */
void job_locate_err(const struct job_file *file, struct err *err);

#endif
