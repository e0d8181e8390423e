/* SPDX-License-Identifier: Apache-2.0 */
/* Finds peers that speak TLS to a port without TLS, or the reverse, by the first byte of a
 * connection; libraries say nothing of it that a person could use. This file replaces recv() and
 * recvmsg() for all libraries of the process: on a watched connection they look at the first byte,
 * once, and do nothing else. One line is logged in LOG_RATE_MS.
 *
 * Any thread. Limits: descriptors below FIRST_BYTE_ROOM. */
#ifndef GRADUS_BASE_FIRST_BYTE_H
#define GRADUS_BASE_FIRST_BYTE_H

#define FIRST_BYTE_ROOM (1 << 16)

enum first_byte_port {
    FIRST_BYTE_ANY, /* nothing is expected: not watched */
    FIRST_BYTE_GRPC,
    FIRST_BYTE_GRPC_TLS,
    FIRST_BYTE_HTTP,
    FIRST_BYTE_HTTPS,
    FIRST_BYTE_PORTS,
};

/* @fd is a new connection to @port, over TCP. */
void first_byte_watch(int fd, enum first_byte_port port);
/* Stops watching the connection. */
void first_byte_ignore(int fd);

#endif
