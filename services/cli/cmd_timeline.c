/* SPDX-License-Identifier: Apache-2.0 */
/* gradus timeline: record what every node of a running job does in its next steps, and draw it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/output.h"
#include "cli/query.h"
#include "cli/text_consistency.h"
#include "cli/timeline_svg.h"
#include "cli/trace_record.h"

struct options {
    struct cli_common common;
    int64_t steps, within;
    char *out;
};

static const struct field fields[] = {
    CLI_MASTER_ROWS(struct options),
    CLI_JSON_ROW(struct options),
    {.path = "steps",
     .type = FIELD_INT,
     .offset = offsetof(struct options, steps),
     .def = "6",
     .min = 1,
     .max = TRACE_STEPS_MAX,
     .help = "Steps of every worker"},
    {.path = "out",
     .type = FIELD_STRING,
     .offset = offsetof(struct options, out),
     .def = "",
     .help = "File to write, also -o; empty: JOB.timeline.svg"},
    {.path = "within",
     .type = FIELD_MS,
     .offset = offsetof(struct options, within),
     .def = "10s",
     .min = 1,
     .max = TRACE_WITHIN_MAX,
     .help = "Take what there is after this time"},
};

static void draw(const Gradus__V1__TraceJobResponse *trace, const Gradus__V1__Job *job,
                 struct buf *svg)
{
    struct timeline t;
    struct buf mode = {0};
    char when[40] = "";
    struct tm utc;
    time_t seconds = (time_t)(trace->wall_ms / 1000);
    if (gmtime_r(&seconds, &utc) != NULL) {
        (void)strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", &utc);
    }
    text_consistency(job, &mode);
    const struct timeline_about about = {.job = trace->job,
                                         .mode = buf_str(&mode),
                                         .when = when,
                                         .barriers = job->mode == GRADUS__V1__MODE__SYNC};
    timeline_init(&t, trace, 0);
    timeline_svg(&t, &about, svg);
    timeline_release(&t);
    buf_release(&mode);
}

static int write_picture(const struct options *o, const char *path, const struct buf *svg,
                         const Gradus__V1__TraceJobResponse *trace, struct err *err)
{
    FILE *said;
    int rc = file_write_atomic(cli_output(path, &said), svg->data, svg->len, err);
    if (rc != 0) {
        return rc;
    }
    uint32_t steps = trace_tell_problems(trace, o->steps);
    if (o->common.json) {
        struct buf out = {0};
        output_object(&out, "job", trace->job, "file", path, (const char *)NULL);
        (void)fputs(buf_str(&out), said);
        buf_release(&out);
    } else {
        (void)fprintf(said, "%" PRIu32 " step%s of job %s in %s; a browser shows it\n", steps,
                      steps == 1 ? "" : "s", trace->job, path);
    }
    return 0;
}

static int get_job(const struct options *o, const char *id, struct rpc_msg **reply, bool *stopped,
                   struct err *err)
{
    Gradus__V1__GetJobRequest request = GRADUS__V1__GET_JOB_REQUEST__INIT;
    request.job = mem_strdup(id);
    int rc = query_job_long(&o->common, id, "Get", &request.base, client_timeout_ms(), reply,
                            stopped, err);
    free(request.job);
    return rc;
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    const char *id = args->positional[0];
    const struct trace_ask ask = {&o->common, id, o->steps, o->within};
    struct rpc_msg *trace = NULL, *job = NULL;
    struct err err = {0};
    bool stopped = false;
    int rc = trace_record(&ask, &trace, &stopped, &err);
    if (rc == 0 && !stopped) {
        rc = get_job(o, id, &job, &stopped, &err);
    }
    if (rc == 0 && !stopped) {
        struct buf svg = {0};
        char *path = o->out[0] != '\0' ? mem_strdup(o->out) : mem_printf("%s.timeline.svg", id);
        const Gradus__V1__TraceJobResponse *r = (const Gradus__V1__TraceJobResponse *)trace->body;
        draw(r, (const Gradus__V1__Job *)job->body, &svg);
        rc = write_picture(o, path, &svg, r, &err);
        buf_release(&svg);
        free(path);
    }
    rpc_msg_unref(trace);
    rpc_msg_unref(job);
    return rc != 0 ? cli_fail(&err) : stopped ? FOLLOW_STOPPED : CLI_OK;
}

const struct cli_command cmd_timeline = {
    .name = "timeline",
    .summary = "Draw what all nodes of a running job do in the next steps",
    .usage = "JOB",
    .examples = "  gradus timeline digits-1 --steps 8 -o timeline.svg\n",
    .notes = "The file is a picture (SVG): a row for each worker and shard, time to the right, an "
             "arrow for each gradient in the colour of its staleness. docs/trace.md tells how to "
             "read it. Ctrl-C ends the recording on all nodes, and nothing is written.",
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
