/* SPDX-License-Identifier: Apache-2.0 */
/* The master as a service: the core on one loop thread, gRPC and the store around it.
 *
 * Calls of clients and nodes become events of the core; its actions are carried out on the same
 * thread, but for what blocks (parsing job files, writing manifests), which a small pool does. */
#ifndef GRADUS_MASTER_SHELL_MASTER_SHELL_H
#define GRADUS_MASTER_SHELL_MASTER_SHELL_H

#include "config/field.h"
#include "service/service.h"

enum master_unfinished { MASTER_UNFINISHED_RESUME, MASTER_UNFINISHED_HOLD };

struct master_settings {
    char *state_dir;
    char *store; /* empty: SQLite in state_dir */
    char *store_tls_ca, *store_tls_cert, *store_tls_key, *store_credentials; /* files; or empty */
    char *store_import;
    int64_t lead_lease;     /* ms */
    char *checkpoint_dir;   /* empty: <state_dir>/checkpoints */
    char *tensorboard_root; /* empty: no event files */
    int64_t heartbeat_timeout_ms, heartbeat_interval_ms, ps_timeout_ms;
    int unfinished; /* enum master_unfinished */
    int64_t jobs_max;
    int64_t owner_jobs_max; /* of one submitter */
    int64_t finished_max;
    /* limits of ended jobs in the store; age: ms, 0: no limit */
    int64_t finished_rows_max, finished_rows_age;
    int64_t owner_running_max, owner_workers_max, owner_ps_memory_max; /* 0: no limit */
    int preemption;                                                    /* enum: off, on */
    int64_t preempt_after_ms;
};
extern const struct field master_fields[];
extern const size_t master_field_count;

/* The hooks of struct service. */
int master_shell_check(const void *settings, struct err *err);
int master_shell_start(struct service_context *sc, struct err *err);
int master_shell_ready(struct service_context *sc, struct err *err);
void master_shell_drain(struct service_context *sc, int64_t grace_ms);
void master_shell_stop(struct service_context *sc);

#endif
