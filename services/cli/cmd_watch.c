/* SPDX-License-Identifier: Apache-2.0 */
/* gradus watch: show the progress of a job until it ends, for people, or as lines of JSON; the exit
 * code says how it ended. A job whose master does not run any more is shown as it was stored last.
 */
#include "cli/cli.h"
#include "cli/find_job.h"
#include "cli/follow.h"

static int run(const struct cli_args *args)
{
    const struct cli_common *o = args->options;
    follow_block_signals(false);
    struct found_job found = {0};
    struct err err = {0};
    int code;
    struct follow_options follow_options = {.job = args->positional[0],
                                            .where = args->where,
                                            .tensorboard = o->tensorboard,
                                            .result = o->json ? FOLLOW_LINES : FOLLOW_TEXT,
                                            .interrupt = FOLLOW_DETACH};
    if (find_job(o, args->positional[0], &found, &err) != 0) {
        code = follow_fail(&err, follow_options.result);
    } else if (found.row != NULL) { /* no master runs there: nothing changes any more */
        code = follow_ended(found.job, follow_options.result);
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
                "  gradus watch digits-1 --state-dir build/demo/state\n"
                "  gradus watch digits-1 --json | jq -c 'select(.event == \"evaluation\")'\n",
    .notes = "Ctrl-C stops watching; the job goes on. With --json there is a line for each event, "
             "as it happens: job, progress, evaluation, and in the end, with the job as it ended, "
             "end, or error (docs/operations.md).\n" CLI_PLACES_NOTE,
    .shares = CLI_MASTER | CLI_JSON | CLI_TENSORBOARD,
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
