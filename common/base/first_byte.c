/* SPDX-License-Identifier: Apache-2.0 */
/* The functions recv() and recvmsg() of this program, which the dynamic linker gives to its
 * libraries in place of those of the C library. A sanitizer has its own, which it must hear of. */
#include "base/first_byte.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/log.h"
#include "base/log_rate.h"

/* every client of TLS begins with this byte, and no client of HTTP */
#define TLS_RECORD_HANDSHAKE 0x16

static atomic_uchar watched[FIRST_BYTE_ROOM]; /* enum first_byte_port, of a connection that has said
                                                 nothing yet */
/* The ports of services of this process, by what they speak. A descriptor that was watched may
 * belong to another socket by now; a socket that this process has opened itself has none of these
 * ports on its own side. */
static atomic_uint ports[FIRST_BYTE_PORTS];

static const struct {
    const char *name;
    const char *reason;
} complaints[FIRST_BYTE_PORTS] = {
    [FIRST_BYTE_GRPC] = {"grpc",
                         "it speaks TLS, and this port does not: give this service --tls-cert, "
                         "--tls-key and --tls-ca, or leave them out there"},
    [FIRST_BYTE_GRPC_TLS] = {"grpc",
                             "it speaks no TLS, and this port speaks nothing else: give that side "
                             "--tls-ca, and --tls-cert and --tls-key or a token"},
    [FIRST_BYTE_HTTP] = {"http",
                         "it speaks HTTPS, and this port plain HTTP: ask for http://, or start "
                         "this service with TLS and without --http-plain"},
    [FIRST_BYTE_HTTPS] = {"http",
                          "it speaks plain HTTP, and this port HTTPS: ask for https://, or start "
                          "this service with --http-plain"},
};

struct endpoint {
    char text[INET6_ADDRSTRLEN + 16];
    unsigned port;
};

typedef int name_of_socket(int fd, struct sockaddr *address, socklen_t *bytes);

static bool endpoint_of(int fd, name_of_socket *get, struct endpoint *out)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    char host[INET6_ADDRSTRLEN] = "?";
    if (get(fd, (struct sockaddr *)&a, &n) != 0) {
        return false;
    }
    if (a.ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)&a;
        (void)inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        out->port = ntohs(in->sin_port);
        (void)snprintf(out->text, sizeof out->text, "%s:%u", host, out->port);
    } else if (a.ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)&a;
        bool four = IN6_IS_ADDR_V4MAPPED(&in->sin6_addr);
        (void)inet_ntop(four ? AF_INET : AF_INET6, in->sin6_addr.s6_addr + (four ? 12 : 0), host,
                        sizeof host);
        out->port = ntohs(in->sin6_port);
        (void)snprintf(out->text, sizeof out->text, four ? "%s:%u" : "[%s]:%u", host, out->port);
    } else {
        return false;
    }
    return true;
}

void first_byte_watch(int fd, enum first_byte_port port)
{
    struct endpoint here;
    if (fd < 0 || fd >= FIRST_BYTE_ROOM || port == FIRST_BYTE_ANY ||
        !endpoint_of(fd, getsockname, &here)) {
        return;
    }
    atomic_store(&ports[port], here.port);
    atomic_store(&watched[fd], (unsigned char)port);
}

void first_byte_ignore(int fd)
{
    if (fd >= 0 && fd < FIRST_BYTE_ROOM) {
        atomic_store(&watched[fd], FIRST_BYTE_ANY);
    }
}

static void complain(int fd, enum first_byte_port port)
{
    static struct log_rate rate;
    struct endpoint here, peer;
    unsigned untold = 0;
    if (!endpoint_of(fd, getsockname, &here) || here.port != atomic_load(&ports[port]) ||
        !endpoint_of(fd, getpeername, &peer) || !log_rate_take(&rate, &untold)) {
        return;
    }
    log_warn("wrong_protocol", "port=%s peer=%s untold=%u reason=\"%s\"", complaints[port].name,
             peer.text, untold, complaints[port].reason);
}

static void look(int fd, ssize_t n, const unsigned char *bytes)
{
    enum first_byte_port port = atomic_load_explicit(&watched[fd], memory_order_relaxed);
    int kept = errno;
    if (port == FIRST_BYTE_ANY || (n < 0 && (kept == EAGAIN || kept == EINTR))) {
        return;
    }
    atomic_store(&watched[fd], FIRST_BYTE_ANY);
    if (n > 0) {
        bool expected = port == FIRST_BYTE_GRPC_TLS || port == FIRST_BYTE_HTTPS;
        if ((bytes[0] == TLS_RECORD_HANDSHAKE) != expected) {
            complain(fd, port);
        }
    }
    errno = kept;
}

static bool is_watched(int fd)
{
    return fd >= 0 && fd < FIRST_BYTE_ROOM &&
           atomic_load_explicit(&watched[fd], memory_order_relaxed) != FIRST_BYTE_ANY;
}

/* ---- recv() and recvmsg() under the names that libraries and this program call ---- */

ssize_t first_byte_recv(int fd, void *out, size_t n, int flags) __asm__("recv")
    __attribute__((visibility("default")));
ssize_t first_byte_recvmsg(int fd, struct msghdr *message, int flags) __asm__("recvmsg")
    __attribute__((visibility("default")));
/* NULL without a sanitizer. */
ssize_t sanitized_recv(int fd, void *out, size_t n, int flags) __asm__("__interceptor_recv")
    __attribute__((weak));
ssize_t sanitized_recvmsg(int fd, struct msghdr *message,
                          int flags) __asm__("__interceptor_recvmsg") __attribute__((weak));

ssize_t first_byte_recv(int fd, void *out, size_t n, int flags)
{
    ssize_t got = sanitized_recv != NULL
                      ? sanitized_recv(fd, out, n, flags)
                      : (ssize_t)syscall(SYS_recvfrom, fd, out, n, flags, NULL, NULL);
    if (is_watched(fd)) {
        look(fd, got, out);
    }
    return got;
}

ssize_t first_byte_recvmsg(int fd, struct msghdr *message, int flags)
{
    ssize_t got = sanitized_recvmsg != NULL ? sanitized_recvmsg(fd, message, flags)
                                            : (ssize_t)syscall(SYS_recvmsg, fd, message, flags);
    if (is_watched(fd)) {
        bool some = message->msg_iovlen > 0 && message->msg_iov[0].iov_len > 0;
        look(fd, got > 0 && !some ? 0 : got, some ? message->msg_iov[0].iov_base : NULL);
    }
    return got;
}
