/* SPDX-License-Identifier: Apache-2.0 */
/* gradus trace: record what every node of a running job does in its next steps, and write that as a
 * file for a trace viewer. Nodes that do not answer are named in a warning; the rest is written. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/follow.h"
#include "cli/output.h"
#include "cli/trace_json.h"
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
     .def = "10",
     .min = 1,
     .max = TRACE_STEPS_MAX,
     .help = "Steps of every worker"},
    {.path = "out",
     .type = FIELD_STRING,
     .offset = offsetof(struct options, out),
     .def = "",
     .help = "File to write, also -o; empty: JOB.trace.json"},
    {.path = "within",
     .type = FIELD_MS,
     .offset = offsetof(struct options, within),
     .def = "10s",
     .min = 1,
     .max = TRACE_WITHIN_MAX,
     .help = "Take what there is after this time"},
};

static int write_trace(const struct options *o, const char *path,
                       const Gradus__V1__TraceJobResponse *r, struct err *err)
{
    struct buf json = {0};
    FILE *said;
    trace_json(r, &json);
    int rc = file_write_atomic(cli_output(path, &said), json.data, json.len, err);
    buf_release(&json);
    if (rc != 0) {
        return rc;
    }
    uint32_t steps = trace_tell_problems(r, o->steps);
    if (o->common.json) {
        struct buf out = {0};
        output_object(&out, "job", r->job, "file", path, (const char *)NULL);
        (void)fputs(buf_str(&out), said);
        buf_release(&out);
    } else {
        (void)fprintf(said,
                      "%" PRIu32 " step%s of job %s in %s; open it in ui.perfetto.dev or "
                      "chrome://tracing\n",
                      steps, steps == 1 ? "" : "s", r->job, path);
    }
    return 0;
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    const char *job = args->positional[0];
    struct rpc_msg *reply = NULL;
    struct err err = {0};
    bool stopped = false;
    const struct trace_ask ask = {&o->common, job, o->steps, o->within};
    int rc = trace_record(&ask, &reply, &stopped, &err);
    if (rc == 0 && stopped) {
        return FOLLOW_STOPPED;
    }
    if (rc == 0) {
        char *path = o->out[0] != '\0' ? mem_strdup(o->out) : mem_printf("%s.trace.json", job);
        rc = write_trace(o, path, (const Gradus__V1__TraceJobResponse *)reply->body, &err);
        free(path);
    }
    rpc_msg_unref(reply);
    return rc == 0 ? CLI_OK : cli_fail(&err);
}

const struct cli_command cmd_trace = {
    .name = "trace",
    .summary = "Record what all nodes of a running job do in the next steps",
    .usage = "JOB",
    .examples = "  gradus trace digits-1 --steps 20 -o trace.json\n",
    .notes = "The file is the JSON of Chrome's trace viewer; ui.perfetto.dev reads it "
             "too.\ndocs/trace.md tells what is in it. Ctrl-C ends the recording on all nodes, and "
             "nothing is written.",
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
