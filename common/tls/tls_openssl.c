/* SPDX-License-Identifier: Apache-2.0 */
/* Reads certificates and keys in PEM form, and says what OpenSSL has to say in words of ours. */
#include "tls/tls_openssl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/text.h"
#include "os/file.h"

/* True if a call that returned @rc, with errno 0 before, was interrupted. */
static bool was_interrupted(const SSL *ssl, int rc)
{
    const int reason = errno;
    const int why = SSL_get_error(ssl, rc);
    return (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) && reason == EINTR;
}

int tls_connect(SSL *ssl)
{
    int rc;
    do {
        errno = 0;
        rc = SSL_connect(ssl);
    } while (rc != 1 && was_interrupted(ssl, rc));
    return rc;
}

bool tls_read(SSL *ssl, char *out, size_t n, size_t *got)
{
    int rc;
    do {
        errno = 0;
        rc = SSL_read_ex(ssl, out, n, got);
    } while (rc != 1 && was_interrupted(ssl, rc));
    return rc == 1;
}

bool tls_write(SSL *ssl, const char *bytes, size_t n, size_t *sent)
{
    int rc;
    do {
        errno = 0;
        rc = SSL_write_ex(ssl, bytes, n, sent);
    } while (rc != 1 && was_interrupted(ssl, rc));
    return rc == 1;
}

int tls_error(struct err *err, int code, const char *fmt, ...)
{
    char text[ERR_MESSAGE_BYTES];
    va_list args;
    va_start(args, fmt);
    (void)vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    unsigned long first = ERR_get_error();
    const char *reason = first != 0 ? ERR_reason_error_string(first) : NULL;
    ERR_clear_error();
    return reason != NULL ? err_set(err, code, "%s: %s", text, reason)
                          : err_set(err, code, "%s", text);
}

static const char *name_text(const X509_NAME *name, char out[TLS_NAME_BYTES])
{
    char text[TLS_NAME_BYTES] = "";
    if (name == NULL || X509_NAME_entry_count(name) == 0) {
        (void)snprintf(out, TLS_NAME_BYTES, "nobody");
        return out;
    }
    if (X509_NAME_get_text_by_NID(name, NID_commonName, text, sizeof text) <= 0) {
        (void)X509_NAME_oneline(name, text, sizeof text);
    }
    return text_shown(text, out, TLS_NAME_BYTES);
}

const char *tls_subject(X509 *certificate, char out[TLS_NAME_BYTES])
{
    return name_text(X509_get_subject_name(certificate), out);
}

const char *tls_issuer(X509 *certificate, char out[TLS_NAME_BYTES])
{
    return name_text(X509_get_issuer_name(certificate), out);
}

const char *tls_date(const ASN1_TIME *time, char out[TLS_DATE_BYTES])
{
    struct tm tm;
    if (ASN1_TIME_to_tm(time, &tm) != 1 ||
        strftime(out, TLS_DATE_BYTES, "%Y-%m-%d %H:%M:%S UTC", &tm) == 0) {
        (void)snprintf(out, TLS_DATE_BYTES, "an unknown date");
    }
    return out;
}

static BIO *open_file(const char *path, struct buf *text, struct err *err)
{
    if (file_read(path, TLS_FILE_BYTES_MAX, text, err) != 0) {
        return NULL;
    }
    ERR_clear_error();
    BIO *bio = BIO_new_mem_buf(buf_str(text), (int)text->len);
    if (bio == NULL) {
        (void)tls_error(err, ERR_EXHAUSTED, "%s", path);
    }
    return bio;
}

void tls_certificates_free(STACK_OF(X509) * certificates)
{
    sk_X509_pop_free(certificates, X509_free);
}

/* A file ends where no further PEM block begins; anything else is a damaged one. */
static int read_all(BIO *bio, STACK_OF(X509) * all, const char *path, struct err *err)
{
    X509 *one;
    while ((one = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
        if (sk_X509_push(all, one) == 0) {
            X509_free(one);
            return tls_error(err, ERR_EXHAUSTED, "%s", path);
        }
    }
    if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
        return tls_error(err, ERR_INVALID, "%s: certificate %d cannot be read", path,
                         sk_X509_num(all) + 1);
    }
    ERR_clear_error();
    if (sk_X509_num(all) == 0) {
        return err_set(err, ERR_INVALID, "%s has no certificate (PEM: -----BEGIN CERTIFICATE-----)",
                       path);
    }
    return 0;
}

STACK_OF(X509) * tls_read_certificates(const char *path, struct err *err)
{
    struct buf text = {0};
    BIO *bio = open_file(path, &text, err);
    STACK_OF(X509) *all = bio != NULL ? sk_X509_new_null() : NULL;
    if (bio != NULL && (all == NULL || read_all(bio, all, path, err) != 0)) {
        tls_certificates_free(all);
        all = NULL;
    }
    BIO_free(bio);
    buf_release(&text);
    return all;
}

/* Nobody is there to type a passphrase. */
static int no_passphrase(char *out, int n, int writing, void *encrypted)
{
    (void)out;
    (void)n;
    (void)writing;
    *(int *)encrypted = 1;
    return -1;
}

EVP_PKEY *tls_read_key(const char *path, struct err *err)
{
    struct buf text = {0};
    int encrypted = 0;
    BIO *bio = open_file(path, &text, err);
    EVP_PKEY *key =
        bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, no_passphrase, &encrypted) : NULL;
    if (bio != NULL && key == NULL) {
        if (encrypted) {
            ERR_clear_error();
            (void)err_set(err, ERR_INVALID, "%s has a key with a passphrase; it must have none",
                          path);
        } else if (ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_UNSUPPORTED) {
            ERR_clear_error(); /* errors of decoders that did not recognise the file */
            (void)err_set(err, ERR_INVALID,
                          "%s has no private key (PEM: -----BEGIN PRIVATE KEY-----)", path);
        } else {
            (void)tls_error(err, ERR_INVALID, "%s: the private key cannot be read", path);
        }
    }
    BIO_free(bio);
    OPENSSL_cleanse(text.data, text.data != NULL ? text.len : 0);
    buf_release(&text);
    return key;
}
