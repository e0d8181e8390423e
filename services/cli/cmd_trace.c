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
#include "cli/query.h"
#include "cli/trace_json.h"

#define ANSWER_MS 100000 /* time that the master takes at most beside the steps */

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
     .max = 1000,
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
     .max = 600000,
     .help = "Take what there is after this time"},
};

/* Tells what the trace lacks, a line each. Returns the number of steps that every worker has. */
static uint32_t tell_problems(const Gradus__V1__TraceJobResponse *r, int64_t wanted)
{
    uint32_t least = UINT32_MAX;
    for (size_t i = 0; i < r->n_nodes; i++) {
        const Gradus__V1__NodeTrace *n = r->nodes[i];
        if (n->problem[0] != '\0' || n->trace == NULL) {
            cli_note("warning: %s is missing: %s", n->node, n->problem);
            continue;
        }
        if (n->trace->lost > 0) {
            cli_note("warning: %s did more than could be recorded: %" PRIu64
                     " spans are missing; take fewer steps",
                     n->node, n->trace->lost);
        }
        if (n->role != GRADUS__V1__NODE_ROLE__WORKER) {
            continue;
        }
        if (n->trace->steps < wanted) {
            cli_note("warning: %s made only %" PRIu32 " of %" PRId64 " steps", n->node,
                     n->trace->steps, wanted);
        }
        least = n->trace->steps < least ? n->trace->steps : least;
    }
    return least == UINT32_MAX ? 0 : least;
}

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
    uint32_t steps = tell_problems(r, o->steps);
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

static int record(const struct options *o, const char *job, struct rpc_msg **reply, bool *stopped,
                  struct err *err)
{
    Gradus__V1__TraceJobRequest request = GRADUS__V1__TRACE_JOB_REQUEST__INIT;
    request.job = mem_strdup(job);
    request.steps = (uint32_t)o->steps;
    request.timeout_ms = (uint32_t)o->within;
    int rc = query_job_long(&o->common, job, "Trace", &request.base,
                            (unsigned)o->within + ANSWER_MS, reply, stopped, err);
    free(request.job);
    return rc;
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    const char *job = args->positional[0];
    struct rpc_msg *reply = NULL;
    struct err err = {0};
    bool stopped = false;
    int rc = record(o, job, &reply, &stopped, &err);
    if (rc == 0 && stopped) {
        cli_note("stopped; job %s is not recorded any more", job);
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
