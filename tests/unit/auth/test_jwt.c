/* SPDX-License-Identifier: Apache-2.0 */
/* JSON web tokens: each algorithm with its key and no other, times with clocks that differ, and
 * what is damaged, too large or meant for others. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/base64url.h"
#include "auth/jwt.h"
#include "unit/auth/jwt_rig.h"

#define NOW 1800000000
#define GOOD "\"sub\":\"ann\",\"gradus_role\":\"submitter\",\"exp\":1800000300"

struct rig {
    EVP_PKEY *keys[RIG_KEYS];
    struct jwk_set *set; /* of all of them, with their numbers as ids */
};

static struct jwk_set *parse(const char *text)
{
    struct err err = {0};
    struct jwk_set *s = jwk_set_parse(text, strlen(text), &err);
    if (s == NULL) {
        fail_msg("%s", err.msg);
    }
    return s;
}

static int setup(void **state)
{
    static struct rig rig;
    struct buf text = {0};
    buf_add_str(&text,
                "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"},{\"kty\":\"EC\",\"crv\":\"P-521\"}");
    for (int i = 0; i < RIG_KEYS; i++) {
        char extra[64];
        rig.keys[i] = rig_key(i);
        (void)snprintf(extra, sizeof extra, ",\"kid\":\"k%d\",\"use\":\"sig\"", i);
        buf_add_char(&text, ',');
        rig_jwk(rig.keys[i], extra, &text);
    }
    buf_add_str(&text, "]}");
    rig.set = parse(buf_str(&text));
    assert_int_equal(jwk_set_count(rig.set), RIG_KEYS);
    buf_release(&text);
    *state = &rig;
    return 0;
}

static int teardown(void **state)
{
    struct rig *rig = *state;
    for (int i = 0; i < RIG_KEYS; i++) {
        EVP_PKEY_free(rig->keys[i]);
    }
    jwk_set_free(rig->set);
    return 0;
}

static const struct jwt_rules plain = {.issuer = "", .audience = "", .role_claim = JWT_ROLE_CLAIM};

static int check(const struct jwk_set *set, const char *token, const struct jwt_rules *rules,
                 int64_t now_s, struct auth_identity *who, struct err *err)
{
    int64_t until_s = 0;
    return jwt_check(token, strlen(token), set, rules, now_s, who, &until_s, err);
}

/* @words NULL: it is taken. */
static struct auth_identity outcome(const struct jwk_set *set, const char *token,
                                    const struct jwt_rules *rules, const char *words)
{
    struct err err = {0};
    struct auth_identity who = {0};
    int rc = check(set, token, rules, NOW, &who, &err);
    if (words == NULL && rc != 0) {
        fail_msg("%s", err.msg);
    }
    if (words != NULL) {
        assert_int_equal(rc, ERR_UNAUTHENTICATED);
        if (strstr(err.msg, words) == NULL) {
            fail_msg("\"%s\" says not \"%s\"", err.msg, words);
        }
    }
    return who;
}

static struct auth_identity claims_outcome(const struct rig *rig, const char *claims,
                                           const struct jwt_rules *rules, const char *words)
{
    struct buf token = {0};
    rig_token(rig->keys[RIG_ED25519], 0, "{\"alg\":\"EdDSA\"}", claims, &token);
    struct auth_identity who = outcome(rig->set, buf_str(&token), rules, words);
    buf_release(&token);
    return who;
}

static void test_algorithms(void **state)
{
    const struct rig *rig = *state;
    static const struct {
        const char *name;
        int key;
        int digest;
    } all[] = {{"RS256", RIG_RSA, 256},  {"RS384", RIG_RSA, 384},  {"RS512", RIG_RSA, 512},
               {"ES256", RIG_P256, 256}, {"ES384", RIG_P384, 384}, {"EdDSA", RIG_ED25519, 0}};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        for (size_t k = 0; k < sizeof all / sizeof all[0]; k++) { /* signed as i, called k */
            char header[64];
            struct buf token = {0};
            (void)snprintf(header, sizeof header, "{\"alg\":\"%s\"}", all[k].name);
            rig_token(rig->keys[all[i].key], all[i].digest, header, "{" GOOD "}", &token);
            struct auth_identity who = outcome(rig->set, buf_str(&token), &plain,
                                               i == k ? NULL : "its signature is not that of any");
            if (i == k) {
                assert_string_equal(who.name, "ann");
                assert_int_equal(who.roles, AUTH_SUBMITTER);
                assert_int_equal(who.proof, AUTH_TOKEN);
            }
            buf_release(&token);
        }
    }
}

static void test_keys_by_their_ids(void **state)
{
    const struct rig *rig = *state;
    struct buf token = {0};
    rig_token(rig->keys[RIG_P256], 256, "{\"alg\":\"ES256\",\"kid\":\"k1\"}", "{" GOOD "}", &token);
    (void)outcome(rig->set, buf_str(&token), &plain, NULL);
    buf_reset(&token);
    rig_token(rig->keys[RIG_P256], 256, "{\"alg\":\"ES256\",\"kid\":\"k0\"}", "{" GOOD "}", &token);
    (void)outcome(rig->set, buf_str(&token), &plain, "there is no key for its algorithm, ES256");
    buf_reset(&token);
    rig_token(rig->keys[RIG_P256], 256, "{\"alg\":\"ES256\",\"kid\":\"old\"}", "{" GOOD "}",
              &token);
    (void)outcome(rig->set, buf_str(&token), &plain, "no key has the id old that it names");
    buf_release(&token);
}

/* The oldest of tricks: a public key is no secret, so nobody may sign with it. */
static void test_neither_none_nor_hmac(void **state)
{
    const struct rig *rig = *state;
    struct buf pem = {0}, token = {0}, signature = {0};
    rig_pem(rig->keys[RIG_RSA], &pem);
    struct jwk_set *set = parse(buf_str(&pem));
    base64url_encode("{\"alg\":\"HS256\"}", 15, &token);
    buf_add_char(&token, '.');
    base64url_encode("{" GOOD "}", sizeof GOOD + 1, &token);
    unsigned char mac[32];
    unsigned n = sizeof mac;
    EVP_PKEY *secret =
        EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL, (unsigned char *)pem.data, pem.len);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    size_t size = sizeof mac;
    assert_int_equal(EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, secret), 1);
    assert_int_equal(EVP_DigestSign(context, mac, &size, (unsigned char *)token.data, token.len),
                     1);
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(secret);
    (void)n;
    buf_add_char(&token, '.');
    base64url_encode(mac, size, &token);
    (void)outcome(set, buf_str(&token), &plain, "it is signed by HS256, and RS256");
    static const char *const none[] = {"{\"alg\":\"none\"}", "{\"alg\":\"None\"}", "{\"alg\":\"\"}",
                                       "{\"alg\":null}", "{\"typ\":\"JWT\"}"};
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
        for (int with = 0; with < 2; with++) {
            buf_reset(&token);
            base64url_encode(none[i], strlen(none[i]), &token);
            buf_add_char(&token, '.');
            base64url_encode("{" GOOD "}", sizeof GOOD + 1, &token);
            buf_add_str(&token, with ? ".AAAA" : ".");
            (void)outcome(set, buf_str(&token), &plain, "the token is not taken: ");
        }
    }
    jwk_set_free(set);
    buf_release(&pem);
    buf_release(&token);
    buf_release(&signature);
}

static void test_pem(void **state)
{
    const struct rig *rig = *state;
    struct buf pem = {0}, token = {0};
    rig_pem(rig->keys[RIG_RSA], &pem);
    rig_pem(rig->keys[RIG_ED25519], &pem);
    struct jwk_set *set = parse(buf_str(&pem));
    assert_int_equal(jwk_set_count(set), 2);
    rig_token(rig->keys[RIG_RSA], 256, "{\"alg\":\"RS256\",\"kid\":\"whatever\"}", "{" GOOD "}",
              &token);
    (void)outcome(set, buf_str(&token), &plain, NULL);
    buf_reset(&token);
    EVP_PKEY *other = rig_key(RIG_RSA);
    rig_token(other, 256, "{\"alg\":\"RS256\"}", "{" GOOD "}", &token);
    (void)outcome(set, buf_str(&token), &plain, "its signature is not that of any key");
    EVP_PKEY_free(other);
    jwk_set_free(set);
    buf_release(&pem);
    buf_release(&token);
}

static void assert_no_keys(const char *text, const char *words)
{
    struct err err = {0};
    assert_null(jwk_set_parse(text, strlen(text), &err));
    if (strstr(err.msg, words) == NULL) {
        fail_msg("\"%s\" says not \"%s\"", err.msg, words);
    }
}

static void test_files_without_keys(void **state)
{
    (void)state;
    assert_no_keys("", "neither a JSON web key set nor a public key");
    assert_no_keys("-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "neither");
    assert_no_keys("{", "JSON, line 1");
    assert_no_keys("{}", "keys: missing");
    assert_no_keys("{\"keys\":[]}", "no key that can be used: there is none");
    assert_no_keys("{\"keys\":[7,null]}", "no key that can be used");
    assert_no_keys("{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"}]}", "of another kind than RSA");
    assert_no_keys("{\"kty\":\"RSA\",\"use\":\"enc\",\"n\":\"AQAB\",\"e\":\"AQAB\"}",
                   "for another purpose");
    assert_no_keys("{\"kty\":\"RSA\",\"alg\":\"HS256\",\"n\":\"AQAB\",\"e\":\"AQAB\"}",
                   "for another purpose");
    assert_no_keys("{\"kty\":\"RSA\",\"n\":\"wQAB\",\"e\":\"AQAB\"}", "an RSA key of");
    assert_no_keys("{\"kty\":\"RSA\",\"n\":\"!\",\"e\":\"AQAB\"}", "whose numbers are none");
    assert_no_keys("{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AQAB\",\"y\":\"AQAB\"}",
                   "whose numbers are none");
    assert_no_keys("{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"AQAB\"}",
                   "whose numbers are none");
    jwk_set_free(NULL);
}

static void test_times(void **state)
{
    const struct rig *rig = *state;
#define FOR_ANN "{\"sub\":\"ann\",\"gradus_role\":\"viewer\","
    static const struct {
        const char *claims;
        const char *words;
    } rows[] = {
        {FOR_ANN "\"exp\":1800000001}", NULL},
        {FOR_ANN "\"exp\":1799999941}", NULL}, /* a minute of skew, and not more */
        {FOR_ANN "\"exp\":1799999940}", "of ann is not taken: it expired on 2027-01-15T07:59:00Z"},
        {FOR_ANN "\"exp\":1800000001.75}", NULL},
        {FOR_ANN "\"exp\":1800000009,\"nbf\":1800000060}", NULL},
        {FOR_ANN "\"exp\":1800000009,\"nbf\":1800000061}",
         "it is not valid before 2027-01-15T08:01"},
        {FOR_ANN "\"exp\":1800000009,\"iat\":1800000060,\"nbf\":5}", NULL},
        {FOR_ANN "\"exp\":1800000009,\"iat\":1800000061}", "is the clock of this machine right?"},
        {FOR_ANN "\"iat\":1800000000}", "it says not when it expires (exp)"},
        {FOR_ANN "\"exp\":\"1800000009\"}", "its exp is no time"},
        {FOR_ANN "\"exp\":-5}", "its exp is no time"},
        {FOR_ANN "\"exp\":1e300}", "its exp is no time"},
        {FOR_ANN "\"exp\":1800000009,\"nbf\":null}", "its nbf is no time"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)claims_outcome(rig, rows[i].claims, &plain, rows[i].words);
    }
}

static void test_whom_it_names(void **state)
{
    const struct rig *rig = *state;
#define TO "\"exp\":1800000300}"
    (void)claims_outcome(rig, "{\"gradus_role\":\"viewer\"," TO, &plain, "for whom it is (sub)");
    (void)claims_outcome(rig, "{\"sub\":5," TO, &plain, "for whom it is (sub)");
    (void)claims_outcome(rig, "{\"sub\":\"a\",\"sub\":\"b\"," TO, &plain,
                         "its claims cannot be read");
    assert_int_equal(claims_outcome(rig, "{\"sub\":\"a\"," TO, &plain, NULL).roles, 0);
    assert_int_equal(
        claims_outcome(rig, "{\"sub\":\"a\",\"gradus_role\":\"client\"," TO, &plain, NULL).roles,
        0);
    assert_int_equal(
        claims_outcome(rig,
                       "{\"sub\":\"a\",\"gradus_role\":[\"x\",3,\"gradus-node\",\"viewer\"]," TO,
                       &plain, NULL)
            .roles,
        AUTH_NODE | AUTH_VIEWER);
    assert_string_equal(
        claims_outcome(rig, "{\"sub\":\"a\",\"gradus_node\":\"ps-1\"," TO, &plain, NULL).node,
        "ps-1");
    struct jwt_rules rules = plain;
    rules.role_claim = "realm_access.roles";
    assert_int_equal(claims_outcome(rig,
                                    "{\"sub\":\"a\",\"realm_access\":{\"roles\":[\"admin\"]}," TO,
                                    &rules, NULL)
                         .roles,
                     AUTH_ADMIN);
    assert_int_equal(
        claims_outcome(rig, "{\"sub\":\"a\",\"realm_access\":\"admin\"," TO, &rules, NULL).roles,
        0);
    rules.role_claim = "https://example.org/roles";
    assert_int_equal(claims_outcome(rig,
                                    "{\"sub\":\"a\",\"https://example.org/roles\":\"viewer\"," TO,
                                    &rules, NULL)
                         .roles,
                     AUTH_VIEWER);
    /* Nobody's terminal obeys a name. */
    assert_string_equal(claims_outcome(rig, "{\"sub\":\"a\\u001b[2Jb\"," TO, &plain, NULL).name,
                        "a?[2Jb");
}

static void test_from_whom_and_for_whom(void **state)
{
    const struct rig *rig = *state;
    const struct jwt_rules rules = {
        .issuer = "https://id", .audience = "gradus", .role_claim = JWT_ROLE_CLAIM};
    (void)claims_outcome(rig, "{\"iss\":\"https://id\",\"aud\":\"gradus\"," GOOD "}", &rules, NULL);
    (void)claims_outcome(rig, "{\"iss\":\"https://id\",\"aud\":[\"a\",\"gradus\"]," GOOD "}",
                         &rules, NULL);
    (void)claims_outcome(rig, "{\"iss\":\"https://id2\",\"aud\":\"gradus\"," GOOD "}", &rules,
                         "it was issued by https://id2 and not by https://id");
    (void)claims_outcome(rig, "{\"aud\":\"gradus\"," GOOD "}", &rules, "by nobody named");
    (void)claims_outcome(rig, "{\"iss\":\"https://id\",\"aud\":[\"a\"]," GOOD "}", &rules,
                         "it is not for gradus (aud)");
    (void)claims_outcome(rig, "{\"iss\":\"https://id\"," GOOD "}", &rules, "it is not for gradus");
}

static void test_damage(void **state)
{
    const struct rig *rig = *state;
    struct buf token = {0};
    rig_token(rig->keys[RIG_ED25519], 0, "{\"alg\":\"EdDSA\"}", "{" GOOD "}", &token);
    struct auth_identity who;
    int64_t until_s;
    for (size_t n = 0; n < token.len; n++) { /* cut anywhere */
        assert_int_equal(jwt_check(token.data, n, rig->set, &plain, NOW, &who, &until_s, NULL),
                         ERR_UNAUTHENTICATED);
    }
    for (size_t i = 0; i < token.len; i++) { /* each character another one */
        char before = token.data[i];
        token.data[i] = before == 'A' ? 'B' : 'A';
        assert_int_equal(check(rig->set, token.data, &plain, NOW, &who, NULL), ERR_UNAUTHENTICATED);
        token.data[i] = before;
    }
    assert_int_equal(check(rig->set, token.data, &plain, NOW, &who, NULL), 0);
    buf_add_str(&token, ".AAAA");
    assert_false(jwt_looks_like(token.data, token.len));
    (void)outcome(rig->set, buf_str(&token), &plain, "three parts");
    buf_reset(&token);
    rig_token(rig->keys[RIG_ED25519], 0, "{\"alg\":\"EdDSA\",\"crit\":[\"b64\"],\"b64\":false}",
              "{" GOOD "}", &token);
    (void)outcome(rig->set, buf_str(&token), &plain, "asks for extensions");
    buf_reset(&token);
    struct buf claims = {0};
    buf_printf(&claims, "{\"x\":\"%08000d\"," GOOD "}", 0);
    rig_token(rig->keys[RIG_ED25519], 0, "{\"alg\":\"EdDSA\"}", buf_str(&claims), &token);
    assert_true(token.len > JWT_BYTES_MAX);
    (void)outcome(rig->set, buf_str(&token), &plain, "at most 8 KiB");
    buf_release(&claims);
    buf_release(&token);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_algorithms),
        cmocka_unit_test(test_keys_by_their_ids),
        cmocka_unit_test(test_neither_none_nor_hmac),
        cmocka_unit_test(test_pem),
        cmocka_unit_test(test_files_without_keys),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_whom_it_names),
        cmocka_unit_test(test_from_whom_and_for_whom),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
