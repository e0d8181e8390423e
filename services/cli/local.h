/* SPDX-License-Identifier: Apache-2.0 */
/* A whole cluster on this machine: one master, its parameter servers and workers as child processes
 * that talk gRPC over loopback. A worker or server that dies is started again (what becomes of the
 * job is for the master to say); nothing outlives local_stop() or this process. */
#ifndef GRADUS_CLI_LOCAL_H
#define GRADUS_CLI_LOCAL_H

#include "base/buf.h"
#include "base/err.h"
#include "service/spawn.h"

struct local_child {
    struct spawn process;
    uint64_t started_ms;
    uint64_t again_ms; /* ended, and is started again at this time; 0: not */
    unsigned failures; /* ends in a row, each soon after the start */
};

struct local {
    char *bin_dir, *state_dir, *log_dir;
    char *rules_dir;          /* NULL: none */
    char *program;            /* the program of workers; empty: none */
    const double *slow_downs; /* of each worker, for experiments; borrowed; NULL: none is slow */
    char master_address[256];
    struct spawn master;
    struct local_child *ps, *workers;
    size_t ps_count, worker_count;
};

/* Starts the processes of a run. @l is zeroed, but for slow_downs. @state_dir is made when missing;
 * @rules_dir is given to all processes, unless it is empty, @program to the workers. Waits until
 * all are ready, and says for which when that takes long. Errors name the process and the last line
 * of its log; ERR_CANCELLED a signal of follow_block_signals() came. */
int local_start(struct local *l, const char *state_dir, const char *rules_dir, const char *program,
                size_t ps, size_t workers, struct err *err);
/* Look after the children; what happened is added to @notices, a line each. Errors: ERR_ABORTED the
 * master ended, or one of the others does not stay up. */
int local_tick(struct local *l, struct buf *notices, struct err *err);
/* Stop all processes where they are, or let them go on. */
void local_suspend(const struct local *l, bool stop);
/* Ends all processes and frees. @at_once: by SIGKILL, else by SIGTERM and a time of grace. */
void local_stop(struct local *l, bool at_once);

#endif
