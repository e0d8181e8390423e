/* SPDX-License-Identifier: Apache-2.0 */
/* gradus status: shows all that is known of one job, by its master or by the state directory that a
 * master has left. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/find_checkpoint.h"
#include "cli/find_job.h"
#include "cli/output.h"
#include "cli/terminal.h"

static void show(const struct cli_common *common, const struct found_job *found, struct buf *out)
{
    if (common->json) {
        output_message_json(&found->job->base, out);
        (void)fputs(buf_str(out), stdout);
        return;
    }
    output_status_text(found->job, terminal_columns(STDOUT_FILENO), out);
    if (found->state_dir != NULL) {
        buf_printf(out, "%sstate dir   %s%s\n", found->job->n_evaluations > 0 ? "\n" : "",
                   found->state_dir, found->row != NULL ? " (no master runs there now)" : "");
    }
    terminal_print(out);
}

/* Makes the checkpoint of the best version that of the job. @shown: the job as it is shown then. */
static int take_best(struct found_job *found, Gradus__V1__Job *shown, struct err *err)
{
    const Gradus__V1__BestVersion *best = found->job->best;
    if (best == NULL || best->checkpoint[0] == '\0') {
        return err_set(
            err, ERR_NOT_FOUND,
            "job %s: no best version was kept; training.checkpoints_keep.best of the job "
            "file does it",
            found->job->id);
    }
    *shown = *found->job;
    shown->checkpoint = best->checkpoint;
    found->job = shown;
    return 0;
}

static int run(const struct cli_args *args)
{
    const struct cli_common *o = args->options;
    struct found_job found = {0};
    Gradus__V1__Job shown;
    struct err err = {0};
    struct buf out = {0};
    bool best = false;
    char *name = find_checkpoint_name(args->positional[0], &best);
    int rc = find_job(o, name, &found, &err);
    if (rc == 0 && best) {
        rc = take_best(&found, &shown, &err);
    }
    free(name);
    if (rc == 0) {
        show(o, &found, &out);
    }
    buf_release(&out);
    found_job_release(&found);
    return rc == 0 ? CLI_OK : cli_fail(&err);
}

const struct cli_command cmd_status = {
    .name = "status",
    .summary = "Show one job: state, reason, progress, evaluations, nodes",
    .usage = "JOB[@best]",
    .examples = "  gradus status digits-1\n"
                "  gradus status digits-1 --master master:7000\n",
    .notes = "With @best behind it the checkpoint is that of the best version "
             "(training.checkpoints_keep.best).\n" CLI_PLACES_NOTE,
    .shares = CLI_MASTER | CLI_JSON,
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
