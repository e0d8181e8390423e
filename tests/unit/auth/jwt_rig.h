/* SPDX-License-Identifier: Apache-2.0 */
/* Keys, and JSON web tokens that are signed with them. */
#ifndef GRADUS_TESTS_JWT_RIG_H
#define GRADUS_TESTS_JWT_RIG_H

#include "auth/auth_openssl.h"
#include "base/buf.h"

enum { RIG_RSA, RIG_P256, RIG_P384, RIG_ED25519, RIG_KEYS };

EVP_PKEY *rig_key(int kind);
/* The public half: a JSON web key with @extra members (",\"kid\":\"a\""), or PEM. Appends. */
void rig_jwk(EVP_PKEY *key, const char *extra, struct buf *out);
void rig_pem(EVP_PKEY *key, struct buf *out);
/* Append a token with @header and @claims as they stand, signed with @key (of @digest bits). */
void rig_token(EVP_PKEY *key, int digest, const char *header, const char *claims, struct buf *out);

#endif
