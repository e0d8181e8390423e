/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that are one call to the master and one page of output. */
#ifndef GRADUS_CLI_QUERY_H
#define GRADUS_CLI_QUERY_H

#include "cli/cli.h"
#include "client/master_client.h"

/* Writes @reply as text for people. */
typedef void query_text_fn(const ProtobufCMessage *reply, struct buf *out);
void query_text_state(const ProtobufCMessage *reply, struct buf *out); /* of a job */

/* Prints @reply: as JSON where @common says so, else as text that fits the terminal. */
void query_show(const struct cli_common *common, const ProtobufCMessage *reply,
                query_text_fn *text);
/* Makes one call to @client, which is open, and shows the reply. Returns the exit code. */
int query(struct client *client, const struct cli_common *common, const char *method,
          const ProtobufCMessage *body, unsigned timeout_ms, query_text_fn *text);
/* query() to the master that has job @id. */
int query_job(const struct cli_common *common, const char *id, const char *method,
              const ProtobufCMessage *body, unsigned timeout_ms, query_text_fn *text);
struct query_call {
    const char *method;
    const ProtobufCMessage *body;
    unsigned timeout_ms;
    query_text_fn *text;
    bool ended; /* of a job that has ended there is something to do, too */
};
/* The same; where no master runs, one is started for the call. */
int query_job_anywhere(const struct cli_common *common, const char *id,
                       const struct query_call *call);
/* The same with nothing but the id in the call; the reply is the job, whose state is shown. */
int query_job_state(const struct cli_common *common, const char *id, const char *method);
/* The same for what lasts: Ctrl-C ends the waiting. @reply is the caller's to unref; NULL when
 * @stopped. */
int query_job_long(const struct cli_common *common, const char *id, const char *method,
                   const ProtobufCMessage *body, unsigned timeout_ms, struct rpc_msg **reply,
                   bool *stopped, struct err *err);

#endif
