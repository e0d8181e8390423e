/* SPDX-License-Identifier: Apache-2.0 */
/* One run of one service, shared by service_main.c and service.c. */
#ifndef GRADUS_SERVICE_SERVICE_CONTEXT_H
#define GRADUS_SERVICE_SERVICE_CONTEXT_H

#include <pthread.h>

#include "service/access.h"
#include "service/http.h"
#include "service/pulse.h"
#include "service/service.h"
#include "service/service_signals.h"

#define SERVICE_REASON_BYTES 256
#define SERVICE_PULSES_MAX 4

struct service_context {
    const struct service *svc;
    struct service_config common;
    void *config;
    void *state;
    char program[64];
    struct meter_registry *meters;
    struct service_signals *signals;
    struct rpc_credentials *credentials; /* NULL: plain */
    struct access *access;
    struct rpc_polling *polling; /* NULL: no thread polls */
    struct rpc_server *rpc;
    struct http *http;
    struct http_pages pages; /* prefix NULL: none */
    char *advertised;
    char *http_advertised;
    struct pulse pulses[SERVICE_PULSES_MAX]; /* of loops that have to turn; fixed before the HTTP
                                                port answers */
    size_t pulse_count;

    pthread_mutex_t lock; /* guards what follows */
    bool ready;
    bool draining;
    bool standing_by;
    bool serving;                       /* what the RPC server was told */
    char reason[SERVICE_REASON_BYTES];  /* empty: well */
    char absence[SERVICE_REASON_BYTES]; /* empty: present */
};

/* Runs a service whose settings are there. Returns the exit code. */
int service_run(struct service_context *sc);

#endif
