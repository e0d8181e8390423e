/* SPDX-License-Identifier: Apache-2.0 */
/* gradus drop: says that a node is gone for good, so that nobody waits for it. */
#include "cli/query.h"

static void text(const ProtobufCMessage *reply, struct buf *out)
{
    const Gradus__V1__DropNodeResponse *r = (const Gradus__V1__DropNodeResponse *)reply;
    buf_printf(out, "node %s %s\n", r->node, r->was_alive ? "is given up" : "was given up before");
}

static int run(const struct cli_args *args)
{
    Gradus__V1__DropNodeRequest request = GRADUS__V1__DROP_NODE_REQUEST__INIT;
    request.node = client_text(args->positional[0]);
    return query_master(args,
                        &(struct query){.method = "DropNode", .body = &request.base, .text = text});
}

const struct cli_command cmd_drop = {
    .name = "drop",
    .summary = "Say that a node is gone for good: nobody waits for it any longer",
    .usage = "NODE",
    .examples = "  gradus drop ps-2\n  gradus drop ps-2 --master master:7000\n",
    .shares = CLI_MASTER | CLI_JSON,
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
