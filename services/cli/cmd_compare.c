/* SPDX-License-Identifier: Apache-2.0 */
/* gradus compare: trains one job in several modes, one after the other, each on a cluster of its
 * own on this machine, and writes what they did beside each other. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/compare_report.h"
#include "cli/follow.h"
#include "cli/from_source.h"
#include "cli/job_file.h"
#include "cli/local_job.h"
#include "cli/run_dir.h"
#include "cli/terminal.h"
#include "os/host_cpus.h"

#define PICTURE_FROM 0.2 /* of the training: when the picture is taken, and again if it fails */
#define PICTURE_STEPS 3  /* of the slow worker */
#define PICTURE_STEPS_MAX 100 /* of every worker */
#define PICTURE_MS 5000
#define ANSWER_MS 60000

struct options {
    struct cli_common common;
    char *modes, *out;
    double straggler, pace;
};

static const struct field fields[] = {
    {.path = "modes",
     .type = FIELD_STRING,
     .offset = offsetof(struct options, modes),
     .def = "sync,sync+backup,bounded,async",
     .help = "sync, sync+backup (complete without the last replica), sync+speculation, bounded, "
             "bounded:N (at most N batches ahead), async; separated by commas"},
    {.path = "straggler",
     .type = FIELD_FLOAT,
     .offset = offsetof(struct options, straggler),
     .def = "1",
     .min = 1,
     .max = 100,
     .help = "One worker takes so many times as long for every computation"},
    {.path = "pace",
     .type = FIELD_FLOAT,
     .offset = offsetof(struct options, pace),
     .def = "0",
     .min = 0,
     .max = 100,
     .help = "Every worker takes so many times as long as it computes, by sleeping the rest: so "
             "workers on few processors behave like as many machines; 0: as much as that needs"},
    {.path = "out",
     .type = FIELD_STRING,
     .offset = offsetof(struct options, out),
     .def = "",
     .help = "Directory to write, also -o; empty: NAME.compare, of the job's name"},
};

/* One run while it goes on, and what is kept of it. */
struct run {
    struct local_submission submission;
    uint64_t steps; /* of the picture */
    bool pictured;
    struct rpc_msg *job, *trace;
};

/* A picture that cannot be taken now is tried again with the next state of the job. */
static void take_picture(struct run *r, struct client *client, const Gradus__V1__Job *job)
{
    Gradus__V1__TraceJobRequest request = GRADUS__V1__TRACE_JOB_REQUEST__INIT;
    struct err err = {0};
    request.job = job->id;
    request.steps = (uint32_t)r->steps;
    request.timeout_ms = PICTURE_MS;
    if (client_call(client, "Trace", &request.base, ANSWER_MS, &r->trace, &err) == 0) {
        r->pictured = true;
    }
}

static void look(void *ctx, struct client *client, struct rpc_msg *msg)
{
    struct local_submission *submission = ctx;
    struct run *r = (struct run *)((char *)submission - offsetof(struct run, submission));
    const Gradus__V1__Job *job = (const Gradus__V1__Job *)msg->body;
    rpc_msg_unref(r->job);
    r->job = rpc_msg_ref(msg);
    if (!r->pictured && job->state == GRADUS__V1__JOB_STATE__RUNNING &&
        job->epoch >= PICTURE_FROM * job->epochs_total) {
        take_picture(r, client, job);
    }
}

static double pace_of(const struct options *o, size_t workers)
{
    const double processors = host_cpus("").time;
    if (o->pace > 0) {
        return o->pace < 1 ? 1 : o->pace;
    }
    return (double)workers > processors ? ceil(2 * (double)workers / processors) : 1;
}

static int train(const struct options *o, struct run *r, const char *state_dir)
{
    const struct job_spec *spec = &r->submission.file->spec;
    const size_t workers = (size_t)spec->cluster.workers.max;
    const double pace = pace_of(o, workers);
    double *slow_downs = mem_new(workers, sizeof *slow_downs);
    for (size_t i = 0; i < workers; i++) {
        slow_downs[i] = i == 0 ? pace * o->straggler : pace;
    }
    const struct local_job job = {.spec = spec,
                                  .state_dir = state_dir,
                                  .rules_dir = o->common.rules_dir,
                                  .worker = o->common.worker,
                                  .where = r->submission.args->where,
                                  .resumed = "",
                                  .slow_downs = slow_downs,
                                  .begin = local_job_submit,
                                  .look = look,
                                  .ctx = &r->submission};
    const double steps = PICTURE_STEPS * o->straggler;
    r->steps = steps < PICTURE_STEPS_MAX ? (uint64_t)ceil(steps) : PICTURE_STEPS_MAX;
    int code = local_job_run(&job);
    free(slow_downs);
    return code;
}

/* The arguments of the user, with the settings of a mode behind those of the user; `sets` is owned.
 */
static struct cli_args mode_args(const struct cli_args *args, const struct compare_mode *mode)
{
    const char **sets = mem_new(args->set_count + COMPARE_SETS_MAX, sizeof *sets);
    struct cli_args with = *args;
    for (size_t i = 0; i < args->set_count; i++) {
        sets[i] = args->sets[i];
    }
    for (size_t i = 0; i < mode->set_count; i++) {
        sets[args->set_count + i] = mode->sets[i];
    }
    with.sets = sets;
    with.set_count = args->set_count + mode->set_count;
    return with;
}

/* Trains in @mode when @r is not NULL; can it be trained? */
static int run_mode(const struct cli_args *args, const struct compare_mode *mode, struct run *r,
                    const char *state_dir)
{
    const struct options *o = args->options;
    struct cli_args with = mode_args(args, mode);
    struct job_file file = {0};
    struct err err = {0};
    int code = job_file_read(&file, &with, &o->common);
    if (code == CLI_OK) {
        code = from_source_resolve(&file, &o->common, &err) != 0
                   ? cli_fail(&err)
                   : local_job_check(&file.spec, &file, o->common.worker, o->common.overcommit);
        if (code == CLI_OK && r != NULL) {
            (void)fprintf(stderr, "\n== %s\n", mode->name);
            r->submission = (struct local_submission){
                .file = &file, .args = &with, .numbered = o->common.state_dir[0] == '\0'};
            code = train(o, r, state_dir);
        }
        job_file_release(&file);
    }
    free(with.sets);
    return code;
}

/* What all runs have in common, which the user's file says. */
static int read_job(const struct cli_args *args, struct compare_mode *modes, size_t *count,
                    struct compare_report *report, char **name)
{
    const struct options *o = args->options;
    struct job_file file = {0};
    struct err err = {0};
    int code = job_file_read(&file, args, &o->common);
    if (code != CLI_OK) {
        return code;
    }
    *name = mem_strdup(file.spec.name);
    report->workers = (size_t)file.spec.cluster.workers.max;
    report->ps = (size_t)file.spec.cluster.ps;
    if (report->workers < 2) {
        (void)err_set(&err, ERR_INVALID,
                      "one worker is alike in all modes; --set cluster.workers=4 takes four");
        code = cli_fail(&err);
    } else if (compare_modes_parse(o->modes, &file.spec, modes, count, &err) != 0) {
        (void)err_wrap(&err, "--modes");
        code = cli_fail(&err);
    }
    job_file_release(&file);
    for (size_t i = 0; i < *count && code == CLI_OK; i++) {
        code = run_mode(args, &modes[i], NULL, NULL);
    }
    return code;
}

static int write_report(const struct options *o, struct compare_report *report, const char *name)
{
    struct err err = {0};
    struct buf text = {0};
    struct timespec now;
    char *dir = o->out[0] != '\0' ? mem_strdup(o->out) : mem_printf("%s.compare", name);
    (void)clock_gettime(CLOCK_REALTIME, &now);
    report->pace = pace_of(o, report->workers);
    report->straggler = o->straggler;
    report->processors = host_cpus("").count;
    report->wall_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    int rc = compare_report_write(report, dir, &err);
    if (rc == 0) {
        compare_report_text(report, &text);
        buf_printf(&text, "\n%s/index.html has the pictures, %s/README.md the same as Markdown\n",
                   dir, dir);
        terminal_print(&text);
    }
    buf_release(&text);
    free(dir);
    return rc == 0 ? CLI_OK : cli_fail(&err);
}

static int run_all(const struct cli_args *args, struct compare_report *report,
                   const struct compare_mode *modes, size_t count, const char *state_dir,
                   const char *name)
{
    const struct options *o = args->options;
    struct run runs[COMPARE_MODES_MAX] = {{.steps = 0}};
    struct compare_run shown[COMPARE_MODES_MAX];
    int code = CLI_OK;
    for (size_t i = 0; i < count && (code == CLI_OK || code == CLI_FAILED); i++) {
        code = run_mode(args, &modes[i], &runs[i], state_dir);
        if (runs[i].job == NULL) {
            break;
        }
        shown[i] = (struct compare_run){
            .mode = modes[i],
            .job = (const Gradus__V1__Job *)runs[i].job->body,
            .trace = runs[i].trace == NULL
                         ? NULL
                         : (const Gradus__V1__TraceJobResponse *)runs[i].trace->body};
        report->count = i + 1;
    }
    if (report->count == count && (code == CLI_OK || code == CLI_FAILED)) {
        report->runs = shown;
        const int written = write_report(o, report, name);
        code = written != CLI_OK ? written : code;
    }
    for (size_t i = 0; i < count; i++) {
        rpc_msg_unref(runs[i].job);
        rpc_msg_unref(runs[i].trace);
    }
    return code;
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    struct compare_mode modes[COMPARE_MODES_MAX];
    struct compare_report report = {.job_file = args->positional[0]};
    size_t count = 0;
    char *name = NULL;
    int code = read_job(args, modes, &count, &report, &name);
    if (code == CLI_OK) {
        struct run_dir dir;
        struct err err = {0};
        follow_block_signals(true);
        code = run_dir_claim(o->common.state_dir, &dir, &err) != 0
                   ? cli_fail(&err)
                   : run_all(args, &report, modes, count, dir.path, name);
        run_dir_release(&dir);
    }
    free(name);
    return code;
}

const struct cli_command cmd_compare = {
    .name = "compare",
    .summary = "Train a job in several modes on this machine, and draw them beside each other",
    .usage = "JOB.yaml",
    .examples = "  gradus compare job.yaml --set cluster.workers=4 --straggler 4\n"
                "  gradus compare job.yaml --set cluster.workers=2 --modes sync,bounded:8\n",
    .notes = "Each mode is a `gradus run` of its own, one after the other. The page has what the "
             "workers and shards did in each, the loss over time and over epochs, and a table; "
             "docs/sync-or-async.md tells how to read it.",
    .shares = CLI_RUN | CLI_RULES_DIR | CLI_LOCAL,
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .sets = true,
    .run = run,
};
