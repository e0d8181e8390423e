/* A whole cluster on this machine: one master, its parameter servers and workers as child processes
 * that talk gRPC over loopback. A worker that dies is started again; nothing outlives local_stop()
 * or this process. */
#ifndef GRADUS_CLI_LOCAL_H
#define GRADUS_CLI_LOCAL_H

#include "base/err.h"
#include "service/spawn.h"

struct local {
    char *bin_dir, *state_dir, *log_dir;
    char master_address[256];
    struct spawn master;
    struct spawn *ps, *workers;
    size_t ps_count, worker_count;
    unsigned restarts;
};

/* @l is zeroed. @state_dir is made when missing. Errors name the process and the last line of its
 * log. */
int local_start(struct local *l, const char *state_dir, size_t ps, size_t workers, struct err *err);
/* Look after the children. Errors: ERR_ABORTED the master ended. */
int local_tick(struct local *l, struct err *err);
/* @at_once: SIGKILL, else SIGTERM and a grace. Frees. */
void local_stop(struct local *l, bool at_once);

#endif
