/* SPDX-License-Identifier: Apache-2.0 */
/* A cluster that does nothing but talk: workers and parameter servers of one process, with an
 * address and a connection each, who join a real master, beat, lease, report and answer its calls,
 * and clients that submit jobs, change and watch them. Nothing is computed: a split takes its time.
 *
 * Everything belongs to the thread of one loop, but for the short way between it and gRPC. */
#ifndef GRADUS_TESTS_BENCH_LOAD_H
#define GRADUS_TESTS_BENCH_LOAD_H

#include "execution/loop.h"
#include "gradus/v1/cluster.pb-c.h"
#include "job/progress/ledger.h"
#include "rpc/rpc.h"

#define LOAD_NODES_MAX 1024
#define LOAD_JOBS_MAX 16384 /* in the life of one process */
#define LOAD_SHARDS_MAX 16  /* of one server, as the master's */
#define LOAD_ID_ROOM 129
#define LOAD_SECRET_BYTES 16

enum load_kind { /* of what a node asks of the master */
                 LOAD_JOIN,
                 LOAD_HEARTBEAT,
                 LOAD_LEASE, /* those that need not wait for a split */
                 LOAD_REPORT_SPLIT,
                 LOAD_PROGRESS,
                 LOAD_OTHER,
                 LOAD_KINDS
};
extern const char *const load_kind_names[LOAD_KINDS];

struct load_options {
    const char *master, *checkpoint_dir;
    size_t workers, servers, jobs; /* jobs: that run at a time */
    size_t queue;                  /* more jobs, for which there are no nodes */
    size_t flaps;                  /* workers among them that come and go */
    size_t job_workers, job_servers;
    uint64_t split_ms, start_ms; /* a split, a StartJob take so long */
};

struct load;

struct load_job { /* what its shards would know; they are always level */
    char id[LOAD_ID_ROOM];
    struct ledger ledger;
    uint64_t version; /* batches applied */
    size_t taken;     /* splits of the epoch that somebody has, had, or asks for */
    bool stands;      /* it is being changed: nobody gets a split meanwhile */
};

struct load_shard {
    struct load_job *job;
    uint32_t number;
    uint64_t opening, generation;
};

struct load_node {
    struct load *load;
    bool server, flaps;
    char id[LOAD_ID_ROOM], address[64];
    uint64_t incarnation; /* its number + 1 in the low bits, lives above them */
    bool in;              /* else it is away, or asks to join */
    uint64_t life;        /* rises with each joining: answers to an earlier life mean nothing */
    unsigned mood;        /* of who comes and goes */
    struct rpc_channel *channel;
    struct loop_timer beat, flap;
    /* A worker, from StartJob to StopJob: */
    struct load_job *job; /* NULL: none */
    unsigned char secret[LOAD_SECRET_BYTES];
    uint64_t start, generation, batches, sequence;
    uint64_t turn; /* rises with each Assign: answers to an earlier turn mean nothing */
    uint64_t epoch;
    uint32_t split, batch_end;
    bool leased;
    struct loop_timer work, report;
    /* A server: */
    struct load_shard shards[LOAD_SHARDS_MAX];
    size_t shard_count;
};

struct load_series {
    uint64_t *ns;
    size_t count, capacity;
};

struct load {
    struct load_options options;
    struct loop *loop;
    struct rpc_loop *rpc_loop;
    struct rpc_server *server;   /* of all nodes */
    struct rpc_channel *client;  /* of who submits */
    struct load_node *nodes;     /* servers first */
    size_t node_count, in_count; /* that have joined */
    struct load_job *jobs[LOAD_JOBS_MAX];
    size_t job_count;
    size_t running, ended, failed, submitted, changed, lost, errors;
    bool measuring, ending;
    bool paused; /* nobody begins anything; each goes on where it was, in its turn */
    uint64_t measured_ns;
    struct load_series series[LOAD_KINDS];
};

/* ---- load.c ---- */

typedef void load_done(struct load_node *n, uint64_t turn, int code, const ProtobufCMessage *reply);
/* Ask the master for @n; @done hears of it in the same life of the node. */
void load_ask(struct load_node *n, enum load_kind kind, const char *method,
              const ProtobufCMessage *body, load_done *done);
/* The books of job @id, made when they are missing; NULL: too many. */
struct load_job *load_job(struct load *l, const char *id);
void load_complain(struct load *l, const char *what, const struct err *err);

/* ---- load_nodes.c ---- */

void load_nodes_begin(struct load *l);
void load_node_work(struct load_node *n); /* it has been assigned: lease, and report */
void load_node_hold(struct load_node *n); /* give the lease back, and say so */
void load_node_drop(struct load_node *n); /* the worker has no job any more */
struct load_node *load_node_of(struct load *l, uint64_t incarnation); /* NULL: another life */

/* ---- load_services.c ---- */

int load_services_add(struct load *l, struct err *err);

/* ---- load_clients.c ---- */

void load_clients_begin(struct load *l);

#endif
