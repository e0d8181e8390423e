/* SPDX-License-Identifier: Apache-2.0 */
/* TLS for a server that reads and writes sockets itself and never waits: sessions on sockets that
 * do not block, TLS 1.2 or later. (gRPC's core has a TLS of its own.) A client is asked for a
 * certificate and need not have one: what it showed is known after the handshake, and who serves
 * decides what that is good for.
 *
 * Owner: one thread. */
#ifndef GRADUS_TLS_TLS_SERVER_H
#define GRADUS_TLS_TLS_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "tls/tls_files.h"
#include "tls/tls_peer.h"

#define TLS_SERVER_REFRESH_MS 1000
#define TLS_REFUSAL_BYTES 512

struct tls_server;
struct tls_session;

/* Copies @files; returns owned. Errors: ERR_INVALID they cannot be used together. */
struct tls_server *tls_server_new(const struct tls_files *files, struct err *err);
void tls_server_free(struct tls_server *s); /* NULL is fine */
/* Take files that have changed, for sessions that begin from now on; while they cannot be used,
 * those before stay. Looks once in TLS_SERVER_REFRESH_MS. */
void tls_server_refresh(struct tls_server *s, uint64_t now_ms);

enum tls_step {
    TLS_DONE,
    TLS_WANTS_READ,  /* again when the socket can be read */
    TLS_WANTS_WRITE, /* again when it can be written */
    TLS_ENDED,       /* by the peer, or the connection broke */
};

/* Borrows @fd, which does not block. Returns owned; NULL: no memory. */
struct tls_session *tls_session_new(struct tls_server *s, int fd);
void tls_session_free(struct tls_session *t); /* NULL is fine */
enum tls_step tls_session_shake_hands(struct tls_session *t);
/* When TLS_DONE: at least one byte, with the count in @done. */
enum tls_step tls_session_read(struct tls_session *t, void *out, size_t n, size_t *done);
enum tls_step tls_session_write(struct tls_session *t, const void *data, size_t n, size_t *done);
/* Tells the peer that nothing more comes, if there is room. */
void tls_session_end(struct tls_session *t);
/* After the handshake: writes why the peer is not believed into @out; NULL: its certificate leads
 * to one of the CAs. */
const char *tls_session_refusal(struct tls_session *t, char out[TLS_REFUSAL_BYTES]);
/* After the handshake, for a peer that is believed: its names; empty without a certificate. */
void tls_session_peer(struct tls_session *t, struct tls_peer *out);

#endif
