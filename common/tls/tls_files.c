/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at certificate, key and CA before anything uses them: later, all that the other side of a
 * connection would say is that the handshake failed. */
#include "tls/tls_files.h"

#include <time.h>

#include "tls/tls_openssl.h"

static int check_dates(X509 *certificate, const char *path, time_t now, struct err *err)
{
    char name[TLS_NAME_BYTES];
    char date[TLS_DATE_BYTES];
    if (X509_cmp_time(X509_get0_notAfter(certificate), &now) < 0) {
        return err_set(err, ERR_INVALID, "%s: the certificate of %s expired on %s", path,
                       tls_subject(certificate, name),
                       tls_date(X509_get0_notAfter(certificate), date));
    }
    if (X509_cmp_time(X509_get0_notBefore(certificate), &now) > 0) {
        return err_set(err, ERR_INVALID,
                       "%s: the certificate of %s is not valid before %s; is the clock of this "
                       "machine right?",
                       path, tls_subject(certificate, name),
                       tls_date(X509_get0_notBefore(certificate), date));
    }
    return 0;
}

static int check_key(X509 *certificate, const struct tls_files *f, struct err *err)
{
    char name[TLS_NAME_BYTES];
    EVP_PKEY *key = tls_read_key(f->key, err);
    if (key == NULL) {
        return err->code;
    }
    int rc = 0;
    if (X509_check_private_key(certificate, key) != 1) {
        ERR_clear_error();
        rc = err_set(err, ERR_INVALID, "%s is not the key of the certificate of %s in %s", f->key,
                     tls_subject(certificate, name), f->certificate);
    }
    EVP_PKEY_free(key);
    return rc;
}

/* A bundle may have a CA that is over, while its successor is in use already. */
static int check_ca(STACK_OF(X509) * cas, const char *path, time_t now, struct err *err)
{
    int rc = 0;
    for (int i = 0; i < sk_X509_num(cas); i++) {
        rc = check_dates(sk_X509_value(cas, i), path, now, err);
        if (rc == 0) {
            return 0;
        }
    }
    return rc;
}

static X509_STORE *store_of(STACK_OF(X509) * cas)
{
    X509_STORE *store = X509_STORE_new();
    for (int i = 0; store != NULL && i < sk_X509_num(cas); i++) {
        (void)X509_STORE_add_cert(store, sk_X509_value(cas, i));
    }
    return store;
}

/* Checks the chain: a peer that believes the same CA must be able to believe this side. */
static int check_chain(STACK_OF(X509) * own, STACK_OF(X509) * cas, const struct tls_files *f,
                       time_t now, struct err *err)
{
    X509 *leaf = sk_X509_value(own, 0);
    X509_STORE *store = store_of(cas);
    X509_STORE_CTX *context = X509_STORE_CTX_new();
    int rc = tls_error(err, ERR_EXHAUSTED, "%s", f->certificate);
    if (store != NULL && context != NULL && X509_STORE_CTX_init(context, store, leaf, own) == 1) {
        char name[TLS_NAME_BYTES];
        char issuer[TLS_NAME_BYTES];
        X509_VERIFY_PARAM_set_time(X509_STORE_CTX_get0_param(context), now);
        rc = X509_verify_cert(context) == 1
                 ? 0
                 : err_set(err, ERR_INVALID,
                           "%s: the certificate of %s, issued by %s, cannot be traced to a CA of "
                           "%s: %s",
                           f->certificate, tls_subject(leaf, name), tls_issuer(leaf, issuer), f->ca,
                           X509_verify_cert_error_string(X509_STORE_CTX_get_error(context)));
    }
    ERR_clear_error();
    X509_STORE_CTX_free(context);
    X509_STORE_free(store);
    return rc;
}

static int check_own(const struct tls_files *f, time_t now, STACK_OF(X509) * *own, struct err *err)
{
    *own = tls_read_certificates(f->certificate, err);
    int rc =
        *own == NULL ? err->code : check_dates(sk_X509_value(*own, 0), f->certificate, now, err);
    return rc != 0 ? rc : check_key(sk_X509_value(*own, 0), f, err);
}

int tls_files_check(const struct tls_files *f, int64_t now_s, struct err *err)
{
    struct err local = {0};
    time_t now = (time_t)now_s;
    STACK_OF(X509) *cas = NULL;
    STACK_OF(X509) *own = NULL;
    int rc = f->certificate != NULL ? check_own(f, now, &own, &local) : 0;
    if (rc == 0) {
        cas = tls_read_certificates(f->ca, &local);
        rc = cas == NULL ? local.code : check_ca(cas, f->ca, now, &local);
    }
    rc = rc != 0 || own == NULL ? rc : check_chain(own, cas, f, now, &local);
    tls_certificates_free(own);
    tls_certificates_free(cas);
    return rc == 0 ? 0 : err_set(err, rc, "%s", local.msg);
}

int64_t tls_files_expire_s(const struct tls_files *f)
{
    struct tm tm;
    int64_t at = 0;
    STACK_OF(X509) *own = tls_read_certificates(f->certificate, NULL);
    if (own != NULL && ASN1_TIME_to_tm(X509_get0_notAfter(sk_X509_value(own, 0)), &tm) == 1) {
        at = (int64_t)timegm(&tm);
    }
    tls_certificates_free(own);
    return at;
}
