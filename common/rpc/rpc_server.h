/* SPDX-License-Identifier: Apache-2.0 */
/* The server behind rpc.h: rpc_server.c binds, accepts and drains; rpc_call.h is one call.
 *
 * Each thread of a server has a completion queue of its own (decision 26): a connection wakes the
 * thread that serves it and no other, where threads that share a queue wake each other. Two workers
 * with small messages get a fifth to two fifths more out of a server; one worker alone, which then
 * has one thread to its service, loses an eighth. */
#ifndef GRADUS_RPC_RPC_SERVER_H
#define GRADUS_RPC_RPC_SERVER_H

#include "rpc/rpc_grpc.h"
#include "rpc/rpc_methods.h"

struct rpc_served {
    const ProtobufCServiceDescriptor *descriptor;
    struct rpc_method_entry *entries; /* descriptor->n_methods */
};

struct rpc_server {
    /* Set before start, then only read. */
    size_t message_bytes_max;
    size_t unpack_bytes_max;
    size_t send_bytes_max;
    size_t calls_max;
    unsigned poller_count;
    unsigned grace_ms;
    unsigned keepalive_ms;
    const struct rpc_credentials *credentials; /* borrows; NULL: plain */
    const struct rpc_guard *guard;             /* borrows; NULL: none */
    struct rpc_polling *polling;               /* borrows; NULL: its threads never poll */
    char **addresses;
    size_t address_count;
    struct rpc_files files;
    struct rpc_served *services;
    size_t service_count;
    size_t service_capacity;
    struct rpc_account *account;
    struct rpc_health *health;
    atomic_size_t call_count; /* of calls */

    grpc_server *grpc; /* NULL before it is bound and after stop */
    bool started;
    struct rpc_poller *pollers; /* [poller_count], one thread each */
    struct acceptor *acceptors;
    size_t acceptor_count;
    struct rpc_tag shutdown_tag;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct rpc_call *calls; /* alive inside gRPC */
    bool stopping;
    bool shut_down;
};

/* The parts of a new call; rpc_call_begin() takes all of them. */
struct rpc_arrival {
    grpc_call *call;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    grpc_byte_buffer *payload; /* NULL when the client streams */
};

/* @entry NULL: an unknown method, @path (for the message). Runs the first callbacks. */
void rpc_call_begin(struct rpc_server *s, const struct rpc_method_entry *entry, const char *path,
                    struct rpc_arrival *arrival);
/* Fail the calls that are marked RPC_END_ON_STOP. */
void rpc_calls_end_on_stop(struct rpc_server *s);

/* The services that every server has. */
struct rpc_health *rpc_health_new(void);
void rpc_health_free(struct rpc_health *h);
int rpc_health_add(struct rpc_health *h, struct rpc_server *s, struct err *err);
void rpc_health_set(struct rpc_health *h, bool serving);
int rpc_reflection_add(struct rpc_server *s, struct err *err);

#endif
