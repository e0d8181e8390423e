/* SPDX-License-Identifier: Apache-2.0 */
/* gradus nodes: the nodes of a cluster, and those that were lost and whose place nobody has. With
 * --wait it ends when any one server may be ended without a loss, for scripts that restart them one
 * by one. */
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "cli/client_common.h"
#include "cli/output.h"
#include "cli/query.h"
#include "os/chrono.h"

#define POLL_MS 500

struct options {
    struct cli_common common;
    bool all;
    int64_t wait_ms;
};

static const struct field fields[] = {
    {.path = "all",
     .type = FIELD_BOOL,
     .offset = offsetof(struct options, all),
     .def = "false",
     .help = "Also nodes of the last 10 minutes that left, or whose place another one has"},
    {.path = "wait",
     .type = FIELD_MS,
     .offset = offsetof(struct options, wait_ms),
     .def = "0",
     .min = 0,
     .max = 86400000,
     .help = "How long to wait until every shard has the backup that its job wants, before the "
             "next server is ended; 0: not at all"},
};

static void text(const ProtobufCMessage *reply, struct buf *out)
{
    const Gradus__V1__NodesResponse *r = (const Gradus__V1__NodesResponse *)reply;
    output_nodes_text(r->nodes, r->n_nodes, out);
}

/* Why a server should not be ended now; NULL: each may. */
static const char *unready(const Gradus__V1__NodesResponse *r)
{
    for (size_t i = 0; i < r->n_nodes; i++) {
        if (r->nodes[i]->alive && r->nodes[i]->unready[0] != '\0') {
            return r->nodes[i]->unready;
        }
    }
    return NULL;
}

static bool is_away(int rc)
{
    return rc == ERR_UNAVAILABLE || rc == ERR_TIMEOUT;
}

/* What is waited for now, once. */
static void note(const char *why, char (*last)[512])
{
    if (strcmp(why, *last) != 0) {
        cli_note("waits: %s", why);
        text_copy(*last, sizeof *last, why);
    }
}

/* One question. @reply: NULL, or the caller's, where nothing is waited for; an error where asking
 * again may help is @away. */
static int ask(const struct options *o, const Gradus__V1__NodesRequest *request, char (*last)[512],
               struct rpc_msg **reply, bool *away, struct err *err)
{
    struct client client = {0};
    int rc = client_open_common(&client, &o->common, true, err);
    rc = rc != 0 ? rc
                 : client_call(&client, "Nodes", &request->base, client_timeout_ms(), reply, err);
    client_close(&client);
    *away = is_away(rc);
    const char *why =
        rc != 0 ? err->msg : unready((const Gradus__V1__NodesResponse *)(*reply)->body);
    if (why != NULL && (rc == 0 || *away)) {
        note(why, last);
        rc = rc != 0 ? rc : err_set(err, ERR_STATE, "%s", why);
        *away = true;
    }
    if (rc != 0) {
        rpc_msg_unref(*reply);
        *reply = NULL;
    }
    return rc;
}

/* A master that cannot be reached may be the one that is being restarted. */
static int wait(const struct options *o, const Gradus__V1__NodesRequest *request,
                const struct query *q)
{
    const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
    const uint64_t until_ms = chrono_now_ms() + (uint64_t)o->wait_ms;
    char last[512] = "";
    for (;;) {
        struct rpc_msg *reply = NULL;
        struct err err = {0};
        bool away;
        const int rc = ask(o, request, &last, &reply, &away, &err);
        if (rc == 0) {
            query_show(&o->common, reply->body, q->text);
            rpc_msg_unref(reply);
            return CLI_OK;
        }
        if (!away || chrono_now_ms() >= until_ms) {
            return cli_fail(&err);
        }
        (void)nanosleep(&pause, NULL);
    }
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    Gradus__V1__NodesRequest request = GRADUS__V1__NODES_REQUEST__INIT;
    request.all = o->all;
    const struct query q = {.method = "Nodes", .body = &request.base, .text = text};
    return o->wait_ms == 0 ? query_master(args, &q) : wait(o, &request, &q);
}

const struct cli_command cmd_nodes = {
    .name = "nodes",
    .summary = "List the nodes of the cluster",
    .usage = "",
    .examples = "  gradus nodes --master master:7000\n"
                "  gradus nodes --wait 1h --master master:7000\n",
    .notes =
        "With --wait it prints the nodes when any one server may be ended and no job loses a "
        "step by it: every shard of a job with cluster.standby has a backup that follows. What "
        "it waits for it says on standard error, also when the master cannot be reached; "
        "when the time is over it ends with code 1, or 4 without an answer.",
    .shares = CLI_MASTER | CLI_JSON,
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .run = run,
};
