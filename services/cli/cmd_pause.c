/* SPDX-License-Identifier: Apache-2.0 */
/* gradus pause: a job stops at its next step, with a checkpoint, and waits. */
#include <stdlib.h>

#include "base/mem.h"
#include "cli/query.h"

struct options {
    struct cli_common common;
};

static const struct field fields[] = {
    CLI_MASTER_ROWS(struct options),
    CLI_JSON_ROW(struct options),
};

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    Gradus__V1__GetJobRequest request = GRADUS__V1__GET_JOB_REQUEST__INIT;
    request.job = mem_strdup(args->positional[0]);
    int code = query_job(&o->common, request.job, "Pause", &request.base, CLIENT_TIMEOUT_MS,
                         query_show_state);
    free(request.job);
    return code;
}

const struct cli_command cmd_pause = {
    .name = "pause",
    .summary = "Stop a job with a checkpoint and free its nodes until it is resumed",
    .usage = "JOB",
    .examples = "  gradus pause digits-1\n  gradus pause digits-1 --master master:7000\n",
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
