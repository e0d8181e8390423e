/* SPDX-License-Identifier: Apache-2.0 */
/* The tokens of calls: whom they stand for, and files that change meanwhile. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "auth/bearer.h"
#include "unit/auth/jwt_rig.h"
#include "auth/token_list.h"
#include "os/file.h"
#include "base/mem.h"

#define NOW 1800000000

struct rig {
    char dir[64];
    char *tokens, *keys;
    char token[TOKEN_BYTES], late[TOKEN_BYTES]; /* ann's, bob's */
    struct buf list;
    EVP_PKEY *key;
};

static void put(const char *path, const char *text)
{
    struct err err = {0};
    if (file_write_atomic(path, text, strlen(text), &err) != 0) {
        fail_msg("%s", err.msg);
    }
}

static int setup(void **state)
{
    struct rig *r = mem_new(1, sizeof *r);
    (void)strcpy(r->dir, "/tmp/gradus-test-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    r->tokens = file_join(r->dir, "tokens");
    r->keys = file_join(r->dir, "keys");
    struct token_entry ann = {.name = "ann", .roles = AUTH_SUBMITTER};
    struct token_entry bob = {.name = "bob", .roles = AUTH_VIEWER, .expires_s = NOW};
    assert_int_equal(token_draw(&ann, r->token, NULL), 0);
    assert_int_equal(token_draw(&bob, r->late, NULL), 0);
    token_line(&ann, &r->list);
    token_line(&bob, &r->list);
    put(r->tokens, buf_str(&r->list));
    r->key = rig_key(RIG_P256);
    struct buf pem = {0};
    rig_pem(r->key, &pem);
    put(r->keys, buf_str(&pem));
    buf_release(&pem);
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    struct rig *r = *state;
    (void)file_remove_tree(r->dir, NULL);
    free(r->tokens);
    free(r->keys);
    buf_release(&r->list);
    EVP_PKEY_free(r->key);
    free(r);
    return 0;
}

static struct bearer *open_files(const char *tokens, const char *keys)
{
    struct err err = {0};
    const struct bearer_options options = {.tokens = tokens,
                                           .jwt_keys = keys,
                                           .jwt_issuer = "",
                                           .jwt_audience = "",
                                           .jwt_role_claim = ""};
    struct bearer *b = bearer_new(&options, &err);
    if (b == NULL) {
        fail_msg("%s", err.msg);
    }
    return b;
}

/* @words NULL: it is taken. */
static struct auth_identity sends(struct bearer *b, const char *scheme, const char *token,
                                  int64_t now_s, const char *words)
{
    struct err err = {0};
    struct auth_identity who;
    char *header = mem_printf("%s%s", scheme, token);
    int rc = bearer_check(b, header, now_s, &who, &err);
    free(header);
    assert_int_equal(rc, words == NULL ? 0 : ERR_UNAUTHENTICATED);
    assert_int_equal(who.proof, AUTH_TOKEN);
    if (words != NULL && strstr(err.msg, words) == NULL) {
        fail_msg("\"%s\" says not \"%s\"", err.msg, words);
    }
    if (words != NULL && token[0] != '\0') {
        assert_null(strstr(err.msg, token));
    }
    return who;
}

static void test_tokens_of_a_list(void **state)
{
    const struct rig *r = *state;
    struct bearer *b = open_files(r->tokens, "");
    struct auth_identity who = sends(b, "Bearer ", r->token, NOW, NULL);
    assert_string_equal(who.name, "ann");
    assert_int_equal(who.roles, AUTH_SUBMITTER);
    (void)sends(b, "bearer  ", r->token, NOW, NULL);
    assert_string_equal(sends(b, "Bearer ", r->late, NOW - 1, NULL).name, "bob");
    who = sends(b, "Bearer ", r->late, NOW, "the token of bob expired on 2027-01-15T08:00:00Z");
    assert_string_equal(who.name, "bob");
    (void)sends(b, "Bearer ", "gradus_abcdefghijklmnopqrstuvwxyz", NOW,
                "not in the file of --tokens");
    (void)sends(b, "Bearer ", "a.b.cccccccccccccccccccccc", NOW, "not in the file of --tokens");
    (void)sends(b, "Basic ", r->token, NOW, "is no bearer token");
    (void)sends(b, "Bearer", "", NOW, "is no bearer token");
    (void)sends(b, "Bearer ", "", NOW, "has 0 bytes");
    (void)sends(b, "Bearer ", "short", NOW, "has 5 bytes");
    char *huge = mem_new(1, 100001);
    memset(huge, 'x', 100000);
    (void)sends(b, "Bearer ", huge, NOW, "has 100000 bytes");
    free(huge);
    bearer_free(b);
}

static void test_the_list_changes(void **state)
{
    const struct rig *r = *state;
    struct err err = {0};
    struct bearer *b = open_files(r->tokens, "");
    uint64_t now_ms = 10 * BEARER_REFRESH_MS;
    assert_int_equal(bearer_refresh(b, now_ms, &err), 0);
    const char *second = strchr(buf_str(&r->list), '\n') + 1;
    put(r->tokens, second); /* without ann */
    assert_int_equal(bearer_refresh(b, now_ms + BEARER_REFRESH_MS - 1, &err), 0);
    (void)sends(b, "Bearer ", r->token, NOW, NULL); /* not looked at yet */
    assert_int_equal(bearer_refresh(b, now_ms += BEARER_REFRESH_MS, &err), 0);
    (void)sends(b, "Bearer ", r->token, NOW, "was taken out");
    put(r->tokens, buf_str(&r->list));
    assert_int_equal(bearer_refresh(b, now_ms += BEARER_REFRESH_MS, &err), 0);
    (void)sends(b, "Bearer ", r->token, NOW, NULL);
    /* What cannot be used is told once, and changes nothing. */
    put(r->tokens, "# nobody\nann what?\n");
    assert_int_equal(bearer_refresh(b, now_ms += BEARER_REFRESH_MS, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "--tokens: "));
    assert_non_null(strstr(err.msg, "tokens:2: "));
    assert_int_equal(bearer_refresh(b, now_ms += BEARER_REFRESH_MS, &err), 0);
    (void)sends(b, "Bearer ", r->token, NOW, NULL);
    assert_int_equal(unlink(r->tokens), 0);
    assert_int_equal(bearer_refresh(b, now_ms += BEARER_REFRESH_MS, &err), ERR_NOT_FOUND);
    assert_int_equal(bearer_refresh(b, now_ms += BEARER_REFRESH_MS, &err), 0);
    (void)sends(b, "Bearer ", r->token, NOW, NULL);
    put(r->tokens, "");
    assert_int_equal(bearer_refresh(b, now_ms += BEARER_REFRESH_MS, &err), 0);
    (void)sends(b, "Bearer ", r->token, NOW, "was taken out");
    bearer_free(b);
}

static void test_signed_ones(void **state)
{
    const struct rig *r = *state;
    struct buf token = {0};
    struct err err = {0};
    rig_token(r->key, 256, "{\"alg\":\"ES256\"}",
              "{\"sub\":\"eve\",\"gradus_role\":\"admin\",\"exp\":1800000100}", &token);
    struct bearer *b = open_files("", r->keys);
    for (int i = 0; i < 3; i++) { /* the second time it is remembered */
        struct auth_identity who = sends(b, "Bearer ", buf_str(&token), NOW, NULL);
        assert_string_equal(who.name, "eve");
        assert_int_equal(who.roles, AUTH_ADMIN);
    }
    (void)sends(b, "Bearer ", buf_str(&token), NOW + 159, NULL);
    (void)sends(b, "Bearer ", buf_str(&token), NOW + 160,
                "the token of eve is not taken: it expired");
    (void)sends(b, "Bearer ", r->token, NOW, "without --tokens no others are known here");
    /* A key that is gone takes its tokens along, remembered or not. */
    EVP_PKEY *other = rig_key(RIG_RSA);
    struct buf pem = {0};
    rig_pem(other, &pem);
    (void)sends(b, "Bearer ", buf_str(&token), NOW, NULL);
    put(r->keys, buf_str(&pem));
    assert_int_equal(bearer_refresh(b, 5 * BEARER_REFRESH_MS, &err), 0);
    (void)sends(b, "Bearer ", buf_str(&token), NOW, "there is no key for its algorithm, ES256");
    put(r->keys, "nothing");
    assert_int_equal(bearer_refresh(b, 6 * BEARER_REFRESH_MS, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "--jwt-keys: "));
    bearer_free(b);
    EVP_PKEY_free(other);
    buf_release(&pem);
    buf_release(&token);
}

static void test_files_that_cannot_be_used(void **state)
{
    const struct rig *r = *state;
    struct err err = {0};
    struct bearer_options options = {.tokens = "/nowhere/tokens",
                                     .jwt_keys = "",
                                     .jwt_issuer = "",
                                     .jwt_audience = "",
                                     .jwt_role_claim = ""};
    assert_null(bearer_new(&options, &err));
    assert_non_null(strstr(err.msg, "/nowhere/tokens"));
    options = (struct bearer_options){.tokens = r->tokens,
                                      .jwt_keys = r->tokens,
                                      .jwt_issuer = "",
                                      .jwt_audience = "",
                                      .jwt_role_claim = ""};
    assert_null(bearer_new(&options, &err));
    assert_non_null(strstr(err.msg, "--jwt-keys"));
    bearer_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tokens_of_a_list, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_list_changes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_signed_ones, setup, teardown),
        cmocka_unit_test_setup_teardown(test_files_that_cannot_be_used, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
