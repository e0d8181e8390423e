/* SPDX-License-Identifier: Apache-2.0 */
/* The files of TLS as they are read at a start and when they change (tls/tls_files.c): chains and
 * CAs in PEM, a key, what belongs together, dates, purposes; and the names in what was read
 * (tls/tls_peer.c). What a peer shows goes through OpenSSL first and then to fuzz_identity.
 *
 * Input: a byte with flags; three texts with a NUL between them: our certificate and those behind
 * it, the CAs, the key. */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "tls/tls_files.h"
#include "tls/tls_openssl.h"
#include "tls/tls_peer_read.h"

#define NOW_S 1900000000 /* of the seeds, which are valid for a hundred years */

static const char *file_of(unsigned slot, struct fuzz_input *in, char **text)
{
    *text = fuzz_text(in, '\0');
    return fuzz_file(slot, *text, strlen(*text));
}

/* All that is in the file has names that end. */
static void read_names(const char *path)
{
    static struct tls_peer peer;
    struct err err = {0};
    STACK_OF(X509) *all = tls_read_certificates(path, &err);
    fuzz_require(all != NULL || err.msg[0] != '\0', "a file that is refused has a reason");
    for (int i = 0; i < sk_X509_num(all); i++) {
        tls_peer_read(sk_X509_value(all, i), &peer);
        fuzz_require(memchr(peer.common_name, '\0', sizeof peer.common_name) != NULL &&
                         memchr(peer.subject, '\0', sizeof peer.subject) != NULL &&
                         peer.uri_count <= TLS_PEER_URIS_MAX,
                     "names end");
    }
    tls_certificates_free(all);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    struct err err = {0};
    char *texts[3];
    bool client = (fuzz_byte(&in) & 1) != 0; /* without a certificate of its own */
    struct tls_files files = {.certificate = file_of(0, &in, &texts[0])};
    files.ca = file_of(1, &in, &texts[1]);
    files.key = file_of(2, &in, &texts[2]);
    read_names(files.certificate);
    if (client) {
        files.certificate = files.key = NULL;
    } else {
        (void)tls_files_expire_s(&files);
    }
    fuzz_require_error(tls_files_check(&files, NOW_S, &err), &err);
    for (int i = 0; i < 3; i++) {
        free(texts[i]);
    }
    return 0;
}
