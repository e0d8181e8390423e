/* SPDX-License-Identifier: Apache-2.0 */
/* Polling before sleeping, for a service that has a setting for it, and what /metrics says of it.
 */
#ifndef GRADUS_SERVICE_SERVICE_POLLING_H
#define GRADUS_SERVICE_SERVICE_POLLING_H

#include "service/service_context.h"

/* Errors: ERR_INVALID the setting says nothing that can be done. */
int service_polling_check(const struct service_context *sc, struct err *err);
/* After the check, when meters are there. */
void service_polling_start(struct service_context *sc);

#endif
