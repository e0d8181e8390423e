/* SPDX-License-Identifier: Apache-2.0 */
/* Why does no connection come about? gRPC's core says that a handshake failed, or that the other
 * side closed; one more handshake by hand tells which of the two sides has to do what. */
#ifndef GRADUS_TLS_TLS_PROBE_H
#define GRADUS_TLS_TLS_PROBE_H

#include "base/err.h"
#include "tls/tls_files.h"

/* Shake hands on @fd, which is connected and whose reads and writes end by themselves after a time
 * (SO_RCVTIMEO, SO_SNDTIMEO). @host: the name that the certificate must have, or an address.
 * @files: what we would connect with; NULL: without TLS. The socket is of no use afterwards.
 *
 * Returns 0 when nothing is wrong that could be seen. Errors: ERR_UNAUTHENTICATED and a sentence
 * about "it", the server: its certificate expired, is of another CA, of other names, it speaks TLS
 * and we do not, or the reverse, it does not take our certificate. */
int tls_probe(int fd, const char *host, const struct tls_files *files, struct err *err);

#endif
