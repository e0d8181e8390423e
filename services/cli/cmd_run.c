/* SPDX-License-Identifier: Apache-2.0 */
/* gradus run: train one job on this machine. It starts a whole cluster as child processes, follows
 * the job to its end and stops the cluster; a job that may not fit in memory is refused first. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/from_source.h"
#include "cli/job_file.h"
#include "cli/local.h"
#include "cli/memory_need.h"
#include "cli/places.h"
#include "cli/run_dir.h"
#include "cli/submit.h"

struct options {
    struct cli_common common;
    bool overcommit;
    char *worker;
};

static const struct field fields[] = {CLI_STATE_DIR_ROW(struct options),
                                      CLI_RULES_DIR_ROW(struct options),
                                      CLI_TIMEOUT_ROW(struct options),
                                      CLI_JSON_ROW(struct options),
                                      {.path = "overcommit",
                                       .type = FIELD_BOOL,
                                       .offset = offsetof(struct options, overcommit),
                                       .def = "false",
                                       .help = "Go on although the processes may need more memory "
                                               "than this host has left"},
                                      {.path = "worker",
                                       .type = FIELD_STRING,
                                       .offset = offsetof(struct options, worker),
                                       .def = "",
                                       .help = "Command that computes the model of a job with "
                                               "model.program, one for each worker"}};

static int tick(void *ctx, struct buf *notices, struct err *err)
{
    return local_tick(ctx, notices, err);
}

static void suspend(void *ctx, bool stop)
{
    local_suspend(ctx, stop);
}

static int train(struct local *local, const struct job_file *file, const struct cli_args *args,
                 bool json)
{
    places_remember(local->state_dir);
    struct client client = {0};
    struct err err = {0};
    char *job = NULL;
    int rc = client_open(&client, local->master_address, NULL, &err);
    if (rc == 0) {
        rc = submit_job(&client, file, args, "", &job, &err);
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
        .where = args->where,
        .json = json,
        .interrupt = FOLLOW_CANCEL,
        .tick = tick,
        .suspend = suspend,
        .ctx = local,
    };
    int code = follow(&client, &follow_options);
    free(job);
    return code;
}

static int run_in(const char *state_dir, const struct job_file *file, const struct cli_args *args)
{
    const struct options *o = args->options;
    struct local local = {0};
    struct err err = {0};
    int code = CLI_FAILED;
    bool at_once = false;
    if (local_start(&local, state_dir, o->common.rules_dir, o->worker,
                    (size_t)file->spec.cluster.ps, (size_t)file->spec.cluster.workers.max,
                    &err) != 0) {
        const bool stopped = err.code == ERR_CANCELLED;
        (void)err_wrap(&err, "start the local cluster");
        (void)cli_fail(&err); /* a process that is late is no master that cannot be reached */
        code = stopped ? FOLLOW_STOPPED : CLI_FAILED;
    } else {
        code = train(&local, file, args, o->common.json);
        at_once = code == FOLLOW_STOPPED;
    }
    local_stop(&local, at_once);
    return code;
}

/* What `gradus plan` would say: a job that cannot be is not started. */
static int check_plan(struct job_spec *spec, bool overcommit)
{
    struct memory_need need;
    struct err err = {0};
    if (memory_need_of_job(spec, &need, &err) != 0) {
        return cli_fail(&err);
    }
    const struct host_memory host = host_memory("");
    if (memory_need_fits(&need, &host)) {
        return CLI_OK;
    }
    struct buf table = {0};
    memory_need_text(&need, &host, &table);
    (void)fputs(buf_str(&table), stderr);
    buf_release(&table);
    if (overcommit) {
        cli_note("that may not be enough; it goes on for --overcommit");
        return CLI_OK;
    }
    (void)err_set(
        &err, ERR_EXHAUSTED,
        "the job may not fit in the memory of this host; fewer workers or servers take less, and "
        "--overcommit tries it all the same");
    return cli_fail(&err);
}

/* What the program is, only its workers will tell. */
static int check_program(const struct job_spec *spec, const char *worker)
{
    struct err err = {0};
    if (worker[0] == '\0') {
        (void)err_set(
            &err, ERR_INVALID,
            "the job's model is program '%s' (model.program): --worker 'COMMAND' says what "
            "computes it",
            spec->model.program);
        return cli_fail(&err);
    }
    return CLI_OK;
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    struct job_file file = {0};
    int code = job_file_read(&file, args, &o->common);
    if (code != CLI_OK) {
        return code;
    }
    struct err err = {0};
    if (from_source_resolve(&file, &o->common, &err) != 0) {
        job_file_release(&file);
        return cli_fail(&err);
    }
    code = job_spec_is_program(&file.spec) ? check_program(&file.spec, o->worker)
                                           : check_plan(&file.spec, o->overcommit);
    if (code != CLI_OK) {
        job_file_release(&file);
        return code;
    }
    follow_block_signals(true);
    struct run_dir dir;
    if (run_dir_claim(o->common.state_dir, &dir, &err) != 0) {
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
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .sets = true,
    .run = run,
};
