/* SPDX-License-Identifier: Apache-2.0 */
/* Makes one call to the master, wherever it is, and prints the answer. */
#include "cli/query.h"

#include <stdio.h>

#include "cli/client_common.h"
#include "cli/find_job.h"
#include "cli/follow.h"
#include "cli/local_job.h"
#include "cli/output.h"
#include "cli/terminal.h"

void query_text_state(const ProtobufCMessage *reply, struct buf *out)
{
    output_state_text((const Gradus__V1__Job *)reply, out);
}

void query_show(const struct cli_common *common, const ProtobufCMessage *reply, query_text_fn *text)
{
    struct buf out = {0};
    if (common->json) {
        output_message_json(reply, &out);
        (void)fputs(buf_str(&out), stdout);
    } else {
        text(reply, &out);
        terminal_print(&out);
    }
    buf_release(&out);
}

/* Shows the reply to a call that ended with @rc. */
static int end(const struct cli_common *common, const struct query *q, int rc,
               struct rpc_msg *reply, const struct err *err)
{
    if (rc == 0) {
        query_show(common, reply->body, q->text);
    }
    rpc_msg_unref(reply);
    return rc == 0 ? CLI_OK : cli_fail(err);
}

static unsigned timeout_of(const struct query *q)
{
    return q->timeout_ms == 0 ? client_timeout_ms() : client_at_least_ms(q->timeout_ms);
}

int query_master(const struct cli_args *args, const struct query *q)
{
    struct client client = {0};
    struct rpc_msg *reply = NULL;
    struct err err = {0};
    int rc = client_open_common(&client, args->options, true, &err);
    rc = rc != 0 ? rc : client_call(&client, q->method, q->body, timeout_of(q), &reply, &err);
    client_close(&client);
    return end(args->options, q, rc, reply, &err);
}

static bool starts_for(const struct query *q, const struct found_job *found)
{
    return found->row != NULL && (q->starts_for_ended || (q->starts && !job_has_ended(found->job)));
}

int query_job(const struct cli_args *args, const struct query *q)
{
    struct found_job found = {0};
    struct rpc_msg *reply = NULL;
    struct err err = {0};
    int rc = find_live_job(args->options, args->positional[0], &found, &err);
    if (rc == 0) {
        rc = client_call(&found.client, q->method, q->body, timeout_of(q), &reply, &err);
    } else if (rc == ERR_STATE && starts_for(q, &found)) {
        err = (struct err){0};
        rc = local_job_call(found.state_dir, q->method, q->body, timeout_of(q), &reply, &err);
    }
    found_job_release(&found);
    return end(args->options, q, rc, reply, &err);
}

int query_job_long(const struct cli_common *common, const char *id, const char *method,
                   const ProtobufCMessage *body, unsigned timeout_ms, struct rpc_msg **reply,
                   bool *stopped, struct err *err)
{
    struct found_job found = {0};
    follow_block_signals(false);
    int rc = find_live_job(common, id, &found, err);
    rc = rc != 0 ? rc
                 : client_call_last(&found.client, method, body, timeout_ms, reply, stopped, err);
    found_job_release(&found);
    return rc;
}
