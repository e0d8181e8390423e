/* SPDX-License-Identifier: Apache-2.0 */
/* A TCP port that stays the test's, on every address of this host, while nobody listens there: no
 * other process gets it meanwhile, and a server of the test's may listen and stop as it likes. */
#ifndef GRADUS_TESTS_SUPPORT_HELD_PORT_H
#define GRADUS_TESTS_SUPPORT_HELD_PORT_H

#include "support/test.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

struct held_port {
    int fd;
    uint16_t port;
    char address[24]; /* "127.0.0.1:40123" */
};

/* Bound and never listened on, by which Linux lets whoever may use addresses again listen. */
static inline void held_port_take(struct held_port *p)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t bytes = sizeof at;
    const int yes = 1;
    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(p->fd >= 0);
    assert_int_equal(setsockopt(p->fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes), 0);
    assert_int_equal(bind(p->fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(getsockname(p->fd, (struct sockaddr *)&at, &bytes), 0);
    p->port = ntohs(at.sin_port);
    (void)snprintf(p->address, sizeof p->address, "127.0.0.1:%u", (unsigned)p->port);
}

static inline void held_port_release(struct held_port *p)
{
    (void)close(p->fd);
}

#endif
