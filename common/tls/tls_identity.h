/* SPDX-License-Identifier: Apache-2.0 */
/* A certificate and its key, and the files that they are kept in. */
#ifndef GRADUS_TLS_TLS_IDENTITY_H
#define GRADUS_TLS_TLS_IDENTITY_H

#include <stdbool.h>

#include "tls/tls_openssl.h"

struct tls_identity {
    EVP_PKEY *key;
    X509 *certificate;
};

void tls_identity_release(struct tls_identity *i);
/* Writes NAME.key, which its owner alone may read, and NAME.crt of @dir, each whole or not at all.
 * Errors: ERR_EXISTS one is there and not to be replaced; those of writing. */
int tls_identity_put(const char *dir, const char *name, const struct tls_identity *i, bool replace,
                     struct err *err);

#endif
