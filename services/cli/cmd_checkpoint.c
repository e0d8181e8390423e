/* SPDX-License-Identifier: Apache-2.0 */
/* gradus checkpoint: writes a checkpoint now, and says where it lies. The command waits for as long
 * as that takes, which depends on the job, its disks and other work. */
#include "cli/follow.h"
#include "cli/query.h"

static void text(const ProtobufCMessage *reply, struct buf *out)
{
    buf_printf(out, "%s\n", ((const Gradus__V1__CheckpointJobResponse *)reply)->path);
}

static int run(const struct cli_args *args)
{
    const struct cli_common *o = args->options;
    const char *job = args->positional[0];
    struct rpc_msg *reply = NULL;
    struct err err = {0};
    bool stopped = false;
    Gradus__V1__GetJobRequest request = GRADUS__V1__GET_JOB_REQUEST__INIT;
    request.job = client_text(job);
    int rc = query_job_long(o, job, "Checkpoint", &request.base, 0, &reply, &stopped, &err);
    if (rc == 0 && stopped) {
        cli_note("not waiting any more; job %s goes on making its checkpoint, and "
                 "`gradus status %s%s` shows the newest one",
                 job, job, args->where);
        return FOLLOW_STOPPED;
    }
    if (rc == 0) {
        query_show(o, reply->body, text);
    }
    rpc_msg_unref(reply);
    return rc == 0 ? CLI_OK : cli_fail(&err);
}

const struct cli_command cmd_checkpoint = {
    .name = "checkpoint",
    .summary = "Write a checkpoint of a running job now",
    .usage = "JOB",
    .examples = "  gradus checkpoint digits-1\n",
    .notes = "Its path goes to stdout once it is complete, however long that takes. Ctrl-C stops "
             "waiting; the job goes on making it.",
    .shares = CLI_MASTER | CLI_JSON,
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
