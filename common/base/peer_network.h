/* SPDX-License-Identifier: Apache-2.0 */
/* Who is one peer, where connections are counted: an IPv4 address, or a network of 64 bits of IPv6,
 * of which one machine may have every address. */
#ifndef GRADUS_BASE_PEER_NETWORK_H
#define GRADUS_BASE_PEER_NETWORK_H

#include <stdbool.h>
#include <sys/socket.h>

struct peer_network {
    unsigned char family; /* AF_INET, AF_INET6; 0: neither, or not known */
    unsigned char bytes[8];
};

/* @peer may be NULL. An IPv4 address stays one behind a socket of IPv6 (::ffff:10.0.0.7). */
struct peer_network peer_network_of(const struct sockaddr *peer);
bool peer_network_same(const struct peer_network *a, const struct peer_network *b);

#endif
