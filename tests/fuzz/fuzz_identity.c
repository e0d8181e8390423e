/* SPDX-License-Identifier: Apache-2.0 */
/* Who shows a certificate (auth/auth_identity.c, tls/tls_peer.c): common name, subject and URIs, as
 * texts or out of a certificate, and what that allows.
 *
 * Input: a byte; then a certificate in DER, or a name, a subject and URIs, a line each. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "auth/auth_identity.h"
#include "auth/auth_table.h"
#include "tls/tls_peer_read.h"

#define URIS_MAX 4

static void decide(const struct auth_certificate *certificate)
{
    struct auth_identity who;
    struct err err = {0};
    char shown[AUTH_WHO_BYTES];
    auth_identity_certificate(certificate, &who);
    fuzz_require(memchr(who.name, '\0', sizeof who.name) != NULL &&
                     memchr(who.node, '\0', sizeof who.node) != NULL,
                 "names end");
    int rc = auth_decide(&who, AUTH_METRICS, &err);
    fuzz_require_error(rc, &err);
    fuzz_require(rc != 0 || who.roles != 0, "who has no role is refused");
    fuzz_require_error(auth_check_node(&who, "ps-1", &err), &err);
    fuzz_require_error(auth_check_owner(&who, "cancel", "job-1", "ann", &err), &err);
    for (const char *p = auth_identity_text(&who, shown); *p != '\0'; p++) {
        fuzz_require((unsigned char)*p >= ' ' && *p != 0x7f,
                     "a text for logs has no control bytes");
    }
}

static void read_texts(struct fuzz_input *in)
{
    char *name = fuzz_text(in, '\n'), *subject = fuzz_text(in, '\n'), *uris[URIS_MAX];
    const char *list[URIS_MAX];
    size_t count = 0;
    while (in->n > 0 && count < URIS_MAX) {
        list[count] = uris[count] = fuzz_text(in, '\n');
        count++;
    }
    decide(&(struct auth_certificate){
        .common_name = name, .subject = subject, .uris = list, .uri_count = count});
    for (size_t i = 0; i < count; i++) {
        free(uris[i]);
    }
    free(subject);
    free(name);
}

static void read_certificate(const struct fuzz_input *in)
{
    static struct tls_peer peer;
    const char *uris[TLS_PEER_URIS_MAX];
    const unsigned char *at = in->data;
    X509 *certificate = in->n == 0 ? NULL : d2i_X509(NULL, &at, (long)in->n);
    if (certificate == NULL) {
        ERR_clear_error();
        return;
    }
    tls_peer_read(certificate, &peer);
    for (size_t i = 0; i < peer.uri_count; i++) {
        uris[i] = peer.uris[i];
    }
    decide(&(struct auth_certificate){.common_name = peer.common_name,
                                      .subject = peer.subject,
                                      .uris = uris,
                                      .uri_count = peer.uri_count});
    X509_free(certificate);
    ERR_clear_error();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    if ((fuzz_byte(&in) & 1) != 0) {
        read_certificate(&in);
    } else {
        read_texts(&in);
    }
    return 0;
}
