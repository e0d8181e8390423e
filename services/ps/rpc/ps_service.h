/* SPDX-License-Identifier: Apache-2.0 */
/* A parameter server as a process: settings, membership, start and end. */
#ifndef GRADUS_PS_RPC_PS_SERVICE_H
#define GRADUS_PS_RPC_PS_SERVICE_H

#include "service/service.h"

struct ps_settings {
    char *master;
    char *name;
    char *checkpoint_dir;
    char *data_root; /* data_roots_read() */
    int64_t shards_max;
    int64_t memory_bytes_max;
    int64_t gradient_bytes_max;
    int64_t chunk_bytes;
    int64_t apply_threads;
    char *poll_us; /* poll_setting_parse() */
    int64_t drain_timeout_ms;
};
extern const struct field ps_fields[];
extern const size_t ps_field_count;

/* Hooks of struct service. */
int64_t ps_service_leave_ms(const void *settings);
int ps_service_check(const void *settings, struct err *err);
const char *ps_service_peer(const void *settings);
const char *ps_service_poll(const void *settings);
int ps_service_start(struct service_context *sc, struct err *err);
int ps_service_ready(struct service_context *sc, struct err *err);
void ps_service_drain(struct service_context *sc, int64_t grace_ms);
void ps_service_stop(struct service_context *sc);

#endif
