/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/job_file.h"
#include "cli/local.h"
#include "cli/submit.h"

struct options {
    struct cli_common common;
};

static const struct field fields[] = {CLI_STATE_DIR_ROW(struct options),
                                      CLI_RULES_DIR_ROW(struct options),
                                      CLI_JSON_ROW(struct options)};

static int tick(void *ctx, struct buf *notices, struct err *err)
{
    return local_tick(ctx, notices, err);
}

static int train(struct local *local, const struct job_file *file, const struct cli_args *args,
                 bool json)
{
    struct client client = {0};
    struct err err = {0};
    char *job = NULL;
    int rc = client_open(&client, local->master_address, &err);
    if (rc == 0) {
        rc = submit_job(&client, file, args, &job, &err);
    }
    if (rc != 0) {
        client_close(&client);
        return cli_fail(&err);
    }
    (void)fprintf(stderr, "job %s: 1 master, %zu parameter server%s, %zu worker%s\nlogs in %s\n",
                  job, local->ps_count, local->ps_count == 1 ? "" : "s", local->worker_count,
                  local->worker_count == 1 ? "" : "s", local->log_dir);
    struct follow_options follow_options = {
        .job = job,
        .json = json,
        .interrupt = FOLLOW_CANCEL,
        .tick = tick,
        .ctx = local,
    };
    int code = follow(&client, &follow_options);
    free(job);
    return code;
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    struct job_file file = {0};
    int code = job_file_read(&file, args, &o->common);
    if (code != CLI_OK) {
        return code;
    }
    follow_block_signals();
    char *state_dir = cli_state_dir(o->common.state_dir);
    struct local local = {0};
    struct err err = {0};
    if (local_start(&local, state_dir, o->common.rules_dir, (size_t)file.spec.cluster.ps,
                    (size_t)file.spec.cluster.workers.max, &err) != 0) {
        (void)fprintf(stderr, "gradus: start the local cluster: %s\n", err.msg);
        code = CLI_FAILED;
    } else {
        code = train(&local, &file, args, o->common.json);
    }
    local_stop(&local, code == FOLLOW_STOPPED);
    free(state_dir);
    job_file_release(&file);
    return code;
}

const struct cli_command cmd_run = {
    .name = "run",
    .summary = "Start a local cluster, train a job, print the result, clean up",
    .usage = "JOB.yaml",
    .examples = "  gradus run examples/digits.yaml --set data.dir=digits\n"
                "  gradus run job.yaml --set training.mode=async --set cluster.workers=2 --json\n",
    .notes = "Progress goes to stderr, the result to stdout.\n"
             "Ctrl-C once cancels the job and leaves a checkpoint; twice stops at once.",
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .sets = true,
    .run = run,
};
