/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the kernel's routes: a UDP socket that is connected has an address, and nothing is sent. */
#include "service/own_address.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Takes an address in numbers; false for addresses that other hosts cannot use. */
static bool take(const struct sockaddr *a, socklen_t bytes, char host[ADDRESS_HOST_BYTES])
{
    struct address named = {0};
    if (getnameinfo(a, bytes, named.host, sizeof named.host, NULL, 0, NI_NUMERICHOST) != 0 ||
        address_is_loopback(&named) || address_is_any(&named) ||
        strchr(named.host, '%') != NULL) { /* of this link alone */
        return false;
    }
    (void)snprintf(host, ADDRESS_HOST_BYTES, "%s", named.host);
    return true;
}

static bool toward(const struct addrinfo *peer, char host[ADDRESS_HOST_BYTES])
{
    struct sockaddr_storage own;
    socklen_t bytes = sizeof own;
    int fd = socket(peer->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return false;
    }
    bool known = connect(fd, peer->ai_addr, peer->ai_addrlen) == 0 &&
                 getsockname(fd, (struct sockaddr *)&own, &bytes) == 0;
    (void)close(fd);
    return known && take((const struct sockaddr *)&own, bytes, host);
}

static bool by_route(const char *peer, char host[ADDRESS_HOST_BYTES])
{
    struct address a;
    char port[8];
    char first[ADDRESS_BYTES]; /* of several */
    (void)snprintf(first, sizeof first, "%.*s", peer == NULL ? 0 : (int)strcspn(peer, ","),
                   peer == NULL ? "" : peer);
    if (address_parse(first, &a, NULL) != 0) {
        return false;
    }
    (void)snprintf(port, sizeof port, "%u", (unsigned)a.port);
    const struct addrinfo hints = {.ai_socktype = SOCK_DGRAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(a.host, port, &hints, &found) != 0) {
        return false;
    }
    bool known = false;
    for (const struct addrinfo *f = found; f != NULL && !known; f = f->ai_next) {
        known = toward(f, host);
    }
    freeaddrinfo(found);
    return known;
}

/* IPv4 before IPv6: a cluster that has both can use either. */
static bool by_interface(char host[ADDRESS_HOST_BYTES])
{
    static const struct {
        int family;
        socklen_t bytes;
    } KINDS[] = {{AF_INET, sizeof(struct sockaddr_in)}, {AF_INET6, sizeof(struct sockaddr_in6)}};
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) {
        return false;
    }
    bool known = false;
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++) {
        for (const struct ifaddrs *f = all; f != NULL && !known; f = f->ifa_next) {
            known = f->ifa_addr != NULL && f->ifa_addr->sa_family == KINDS[i].family &&
                    (f->ifa_flags & IFF_UP) != 0 && take(f->ifa_addr, KINDS[i].bytes, host);
        }
    }
    freeifaddrs(all);
    return known;
}

void own_address(const char *peer, char host[ADDRESS_HOST_BYTES])
{
    if (by_route(peer, host) || by_interface(host)) {
        return;
    }
    host[0] = '\0';
    (void)gethostname(host, ADDRESS_HOST_BYTES - 1);
    host[ADDRESS_HOST_BYTES - 1] = '\0';
}
