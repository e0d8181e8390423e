/* SPDX-License-Identifier: Apache-2.0 */
/* The client behind rpc.h: rpc_loop.c waits (rpc_knock.c), rpc_channel.c connects, rpc_unary.c and
 * rpc_stream.c call. */
#ifndef GRADUS_RPC_RPC_CLIENT_H
#define GRADUS_RPC_RPC_CLIENT_H

#include <stdatomic.h>

#include "rpc/rpc_polling.h"
#include "rpc/rpc_targets.h"

/* rpc_loop.c says how its thread and the guest take turns. */
struct rpc_loop {
    grpc_completion_queue *cq;
    pthread_t thread;
    bool started;
    atomic_bool inside;      /* its thread takes events, or runs one; set under the lock */
    struct rpc_waiter guest; /* used by the guest's thread */

    struct rpc_knock *knock;

    /* Used by the guest's thread: */
    unsigned slept;  /* waits in the queue since it got the loop's thread out */
    unsigned passed; /* waits to pass before it does so again */
    unsigned pass;   /* how many the last time */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t given_back, left;
    bool taken;        /* the loop's thread is to stand aside */
    bool guest_inside; /* the guest takes events */
    bool guest_asleep; /* in the queue */
    bool guest_waits;  /* for the loop's thread to leave it */
    uint64_t visits;   /* of the guest */
};

/* rpc_knock.c: an event of our own, which gets whoever sleeps in a queue out of it. */
struct rpc_knock *rpc_knock_new(grpc_completion_queue *cq);
void rpc_knock_free(struct rpc_knock *k); /* after the queue's last event */
void rpc_knock_at(struct rpc_knock *k); /* any thread; while an event is under way, that one does */

bool rpc_loop_is_self(const struct rpc_loop *loop);

/* A call in flight, so that freeing its channel can cancel it. */
struct rpc_inflight {
    struct rpc_inflight *next;
    struct rpc_inflight **link;
    grpc_call *call;
};

struct rpc_channel {
    _Atomic(const char *) target; /* the one of @targets to which it leads */
    size_t message_bytes_max;
    size_t unpack_bytes_max;
    size_t send_bytes_max;
    struct rpc_channel_options options; /* its target is not to be used */
    /* When a call was over that a connected target has not answered in time; 0: it has answered
     * since then. */
    _Atomic(uint64_t) late_ms;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t idle;
    struct rpc_targets targets;
    bool elsewhere; /* it is to lead to another of them */
    grpc_channel *grpc;
    uint64_t made_ms;  /* when @grpc was */
    unsigned watchers; /* threads that wait for @grpc to be connected */
    bool strange;      /* the process that answers there knows nothing of us */
    struct rpc_loop *loop;
    struct rpc_loop *own_loop;
    struct rpc_inflight *inflight;
    bool closing;
};

/* The part that every kind of call has. */
struct rpc_outgoing {
    bool terse; /* as in the request */
    struct rpc_channel *channel;
    const char *target; /* to which it went */
    grpc_call *call;
    struct rpc_inflight inflight;
    const ProtobufCMessageDescriptor *input;
    struct rpc_decoding decoding;
    uint32_t request_bulk;
    char *label; /* "package.Service.Method at target"; owned */
    uint64_t start_ms;
    atomic_bool cancelled; /* by its caller */

    grpc_metadata *headers;
    size_t header_count;
    uint32_t header_flags;
    grpc_metadata_array initial; /* gRPC writes these four */
    grpc_metadata_array trailing;
    grpc_status_code code;
    grpc_slice details;
};

/* Fill @o and create its call on @cq, or on the loop of the channel when @cq is NULL.
 * Errors (labelled): ERR_INVALID unknown method or illegal header; ERR_UNAVAILABLE closing. */
int rpc_outgoing_init(struct rpc_outgoing *o, struct rpc_channel *c,
                      const struct rpc_request *request, grpc_completion_queue *cq,
                      struct err *err);
/* Also after a failed init. */
void rpc_outgoing_release(struct rpc_outgoing *o);
grpc_op rpc_outgoing_headers(const struct rpc_outgoing *o); /* SEND_INITIAL_METADATA */
grpc_op rpc_outgoing_status(struct rpc_outgoing *o);        /* RECV_STATUS_ON_CLIENT */
/* How it ended, after that batch. Returns owned details in @status. */
void rpc_outgoing_result(struct rpc_outgoing *o, struct rpc_status *status);

/* rpc_moves.c */
void rpc_outgoing_answered(struct rpc_outgoing *o); /* notes it */
/* Decides whether its channel is to lead to another target, after a call that ended with @code,
 * ERR_UNAVAILABLE or ERR_TIMEOUT; @s: answered and connected are known. */
bool rpc_outgoing_moves(struct rpc_outgoing *o, int code, const struct rpc_status *s);

#endif
