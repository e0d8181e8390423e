/* SPDX-License-Identifier: Apache-2.0 */
/* A handshake whose end is put into words. A server that speaks no TLS answers something that is no
 * TLS record; one that does not take our certificate says so, or closes, after the handshake. */
#include "tls/tls_probe.h"

#include <arpa/inet.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "tls/tls_openssl.h"

#define NAMES_SHOWN 6

/* ---- the server's certificate ---- */

/* "localhost, 127.0.0.1" */
static void list_names(X509 *certificate, struct buf *out)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    int shown = 0;
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
        const GENERAL_NAME *n = sk_GENERAL_NAME_value(names, i);
        char text[INET6_ADDRSTRLEN] = "";
        const char *comma = shown > 0 ? ", " : "";
        if (n->type != GEN_DNS && n->type != GEN_IPADD) {
            continue;
        }
        if (shown++ == NAMES_SHOWN) {
            buf_add_str(out, ", …");
            break;
        }
        if (n->type == GEN_DNS) {
            buf_printf(out, "%s%.*s", comma, ASN1_STRING_length(n->d.dNSName),
                       (const char *)ASN1_STRING_get0_data(n->d.dNSName));
        } else {
            int family = ASN1_STRING_length(n->d.iPAddress) == 4 ? AF_INET : AF_INET6;
            (void)inet_ntop(family, ASN1_STRING_get0_data(n->d.iPAddress), text, sizeof text);
            buf_printf(out, "%s%s", comma, text);
        }
    }
    if (shown == 0) {
        buf_add_str(out, "no host");
    }
    GENERAL_NAMES_free(names);
}

static int wrong_name(X509 *certificate, const char *host, struct err *err)
{
    struct buf names = {0};
    list_names(certificate, &names);
    int rc = err_set(err, ERR_UNAUTHENTICATED,
                     "its certificate is for %s and not for %s; issue one with that host, or name "
                     "the one to expect with --tls-name",
                     buf_str(&names), host);
    buf_release(&names);
    return rc;
}

static int wrong_certificate(X509 *peer, long why, const char *host, const struct tls_files *files,
                             struct err *err)
{
    char name[TLS_NAME_BYTES];
    char date[TLS_DATE_BYTES];
    int rc = ERR_UNAUTHENTICATED;
    if (peer == NULL) {
        return err_set(err, rc, "its certificate is refused: %s",
                       X509_verify_cert_error_string(why));
    }
    switch (why) {
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return err_set(err, rc, "its certificate expired on %s",
                       tls_date(X509_get0_notAfter(peer), date));
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return err_set(
            err, rc, "its certificate is not valid before %s; is the clock of this machine right?",
            tls_date(X509_get0_notBefore(peer), date));
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return wrong_name(peer, host, err);
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        return err_set(err, rc, "its certificate was issued by %s, which is no CA of %s",
                       tls_issuer(peer, name), files->ca);
    case X509_V_ERR_INVALID_PURPOSE:
        return err_set(err, rc, "its certificate, of %s, is not one of a node",
                       tls_subject(peer, name));
    default:
        return err_set(err, rc, "its certificate is refused: %s",
                       X509_verify_cert_error_string(why));
    }
}

/* ---- refusals of the server ---- */

static int refused(const struct tls_files *files, struct err *err)
{
    char name[TLS_NAME_BYTES];
    struct err own = {0};
    unsigned long first = ERR_peek_error();
    const char *says = ERR_GET_LIB(first) == ERR_LIB_SSL ? ERR_reason_error_string(first) : NULL;
    const char *open = says != NULL ? " (" : "";
    int rc = ERR_UNAUTHENTICATED;
    if (files->certificate == NULL) {
        return err_set(err, rc,
                       "it asks for a certificate, and this side was given no --tls-cert and "
                       "--tls-key; a service with --tls-client optional takes a token alone");
    }
    if (tls_files_check(files, (int64_t)time(NULL), &own) != 0) {
        return err_set(err, rc, "it does not take our certificate: %s", own.msg);
    }
    STACK_OF(X509) *mine = tls_read_certificates(files->certificate, NULL);
    (void)err_set(err, rc,
                  "it does not take our certificate, %s, issued by %s: another CA than the one it "
                  "believes?%s%s%s",
                  files->certificate,
                  mine != NULL ? tls_issuer(sk_X509_value(mine, 0), name) : "nobody", open,
                  says != NULL ? says : "", says != NULL ? ")" : "");
    tls_certificates_free(mine);
    return rc;
}

static bool is_no_tls(void)
{
    unsigned long e = ERR_peek_error();
    if (ERR_GET_LIB(e) != ERR_LIB_SSL) {
        return false;
    }
    switch (ERR_GET_REASON(e)) {
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
    case SSL_R_RECORD_LENGTH_MISMATCH:
    case SSL_R_BAD_RECORD_TYPE:
    case SSL_R_UNEXPECTED_MESSAGE:
        return true;
    default:
        return false;
    }
}

static int no_tls(struct err *err)
{
    return err_set(err, ERR_UNAUTHENTICATED,
                   "it speaks no TLS, and the files of TLS (--tls-ca …) are given here: start "
                   "it with its own, or leave them out here");
}

/* ---- the handshake ---- */

static bool use_files(SSL_CTX *context, const struct tls_files *f)
{
    return SSL_CTX_load_verify_locations(context, f->ca, NULL) == 1 &&
           (f->certificate == NULL ||
            (SSL_CTX_use_certificate_chain_file(context, f->certificate) == 1 &&
             SSL_CTX_use_PrivateKey_file(context, f->key, SSL_FILETYPE_PEM) == 1));
}

static bool expect_host(SSL *ssl, const char *host)
{
    unsigned char bytes[16];
    X509_VERIFY_PARAM *p = SSL_get0_param(ssl);
    if (inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1) {
        return X509_VERIFY_PARAM_set1_ip_asc(p, host) == 1;
    }
    char *name = mem_strdup(host); /* theirs casts away what we may not change */
    bool set = SSL_set_tlsext_host_name(ssl, name) == 1 && SSL_set1_host(ssl, host) == 1;
    free(name);
    return set;
}

/* A certificate that is refused is forgotten with the handshake; SSL's app data keeps it. */
static int verify(int ok, X509_STORE_CTX *context)
{
    SSL *ssl = X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx());
    X509 *leaf = X509_STORE_CTX_get0_cert(context);
    X509 **kept = SSL_get_app_data(ssl);
    if (!ok && *kept == NULL && leaf != NULL && X509_up_ref(leaf) == 1) {
        *kept = leaf;
    }
    return ok;
}

/* Waits for the server's word after the handshake. In TLS 1.3 a client is through before the server
 * has looked at its certificate; then, from gRPC, settings come, or an alert, or the end. */
static int await_welcome(SSL *ssl, const struct tls_files *files, struct err *err)
{
    char byte;
    size_t got = 0;
    if (tls_read(ssl, &byte, 1, &got) || SSL_get_error(ssl, 0) == SSL_ERROR_WANT_READ) {
        return 0;
    }
    return refused(files, err);
}

static int shake_hands(SSL *ssl, const char *host, const struct tls_files *files, struct err *err)
{
    ERR_clear_error();
    int n = tls_connect(ssl);
    int why = SSL_get_error(ssl, n);
    if (n == 1) {
        return await_welcome(ssl, files, err);
    }
    long verified = SSL_get_verify_result(ssl);
    if (verified != X509_V_OK) {
        return wrong_certificate(*(X509 **)SSL_get_app_data(ssl), verified, host, files, err);
    }
    if (is_no_tls()) {
        return no_tls(err);
    }
    if (why == SSL_ERROR_SSL && SSL_get0_peer_certificate(ssl) != NULL) {
        return refused(files, err); /* TLS 1.2 */
    }
    return 0; /* silent or gone: that is not about TLS */
}

static int probe_with(int fd, const char *host, const struct tls_files *files, struct err *err)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl = NULL;
    X509 *peer = NULL;
    int rc = 0;
    ERR_clear_error();
    if (context != NULL && use_files(context, files)) {
        SSL_CTX_set_verify(context, SSL_VERIFY_PEER, verify);
        (void)SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
        ssl = SSL_new(context);
    } else {
        const bool own = files->certificate != NULL;
        rc = tls_error(err, ERR_INVALID, "our own %s%s%s%s%s cannot be used together",
                       own ? files->certificate : "", own ? ", " : "", own ? files->key : "",
                       own ? " and " : "", files->ca);
    }
    static const unsigned char http2[] = {2, 'h', '2'};
    if (ssl != NULL && SSL_set_app_data(ssl, &peer) == 1 && expect_host(ssl, host) &&
        SSL_set_fd(ssl, fd) == 1 && SSL_set_alpn_protos(ssl, http2, sizeof http2) == 0) {
        rc = shake_hands(ssl, host, files, err);
    }
    ERR_clear_error();
    X509_free(peer);
    SSL_free(ssl);
    SSL_CTX_free(context);
    return rc;
}

/* A server that answers a TLS hello in TLS speaks it, whatever the answer is. */
static int probe_without(int fd, struct err *err)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL *ssl = context != NULL ? SSL_new(context) : NULL;
    bool speaks = false;
    if (ssl != NULL && SSL_set_fd(ssl, fd) == 1) {
        SSL_set_verify(ssl, SSL_VERIFY_NONE, NULL);
        ERR_clear_error();
        int n = tls_connect(ssl);
        int why = SSL_get_error(ssl, n);
        unsigned long e = ERR_peek_error();
        bool alert = ERR_GET_LIB(e) == ERR_LIB_SSL && ERR_GET_REASON(e) >= SSL_AD_REASON_OFFSET;
        speaks = n == 1 || (why == SSL_ERROR_SSL && alert);
    }
    ERR_clear_error();
    SSL_free(ssl);
    SSL_CTX_free(context);
    return speaks ? err_set(err, ERR_UNAUTHENTICATED,
                            "it speaks TLS, and this side was given no --tls-cert, --tls-key and "
                            "--tls-ca")
                  : 0;
}

int tls_probe(int fd, const char *host, const struct tls_files *files, struct err *err)
{
    return files != NULL ? probe_with(fd, host, files, err) : probe_without(fd, err);
}
