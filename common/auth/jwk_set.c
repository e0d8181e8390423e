/* SPDX-License-Identifier: Apache-2.0 */
/* Keys are OpenSSL's, made of the numbers of a JSON web key (RFC 7518, section 6; RFC 8037) or read
 * as PEM. An algorithm goes with one kind of key, so no public key is ever taken for the secret of
 * an HMAC, and "none" is no algorithm. */
#include "auth/jwk_set.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "auth/auth_openssl.h"
#include "auth/base64url.h"
#include "base/mem.h"
#include "base/text.h"
#include "json/json_doc.h"

#define SHOWN_BYTES 64

enum kind { KIND_NONE, KIND_RSA, KIND_P256, KIND_P384, KIND_ED25519 };

struct algorithm {
    const char *name;
    enum kind kind;
    const EVP_MD *(*digest)(void); /* NULL: part of the signature's own rules */
};

static const struct algorithm algorithms[] = {
    {"RS256", KIND_RSA, EVP_sha256},  {"RS384", KIND_RSA, EVP_sha384},
    {"RS512", KIND_RSA, EVP_sha512},  {"ES256", KIND_P256, EVP_sha256},
    {"ES384", KIND_P384, EVP_sha384}, {"EdDSA", KIND_ED25519, NULL},
    {"Ed25519", KIND_ED25519, NULL},
};

struct jwk {
    EVP_PKEY *key;
    enum kind kind;
    char *id;                          /* NULL: none */
    const struct algorithm *algorithm; /* the only algorithm of the key; NULL: all of its kind */
};

struct jwk_set {
    struct jwk keys[JWK_SET_MAX];
    size_t count;
};

static const struct algorithm *find_algorithm(const char *name)
{
    for (size_t i = 0; i < sizeof algorithms / sizeof algorithms[0]; i++) {
        if (strcmp(algorithms[i].name, name) == 0) {
            return &algorithms[i];
        }
    }
    return NULL;
}

/* ---- keys ---- */

static enum kind kind_of(const EVP_PKEY *key, struct err *err)
{
    char curve[32] = "";
    switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_RSA:
        if (EVP_PKEY_get_bits(key) >= JWK_RSA_BITS_MIN) {
            return KIND_RSA;
        }
        (void)err_set(err, ERR_INVALID, "an RSA key of %d bits, and at least %d are taken",
                      EVP_PKEY_get_bits(key), JWK_RSA_BITS_MIN);
        return KIND_NONE;
    case EVP_PKEY_ED25519:
        return KIND_ED25519;
    case EVP_PKEY_EC:
        (void)EVP_PKEY_get_utf8_string_param(key, OSSL_PKEY_PARAM_GROUP_NAME, curve, sizeof curve,
                                             NULL);
        if (strcmp(curve, SN_X9_62_prime256v1) == 0) {
            return KIND_P256;
        }
        if (strcmp(curve, SN_secp384r1) == 0) {
            return KIND_P384;
        }
        break;
    default:
        break;
    }
    (void)err_set(err, ERR_INVALID, "a key of another kind than RSA, P-256, P-384 and Ed25519");
    return KIND_NONE;
}

/* Takes @key; NULL: it could not be made. */
static int add(struct jwk_set *s, EVP_PKEY *key, const char *id, const struct algorithm *algorithm,
               struct err *err)
{
    ERR_clear_error();
    enum kind kind = KIND_NONE;
    if (key == NULL) {
        (void)err_set(err, ERR_INVALID, "a key whose numbers are none of its kind");
    } else if (s->count == JWK_SET_MAX) {
        (void)err_set(err, ERR_INVALID, "more than %d keys", JWK_SET_MAX);
    } else {
        kind = kind_of(key, err);
    }
    if (kind == KIND_NONE) {
        EVP_PKEY_free(key);
        return ERR_INVALID;
    }
    s->keys[s->count++] =
        (struct jwk){.key = key, .kind = kind, .id = mem_strdup(id), .algorithm = algorithm};
    return 0;
}

/* Reads the bytes of a member in base64url; false: the member is missing or wrong. */
static bool read_bytes(const struct json_t *object, const char *name, struct buf *out)
{
    const char *text = NULL;
    return json_doc_string(object, name, &text, NULL) == 0 && text[0] != '\0' &&
           base64url_decode(text, strlen(text), out);
}

static EVP_PKEY *make(const char *type, OSSL_PARAM_BLD *numbers)
{
    EVP_PKEY *key = NULL;
    OSSL_PARAM *parameters = OSSL_PARAM_BLD_to_param(numbers);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    if (parameters != NULL && context != NULL && EVP_PKEY_fromdata_init(context) == 1) {
        (void)EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, parameters);
    }
    EVP_PKEY_CTX_free(context);
    OSSL_PARAM_free(parameters);
    return key;
}

static EVP_PKEY *make_rsa(const struct json_t *object)
{
    EVP_PKEY *key = NULL;
    struct buf n = {0}, e = {0};
    if (read_bytes(object, "n", &n) && read_bytes(object, "e", &e)) {
        OSSL_PARAM_BLD *numbers = OSSL_PARAM_BLD_new();
        BIGNUM *modulus = BN_bin2bn((const unsigned char *)n.data, (int)n.len, NULL);
        BIGNUM *exponent = BN_bin2bn((const unsigned char *)e.data, (int)e.len, NULL);
        if (numbers != NULL && modulus != NULL && exponent != NULL &&
            OSSL_PARAM_BLD_push_BN(numbers, OSSL_PKEY_PARAM_RSA_N, modulus) == 1 &&
            OSSL_PARAM_BLD_push_BN(numbers, OSSL_PKEY_PARAM_RSA_E, exponent) == 1) {
            key = make("RSA", numbers);
        }
        OSSL_PARAM_BLD_free(numbers);
        BN_free(modulus);
        BN_free(exponent);
    }
    buf_release(&n);
    buf_release(&e);
    return key;
}

static EVP_PKEY *make_ec(const struct json_t *object, const char *curve)
{
    EVP_PKEY *key = NULL;
    bool small = strcmp(curve, "P-256") == 0;
    size_t half = small ? 32 : 48;
    struct buf point = {0};
    buf_add_char(&point, 4); /* uncompressed: x, then y */
    if ((small || strcmp(curve, "P-384") == 0) && read_bytes(object, "x", &point) &&
        read_bytes(object, "y", &point) && point.len == 1 + 2 * half) {
        OSSL_PARAM_BLD *numbers = OSSL_PARAM_BLD_new();
        if (numbers != NULL &&
            OSSL_PARAM_BLD_push_utf8_string(numbers, OSSL_PKEY_PARAM_GROUP_NAME, curve, 0) == 1 &&
            OSSL_PARAM_BLD_push_octet_string(numbers, OSSL_PKEY_PARAM_PUB_KEY, point.data,
                                             point.len) == 1) {
            key = make("EC", numbers);
        }
        OSSL_PARAM_BLD_free(numbers);
    }
    buf_release(&point);
    return key;
}

static EVP_PKEY *make_ed25519(const struct json_t *object)
{
    EVP_PKEY *key = NULL;
    struct buf x = {0};
    if (read_bytes(object, "x", &x)) {
        key = EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, (const unsigned char *)x.data,
                                          x.len);
    }
    buf_release(&x);
    return key;
}

/* ---- sets ---- */

static const char *member(const struct json_t *object, const char *name)
{
    const char *text = "";
    (void)json_doc_string(object, name, &text, NULL);
    return text;
}

static int add_json(struct jwk_set *s, const struct json_t *object, struct err *err)
{
    const char *type = member(object, "kty"), *use = member(object, "use");
    const char *algorithm = member(object, "alg"), *id = member(object, "kid");
    const char *curve = member(object, "crv");
    EVP_PKEY *key = NULL;
    if ((use[0] != '\0' && strcmp(use, "sig") != 0) ||
        (algorithm[0] != '\0' && find_algorithm(algorithm) == NULL)) {
        return err_set(err, ERR_INVALID, "a key for another purpose");
    }
    if (strcmp(type, "RSA") == 0) {
        key = make_rsa(object);
    } else if (strcmp(type, "EC") == 0) {
        key = make_ec(object, curve);
    } else if (strcmp(type, "OKP") == 0 && strcmp(curve, "Ed25519") == 0) {
        key = make_ed25519(object);
    } else {
        return err_set(err, ERR_INVALID, "a key of another kind than RSA, EC and Ed25519");
    }
    return add(s, key, id[0] != '\0' ? id : NULL, find_algorithm(algorithm), err);
}

static int read_json(struct jwk_set *s, const char *text, size_t n, struct err *err)
{
    struct json_t *root = NULL;
    const struct json_t *keys = NULL;
    size_t count = 0;
    struct err why = {.msg = "there is none"};
    int rc = json_doc_parse(text, n, &root, err);
    if (rc == 0 && member(root, "kty")[0] != '\0') {
        (void)add_json(s, root, &why); /* one key alone */
    } else if (rc == 0) {
        rc = json_doc_array(root, "keys", JWK_SET_MAX, &keys, &count, err);
    }
    for (size_t i = 0; rc == 0 && i < count; i++) {
        (void)add_json(s, json_doc_item(keys, i), &why);
    }
    if (rc == 0 && s->count == 0) {
        rc = err_set(err, ERR_INVALID, "no key that can be used: %s", why.msg);
    }
    json_doc_free(root);
    return rc;
}

static int read_pem(struct jwk_set *s, const char *text, size_t n, struct err *err)
{
    BIO *bio = BIO_new_mem_buf(text, (int)n);
    int rc = bio != NULL ? 0 : err_set(err, ERR_EXHAUSTED, "no memory");
    EVP_PKEY *key;
    while (rc == 0 && (key = PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL)) != NULL) {
        rc = add(s, key, NULL, NULL, err);
    }
    ERR_clear_error();
    BIO_free(bio);
    if (rc == 0 && s->count == 0) {
        rc = err_set(err, ERR_INVALID,
                     "neither a JSON web key set nor a public key in PEM form (-----BEGIN PUBLIC "
                     "KEY-----)");
    }
    return rc;
}

struct jwk_set *jwk_set_parse(const char *text, size_t n, struct err *err)
{
    struct jwk_set *s = mem_new(1, sizeof *s);
    size_t first = 0;
    while (first < n && strchr(" \t\r\n", text[first]) != NULL && text[first] != '\0') {
        first++;
    }
    int rc =
        first < n && text[first] == '{' ? read_json(s, text, n, err) : read_pem(s, text, n, err);
    if (rc != 0) {
        jwk_set_free(s);
        return NULL;
    }
    return s;
}

void jwk_set_free(struct jwk_set *s)
{
    if (s == NULL) {
        return;
    }
    for (size_t i = 0; i < s->count; i++) {
        EVP_PKEY_free(s->keys[i].key);
        free(s->keys[i].id);
    }
    free(s);
}

size_t jwk_set_count(const struct jwk_set *s)
{
    return s->count;
}

/* ---- signatures ---- */

/* A signature of an elliptic curve is two numbers side by side; OpenSSL wants them in DER. */
static int to_der(const struct jwk_signature *g, enum kind kind, unsigned char **der)
{
    size_t half = kind == KIND_P256 ? 32 : 48;
    int n = 0;
    if (g->count != 2 * half) {
        return 0;
    }
    ECDSA_SIG *pair = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(g->bytes, (int)half, NULL);
    BIGNUM *s = BN_bin2bn(g->bytes + half, (int)half, NULL);
    if (pair != NULL && r != NULL && s != NULL && ECDSA_SIG_set0(pair, r, s) == 1) {
        n = i2d_ECDSA_SIG(pair, der);
    } else {
        BN_free(r);
        BN_free(s);
    }
    ECDSA_SIG_free(pair);
    return n;
}

static bool verifies(const struct jwk *k, const struct algorithm *a, const struct jwk_signature *g)
{
    unsigned char *der = NULL;
    const unsigned char *bytes = g->bytes;
    size_t count = g->count;
    if (k->kind == KIND_P256 || k->kind == KIND_P384) {
        int n = to_der(g, k->kind, &der);
        bytes = der;
        count = n > 0 ? (size_t)n : 0;
    }
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    bool good = context != NULL && count > 0 &&
                EVP_DigestVerifyInit(context, NULL, a->digest != NULL ? a->digest() : NULL, NULL,
                                     k->key) == 1 &&
                EVP_DigestVerify(context, bytes, count, g->data, g->data_bytes) == 1;
    EVP_MD_CTX_free(context);
    OPENSSL_free(der);
    ERR_clear_error();
    return good;
}

int jwk_set_verify(const struct jwk_set *s, const struct jwk_signature *g, struct err *err)
{
    char shown[SHOWN_BYTES];
    const struct algorithm *a = find_algorithm(g->algorithm);
    bool known = false, fits = false;
    if (a == NULL) {
        return err_set(err, ERR_UNAUTHENTICATED,
                       "it is signed by %s, and RS256, RS384, RS512, ES256, ES384 and EdDSA are "
                       "taken",
                       text_shown(g->algorithm, shown, sizeof shown));
    }
    for (size_t i = 0; i < s->count; i++) {
        const struct jwk *k = &s->keys[i];
        if (g->key_id != NULL && k->id != NULL && strcmp(g->key_id, k->id) != 0) {
            continue;
        }
        known = true;
        if (k->kind != a->kind || (k->algorithm != NULL && k->algorithm->kind == a->kind &&
                                   k->algorithm->digest != a->digest)) {
            continue;
        }
        fits = true;
        if (verifies(k, a, g)) {
            return 0;
        }
    }
    if (!known) {
        return err_set(err, ERR_UNAUTHENTICATED, "no key has the id %s that it names",
                       text_shown(g->key_id, shown, sizeof shown));
    }
    return err_set(err, ERR_UNAUTHENTICATED,
                   fits ? "its signature is not that of %s key"
                        : "there is no key for its algorithm, %s",
                   fits ? "any" : a->name);
}
