/* SPDX-License-Identifier: Apache-2.0 */
/* A client of one question. */
#include "tls/tls_ask.h"

#include <string.h>

#include "tls/tls_openssl.h"

static void talk(SSL *ssl, const char *question, char *out, size_t n)
{
    size_t have = 0;
    size_t sent = 0;
    size_t got = 0;
    if (tls_write(ssl, question, strlen(question), &sent)) {
        while (have + 1 < n && tls_read(ssl, out + have, n - 1 - have, &got)) {
            have += got;
        }
    }
    out[have] = '\0';
}

int tls_ask(int fd, const char *question, char *out, size_t n, struct err *err)
{
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl = context != NULL ? SSL_new(context) : NULL;
    int rc = 0;
    if (ssl == NULL || SSL_set_fd(ssl, fd) != 1) {
        rc = tls_error(err, ERR_EXHAUSTED, "TLS");
    } else {
        SSL_set_verify(ssl, SSL_VERIFY_NONE, NULL);
        if (tls_connect(ssl) == 1) {
            talk(ssl, question, out, n);
        } else {
            rc = tls_error(err, ERR_UNAVAILABLE, "the TLS handshake failed");
        }
    }
    ERR_clear_error();
    SSL_free(ssl);
    SSL_CTX_free(context);
    return rc;
}
