/* SPDX-License-Identifier: Apache-2.0 */
/* gradus pause: a job stops at its next step, with a checkpoint, and waits. */
#include "cli/query.h"

static int run(const struct cli_args *args)
{
    Gradus__V1__GetJobRequest request = GRADUS__V1__GET_JOB_REQUEST__INIT;
    request.job = client_text(args->positional[0]);
    return query_job(
        args, &(struct query){.method = "Pause", .body = &request.base, .text = query_text_state});
}

const struct cli_command cmd_pause = {
    .name = "pause",
    .summary = "Stop a job with a checkpoint and free its nodes until it is resumed",
    .usage = "JOB",
    .examples = "  gradus pause digits-1\n  gradus pause digits-1 --master master:7000\n",
    .shares = CLI_MASTER | CLI_JSON,
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
