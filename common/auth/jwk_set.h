/* SPDX-License-Identifier: Apache-2.0 */
/* Public keys with which signatures of JSON web tokens are checked: a JSON web key set (RFC 7517),
 * or keys in PEM form. Keys that are of no use here (for encryption, symmetric, of other curves)
 * are passed over. A set is not changed after it was read; any thread. */
#ifndef GRADUS_AUTH_JWK_SET_H
#define GRADUS_AUTH_JWK_SET_H

#include <stddef.h>

#include "base/err.h"

#define JWK_SET_MAX 64
#define JWK_SET_BYTES_MAX ((size_t)1 << 20)
#define JWK_RSA_BITS_MIN 2048

struct jwk_set;

/* Returns owned. Errors: ERR_INVALID no key can be used, and why the last one cannot. */
struct jwk_set *jwk_set_parse(const char *text, size_t n, struct err *err);
void jwk_set_free(struct jwk_set *s); /* NULL is fine */
size_t jwk_set_count(const struct jwk_set *s);

struct jwk_signature {
    const char *algorithm; /* "RS256" */
    const char *key_id;    /* NULL: any key will do */
    const void *data;      /* what is signed */
    size_t data_bytes;
    const unsigned char *bytes;
    size_t count;
};

/* Errors: ERR_UNAUTHENTICATED an algorithm that is not taken, no such key, or it does not verify.
 */
int jwk_set_verify(const struct jwk_set *s, const struct jwk_signature *signature, struct err *err);

#endif
