/* SPDX-License-Identifier: Apache-2.0 */
/* A node's place in the cluster: joins the master, keeps up the heartbeat, notices when it was
 * given up, joins again, leaves. For parameter servers and workers; the rules are in
 * docs/protocol.md.
 *
 * One thread of its own runs everything here, also the events; events must be short. The decisions
 * are in membership_core.h. */
#ifndef GRADUS_SERVICE_MEMBERSHIP_H
#define GRADUS_SERVICE_MEMBERSHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define MEMBERSHIP_ID_BYTES 129 /* with the NUL */
#define MEMBERSHIP_JOBS_MAX 128 /* of one heartbeat: more than any node may hold */

struct membership;
struct pulse;
struct rpc_channel;
struct rpc_credentials;

enum membership_role { MEMBERSHIP_PS = 1, MEMBERSHIP_WORKER = 2 }; /* = NodeRole */

/* What identifies a node; a NodeRef on the wire. */
struct membership_node {
    char id[MEMBERSHIP_ID_BYTES];
    uint64_t incarnation;
};

struct membership_jobs; /* the list of a heartbeat in the making */
/* Name a job that this worker holds an assignment of; copies. Ignored when full. @generation: of
 * the newest one that was taken; @start: with which it was started; 0: none. */
void membership_jobs_add(struct membership_jobs *jobs, const char *job, uint64_t generation,
                         uint64_t start);
struct membership_shard { /* HeldJob and Standby of the proto */
    uint64_t opening;
    uint32_t number;
    int role; /* 0: it has no backup and is none, and the rest is not said */
    uint64_t records, received, waits_ms;
    uint64_t backup, state_sent, state_bytes;
    bool follows;
    const char *problem;
};
/* Likewise a shard that this server holds. */
void membership_jobs_add_shard(struct membership_jobs *jobs, const char *job,
                               const struct membership_shard *shard);

#define MEMBERSHIP_WORKS_MAX 8 /* in one heartbeat */
struct membership_works;       /* the list of a heartbeat in the making */
struct membership_work {       /* Work of cluster.proto */
    const char *job, *what, *unit;
    uint64_t done, total, age_ms;
};
/* Name what keeps this node busy; copies. Ignored when full. */
void membership_works_add(struct membership_works *works, const struct membership_work *work);

/* All are called on the membership's thread; any may be NULL. They may call membership_node() and
 * membership_channel(), nothing else of this header. */
struct membership_events {
    /* The master knows this node as @node. Comes again after each `lost`. */
    void (*joined)(void *ctx, const struct membership_node *node);
    /* The master does not know this node (any more): drop every job and all that belongs to it.
     * Joining goes on by itself. */
    void (*lost)(void *ctx, const struct err *reason);
    /* The master knows this job to be over: drop it; unknown is fine. */
    void (*stop_job)(void *ctx, const char *job);
    /* Drop the shards of one opening: the job goes on with other servers. */
    void (*stop_opening)(void *ctx, uint64_t opening);
    /* After each answer that names this node: why the master would not have it ended now, or NULL.
     */
    void (*unready)(void *ctx, const char *why);
    /* List what this node holds, before each heartbeat. */
    void (*jobs)(void *ctx, struct membership_jobs *jobs);
    /* Adds what keeps the node busy. */
    void (*works)(void *ctx, struct membership_works *works);
    /* The master cannot be reached or refuses us, since @tried_ms: after the first failure, and
     * then every MEMBERSHIP_TELL_MS; @err NULL: it is well again. For the log and the health. */
    void (*trouble)(void *ctx, const struct err *err, uint64_t tried_ms);
    /* Before each heartbeat: the node is to end, and would have what it holds elsewhere first. */
    bool (*leaves)(void *ctx);
    /* The answer to a heartbeat that said so: @code, and whether anything is about to be elsewhere.
     */
    void (*moves)(void *ctx, int code, bool moves);
};

struct membership_options {
    enum membership_role role;
    const char *master;                        /* host:port */
    const char *name;                          /* wanted id; NULL or "": the master chooses */
    const char *address;                       /* host:port where others reach our gRPC server */
    const char *http_address;                  /* may be "" */
    const struct rpc_credentials *credentials; /* borrows; NULL: plain */
    const struct membership_events *events;    /* borrows */
    void *ctx;
    struct pulse *pulse; /* of its thread; NULL: not watched */
};

/* Start joining, for ever, whether the master is there or not. Copies the strings of @options.
 * Returns owned. Errors: ERR_INVALID; ERR_EXHAUSTED no thread. */
struct membership *membership_start(const struct membership_options *options, struct err *err);

/* ---- any thread ---- */

/* Who we are; false (and the incarnation alone) while not joined. */
bool membership_node(struct membership *m, struct membership_node *out);
/* The channel to the master, for the node's other calls; borrows. */
struct rpc_channel *membership_channel(struct membership *m);
/* Send a heartbeat now (the list of jobs changed). */
void membership_hurry(struct membership *m);

/* Call Leave once, wait for the answer at most @timeout_ms, and do nothing more: no event comes
 * after it. Not from an event. Idempotent. */
void membership_leave(struct membership *m, unsigned timeout_ms);
/* Stops without Leave when that was not called; NULL is fine. Calls made by others on the channel
 * must be over. */
void membership_free(struct membership *m);

#endif
