/* SPDX-License-Identifier: Apache-2.0 */
/* gradus watch: show the progress of a job until it ends; the exit code says how it ended. A job
 * whose master does not run any more is shown as it was stored last. */
#include "cli/cli.h"
#include "cli/find_job.h"
#include "cli/follow.h"

struct options {
    struct cli_common common;
    char *tensorboard;
};

static const struct field fields[] = {
    CLI_MASTER_ROWS(struct options),
    CLI_JSON_ROW(struct options),
    {.path = "tensorboard",
     .type = FIELD_STRING,
     .offset = offsetof(struct options, tensorboard),
     .def = "",
     .help = "Directory for TensorBoard: every evaluation is added to event files below it, "
             "JOB/train and JOB/test"},
};

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    follow_block_signals(false);
    struct found_job found = {0};
    struct err err = {0};
    int code;
    struct follow_options follow_options = {.job = args->positional[0],
                                            .where = args->where,
                                            .tensorboard = o->tensorboard,
                                            .json = o->common.json,
                                            .interrupt = FOLLOW_DETACH};
    if (find_job(&o->common, args->positional[0], &found, &err) != 0) {
        code = cli_fail(&err);
    } else if (found.row != NULL) { /* no master runs there: nothing changes any more */
        code = follow_ended(found.job, o->common.json);
    } else {
        code = follow(&found.client, &follow_options);
    }
    found_job_release(&found);
    return code;
}

const struct cli_command cmd_watch = {
    .name = "watch",
    .summary = "Follow a job to its end and print the result",
    .usage = "JOB",
    .examples = "  gradus watch digits-1\n"
                "  gradus watch digits-1 --state-dir build/demo/state\n",
    .notes = "Ctrl-C stops watching; the job goes on.\n" CLI_PLACES_NOTE,
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
