/* SPDX-License-Identifier: Apache-2.0 */
/* Reads names out of certificates. One that does not fit, or has a NUL in it, is as good as none.
 */
#include <string.h>

#include "tls/tls_openssl.h"
#include "tls/tls_peer_read.h"

static void read_common_name(X509_NAME *name, char out[TLS_PEER_NAME_BYTES])
{
    int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
    X509_NAME_ENTRY *entry = at < 0 ? NULL : X509_NAME_get_entry(name, at);
    unsigned char *text = NULL;
    int n = entry == NULL ? -1 : ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(entry));
    if (n > 0 && n < TLS_PEER_NAME_BYTES && memchr(text, '\0', (size_t)n) == NULL) {
        memcpy(out, text, (size_t)n);
        out[n] = '\0';
    }
    OPENSSL_free(text);
}

static void read_subject(X509_NAME *name, char out[TLS_PEER_SUBJECT_BYTES])
{
    BIO *text = BIO_new(BIO_s_mem());
    char *data = NULL;
    if (text != NULL && X509_NAME_print_ex(text, name, 0, XN_FLAG_RFC2253) >= 0) {
        long n = BIO_get_mem_data(text, &data);
        if (n > 0 && n < TLS_PEER_SUBJECT_BYTES && memchr(data, '\0', (size_t)n) == NULL) {
            memcpy(out, data, (size_t)n);
            out[n] = '\0';
        }
    }
    BIO_free(text);
}

static void read_uris(X509 *certificate, struct tls_peer *out)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && out->uri_count < TLS_PEER_URIS_MAX; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        if (name->type != GEN_URI) {
            continue;
        }
        const ASN1_IA5STRING *uri = name->d.uniformResourceIdentifier;
        size_t n = (size_t)ASN1_STRING_length(uri);
        const unsigned char *text = ASN1_STRING_get0_data(uri);
        if (n < TLS_PEER_NAME_BYTES && memchr(text, '\0', n) == NULL) {
            memcpy(out->uris[out->uri_count], text, n);
            out->uris[out->uri_count++][n] = '\0';
        }
    }
    GENERAL_NAMES_free(names);
}

void tls_peer_read(X509 *certificate, struct tls_peer *out)
{
    *out = (struct tls_peer){0};
    read_common_name(X509_get_subject_name(certificate), out->common_name);
    read_subject(X509_get_subject_name(certificate), out->subject);
    read_uris(certificate, out);
    ERR_clear_error();
}
