/* SPDX-License-Identifier: Apache-2.0 */
/* What a service says about itself: to grpc.health.v1, and on its HTTP port to probes. */
#ifndef GRADUS_SERVICE_SERVICE_HEALTH_H
#define GRADUS_SERVICE_SERVICE_HEALTH_H

#include <stddef.h>

#include "service/http.h"
#include "service/service_context.h"

/* The pages of http_options.checks; their ctx is the service_context. */
extern const struct http_check SERVICE_CHECKS[];
extern const size_t SERVICE_CHECK_COUNT;

/* ready() is over: everything answers. */
void service_health_ready(struct service_context *sc);
/* The end has begun. */
void service_health_draining(struct service_context *sc);

#endif
