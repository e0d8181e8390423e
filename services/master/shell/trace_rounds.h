/* SPDX-License-Identifier: Apache-2.0 */
/* A trace of a job that is being recorded, in rounds: the nodes that take part, and what they
 * answered. On the master's loop, but for the answers, which come on any thread. */
#ifndef GRADUS_MASTER_SHELL_TRACE_ROUNDS_H
#define GRADUS_MASTER_SHELL_TRACE_ROUNDS_H

#include <stdatomic.h>

#include "gradus/v1/trace.pb-c.h"
#include "master/shell/shell.h"
#include "trace/trace.h"

struct traced_node {
    struct tracing *trace;
    enum master_role role;
    char *id, *address, *host;
    uint64_t pid;
    bool failed;
    struct err err;
    uint64_t sent_ns, received_ns;
    uint64_t trip_ns; /* the shortest there and back; 0: none */
    int64_t offset_ns;
    bool same_boot;
    struct rpc_msg *answer; /* to the last call */
};

struct tracing {
    struct tracing *prev, *next;
    struct shell *shell;
    struct rpc_call *call; /* NULL: the client was answered, or is gone */
    bool stopped;          /* it is gone, and what was begun must end */
    char *job;
    char boot[TRACE_BOOT_BYTES];
    uint64_t id;
    uint32_t steps, timeout_ms, spans_max;
    unsigned round;
    atomic_size_t open; /* calls, and one for who starts them */
    struct traced_node *nodes;
    size_t count;
};

/* Begin with the clocks. When the last round is over, or the loop has ended, @t is answered, taken
 * off the list of its shell, and freed. */
void trace_rounds_begin(struct tracing *t);
/* The client is gone: what the nodes record now is ended, then the rest of the rounds. */
void trace_rounds_stop(struct tracing *t);

/* What @n answered last; borrows. */
Gradus__V1__TraceResponse *trace_response(const struct traced_node *n);
/* The rounds are over: answer the client, if it is still there. */
void trace_answer(struct tracing *t);
/* End the client's call with @err, if it is still open. */
void trace_fail(struct tracing *t, const struct err *err);

#endif
