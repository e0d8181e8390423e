/* SPDX-License-Identifier: Apache-2.0 */
/* gradus pause: a job stops at its next step, with a checkpoint, and waits. */
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
    return query_job_state(&o->common, args->positional[0], "Pause");
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
