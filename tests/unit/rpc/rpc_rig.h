/* SPDX-License-Identifier: Apache-2.0 */
/* A server of the echo service and a channel to it, calls, and streams with what they brought. */
#ifndef GRADUS_TESTS_RPC_RIG_H
#define GRADUS_TESTS_RPC_RIG_H

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/echo_service.h"

struct rpc_rig {
    struct echo echo;
    struct rpc_server *server;
    struct rpc_channel *channel;
};

void rpc_rig_start(struct rpc_rig *f, const struct rpc_server_options *server_options);
void rpc_rig_stop(struct rpc_rig *f);
/* Fails when @text does not contain @part. */
void rpc_rig_contains(const char *text, const char *part);

/* A unary call with @text; the request can be changed between these two. */
struct rpc_rig_call {
    char text[32];
    echo_item item;
    struct rpc_request request;
};
/* Owned; rpc_rig_fails() frees it. */
struct rpc_rig_call *rpc_rig_call(const char *text);
/* Makes the call, which must fail with @code and @part in its message, and frees it. */
void rpc_rig_fails(struct rpc_rig *f, struct rpc_rig_call *c, int code, const char *part);

/* What a stream brought; only the loop writes it until `done` is counted. */
struct rpc_seen {
    struct latch messages;
    struct latch done;
    uint64_t numbers; /* sum */
    bool in_order;    /* numbers are 0, 1, 2 … */
    size_t bulk_bytes;
    uint64_t bulk_sum;
    int code;
    char message[300];
};

void rpc_seen_init(struct rpc_seen *s);
void rpc_seen_release(struct rpc_seen *s);
/* For events of a stream whose ctx is a struct rpc_seen. */
void rpc_seen_done(struct rpc_stream *stream, const struct rpc_status *status, void *ctx);
struct rpc_stream *rpc_rig_stream(struct rpc_rig *f, struct rpc_seen *seen, const char *method,
                                  const echo_item *body);
void rpc_rig_send(struct rpc_stream *stream, uint64_t number);

#endif
