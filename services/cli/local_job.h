/* SPDX-License-Identifier: Apache-2.0 */
/* One job on a cluster of this machine's own, from the first process to the last. */
#ifndef GRADUS_CLI_LOCAL_JOB_H
#define GRADUS_CLI_LOCAL_JOB_H

#include "cli/cli.h"
#include "cli/job_file.h"
#include "client/master_client.h"
#include "job/spec/job_spec.h"

struct local_job { /* all borrowed */
    const struct job_spec *spec;
    const char *state_dir;
    const char *rules_dir, *worker; /* "": none */
    const char *where;              /* of struct cli_args */
    const char *resumed;            /* id of the job that goes on; "": a new one */
    const char *tensorboard;        /* as in struct follow_options */
    const double *slow_downs;       /* of each worker (struct local); NULL: none is slow */
    bool json;
    /* Make the master have the job. @job returns owned. */
    int (*begin)(void *ctx, struct client *client, char **job, struct err *err);
    /* As in struct follow_options; NULL: the result is printed. */
    void (*look)(void *ctx, struct client *client, struct rpc_msg *job);
    void *ctx;
};

/* A `begin`: sends the job of a file. @ctx: struct local_submission. */
struct local_submission {
    const struct job_file *file;
    const struct cli_args *args;
    bool numbered; /* in the default directory, where other runs may have jobs of its name */
};
int local_job_submit(void *ctx, struct client *client, char **job, struct err *err);

/* Can it be: is there a program where the job needs one, and memory enough (or @overcommit)? Prints
 * what is not, and where @file, which the user wrote (NULL: none), says it. Returns an exit code.
 */
int local_job_check(struct job_spec *spec, const struct job_file *file, const char *worker,
                    bool overcommit);
/* Start the processes, follow the job to its end, and stop them. After follow_block_signals(), in a
 * state directory that is this process's. Returns an exit code. */
int local_job_run(const struct local_job *job);

/* A call of Jobs about a job in @state_dir, of which no master runs: one is started for it, which
 * lets no job go on, and stopped. Errors: of run_dir_claim(), local_start(), client_call(). */
int local_job_call(const char *state_dir, const char *method, const ProtobufCMessage *body,
                   unsigned timeout_ms, struct rpc_msg **reply, struct err *err);

#endif
