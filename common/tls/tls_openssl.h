/* SPDX-License-Identifier: Apache-2.0 */
/* The only header that includes OpenSSL's: what the files of this room share. */
#ifndef GRADUS_TLS_TLS_OPENSSL_H
#define GRADUS_TLS_TLS_OPENSSL_H

#include <stdbool.h>
#include <stdint.h>

#define ERR_STATE openssl_err_state /* a type of theirs and a code of ours have one name */
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <openssl/x509v3.h>
#undef ERR_STATE

#include "base/buf.h"
#include "base/err.h"

#define TLS_FILE_BYTES_MAX ((size_t)1 << 20) /* of a bundle of certificates */
#define TLS_NAME_BYTES 256
#define TLS_DATE_BYTES 32

/* Fill @err with the message and ": " and what OpenSSL says; its queue of errors is empty then. */
int tls_error(struct err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* tls_connect(), tls_read(), tls_write(): as OpenSSL's, for a socket with time-outs (SO_RCVTIMEO),
 * whose reads and writes are interrupted when the process goes on after it was stopped; these go on
 * then. */
int tls_connect(SSL *ssl);
bool tls_read(SSL *ssl, char *out, size_t n, size_t *got);
bool tls_write(SSL *ssl, const char *bytes, size_t n, size_t *sent);
/* The subject for people: its common name, or all of it; returns @out. */
const char *tls_subject(X509 *certificate, char out[TLS_NAME_BYTES]);
const char *tls_issuer(X509 *certificate, char out[TLS_NAME_BYTES]);
/* "2026-11-22 10:20:30 UTC"; returns @out. */
const char *tls_date(const ASN1_TIME *time, char out[TLS_DATE_BYTES]);
/* Reads all certificates of a PEM file, at least one; returns owned (sk_X509_pop_free). Errors:
 * those of reading it; ERR_INVALID there is none, or one that is damaged. */
STACK_OF(X509) * tls_read_certificates(const char *path, struct err *err);
/* Returns owned (EVP_PKEY_free). Errors: those of reading it; ERR_INVALID. */
EVP_PKEY *tls_read_key(const char *path, struct err *err);
void tls_certificates_free(STACK_OF(X509) * certificates); /* NULL is fine */

#endif
