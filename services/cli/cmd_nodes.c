/* SPDX-License-Identifier: Apache-2.0 */
/* gradus nodes: the nodes of a cluster, and those that were lost and whose place nobody has. */
#include "cli/output.h"
#include "cli/query.h"

struct options {
    struct cli_common common;
    bool all;
};

static const struct field fields[] = {
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
    return query_master(args,
                        &(struct query){.method = "Nodes", .body = &request.base, .text = text});
}

const struct cli_command cmd_nodes = {
    .name = "nodes",
    .summary = "List the nodes of the cluster",
    .usage = "",
    .examples = "  gradus nodes --master master:7000\n",
    .shares = CLI_MASTER | CLI_JSON,
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .run = run,
};
