/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/auth/jwt_rig.h"

#include "support/test.h"

#include <string.h>

#include "auth/base64url.h"

EVP_PKEY *rig_key(int kind)
{
    EVP_PKEY *key = kind == RIG_RSA    ? EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048)
                    : kind == RIG_P256 ? EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256")
                    : kind == RIG_P384 ? EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-384")
                                       : EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    assert_non_null(key);
    return key;
}

static void add_number(EVP_PKEY *key, const char *parameter, const char *name, struct buf *out)
{
    BIGNUM *n = NULL;
    unsigned char bytes[512];
    assert_int_equal(EVP_PKEY_get_bn_param(key, parameter, &n), 1);
    int size = EVP_PKEY_get_base_id(key) == EVP_PKEY_EC ? (EVP_PKEY_get_bits(key) + 7) / 8
                                                        : BN_num_bytes(n);
    assert_true(BN_bn2binpad(n, bytes, size) == size);
    BN_free(n);
    buf_printf(out, ",\"%s\":\"", name);
    base64url_encode(bytes, (size_t)size, out);
    buf_add_char(out, '"');
}

void rig_jwk(EVP_PKEY *key, const char *extra, struct buf *out)
{
    unsigned char raw[32];
    size_t n = sizeof raw;
    switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_RSA:
        buf_printf(out, "{\"kty\":\"RSA\"%s", extra);
        add_number(key, OSSL_PKEY_PARAM_RSA_N, "n", out);
        add_number(key, OSSL_PKEY_PARAM_RSA_E, "e", out);
        break;
    case EVP_PKEY_EC:
        buf_printf(out, "{\"kty\":\"EC\",\"crv\":\"P-%d\"%s", EVP_PKEY_get_bits(key), extra);
        add_number(key, OSSL_PKEY_PARAM_EC_PUB_X, "x", out);
        add_number(key, OSSL_PKEY_PARAM_EC_PUB_Y, "y", out);
        break;
    default:
        assert_int_equal(EVP_PKEY_get_raw_public_key(key, raw, &n), 1);
        buf_printf(out, "{\"kty\":\"OKP\",\"crv\":\"Ed25519\"%s,\"x\":\"", extra);
        base64url_encode(raw, n, out);
        buf_add_char(out, '"');
        break;
    }
    buf_add_char(out, '}');
}

void rig_pem(EVP_PKEY *key, struct buf *out)
{
    char *text = NULL;
    BIO *bio = BIO_new(BIO_s_mem());
    assert_int_equal(PEM_write_bio_PUBKEY(bio, key), 1);
    long n = BIO_get_mem_data(bio, &text);
    buf_add(out, text, (size_t)n);
    BIO_free(bio);
}

/* From DER to the two numbers side by side. */
static size_t to_pair(unsigned char *bytes, size_t n, int half)
{
    const unsigned char *at = bytes;
    ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &at, (long)n);
    assert_non_null(pair);
    assert_int_equal(BN_bn2binpad(ECDSA_SIG_get0_r(pair), bytes, half), half);
    assert_int_equal(BN_bn2binpad(ECDSA_SIG_get0_s(pair), bytes + half, half), half);
    ECDSA_SIG_free(pair);
    return (size_t)2 * (size_t)half;
}

void rig_token(EVP_PKEY *key, int digest, const char *header, const char *claims, struct buf *out)
{
    unsigned char signature[512];
    size_t n = sizeof signature;
    struct buf text = {0};
    base64url_encode(header, strlen(header), &text);
    buf_add_char(&text, '.');
    base64url_encode(claims, strlen(claims), &text);
    const EVP_MD *md = digest == 256   ? EVP_sha256()
                       : digest == 384 ? EVP_sha384()
                       : digest == 512 ? EVP_sha512()
                                       : NULL;
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    assert_int_equal(EVP_DigestSignInit(context, NULL, md, NULL, key), 1);
    assert_int_equal(EVP_DigestSign(context, signature, &n, (unsigned char *)text.data, text.len),
                     1);
    EVP_MD_CTX_free(context);
    if (EVP_PKEY_get_base_id(key) == EVP_PKEY_EC) {
        n = to_pair(signature, n, EVP_PKEY_get_bits(key) / 8);
    }
    buf_add_char(&text, '.');
    base64url_encode(signature, n, &text);
    buf_add(out, text.data, text.len);
    buf_release(&text);
}
