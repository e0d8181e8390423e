/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of JSON web tokens (auth/jwk_set.c): a key set, or keys in PEM form.  */
#include "fuzz/fuzz.h"

#include "auth/jwk_set.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const unsigned char bytes[64] = {1};
    struct err err = {0};
    struct jwk_set *set = jwk_set_parse((const char *)data, n, &err);
    if (set == NULL) {
        fuzz_require(err.code != 0, "no keys without an error");
        fuzz_require_error(err.code, &err);
        return 0;
    }
    fuzz_require(jwk_set_count(set) > 0 && jwk_set_count(set) <= JWK_SET_MAX,
                 "as many keys as there may be");
    struct jwk_signature signature = {.algorithm = "ES256",
                                      .data = "data",
                                      .data_bytes = 4,
                                      .bytes = bytes,
                                      .count = sizeof bytes};
    fuzz_require(jwk_set_verify(set, &signature, &err) == ERR_UNAUTHENTICATED,
                 "nobody has signed that");
    jwk_set_free(set);
    return 0;
}
