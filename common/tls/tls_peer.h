/* SPDX-License-Identifier: Apache-2.0 */
/* The names in a peer's certificate, for the code that decides what they are good for. Plain data.
 */
#ifndef GRADUS_TLS_TLS_PEER_H
#define GRADUS_TLS_TLS_PEER_H

#include <stddef.h>

#define TLS_PEER_NAME_BYTES 256
#define TLS_PEER_SUBJECT_BYTES 1024
#define TLS_PEER_URIS_MAX 16 /* ours have two at most; further ones are passed over */

struct tls_peer {
    char common_name[TLS_PEER_NAME_BYTES]; /* "": none */
    char subject[TLS_PEER_SUBJECT_BYTES];  /* as RFC 2253 writes it: "CN=ann,OU=gradus-viewer" */
    char uris[TLS_PEER_URIS_MAX][TLS_PEER_NAME_BYTES];
    size_t uri_count;
};

#endif
