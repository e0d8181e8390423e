/* SPDX-License-Identifier: Apache-2.0 */
/* A node that has joined: a parameter server or a worker. Plain data; node.c, node_patience.c and
 * node_events.c have the functions, core.h declares them.
 *
 * A node keeps its address until it is silent (decision 39). The newest process at an address is
 * mostly the old one, started again; but a wrong --advertise, or anybody, could end a live node
 * that way. Two heartbeats that are missing tell the two apart (node_patience.c); until then the
 * node is given nothing new.
 *
 * A refused connection proves that a process has ended; silence does not (decision 45). What is
 * silent is most often alive, on a machine without a processor or memory to spare. A worker is
 * replaced in a moment, so three seconds are enough for it. A server has all that its jobs did
 * since their checkpoints, so one that holds a shard is waited for for --ps-timeout-ms. Proof ends
 * the wait: a refused connection, a process with the node's name or address, a server that says
 * that it has no such shard, an admin (gradus drop). A silent server is given no job, and one
 * without shards is given up like a worker. Heartbeats come five times in the time-out; two that
 * are missing are enough to look at the address, not to judge. */
#ifndef GRADUS_MASTER_CORE_NODE_H
#define GRADUS_MASTER_CORE_NODE_H

#include "master/core/master.h"

#define ID_ROOM (JOB_ID_BYTES_MAX + 1)
#define NODE_READ_MS 50 /* messages that have come are read within this time */

struct job;

struct node_work { /* as master_work, with times of the master */
    char job[ID_ROOM], what[24], unit[16];
    uint64_t done, total;
    uint64_t since_ms;
    /* when `done` last changed; for work without a count: at the last heartbeat */
    uint64_t moved_ms;
};

struct node {
    uint64_t number; /* never used again */
    enum master_role role;
    uint64_t incarnation, pid;
    char *id, *address, *http_address, *version, *host;
    bool alive;
    bool left;     /* it said so itself */
    bool replaced; /* it was lost, and another node has its place */
    bool unheard;  /* a master before this one knew it (adopt.c); this one was told nothing yet */
    bool doubted;  /* since its last heartbeat another process wanted its address: it is given
                      nothing */
    bool draining; /* by request: it gets nothing new, and what it has goes elsewhere (drain.c) */
    bool ends;     /* a server is to end, and says so: it gets nothing new, either; */
    bool leaves;   /* nobody who is to end counts upon it, or will (drain_request.c); */
    bool lingers;  /* it was told to wait until its shards have moved */
    int64_t joined_wall_ms;
    uint64_t heartbeat_ms;     /* when the last one came */
    uint64_t overdue_ms;       /* when it was seen that it is silent for too long; before
                                  heartbeat_ms: it is not */
    uint64_t overdue_limit_ms; /* the silence for which that was seen */
    unsigned overdue_again;    /* times that this was put off, because the master itself was late */
    unsigned shards_open;      /* shards that it has opened, of jobs that have not given them up */
    struct node_work works[MASTER_WORKS_MAX]; /* what it was busy with, by its last heartbeat */
    size_t work_count;
    struct node *heard_before, *heard_after;  /* while it is alive */
    struct job *jobs[MASTER_JOBS_PER_PS_MAX]; /* jobs that it serves or is being told to drop */
    size_t job_count;                         /* a worker: at most 1 */
    struct job *kept_for; /* it had the node, moves to other servers, and gets it again */
};

#endif
