/* SPDX-License-Identifier: Apache-2.0 */
/* TLS in front of an HTTP server. Each connection is two: the one of the client, with TLS, and a
 * pair of local sockets behind it, whose other end the HTTP server takes for its client. So the
 * server has one notion of connections, of their deadline and of how many there may be
 * (http_crowd.h), from the moment that a client is accepted: a handshake counts, too.
 *
 * A client that speaks no TLS is told so in plain HTTP, and its connection is closed.
 *
 * Owner: the thread of the server; nothing here waits. Limits: HTTP_TLS_LINES connections; one
 * whose server is through with it has HTTP_TLS_FLUSH_MS for what it has not read yet. */
#ifndef GRADUS_SERVICE_HTTP_TLS_H
#define GRADUS_SERVICE_HTTP_TLS_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/err.h"
#include "service/http_crowd.h"
#include "tls/tls_server.h"

/* Some have left the server and are still read by their clients. */
#define HTTP_TLS_LINES (HTTP_CROWD_ROOM + 32)
#define HTTP_TLS_POLLS (2 * HTTP_TLS_LINES + 1)
#define HTTP_TLS_FLUSH_MS 5000
#define HTTP_TLS_LINGER_MS 1000 /* time for a client that was told the end to close */

/* How the answer to a plain request ends; the probe knows it by that. */
#define HTTP_TLS_ONLY "this port speaks HTTPS"

struct http_tls;

/* The HTTP server takes @fd as the connection of a client at @peer; false: it does not. */
typedef bool http_tls_enter(void *ctx, int fd, const struct sockaddr *peer, socklen_t peer_bytes);

/* Takes @listen_fd; returns owned. Errors: those of tls_server_new(). */
struct http_tls *http_tls_new(int listen_fd, const struct tls_files *files, http_tls_enter *enter,
                              void *ctx, struct err *err);
/* The server has closed its ends before. */
void http_tls_free(struct http_tls *t);

/* Do what can be done without waiting. */
void http_tls_turn(struct http_tls *t, uint64_t now_ms);
/* What to wait for until the next turn: at most HTTP_TLS_POLLS; returns their number. */
size_t http_tls_polls(const struct http_tls *t, struct pollfd *out);
/* And how long at most; UINT64_MAX: as long as it takes. */
uint64_t http_tls_wait_ms(const struct http_tls *t, uint64_t now_ms);

/* The server has closed @fd. */
void http_tls_left(struct http_tls *t, int fd);
/* Why the client behind @fd is not believed, into @out; NULL: it is. */
const char *http_tls_refusal(const struct http_tls *t, int fd, char out[TLS_REFUSAL_BYTES]);
/* The names in its certificate, when it is. */
void http_tls_peer(const struct http_tls *t, int fd, struct tls_peer *out);

#endif
