/* SPDX-License-Identifier: Apache-2.0 */
/* Sending a job to a master. */
#ifndef GRADUS_CLI_SUBMIT_H
#define GRADUS_CLI_SUBMIT_H

#include "cli/client.h"
#include "cli/job_file.h"

/* Submit @file as the user wrote it, so that what the master says of it has the user's lines. Safe
 * to repeat: the master makes one job of it. @job returns owned. */
int submit_job(struct client *client, const struct job_file *file, const struct cli_args *args,
               char **job, struct err *err);

#endif
