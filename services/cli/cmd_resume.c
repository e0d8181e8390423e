/* SPDX-License-Identifier: Apache-2.0 */
/* gradus resume: a paused job goes back into the queue. */
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
    return query_job_state(&o->common, args->positional[0], "Resume");
}

const struct cli_command cmd_resume = {
    .name = "resume",
    .summary = "Let a paused job go on from its checkpoint as soon as there are nodes",
    .usage = "JOB",
    .examples = "  gradus resume digits-1\n  gradus resume digits-1 --master master:7000\n",
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
