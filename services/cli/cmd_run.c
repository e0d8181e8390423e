/* SPDX-License-Identifier: Apache-2.0 */
/* gradus run: train one job on this machine. It starts a whole cluster as child processes, follows
 * the job to its end and stops the cluster; a job that may not fit in memory is refused first. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/from_source.h"
#include "cli/job_file.h"
#include "cli/local_job.h"
#include "cli/run_dir.h"

static int run_in(const char *state_dir, const struct job_file *file, const struct cli_args *args)
{
    const struct cli_common *o = args->options;
    struct local_submission submission = {
        .file = file, .args = args, .numbered = o->state_dir[0] == '\0'};
    const struct local_job job = {.spec = &file->spec,
                                  .state_dir = state_dir,
                                  .rules_dir = o->rules_dir,
                                  .worker = o->worker,
                                  .where = args->where,
                                  .resumed = "",
                                  .tensorboard = o->tensorboard,
                                  .json = o->json,
                                  .begin = local_job_submit,
                                  .ctx = &submission};
    return local_job_run(&job);
}

static int run(const struct cli_args *args)
{
    const struct cli_common *o = args->options;
    struct job_file file = {0};
    int code = job_file_read(&file, args, o);
    if (code != CLI_OK) {
        return code;
    }
    struct err err = {0};
    if (from_source_resolve(&file, o, &err) != 0) {
        job_file_release(&file);
        return cli_fail(&err);
    }
    code = local_job_check(&file.spec, &file, o->worker, o->overcommit);
    if (code != CLI_OK) {
        job_file_release(&file);
        return code;
    }
    follow_block_signals(true);
    struct run_dir dir;
    if (run_dir_claim(o->state_dir, &dir, &err) != 0) {
        code = cli_fail(&err);
    } else {
        if (dir.moved) {
            cli_note("another run is going on; this one keeps its jobs in %s", dir.path);
        }
        code = run_in(dir.path, &file, args);
    }
    run_dir_release(&dir);
    job_file_release(&file);
    return code;
}

const struct cli_command cmd_run = {
    .name = "run",
    .summary = "Start a local cluster, train a job, print the result, clean up",
    .usage = "JOB.yaml",
    .examples = "  gradus run examples/digits.yaml --set data.dir=digits\n"
                "  gradus run job.yaml --set training.mode=async --set cluster.workers=2 --json\n"
                "  gradus run mine.yaml --worker ./my_model\n",
    .notes =
        "Nothing is started when `gradus plan` finds an error. Progress goes to stderr, the "
        "result to stdout.\nCtrl-C once cancels the job and "
        "leaves a checkpoint, as does a terminal that closes; twice stops at once. Ctrl-Z stops "
        "all of it until `fg`.\nAfterwards `gradus list`, `status JOB`, "
        "`evaluate JOB` and `export JOB OUT` find the job by themselves. Runs at the same "
        "time each take a state directory of their own.\nSettings of the processes can be "
        "given as variables, GRADUS_LOG_LEVEL for instance (`gradus-master --help`, "
        "`gradus-ps --help`, `gradus-worker --help`).",
    .shares = CLI_RUN | CLI_RULES_DIR | CLI_JSON | CLI_LOCAL | CLI_TENSORBOARD,
    .positional_min = 1,
    .positional_max = 1,
    .sets = true,
    .run = run,
};
