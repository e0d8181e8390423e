/* SPDX-License-Identifier: Apache-2.0 */
/* list, status, nodes, cancel, checkpoint: one call to the master, one page of output. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/output.h"

#define CHECKPOINT_TIMEOUT_MS 600000

struct options {
    struct cli_common common;
    int64_t limit;
    bool now;
};

static const struct field plain_fields[] = {CLI_MASTER_ROWS(struct options),
                                            CLI_JSON_ROW(struct options)};
static const struct field list_fields[] = {
    CLI_MASTER_ROWS(struct options),
    CLI_JSON_ROW(struct options),
    {.path = "limit",
     .type = FIELD_INT,
     .offset = offsetof(struct options, limit),
     .def = "100",
     .min = 1,
     .max = 100000,
     .help = "Newest jobs to show"},
};
static const struct field cancel_fields[] = {
    CLI_MASTER_ROWS(struct options),
    CLI_JSON_ROW(struct options),
    {.path = "now",
     .type = FIELD_BOOL,
     .offset = offsetof(struct options, now),
     .def = "false",
     .help = "Do not wait for a step boundary; save nothing"},
};

/* One call; @show prints the reply. */
static int query(const struct options *o, const char *method, const ProtobufCMessage *body,
                 unsigned timeout_ms,
                 void (*show)(const struct options *o, const ProtobufCMessage *reply,
                              struct buf *out))
{
    struct client client = {0};
    struct rpc_msg *reply = NULL;
    struct err err = {0};
    int rc = client_open_common(&client, &o->common, &err);
    if (rc == 0) {
        rc = client_call(&client, method, body, timeout_ms, &reply, &err);
    }
    if (rc == 0) {
        struct buf out = {0};
        show(o, reply->body, &out);
        (void)fputs(buf_str(&out), stdout);
        buf_release(&out);
    }
    rpc_msg_unref(reply);
    client_close(&client);
    return rc == 0 ? CLI_OK : cli_fail(&err);
}

static void show_jobs(const struct options *o, const ProtobufCMessage *reply, struct buf *out)
{
    const Gradus__V1__ListJobsResponse *r = (const Gradus__V1__ListJobsResponse *)reply;
    if (o->common.json) {
        output_jobs_json(r->jobs, r->n_jobs, out);
    } else {
        output_jobs_text(r->jobs, r->n_jobs, out);
    }
}

static void show_nodes(const struct options *o, const ProtobufCMessage *reply, struct buf *out)
{
    const Gradus__V1__NodesResponse *r = (const Gradus__V1__NodesResponse *)reply;
    if (o->common.json) {
        output_nodes_json(r->nodes, r->n_nodes, out);
    } else {
        output_nodes_text(r->nodes, r->n_nodes, out);
    }
}

static void show_job(const struct options *o, const ProtobufCMessage *reply, struct buf *out)
{
    const Gradus__V1__Job *job = (const Gradus__V1__Job *)reply;
    if (o->common.json) {
        output_status_json(job, out);
    } else {
        output_status_text(job, out);
    }
}

static void show_cancel(const struct options *o, const ProtobufCMessage *reply, struct buf *out)
{
    const Gradus__V1__Job *job = (const Gradus__V1__Job *)reply;
    if (o->common.json) {
        output_status_json(job, out);
    } else {
        output_cancel_text(job, out);
    }
}

static void show_checkpoint(const struct options *o, const ProtobufCMessage *reply, struct buf *out)
{
    const Gradus__V1__CheckpointJobResponse *r = (const Gradus__V1__CheckpointJobResponse *)reply;
    if (o->common.json) {
        output_object(out, "checkpoint", r->path, (const char *)NULL);
    } else {
        buf_printf(out, "%s\n", r->path);
    }
}

static int run_list(const struct cli_args *args)
{
    const struct options *o = args->options;
    Gradus__V1__ListJobsRequest request = GRADUS__V1__LIST_JOBS_REQUEST__INIT;
    request.limit = (uint32_t)o->limit;
    return query(o, "List", &request.base, CLIENT_TIMEOUT_MS, show_jobs);
}

static int run_nodes(const struct cli_args *args)
{
    Gradus__V1__NodesRequest request = GRADUS__V1__NODES_REQUEST__INIT;
    return query(args->options, "Nodes", &request.base, CLIENT_TIMEOUT_MS, show_nodes);
}

static int run_status(const struct cli_args *args)
{
    Gradus__V1__GetJobRequest request = GRADUS__V1__GET_JOB_REQUEST__INIT;
    request.job = mem_strdup(args->positional[0]);
    int code = query(args->options, "Get", &request.base, CLIENT_TIMEOUT_MS, show_job);
    free(request.job);
    return code;
}

static int run_cancel(const struct cli_args *args)
{
    const struct options *o = args->options;
    Gradus__V1__CancelRequest request = GRADUS__V1__CANCEL_REQUEST__INIT;
    request.job = mem_strdup(args->positional[0]);
    request.now = o->now;
    int code = query(o, "Cancel", &request.base, CLIENT_TIMEOUT_MS, show_cancel);
    free(request.job);
    return code;
}

static int run_checkpoint(const struct cli_args *args)
{
    Gradus__V1__GetJobRequest request = GRADUS__V1__GET_JOB_REQUEST__INIT;
    request.job = mem_strdup(args->positional[0]);
    int code =
        query(args->options, "Checkpoint", &request.base, CHECKPOINT_TIMEOUT_MS, show_checkpoint);
    free(request.job);
    return code;
}

const struct cli_command cmd_list = {
    .name = "list",
    .summary = "List jobs, newest first",
    .usage = "",
    .examples = "  gradus list\n  gradus list --limit 5 --json\n",
    .fields = list_fields,
    .field_count = sizeof list_fields / sizeof list_fields[0],
    .options_bytes = sizeof(struct options),
    .run = run_list,
};
const struct cli_command cmd_nodes = {
    .name = "nodes",
    .summary = "List the nodes of the cluster",
    .usage = "",
    .examples = "  gradus nodes --master master:7000\n",
    .fields = plain_fields,
    .field_count = sizeof plain_fields / sizeof plain_fields[0],
    .options_bytes = sizeof(struct options),
    .run = run_nodes,
};
const struct cli_command cmd_status = {
    .name = "status",
    .summary = "Show one job: state, reason, progress, evaluations, nodes",
    .usage = "JOB",
    .examples = "  gradus status digits-1\n",
    .fields = plain_fields,
    .field_count = sizeof plain_fields / sizeof plain_fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .run = run_status,
};
const struct cli_command cmd_cancel = {
    .name = "cancel",
    .summary = "Stop a job at the next step boundary and leave a checkpoint",
    .usage = "JOB",
    .examples = "  gradus cancel digits-1\n  gradus cancel digits-1 --now\n",
    .fields = cancel_fields,
    .field_count = sizeof cancel_fields / sizeof cancel_fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .run = run_cancel,
};
const struct cli_command cmd_checkpoint = {
    .name = "checkpoint",
    .summary = "Write a checkpoint of a running job now",
    .usage = "JOB",
    .examples = "  gradus checkpoint digits-1\n",
    .fields = plain_fields,
    .field_count = sizeof plain_fields / sizeof plain_fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .run = run_checkpoint,
};
