/* SPDX-License-Identifier: Apache-2.0 */
/* gradus submit: send a job file to a running master and print the id of the new job. Only the id
 * goes to stdout, for scripts; the command does not wait for the job unless --watch is given. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/client_common.h"
#include "cli/follow.h"
#include "cli/from_source.h"
#include "cli/job_file.h"
#include "cli/query.h"
#include "cli/submit.h"

struct options {
    struct cli_common common;
    bool watch;
    char *request_id;
};

static const struct field fields[] = {
    {.path = "watch",
     .type = FIELD_BOOL,
     .offset = offsetof(struct options, watch),
     .def = "false",
     .help = "Stay and watch it, as gradus watch does"},
    {.path = "request_id",
     .type = FIELD_STRING,
     .offset = offsetof(struct options, request_id),
     .def = "",
     .help = "Name of this submission: the master makes one job of all that have the same, so a "
             "program that was interrupted may submit again; empty: a new one each time"},
};

static void text(const ProtobufCMessage *reply, struct buf *out)
{
    buf_printf(out, "%s\n", ((const Gradus__V1__SubmitResponse *)reply)->job);
}

/* The id for programs on stdout; what people want to know besides, on stderr. */
static void tell(const struct cli_args *args, struct client *client, const char *job)
{
    const struct options *o = args->options;
    Gradus__V1__GetJobRequest request = GRADUS__V1__GET_JOB_REQUEST__INIT;
    Gradus__V1__SubmitResponse submitted = GRADUS__V1__SUBMIT_RESPONSE__INIT;
    struct rpc_msg *reply = NULL;
    struct cluster_counts counts;
    struct err err = {0};
    request.job = client_text(job);
    submitted.job = request.job;
    query_show(&o->common, &submitted.base, text);
    (void)fflush(stdout);
    if (client_call(client, "Get", &request.base, client_timeout_ms(), &reply, &err) == 0) {
        submit_count_nodes(client, &counts);
        submit_tell_missing(&counts, (const Gradus__V1__Job *)reply->body);
        cli_note("`gradus watch %s%s` follows it to its end", job, args->where);
    }
    rpc_msg_unref(reply);
}

static void tell_data_dir(const struct job_file *file)
{
    char *dir = submit_data_dir(&file->spec, file->dir_moved);
    if (dir != NULL && file->dir_moved) {
        cli_note("relative paths of %s start from %s: the workers look there", file->path, dir);
    } else if (dir != NULL) {
        cli_note("data.dir is %s here and sent as %s: the workers look there", file->spec.data.dir,
                 dir);
    }
    free(dir);
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    struct job_file file = {0};
    int code = job_file_read(&file, args, &o->common);
    if (code != CLI_OK) {
        return code;
    }
    follow_block_signals(false);
    struct client client = {0};
    struct err err = {0};
    char *job = NULL;
    int rc = from_source_resolve(&file, &o->common, &err);
    rc = rc != 0 ? rc : client_open_common(&client, &o->common, false, &err);
    if (rc == 0) {
        rc = submit_job(&client, &file, args, o->request_id, 0, &job, &err);
    }
    if (rc != 0) {
        code = cli_fail(&err);
    } else {
        tell_data_dir(&file);
    }
    if (rc == 0 && o->watch) {
        (void)fprintf(stderr, "job %s submitted\n", job);
        struct follow_options follow_options = {.job = job,
                                                .where = args->where,
                                                .result =
                                                    o->common.json ? FOLLOW_JSON : FOLLOW_TEXT,
                                                .interrupt = FOLLOW_DETACH};
        code = follow(&client, &follow_options);
    } else if (rc == 0) {
        tell(args, &client, job);
    }
    client_close(&client);
    free(job);
    job_file_release(&file);
    return code;
}

const struct cli_command cmd_submit = {
    .name = "submit",
    .summary = "Send a job to a master and print its id",
    .usage = "JOB.yaml",
    .examples = "  gradus submit job.yaml --master master:7000\n"
                "  gradus submit job.yaml --set cluster.workers=4 --watch\n"
                "  gradus submit job.yaml --request-id=nightly-2026-11-23 --watch\n",
    .notes = "The id goes to stdout, everything else to stderr. The job file may be in an object "
             "store, s3://BUCKET/KEY. Paths in it are those of "
             "the workers; where they are relative, data.dir is sent as an absolute path, from the "
             "directory of the job file, or from the working directory when it was typed.",
    .shares = CLI_MASTER | CLI_RULES_DIR | CLI_JSON,
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .sets = true,
    .run = run,
};
