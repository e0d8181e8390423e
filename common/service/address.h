/* SPDX-License-Identifier: Apache-2.0 */
/* Network addresses as text: "host:port", "[::1]:port". */
#ifndef GRADUS_SERVICE_ADDRESS_H
#define GRADUS_SERVICE_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define ADDRESS_HOST_BYTES 256
#define ADDRESS_BYTES (ADDRESS_HOST_BYTES + 8)

struct address {
    char host[ADDRESS_HOST_BYTES]; /* without brackets */
    uint16_t port;
};

/* Errors: ERR_INVALID "what is wrong; what is allowed". */
int address_parse(const char *text, struct address *a, struct err *err);
/* @text, or "host:@port" where it names a host alone ("master", "10.0.0.1", "[::1]"); what has a
 * scheme, "unix:/x", and an address of IPv6 without brackets, which may have a port, stay. Returns
 * owned. */
char *address_with_port(const char *text, unsigned port);
/* "host:port", with brackets where they are needed, into @out (ADDRESS_BYTES); returns @out. */
const char *address_format(const struct address *a, char *out, size_t n);
bool address_is_loopback(const struct address *a); /* localhost, 127.0.0.0/8, ::1 */
bool address_is_any(const struct address *a);      /* 0.0.0.0, :: */
/* Listen for TCP; returns the socket and stores the port that was chosen. Errors: ERR_UNAVAILABLE
 * naming the address. */
int address_listen(struct address *a, struct err *err);
/* Connect; reads and writes on the socket end after @timeout_ms too. Errors: ERR_UNAVAILABLE. */
int address_connect(const struct address *a, unsigned timeout_ms, struct err *err);

#endif
