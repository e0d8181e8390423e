/* SPDX-License-Identifier: Apache-2.0 */
/* Sending a job to a master. */
#ifndef GRADUS_CLI_SUBMIT_H
#define GRADUS_CLI_SUBMIT_H

#include "client/master_client.h"
#include "cli/cluster_note.h"
#include "cli/job_file.h"
#include "data/data_spec.h"

/* Submits @file as the user wrote it, so that messages of the master have the user's lines, but
 * with data.dir as an absolute path (submit_data_dir()). Safe to repeat: the master makes one job
 * of it, and of all submissions with one @request_id ("": one of its own). Its number is @least or
 * a higher one (0: any). @job returns owned. */
int submit_job(struct client *client, const struct job_file *file, const struct cli_args *args,
               const char *request_id, uint64_t least, char **job, struct err *err);

/* The data.dir to send when a path of @spec is relative: from this process's directory, as
 * job_paths_resolve() has made it, since nobody knows that of a worker. NULL: as it is (absolute, a
 * URL, or not used). @moved: the file says another one (struct job_file). Returns owned. */
char *submit_data_dir(const struct job_spec *spec, bool moved);
/* The nodes of the cluster; none when the master does not say. */
void submit_count_nodes(struct client *client, struct cluster_counts *counts);
/* Say on stderr what the cluster lacks for @job, if anything (cluster_note.h). */
void submit_tell_missing(const struct cluster_counts *counts, const Gradus__V1__Job *job);

#endif
