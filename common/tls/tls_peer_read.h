/* SPDX-License-Identifier: Apache-2.0 */
/* For this room alone: from a certificate of OpenSSL to its names. */
#ifndef GRADUS_TLS_TLS_PEER_READ_H
#define GRADUS_TLS_TLS_PEER_READ_H

#include "tls/tls_openssl.h"
#include "tls/tls_peer.h"

void tls_peer_read(X509 *certificate, struct tls_peer *out);

#endif
