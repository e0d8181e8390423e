/* SPDX-License-Identifier: Apache-2.0 */
/* One question over TLS to a port on which any program may answer: no certificate is shown and none
 * is checked, as in the health checks of container platforms, which ask a port that they have
 * opened themselves. */
#ifndef GRADUS_TLS_TLS_ASK_H
#define GRADUS_TLS_TLS_ASK_H

#include <stddef.h>

#include "base/err.h"

/* On @fd, which is connected and whose reads and writes have time-outs: sends @question, then reads
 * until the end, at most @n - 1 bytes and a NUL into @out. Errors: ERR_UNAVAILABLE the handshake
 * failed, with OpenSSL's reason. */
int tls_ask(int fd, const char *question, char *out, size_t n, struct err *err);

#endif
