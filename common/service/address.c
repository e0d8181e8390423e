/* SPDX-License-Identifier: Apache-2.0 */
/* Parses addresses of IPv4, IPv6 and host names, and opens TCP sockets for them. For the HTTP
 * port and its probe; gRPC opens its own sockets. */
#include "service/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"

int address_parse(const char *text, struct address *a, struct err *err)
{
    static const char allowed[] = "host:port or [host]:port, with port from 0 to 65535";
    const char *colon = strrchr(text, ':');
    int64_t port = 0;
    if (colon == NULL || !text_to_int(colon + 1, &port) || port < 0 || port > 65535) {
        return err_set(err, ERR_INVALID, "\"%s\" has no valid port; %s", text, allowed);
    }
    const char *host = text;
    size_t n = (size_t)(colon - text);
    if (n >= 2 && host[0] == '[' && host[n - 1] == ']') {
        host++;
        n -= 2;
    } else if (memchr(host, ':', n) != NULL) {
        return err_set(err, ERR_INVALID, "\"%s\" has an IPv6 address without brackets; %s", text,
                       allowed);
    }
    if (n == 0 || n >= sizeof a->host) {
        return err_set(err, ERR_INVALID, "\"%s\" has no valid host; %s", text, allowed);
    }
    memcpy(a->host, host, n);
    a->host[n] = '\0';
    a->port = (uint16_t)port;
    return 0;
}

char *address_with_port(const char *text, unsigned port)
{
    const size_t n = strlen(text);
    const bool host = n > 0 && (strchr(text, ':') == NULL ? strchr(text, '/') == NULL
                                                          : text[0] == '[' && text[n - 1] == ']');
    return host ? mem_printf("%s:%u", text, port) : mem_strdup(text);
}

const char *address_format(const struct address *a, char *out, size_t n)
{
    bool v6 = strchr(a->host, ':') != NULL;
    (void)snprintf(out, n, v6 ? "[%s]:%u" : "%s:%u", a->host, (unsigned)a->port);
    return out;
}

bool address_is_loopback(const struct address *a)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, a->host, &v4) == 1) {
        return (ntohl(v4.s_addr) >> 24) == 127;
    }
    if (inet_pton(AF_INET6, a->host, &v6) == 1) {
        return IN6_IS_ADDR_LOOPBACK(&v6);
    }
    return strcasecmp(a->host, "localhost") == 0;
}

bool address_is_any(const struct address *a)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (inet_pton(AF_INET, a->host, &v4) == 1) {
        return v4.s_addr == htonl(INADDR_ANY);
    }
    return inet_pton(AF_INET6, a->host, &v6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&v6);
}

static struct addrinfo *resolve(const struct address *a, int flags, struct err *err)
{
    char port[8];
    (void)snprintf(port, sizeof port, "%u", (unsigned)a->port);
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    int rc = getaddrinfo(a->host, port, &hints, &found);
    if (rc != 0) {
        err_set(err, ERR_UNAVAILABLE, "find host %s: %s", a->host, gai_strerror(rc));
        return NULL;
    }
    return found;
}

static int listen_on(const struct addrinfo *found)
{
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    const int on = 1, off = 0;
    const bool v6 = found->ai_family == AF_INET6;
    /* A service that was just restarted finds connections of its past life in TIME_WAIT. */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        (v6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off) != 0) ||
        bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0) {
        int reason = errno;
        (void)close(fd);
        errno = reason;
        return -1;
    }
    return fd;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage s = {0};
    socklen_t n = sizeof s;
    if (getsockname(fd, (struct sockaddr *)&s, &n) != 0) {
        return 0;
    }
    if (s.ss_family == AF_INET6) {
        struct sockaddr_in6 v6;
        memcpy(&v6, &s, sizeof v6);
        return ntohs(v6.sin6_port);
    }
    struct sockaddr_in v4;
    memcpy(&v4, &s, sizeof v4);
    return ntohs(v4.sin_port);
}

/* All addresses of this host, of either family: gRPC takes 0.0.0.0 for that, too, so a service
 * answers on both of its ports wherever it is reached. -1 with errno: the host has no IPv6, say. */
static int listen_on_all(uint16_t port)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct addrinfo all = {.ai_family = AF_INET6, .ai_addrlen = sizeof any};
    all.ai_addr = (struct sockaddr *)&any;
    return listen_on(&all);
}

int address_listen(struct address *a, struct err *err)
{
    char text[ADDRESS_BYTES];
    address_format(a, text, sizeof text);
    int fd = address_is_any(a) ? listen_on_all(a->port) : -1, reason = errno;
    if (fd < 0 && !(address_is_any(a) && reason == EADDRINUSE)) {
        struct addrinfo *found = resolve(a, AI_PASSIVE, err);
        if (found == NULL) {
            return err_wrap(err, "listen on %s", text);
        }
        fd = listen_on(found);
        reason = errno;
        freeaddrinfo(found);
    }
    if (fd < 0) {
        return err_set(err, ERR_UNAVAILABLE, "listen on %s: %s", text, strerror(reason));
    }
    a->port = port_of(fd);
    return fd;
}

/* Connects. In a process that was stopped and goes on, connect() is interrupted, and the connection
 * comes about all the same. */
static int connect_to(int fd, const struct addrinfo *to, unsigned timeout_ms)
{
    int rc = connect(fd, to->ai_addr, to->ai_addrlen);
    if (rc == 0 || errno != EINTR) {
        return rc;
    }
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    do {
        rc = poll(&p, 1, timeout_ms == 0 || timeout_ms > INT_MAX ? -1 : (int)timeout_ms);
    } while (rc < 0 && errno == EINTR);
    int reason = ETIMEDOUT;
    socklen_t bytes = sizeof reason;
    if (rc < 0 || (rc > 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &reason, &bytes) != 0)) {
        return -1;
    }
    errno = reason;
    return reason == 0 ? 0 : -1;
}

int address_connect(const struct address *a, unsigned timeout_ms, struct err *err)
{
    char text[ADDRESS_BYTES];
    address_format(a, text, sizeof text);
    struct addrinfo *found = resolve(a, 0, err);
    if (found == NULL) {
        return err_wrap(err, "connect to %s", text);
    }
    const struct timeval limit = {.tv_sec = (time_t)(timeout_ms / 1000),
                                  .tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000};
    int fd = -1;
    int reason = 0;
    for (const struct addrinfo *i = found; i != NULL && fd < 0; i = i->ai_next) {
        fd = socket(i->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 ||
            setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
            connect_to(fd, i, timeout_ms) != 0) {
            reason = errno;
            if (fd >= 0) {
                (void)close(fd);
            }
            fd = -1;
        }
    }
    freeaddrinfo(found);
    if (fd < 0) {
        return err_set(err, ERR_UNAVAILABLE, "connect to %s: %s", text, strerror(reason));
    }
    return fd;
}
