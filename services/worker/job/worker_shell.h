/* SPDX-License-Identifier: Apache-2.0 */
/* The worker process: takes the master's calls, holds at most one job, keeps its place in the
 * cluster. */
#ifndef GRADUS_WORKER_JOB_WORKER_SHELL_H
#define GRADUS_WORKER_JOB_WORKER_SHELL_H

#include "service/service.h"

struct worker_settings {
    char *master; /* host:port */
    char *name;   /* wanted node id; empty: the master chooses */
    double slow_down;
    char *data_root;   /* data_roots_read() */
    char *cache_dir;   /* of indexes */
    char *program;     /* a command line; empty: none */
    char *compute_dir; /* of plug-ins that compute, in place of a program; empty: none */
    int64_t program_answer_ms;
    char *poll_us; /* poll_setting_parse() */
};
extern const struct field worker_fields[];
extern const size_t worker_field_count;

/* The hooks of service.h. */
int worker_shell_start(struct service_context *sc, struct err *err);
int worker_shell_ready(struct service_context *sc, struct err *err);
void worker_shell_drain(struct service_context *sc, int64_t grace_ms);
void worker_shell_stop(struct service_context *sc);

#endif
