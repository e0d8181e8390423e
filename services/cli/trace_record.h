/* SPDX-License-Identifier: Apache-2.0 */
/* Lets the nodes of a running job record what they do in the next steps. */
#ifndef GRADUS_CLI_TRACE_RECORD_H
#define GRADUS_CLI_TRACE_RECORD_H

#include "cli/cli.h"
#include "gradus/v1/jobs.pb-c.h"
#include "rpc/rpc.h"

struct trace_ask {
    const struct cli_common *common;
    const char *job;
    int64_t steps;  /* of every worker, 1 to TRACE_STEPS_MAX */
    int64_t within; /* ms; what there is is taken after this time */
};
#define TRACE_STEPS_MAX 1000
#define TRACE_WITHIN_MAX 600000

/* Makes the call. @reply is a TraceJobResponse, the caller's to unref; NULL when @stopped by
 * Ctrl-C, which it has said then. Errors: those of the master. */
int trace_record(const struct trace_ask *ask, struct rpc_msg **reply, bool *stopped,
                 struct err *err);
/* Tells what is missing, a line each. Returns the number of steps that every worker has. */
uint32_t trace_tell_problems(const Gradus__V1__TraceJobResponse *r, int64_t wanted);

#endif
