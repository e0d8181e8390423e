/* SPDX-License-Identifier: Apache-2.0 */
/* Polling before sleeping, for a service that has a setting for it, and its meters. */
#ifndef GRADUS_SERVICE_SERVICE_POLLING_H
#define GRADUS_SERVICE_SERVICE_POLLING_H

#include "service/service_context.h"

/* Errors: ERR_INVALID the setting says nothing that can be done. */
int service_polling_check(const struct service_context *sc, struct err *err);
/* Call after the check, when there are meters. */
void service_polling_start(struct service_context *sc);

#endif
