/* SPDX-License-Identifier: Apache-2.0 */
/* gradus-serve as a process: settings, start and end. */
#ifndef GRADUS_SERVE_SERVE_SERVICE_H
#define GRADUS_SERVE_SERVE_SERVICE_H

#include "service/service.h"

struct serve_settings {
    char *checkpoint, *checkpoint_dir, *job;
    char *master;
    int64_t tables_bytes_max;
    char *data_dir, *cache_dir, *model_name;
    int64_t threads, batch_max, batch_delay_us, waiting_max;
    bool follow;
    int64_t follow_every_ms;
};
extern const struct field serve_fields[];
extern const size_t serve_field_count;

/* Hooks of struct service. */
int serve_service_check(const void *settings, struct err *err);
int serve_service_start(struct service_context *sc, struct err *err);
int serve_service_ready(struct service_context *sc, struct err *err);
void serve_service_drain(struct service_context *sc, int64_t grace_ms);
void serve_service_stop(struct service_context *sc);

#endif
