/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a socket address that is counted. */
#include "base/peer_network.h"

#include <netinet/in.h>
#include <string.h>

struct peer_network peer_network_of(const struct sockaddr *peer)
{
    struct peer_network out = {0};
    if (peer != NULL && peer->sa_family == AF_INET) {
        out.family = AF_INET;
        memcpy(out.bytes, &((const struct sockaddr_in *)(const void *)peer)->sin_addr, 4);
    } else if (peer != NULL && peer->sa_family == AF_INET6) {
        const struct in6_addr *a = &((const struct sockaddr_in6 *)(const void *)peer)->sin6_addr;
        bool mapped = IN6_IS_ADDR_V4MAPPED(a);
        out.family = mapped ? AF_INET : AF_INET6;
        memcpy(out.bytes, a->s6_addr + (mapped ? 12 : 0), mapped ? 4 : 8);
    }
    return out;
}

bool peer_network_same(const struct peer_network *a, const struct peer_network *b)
{
    return a->family == b->family && memcmp(a->bytes, b->bytes, sizeof a->bytes) == 0;
}
