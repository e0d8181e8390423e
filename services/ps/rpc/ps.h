/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter server without its process: the shards it holds and the methods that serve them.
 *
 * The decisions are in the core (shard.h); this does what it decides: floats, threads, messages,
 * files. Each shard is a strand, run by the threads that bring requests; nothing waits in a
 * thread. */
#ifndef GRADUS_PS_RPC_PS_H
#define GRADUS_PS_RPC_PS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "metrics/meter.h"
#include "rpc/rpc.h"
#include "service/membership.h"

#define PS_SHARDS_MAX 1024

struct ps;

struct ps_options {
    const char *checkpoint_dir;  /* copied */
    const char *data_root;       /* data_roots_read(): of sources of warm starts; NULL: anywhere */
    size_t shards_max;           /* 1..PS_SHARDS_MAX */
    uint64_t memory_bytes_max;   /* for values, slots and gradients; 0: ps_memory_bytes() */
    uint64_t gradient_bytes_max; /* of gradients that are not applied yet (gradient_memory.h); 0: no
                                    limit of their own */
    size_t chunk_bytes;          /* bytes of a chunk of an answer; a multiple of 4 */
    unsigned apply_threads;      /* threads that compute one update; 0: ps_apply_threads() */
    bool shared_memory;          /* values may pass in memory with workers on this host */
    struct rpc_polling *polling; /* of the RPC server; borrowed; NULL: none */
    bool standby;                /* shards may have backups on other servers */
    const char *local_sockets; /* where those of this host listen (local_socket.h); NULL: nowhere */
    const struct rpc_credentials *credentials; /* of connections to those; borrows; NULL: plain */
    struct meter_registry *meters;             /* borrows */
    /* @call was refused, as @why says, for who made it was not sent by the job's master; NULL:
     * nobody wants to know. Any thread. */
    void (*refused)(void *ctx, struct rpc_call *call, const char *job, const struct err *why);
    void *refused_ctx;
};

#define PS_APPLY_THREADS_MAX 64

/* Memory where nobody says how much: 4/5 of the limit of a control group, which ends a process that
 * passes it; without one, as much as the machine has. @root as of host_memory(). */
uint64_t ps_memory_bytes(const char *root);
/* The number of threads for one update where nobody says it: by the processor time of this process
 * (host_cpus.h), and 4 at most, which take all of the memory's bandwidth of most machines. */
unsigned ps_apply_threads(const char *root);
/* Returns owned. Errors: ERR_RANGE; ERR_INVALID data_root; ERR_EXHAUSTED no threads. */
struct ps *ps_new(const struct ps_options *options, struct err *err);
/* From now on shards are opened for who knows this number of the process alone; 0, as at first: for
 * anybody. Any thread. */
void ps_set_incarnation(struct ps *ps, uint64_t incarnation);
/* Close every shard and wait for files being written. Calls still get answers. */
void ps_drain(struct ps *ps);
/* After the RPC server was stopped and freed; drains. NULL is fine. */
void ps_free(struct ps *ps);

/* The rows of service ParameterServer; their service pointer is the struct ps. */
extern const struct rpc_method ps_methods[];
extern const size_t ps_method_count;

/* Call @each with each shard that is here. */
void ps_held(struct ps *ps,
             void (*each)(void *ctx, const char *job, const struct membership_shard *shard),
             void *ctx);
/* Say what keeps the server busy. */
void ps_works(struct ps *ps, struct membership_works *out);
/* Drop the shards of a job (NULL: of all) that are of @opening (0: of any), whatever their
 * generation. */
void ps_drop(struct ps *ps, const char *job, uint64_t opening);

#endif
