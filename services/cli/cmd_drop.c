/* SPDX-License-Identifier: Apache-2.0 */
/* gradus drop: says that a node is gone for good, so that nobody waits for it. */
#include <stdlib.h>

#include "base/mem.h"
#include "cli/client_common.h"
#include "cli/query.h"

struct options {
    struct cli_common common;
};

static const struct field fields[] = {
    CLI_MASTER_ROWS(struct options),
    CLI_JSON_ROW(struct options),
};

static void text(const ProtobufCMessage *reply, struct buf *out)
{
    const Gradus__V1__DropNodeResponse *r = (const Gradus__V1__DropNodeResponse *)reply;
    buf_printf(out, "node %s %s\n", r->node, r->was_alive ? "is given up" : "was given up before");
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    Gradus__V1__DropNodeRequest request = GRADUS__V1__DROP_NODE_REQUEST__INIT;
    struct client client = {0};
    struct err err = {0};
    request.node = mem_strdup(args->positional[0]);
    int code =
        client_open_common(&client, &o->common, true, &err) == 0
            ? query(&client, &o->common, "DropNode", &request.base, client_timeout_ms(), text)
            : cli_fail(&err);
    client_close(&client);
    free(request.node);
    return code;
}

const struct cli_command cmd_drop = {
    .name = "drop",
    .summary = "Say that a node is gone for good: nobody waits for it any longer",
    .usage = "NODE",
    .examples = "  gradus drop ps-2\n  gradus drop ps-2 --master master:7000\n",
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .run = run,
};
