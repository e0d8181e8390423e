/* SPDX-License-Identifier: Apache-2.0 */
/* One question over TLS to whoever answers: nothing is shown and nothing is checked, as in the
 * health checks of container platforms, which ask a port that they have opened themselves. */
#ifndef GRADUS_TLS_TLS_ASK_H
#define GRADUS_TLS_TLS_ASK_H

#include <stddef.h>

#include "base/err.h"

/* On @fd, which is connected and whose reads and writes end by themselves after a time: send
 * @question, then read until the end, at most @n - 1 bytes and a NUL into @out.
 * Errors: ERR_UNAVAILABLE the handshake failed, with what OpenSSL says. */
int tls_ask(int fd, const char *question, char *out, size_t n, struct err *err);

#endif
