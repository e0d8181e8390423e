/* Sending a job to a master. */
#ifndef GRADUS_CLI_SUBMIT_H
#define GRADUS_CLI_SUBMIT_H

#include "cli/client.h"
#include "job/job_spec.h"

/* Submit the canonical text of @spec; safe to repeat, the master makes one job of it. @job returns
 * owned. */
int submit_job(struct client *client, const struct job_spec *spec, const char *file, char **job,
               struct err *err);

#endif
