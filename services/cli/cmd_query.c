/* SPDX-License-Identifier: Apache-2.0 */
/* status, nodes, cancel, checkpoint: one call to the master, one page of output. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/cli.h"
#include "cli/client.h"
#include "cli/find_job.h"
#include "cli/output.h"
#include "cli/terminal.h"

#define CHECKPOINT_TIMEOUT_MS 600000

struct options {
    struct cli_common common;
    bool now;
};

static const struct field plain_fields[] = {CLI_MASTER_ROWS(struct options),
                                            CLI_JSON_ROW(struct options)};
static const struct field cancel_fields[] = {
    CLI_MASTER_ROWS(struct options),
    CLI_JSON_ROW(struct options),
    {.path = "now",
     .type = FIELD_BOOL,
     .offset = offsetof(struct options, now),
     .def = "false",
     .help = "Do not wait for a step boundary; save nothing"},
};

typedef void show_fn(const struct options *o, const ProtobufCMessage *reply, struct buf *out);

static void print(const struct options *o, const struct buf *out)
{
    if (o->common.json) {
        (void)fputs(buf_str(out), stdout);
    } else {
        terminal_print(out);
    }
}

/* One call to @client, which is open; @show prints the reply. */
static int query(struct client *client, const struct options *o, const char *method,
                 const ProtobufCMessage *body, unsigned timeout_ms, show_fn *show)
{
    struct rpc_msg *reply = NULL;
    struct err err = {0};
    int rc = client_call(client, method, body, timeout_ms, &reply, &err);
    if (rc == 0) {
        struct buf out = {0};
        show(o, reply->body, &out);
        print(o, &out);
        buf_release(&out);
    }
    rpc_msg_unref(reply);
    return rc == 0 ? CLI_OK : cli_fail(&err);
}

/* The same, to the master that has job @id. */
static int query_job(const struct options *o, const char *id, const char *method,
                     const ProtobufCMessage *body, unsigned timeout_ms, show_fn *show)
{
    struct found_job found = {0};
    struct err err = {0};
    int code = find_live_job(&o->common, id, &found, &err) == 0
                   ? query(&found.client, o, method, body, timeout_ms, show)
                   : cli_fail(&err);
    found_job_release(&found);
    return code;
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
        output_status_text(job, terminal_columns(STDOUT_FILENO), out);
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

static int run_nodes(const struct cli_args *args)
{
    const struct options *o = args->options;
    Gradus__V1__NodesRequest request = GRADUS__V1__NODES_REQUEST__INIT;
    struct client client = {0};
    struct err err = {0};
    int code = client_open_common(&client, &o->common, true, &err) == 0
                   ? query(&client, o, "Nodes", &request.base, CLIENT_TIMEOUT_MS, show_nodes)
                   : cli_fail(&err);
    client_close(&client);
    return code;
}

static int run_status(const struct cli_args *args)
{
    const struct options *o = args->options;
    struct found_job found = {0};
    struct err err = {0};
    struct buf out = {0};
    int rc = find_job(&o->common, args->positional[0], &found, &err);
    if (rc == 0) {
        show_job(o, &found.job->base, &out);
        if (found.state_dir != NULL && !o->common.json) {
            buf_printf(&out, "%sstate dir   %s%s\n", found.job->n_evaluations > 0 ? "\n" : "",
                       found.state_dir, found.row != NULL ? " (no master runs there now)" : "");
        }
        print(o, &out);
    }
    buf_release(&out);
    found_job_release(&found);
    return rc == 0 ? CLI_OK : cli_fail(&err);
}

static int run_cancel(const struct cli_args *args)
{
    const struct options *o = args->options;
    Gradus__V1__CancelRequest request = GRADUS__V1__CANCEL_REQUEST__INIT;
    request.job = mem_strdup(args->positional[0]);
    request.now = o->now;
    int code = query_job(o, request.job, "Cancel", &request.base, CLIENT_TIMEOUT_MS, show_cancel);
    free(request.job);
    return code;
}

static int run_checkpoint(const struct cli_args *args)
{
    Gradus__V1__GetJobRequest request = GRADUS__V1__GET_JOB_REQUEST__INIT;
    request.job = mem_strdup(args->positional[0]);
    int code = query_job(args->options, request.job, "Checkpoint", &request.base,
                         CHECKPOINT_TIMEOUT_MS, show_checkpoint);
    free(request.job);
    return code;
}

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
    .examples = "  gradus status digits-1\n"
                "  gradus status digits-1 --master master:7000\n",
    .notes = CLI_PLACES_NOTE,
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
