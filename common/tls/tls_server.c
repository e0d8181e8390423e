/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions are never resumed: what a peer is believed to be would outlive the CA that said so. */
#include "tls/tls_server.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "os/file_version.h"
#include "tls/tls_openssl.h"
#include "tls/tls_peer_read.h"

#define FILES 3

struct tls_server {
    char *paths[FILES]; /* certificate, key, CA */
    struct file_version taken[FILES];
    uint64_t looked_ms;
    SSL_CTX *context; /* sessions keep the one that they began with */
};

struct tls_session {
    SSL *ssl;
};

/* ---- files ---- */

static void look(const struct tls_server *s, struct file_version out[FILES])
{
    for (size_t i = 0; i < FILES; i++) {
        out[i] = file_version(s->paths[i]);
    }
}

static bool is_same(const struct file_version *a, const struct file_version *b)
{
    for (size_t i = 0; i < FILES; i++) {
        if (!file_version_same(&a[i], &b[i])) {
            return false;
        }
    }
    return true;
}

/* The handshake goes on whatever is wrong with a client's certificate; SSL_get_verify_result()
 * keeps the reason. */
static int verify(int ok, X509_STORE_CTX *context)
{
    (void)ok;
    (void)context;
    return 1;
}

static SSL_CTX *make_context(const struct tls_server *s, struct err *err)
{
    ERR_clear_error();
    SSL_CTX *c = SSL_CTX_new(TLS_server_method());
    if (c == NULL || SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION) != 1 ||
        SSL_CTX_use_certificate_chain_file(c, s->paths[0]) != 1 ||
        SSL_CTX_use_PrivateKey_file(c, s->paths[1], SSL_FILETYPE_PEM) != 1 ||
        SSL_CTX_check_private_key(c) != 1 ||
        SSL_CTX_load_verify_locations(c, s->paths[2], NULL) != 1) {
        (void)tls_error(err, ERR_INVALID, "%s, %s and %s cannot be used together", s->paths[0],
                        s->paths[1], s->paths[2]);
        SSL_CTX_free(c);
        return NULL;
    }
    SSL_CTX_set_verify(c, SSL_VERIFY_PEER, verify);
    (void)SSL_CTX_set_session_cache_mode(c, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_num_tickets(c, 0);
    (void)SSL_CTX_set_options(c,
                              SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    (void)SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    return c;
}

struct tls_server *tls_server_new(const struct tls_files *files, struct err *err)
{
    struct tls_server *s = mem_new(1, sizeof *s);
    s->paths[0] = mem_strdup(files->certificate);
    s->paths[1] = mem_strdup(files->key);
    s->paths[2] = mem_strdup(files->ca);
    look(s, s->taken); /* noted before they are read: files that change meanwhile are read again */
    s->context = make_context(s, err);
    if (s->context == NULL) {
        tls_server_free(s);
        return NULL;
    }
    return s;
}

void tls_server_free(struct tls_server *s)
{
    if (s == NULL) {
        return;
    }
    SSL_CTX_free(s->context);
    for (size_t i = 0; i < FILES; i++) {
        free(s->paths[i]);
    }
    free(s);
}

void tls_server_refresh(struct tls_server *s, uint64_t now_ms)
{
    struct file_version now[FILES];
    if (now_ms - s->looked_ms < TLS_SERVER_REFRESH_MS) {
        return;
    }
    s->looked_ms = now_ms;
    look(s, now);
    if (is_same(s->taken, now)) {
        return;
    }
    /* perhaps only one of the two files is new: look again */
    SSL_CTX *fresh = make_context(s, NULL);
    if (fresh != NULL) {
        SSL_CTX_free(s->context);
        s->context = fresh;
        memcpy(s->taken, now, sizeof now);
    }
}

/* ---- sessions ---- */

struct tls_session *tls_session_new(struct tls_server *s, int fd)
{
    ERR_clear_error();
    SSL *ssl = SSL_new(s->context);
    if (ssl == NULL || SSL_set_fd(ssl, fd) != 1) {
        SSL_free(ssl);
        ERR_clear_error();
        return NULL;
    }
    struct tls_session *t = mem_new(1, sizeof *t);
    t->ssl = ssl;
    return t;
}

void tls_session_free(struct tls_session *t)
{
    if (t != NULL) {
        SSL_free(t->ssl);
        free(t);
    }
}

static enum tls_step step(const struct tls_session *t, int result)
{
    int why = SSL_get_error(t->ssl, result);
    ERR_clear_error(); /* broken sessions are the peers' business */
    switch (why) {
    case SSL_ERROR_NONE:
        return TLS_DONE;
    case SSL_ERROR_WANT_READ:
        return TLS_WANTS_READ;
    case SSL_ERROR_WANT_WRITE:
        return TLS_WANTS_WRITE;
    default:
        return TLS_ENDED;
    }
}

enum tls_step tls_session_shake_hands(struct tls_session *t)
{
    return step(t, SSL_accept(t->ssl));
}

enum tls_step tls_session_read(struct tls_session *t, void *out, size_t n, size_t *done)
{
    return step(t, SSL_read_ex(t->ssl, out, n, done));
}

enum tls_step tls_session_write(struct tls_session *t, const void *data, size_t n, size_t *done)
{
    return step(t, SSL_write_ex(t->ssl, data, n, done));
}

void tls_session_end(struct tls_session *t)
{
    (void)SSL_shutdown(t->ssl);
    ERR_clear_error();
}

const char *tls_session_refusal(struct tls_session *t, char out[TLS_REFUSAL_BYTES])
{
    char name[TLS_NAME_BYTES];
    X509 *peer = SSL_get0_peer_certificate(t->ssl);
    long why = SSL_get_verify_result(t->ssl);
    if (peer != NULL && why == X509_V_OK) {
        return NULL;
    }
    if (peer == NULL) {
        (void)snprintf(out, TLS_REFUSAL_BYTES, "no client certificate was shown");
    } else {
        (void)snprintf(out, TLS_REFUSAL_BYTES, "the certificate of %s is not believed: %s",
                       tls_subject(peer, name), X509_verify_cert_error_string(why));
    }
    return out;
}

void tls_session_peer(struct tls_session *t, struct tls_peer *out)
{
    X509 *peer = SSL_get0_peer_certificate(t->ssl);
    *out = (struct tls_peer){0};
    if (peer != NULL) {
        tls_peer_read(peer, out);
    }
}
