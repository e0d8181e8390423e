/* SPDX-License-Identifier: Apache-2.0 */
/* Commands that are one call to the master and one page of output: they find the master, call, and
 * print the reply, as JSON with --json, else as text that fits the terminal. */
#ifndef GRADUS_CLI_QUERY_H
#define GRADUS_CLI_QUERY_H

#include "cli/cli.h"
#include "client/master_client.h"

/* Writes @reply as text for people. */
typedef void query_text_fn(const ProtobufCMessage *reply, struct buf *out);
void query_text_state(const ProtobufCMessage *reply, struct buf *out); /* of a job */

struct query {
    const char *method;
    const ProtobufCMessage *body;
    query_text_fn *text;
    unsigned timeout_ms; /* 0: --timeout */
    /* Where no master runs, one is started for the call: if the job has not ended, or in any case.
     */
    bool starts, starts_for_ended;
};

/* Calls the master that the options of @args name, or the one of this machine; the exit code. */
int query_master(const struct cli_args *args, const struct query *q);
/* Calls the master that has the job that is the first argument; the exit code. */
int query_job(const struct cli_args *args, const struct query *q);
/* Prints @reply. */
void query_show(const struct cli_common *common, const ProtobufCMessage *reply,
                query_text_fn *text);
/* Calls the master that has job @id, for what lasts: Ctrl-C ends the waiting. @reply is the
 * caller's to unref; NULL when
 * @stopped. */
int query_job_long(const struct cli_common *common, const char *id, const char *method,
                   const ProtobufCMessage *body, unsigned timeout_ms, struct rpc_msg **reply,
                   bool *stopped, struct err *err);

#endif
