/* SPDX-License-Identifier: Apache-2.0 */
/* gradus trace: record what every node of a running job does in its next steps, and write that as a
 * file for a trace viewer. Nodes that do not answer are named in a warning; the rest is written. */
#include "cli/follow.h"
#include "cli/trace_json.h"
#include "cli/trace_record.h"

#define ENDING ".trace.json"

static const struct field fields[] = {TRACE_ROWS("10", ENDING)};

static int run(const struct cli_args *args)
{
    const struct trace_options *o = args->options;
    struct rpc_msg *reply = NULL;
    struct err err = {0};
    bool stopped = false;
    int rc = trace_record(o, args->positional[0], &reply, &stopped, &err);
    if (rc == 0 && !stopped) {
        struct buf json = {0};
        const Gradus__V1__TraceJobResponse *r = (const Gradus__V1__TraceJobResponse *)reply->body;
        trace_json(r, &json);
        rc = trace_write(o, r, &json, ENDING, "open it in ui.perfetto.dev or chrome://tracing",
                         &err);
        buf_release(&json);
    }
    rpc_msg_unref(reply);
    return rc != 0 ? cli_fail(&err) : stopped ? FOLLOW_STOPPED : CLI_OK;
}

const struct cli_command cmd_trace = {
    .name = "trace",
    .summary = "Record what all nodes of a running job do in the next steps",
    .usage = "JOB",
    .examples = "  gradus trace digits-1 --steps 20 -o trace.json\n",
    .notes = "The file is the JSON of Chrome's trace viewer; ui.perfetto.dev reads it "
             "too.\ndocs/trace.md tells what is in it. Ctrl-C ends the recording on all nodes, and "
             "nothing is written.",
    .shares = CLI_MASTER | CLI_JSON,
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct trace_options),
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
