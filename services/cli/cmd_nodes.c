/* SPDX-License-Identifier: Apache-2.0 */
/* gradus nodes: the nodes of a cluster, and those that were lost and whose place nobody has. */
#include "cli/client_common.h"
#include "cli/output.h"
#include "cli/query.h"

struct options {
    struct cli_common common;
    bool all;
};

static const struct field fields[] = {
    CLI_MASTER_ROWS(struct options),
    CLI_JSON_ROW(struct options),
    {.path = "all",
     .type = FIELD_BOOL,
     .offset = offsetof(struct options, all),
     .def = "false",
     .help = "Also nodes of the last 10 minutes that left, or whose place another one has"},
};

static void text(const ProtobufCMessage *reply, struct buf *out)
{
    const Gradus__V1__NodesResponse *r = (const Gradus__V1__NodesResponse *)reply;
    output_nodes_text(r->nodes, r->n_nodes, out);
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    Gradus__V1__NodesRequest request = GRADUS__V1__NODES_REQUEST__INIT;
    request.all = o->all;
    struct client client = {0};
    struct err err = {0};
    int code = client_open_common(&client, &o->common, true, &err) == 0
                   ? query(&client, &o->common, "Nodes", &request.base, client_timeout_ms(), text)
                   : cli_fail(&err);
    client_close(&client);
    return code;
}

const struct cli_command cmd_nodes = {
    .name = "nodes",
    .summary = "List the nodes of the cluster",
    .usage = "",
    .examples = "  gradus nodes --master master:7000\n",
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .run = run,
};
