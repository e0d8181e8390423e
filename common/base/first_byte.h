/* SPDX-License-Identifier: Apache-2.0 */
/* Who speaks TLS to a port that does not, or the reverse: told from the first byte of a connection,
 * of which libraries say nothing that a person could use. So recv() and recvmsg() are ours, for all
 * libraries of the process; of a connection that is watched they look at the first byte, once, and
 * do nothing else. One line is logged in LOG_RATE_MS.
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
/* It is not to be watched (any more). */
void first_byte_ignore(int fd);

#endif
