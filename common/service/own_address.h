/* SPDX-License-Identifier: Apache-2.0 */
/* Finds an address of this host that others can use. */
#ifndef GRADUS_SERVICE_OWN_ADDRESS_H
#define GRADUS_SERVICE_OWN_ADDRESS_H

#include "service/address.h"

/* Writes a host for others into @host (ADDRESS_HOST_BYTES), in numbers: the address that packets
 * from here to @peer ("host:port"; may be NULL) come from; where @peer cannot be found or is on
 * this host, that of the first network interface which is up; where there is none, the name of this
 * host. An unreachable network takes no time; resolving the name of @peer may. */
void own_address(const char *peer, char host[ADDRESS_HOST_BYTES]);

#endif
