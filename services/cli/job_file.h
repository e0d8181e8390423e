/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a job file for a command. */
#ifndef GRADUS_CLI_JOB_FILE_H
#define GRADUS_CLI_JOB_FILE_H

#include "base/buf.h"
#include "cli/cli.h"
#include "cli/memory_need.h"
#include "data/dataset.h"
#include "graph/model.h"
#include "job/plan/plan.h"
#include "job/spec/job_spec.h"

#define JOB_FILE_BYTES_MAX (1U << 20)
#define JOB_FILE_CACHE_DIR                                                                         \
    "GRADUS_CACHE_DIR" /* as of a worker: where indexes of data are written */

/* A job file as the user wrote it, and its content. */
struct job_file {
    const char *path; /* borrowed */
    struct buf text;
    struct job_spec spec; /* with every --set applied */
    bool dir_moved;       /* data.dir is not the one of the text (job_paths_resolve()) */
    char *tensorboard;    /* training.tensorboard, absolute; NULL: none, or it says so itself */
    char *from;           /* the directory that from.checkpoint means; NULL: what it says */
};

/* Read and check the file that is the first argument ("-": stdin; "s3://bucket/key") with the --set
 * of @args, after cli_load_rules(). Prints every error as file:line:column. @file, zeroed by the
 * caller, is to be released after CLI_OK. Returns an exit code. */
int job_file_read(struct job_file *file, const struct cli_args *args,
                  const struct cli_common *common);
/* job_file_read() whose errors go to @diags (that the file cannot be read as well). */
int job_file_parse(struct job_file *file, const struct cli_args *args,
                   const struct cli_common *common, struct diags *diags);
void job_file_release(struct job_file *file);
/* True if @rc, the error of opening the data of @spec, means that they are not here: there is no
 * such file, or a store does not let this process in, or cannot be reached from here. */
bool job_file_data_elsewhere(const struct job_spec *spec, int rc);
/* Opens the data, and says on standard error what is odd about them. @test may come back NULL.
 * Errors: those of dataset_open(). */
int job_file_data(const struct job_spec *spec, struct dataset **train, struct dataset **test,
                  struct err *err);
/* Builds the model of @spec for model.input, or else for the data themselves, which are opened for
 * it (@train may come back NULL). Errors: those of the data, the model or the source of `from`. */
int job_file_model(struct job_spec *spec, struct model **model, struct dataset **train,
                   struct dataset **test, struct err *err);
/* How the job would be spread over its servers, as its master plans it. @plan is to be released in
 * any case. Errors: ERR_INVALID it cannot be, or a pattern of update.variables matches nothing. */
int job_file_plan(const struct job_spec *spec, const struct model *model, struct plan *plan,
                  struct err *err);
/* The memory that the job takes when all its processes run on this host: opens the data, and gives
 * them back. Errors: what the data, the model or the plan has. */
int job_file_memory(struct job_spec *spec, struct memory_need *need, struct err *err);

#endif
