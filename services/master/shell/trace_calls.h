/* SPDX-License-Identifier: Apache-2.0 */
/* A trace of a job that is being recorded: the calls to its nodes, and their answers. Which node is
 * asked what, trace_rounds.h of the core decides. On the master's loop, but for the answers, which
 * come on any thread. */
#ifndef GRADUS_MASTER_SHELL_TRACE_CALLS_H
#define GRADUS_MASTER_SHELL_TRACE_CALLS_H

#include <stdatomic.h>

#include "gradus/v1/trace.pb-c.h"
#include "master/core/trace_rounds.h"
#include "master/shell/shell.h"
#include "trace/trace.h"

struct traced_node {
    struct tracing *trace;
    enum master_role role;
    char *id, *address, *host;
    uint64_t pid;
    struct err err; /* why it failed */
    uint64_t sent_ns, received_ns;
    uint64_t trip_ns; /* the shortest there and back; 0: none */
    int64_t offset_ns;
    bool same_boot;
    struct rpc_msg *answer; /* to the last call */
};

struct tracing {
    struct tracing *prev, *next;
    struct shell *shell;
    bool picture;            /* for the page */
    struct request *clients; /* by next: who asked, of a picture its viewers, unless they were
                              * answered or are gone; and who has to wait until it is over */
    struct request *asks; /* the one of them that asked for this trace; NULL: gone, or a picture */
    size_t client_count, workers_more, servers_more;
    void (*answer)(struct tracing *t); /* the rounds are over: answer the clients that are there */
    char *job;
    char boot[TRACE_BOOT_BYTES];
    uint64_t id;
    uint32_t spans_max;
    struct trace_rounds rounds;
    uint64_t deadline_ns;      /* of all rounds together; 0: none */
    atomic_size_t refs;        /* calls under way, and one for the caller that makes them */
    struct traced_node *nodes; /* as those of rounds */
    size_t count;
};

/* Begin with the clocks. When the last round is over, or the loop has ended, @t is taken off the
 * list of its shell, answered, and freed. */
void tracing_begin(struct tracing *t);
/* The client is gone: what the nodes record now is ended, then the rest of the rounds. */
void tracing_gone(struct tracing *t);

/* The last answer of @n; borrows. */
Gradus__V1__TraceResponse *trace_response(const struct traced_node *n);

#endif
