/* SPDX-License-Identifier: Apache-2.0 */
/* gradus timeline: record what every node of a running job does in its next steps, and draw it. */
#include <time.h>

#include "cli/follow.h"
#include "cli/query.h"
#include "cli/text_consistency.h"
#include "cli/timeline_svg.h"
#include "cli/trace_record.h"

#define ENDING ".timeline.svg"

static const struct field fields[] = {
    TRACE_ROWS("6", ENDING),
    {.path = "last",
     .type = FIELD_MS,
     .offset = offsetof(struct trace_options, last),
     .def = "0",
     .min = 0,
     .max = 600000,
     .help = "Record for so long and draw that, in place of --steps and --within: what happened in "
             "the job's last 10s when the command ends. At most 1000 steps; 0: --steps"}};

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

static int run(const struct cli_args *args)
{
    const struct trace_options *o = args->options;
    const char *id = args->positional[0];
    Gradus__V1__GetJobRequest request = GRADUS__V1__GET_JOB_REQUEST__INIT;
    struct rpc_msg *trace = NULL, *job = NULL;
    struct err err = {0};
    bool stopped = false;
    request.job = client_text(id);
    int rc = trace_record(o, id, &trace, &stopped, &err);
    if (rc == 0 && !stopped) {
        rc = query_job_long(&o->common, id, "Get", &request.base, client_timeout_ms(), &job,
                            &stopped, &err);
    }
    if (rc == 0 && !stopped) {
        struct buf svg = {0};
        const Gradus__V1__TraceJobResponse *r = (const Gradus__V1__TraceJobResponse *)trace->body;
        draw(r, (const Gradus__V1__Job *)job->body, &svg);
        rc = trace_write(o, r, &svg, ENDING, "a browser shows it", &err);
        buf_release(&svg);
    }
    rpc_msg_unref(trace);
    rpc_msg_unref(job);
    return rc != 0 ? cli_fail(&err) : stopped ? FOLLOW_STOPPED : CLI_OK;
}

const struct cli_command cmd_timeline = {
    .name = "timeline",
    .summary = "Draw what all nodes of a running job do in the next steps",
    .usage = "JOB",
    .examples = "  gradus timeline digits-1 --steps 8 -o timeline.svg\n"
                "  gradus timeline digits-1 --last 10s -o timeline.svg\n",
    .notes = "The file is a picture (SVG): a row for each worker and shard, time to the right, an "
             "arrow for each gradient in the colour of its staleness. docs/trace.md tells how to "
             "read it. Ctrl-C ends the recording on all nodes, and nothing is written.",
    .shares = CLI_MASTER | CLI_JSON,
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct trace_options),
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
