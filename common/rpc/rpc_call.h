/* SPDX-License-Identifier: Apache-2.0 */
/* One call on the server, as its files see it. From top to bottom: rpc_call.c brings events and
 * runs callbacks, rpc_admit.c lets a call in, rpc_answer.c and rpc_call_info.c are what handlers
 * call, rpc_batch.c talks to gRPC.
 *
 * Poller threads bring events concurrently; `busy` makes one of them run the callbacks while the
 * others only leave their event behind. No function of gRPC is called with the lock held, because
 * it may run the release function of a blob, and that is the caller's code. */
#ifndef GRADUS_RPC_RPC_CALL_H
#define GRADUS_RPC_RPC_CALL_H

#include "rpc/rpc_server.h"

struct rpc_field {
    char *key;
    char *value;
    size_t bytes;
};

#define RPC_FIELDS_MAX (RPC_METADATA_MAX + 2) /* the details and RPC_ANSWERED_KEY, too */

struct rpc_fields {
    struct rpc_field field[RPC_FIELDS_MAX];
    size_t count;
};

struct rpc_call {
    atomic_size_t refs;
    struct rpc_server *server; /* valid while in its list */
    struct rpc_call *next;     /* in the list of the server */
    struct rpc_call **link;    /* the pointer to this call in that list; NULL: not in it */
    const struct rpc_method_entry *entry;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    grpc_call *grpc;
    _Atomic(void *) data;
    atomic_bool cancelled;
    struct auth_identity caller; /* set before the first callback */

    struct rpc_tag close_tag;
    struct rpc_tag receive_tag;
    struct rpc_tag send_tag;
    int close_cancelled;        /* written by gRPC */
    grpc_byte_buffer *received; /* written by gRPC */
    struct rpc_queued *sent;    /* messages of the batch under way */
    bool sent_status;           /* the batch under way has the status … */
    bool sent_close;            /* … and notices the end of the call */

    pthread_mutex_t lock; /* guards what follows */
    unsigned tags;        /* batches under way */
    bool busy;            /* a thread runs callbacks */
    bool direct;          /* the first callback runs; its answer leaves in a single batch */
    bool open_due;
    bool half_close_due;
    bool half_closed;
    bool receiving;
    bool paused;
    bool again; /* `incoming` was taken back: its callback runs anew once not paused */
    bool sending;
    bool broken; /* sending failed */
    bool headers_sent;
    bool ended; /* rpc_reply(), rpc_finish() or rpc_fail() was called */
    bool status_sent;
    bool close_armed;
    bool over; /* gRPC says so */
    bool done; /* the last callback ran */
    bool torn_down;
    struct rpc_msg *incoming;
    struct rpc_queue queue;
    struct rpc_fields headers;
    struct rpc_fields trailers;
    struct err end;
    char *peer;
};

/* Locked; returns unlocked. Start the batches that are due. They keep the call alive until the last
 * of them is started. */
void rpc_call_proceed(struct rpc_call *call);

/* Ask the server's guard, if it has one, who calls @entry and whether that may be. Errors: its. */
int rpc_call_admit(struct rpc_call *call, const struct rpc_method_entry *entry, struct err *err);
/* End the call with @end (NULL: well) and one more trailer, whose memory is taken (or NULL).
 * Errors: ERR_CANCELLED, ERR_STATE as rpc_fail(). */
int rpc_call_end(struct rpc_call *call, const struct err *end, struct rpc_field *trailer);

#endif
