/* SPDX-License-Identifier: Apache-2.0 */
/* Signed JSON web tokens (RFC 7519, in the compact form of RFC 7515): who an identity provider says
 * that somebody is. */
#ifndef GRADUS_AUTH_JWT_H
#define GRADUS_AUTH_JWT_H

#include <stdint.h>

#include "auth/auth_identity.h"
#include "auth/jwk_set.h"

#define JWT_BYTES_MAX ((size_t)8192) /* headers of HTTP/2 are not larger either */
#define JWT_SKEW_S 60                /* seconds by which the clocks of two machines may differ */
#define JWT_ROLE_CLAIM "gradus_role"
#define JWT_NODE_CLAIM "gradus_node"

struct jwt_rules { /* borrowed; "": not asked for */
    const char *issuer;
    const char *audience;
    const char *role_claim; /* name of the claim, or a path with dots to it: "realm_access.roles" */
};

/* Is @token of this kind: three parts with dots between them? */
bool jwt_looks_like(const char *token, size_t n);
/* Checks @token at @now_s and fills @who: the name from the claim `sub`, and roles from the role
 * claim, a text or a list, each as it is called here or with "gradus-" before it; other words in it
 * belong to other programs. @until_s: when the token ends, with the skew. On failure @who is filled
 * as far as the signature holds. Errors: ERR_UNAUTHENTICATED, a sentence about "the token". */
int jwt_check(const char *token, size_t n, const struct jwk_set *keys,
              const struct jwt_rules *rules, int64_t now_s, struct auth_identity *who,
              int64_t *until_s, struct err *err);

#endif
