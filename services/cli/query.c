/* SPDX-License-Identifier: Apache-2.0 */
/* Makes one call to the master, wherever it is, and prints the answer. */
#include "cli/query.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
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

int query(struct client *client, const struct cli_common *common, const char *method,
          const ProtobufCMessage *body, unsigned timeout_ms, query_text_fn *text)
{
    struct rpc_msg *reply = NULL;
    struct err err = {0};
    int rc = client_call(client, method, body, timeout_ms, &reply, &err);
    if (rc == 0) {
        query_show(common, reply->body, text);
    }
    rpc_msg_unref(reply);
    return rc == 0 ? CLI_OK : cli_fail(&err);
}

int query_job(const struct cli_common *common, const char *id, const char *method,
              const ProtobufCMessage *body, unsigned timeout_ms, query_text_fn *text)
{
    struct found_job found = {0};
    struct err err = {0};
    int code = find_live_job(common, id, &found, &err) == 0
                   ? query(&found.client, common, method, body, timeout_ms, text)
                   : cli_fail(&err);
    found_job_release(&found);
    return code;
}

int query_job_anywhere(const struct cli_common *common, const char *id,
                       const struct query_call *call)
{
    struct found_job found = {0};
    struct rpc_msg *reply = NULL;
    struct err err = {0};
    int code = CLI_OK, rc = find_live_job(common, id, &found, &err);
    if (rc == 0) {
        code = query(&found.client, common, call->method, call->body, call->timeout_ms, call->text);
    } else if (rc == ERR_STATE && found.row != NULL && (call->ended || !job_has_ended(found.job))) {
        err = (struct err){0};
        if (local_job_call(found.state_dir, call->method, call->body, call->timeout_ms, &reply,
                           &err) == 0) {
            query_show(common, reply->body, call->text);
        } else {
            code = cli_fail(&err);
        }
    } else {
        code = cli_fail(&err);
    }
    rpc_msg_unref(reply);
    found_job_release(&found);
    return code;
}

int query_job_state(const struct cli_common *common, const char *id, const char *method)
{
    Gradus__V1__GetJobRequest request = GRADUS__V1__GET_JOB_REQUEST__INIT;
    request.job = mem_strdup(id);
    int code = query_job(common, id, method, &request.base, client_timeout_ms(), query_text_state);
    free(request.job);
    return code;
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
