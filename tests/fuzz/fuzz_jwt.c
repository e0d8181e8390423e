/* SPDX-License-Identifier: Apache-2.0 */
/* JSON web tokens (auth/jwt.c, auth/base64url.c): the compact form, header, claims, times, issuer,
 * audience, roles by a path, node. Signatures are taken for good or not as the input says, so that
 * what stands behind them is reached; the real ones are fuzz_jwks.c's.
 *
 * Input: a byte of flags; a token as it stands, or header and claims as JSON, with a NUL between.
 */
#include "fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "auth/base64url.h"
#include "auth/jwt.h"

#define NOW_S 1800000000

static bool good;

int jwk_set_verify(const struct jwk_set *s, const struct jwk_signature *signature, struct err *err)
{
    (void)s;
    fuzz_require(signature->algorithm != NULL && signature->data != NULL &&
                     memchr(signature->data, '.', signature->data_bytes) != NULL,
                 "what is signed is header and claims");
    return good ? 0 : err_set(err, ERR_UNAUTHENTICATED, "the signature is not that of any key");
}

static void pack(struct fuzz_input *in, struct buf *token)
{
    char *header = fuzz_text(in, '\0');
    char *claims = fuzz_text(in, '\0');
    base64url_encode(header, strlen(header), token);
    buf_add_char(token, '.');
    base64url_encode(claims, strlen(claims), token);
    buf_add_str(token, ".c2lnbmF0dXJl");
    free(header);
    free(claims);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct fuzz_input in = {data, n};
    uint8_t flags = fuzz_byte(&in);
    const struct jwt_rules rules = {.issuer = (flags & 1) != 0 ? "https://id" : "",
                                    .audience = (flags & 2) != 0 ? "gradus" : "",
                                    .role_claim =
                                        (flags & 4) != 0 ? "realm_access.roles" : JWT_ROLE_CLAIM};
    struct buf token = {0};
    if ((flags & 8) != 0) {
        buf_add(&token, in.data, in.n);
    } else {
        pack(&in, &token);
    }
    good = (flags & 16) == 0;
    struct auth_identity who = {0};
    struct err err = {0};
    int64_t until_s = 0;
    const char *text = buf_str(&token);
    int rc = 0;
    if (jwt_looks_like(text, token.len)) {
        rc = jwt_check(text, token.len, NULL, &rules, NOW_S, &who, &until_s, &err);
        fuzz_require_error(rc, &err);
        fuzz_require(rc != 0 || (good && who.name[0] != '\0' && until_s > NOW_S - JWT_SKEW_S),
                     "who is believed has a name, and a token that is not over");
    }
    char shown[AUTH_WHO_BYTES];
    (void)auth_identity_text(&who, shown);
    buf_release(&token);
    return 0;
}
