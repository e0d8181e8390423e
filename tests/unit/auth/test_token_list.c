/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of tokens: what is drawn is found, what is wrong is told with its line, and base64url. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "auth/base64url.h"
#include "auth/token_list.h"

#define HASH_A "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define HASH_B "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"

static struct token_list *parse(const char *text)
{
    struct err err = {0};
    struct token_list *l = token_list_parse(text, strlen(text), "tokens", &err);
    if (l == NULL) {
        fail_msg("%s", err.msg);
    }
    return l;
}

static void assert_refused(const char *text, const char *words)
{
    struct err err = {0};
    assert_null(token_list_parse(text, strlen(text), "tokens", &err));
    assert_int_not_equal(err.code, 0);
    if (strstr(err.msg, words) == NULL) {
        fail_msg("\"%s\" says not \"%s\"", err.msg, words);
    }
}

static void test_what_is_drawn_is_found(void **state)
{
    (void)state;
    struct buf file = {0};
    char tokens[3][TOKEN_BYTES];
    buf_add_str(&file, "# who may what\n\n");
    for (int i = 0; i < 3; i++) {
        struct token_entry entry = {.roles = i == 1 ? AUTH_VIEWER | AUTH_SUBMITTER : AUTH_NODE,
                                    .expires_s = i == 1 ? 1800000000 : 0};
        (void)snprintf(entry.name, sizeof entry.name, "name-%d", i);
        (void)snprintf(entry.node, sizeof entry.node, "%s", i == 2 ? "ps-1" : "");
        assert_int_equal(token_draw(&entry, tokens[i], NULL), 0);
        assert_int_equal(strlen(tokens[i]), strlen(TOKEN_PREFIX) + 43);
        token_line(&entry, &file);
        assert_null(strstr(buf_str(&file), tokens[i] + strlen(TOKEN_PREFIX)));
    }
    struct token_list *l = parse(buf_str(&file));
    assert_int_equal(token_list_count(l), 3);
    const struct token_entry *e = token_list_find(l, tokens[1], strlen(tokens[1]));
    assert_non_null(e);
    assert_string_equal(e->name, "name-1");
    assert_int_equal(e->roles, AUTH_VIEWER | AUTH_SUBMITTER);
    assert_int_equal(e->expires_s, 1800000000);
    assert_string_equal(token_list_find(l, tokens[2], strlen(tokens[2]))->node, "ps-1");
    assert_int_equal(token_list_find(l, tokens[0], strlen(tokens[0]))->expires_s, 0);
    assert_null(token_list_find(l, tokens[0], strlen(tokens[0]) - 1));
    assert_null(token_list_find(l, "", 0));
    token_list_free(l);
    token_list_free(NULL);
    buf_release(&file);
}

static void test_lines(void **state)
{
    (void)state;
    struct token_list *l =
        parse("  ann\tsubmitter  " HASH_A " expires=2027-11-23 \r\n"
              "\t# nobody\n"
              "b\xc3\xb6rn admin " HASH_B " node=x expires=2027-11-23T10:00:00Z");
    assert_int_equal(token_list_count(l), 2);
    token_list_free(l);
    l = parse("");
    assert_int_equal(token_list_count(l), 0);
    token_list_free(l);
    assert_refused("ann submitter " HASH_A "\nbob\n", "tokens:2: ");
    assert_refused("#\n\nann boss " HASH_A "\n",
                   "tokens:3: boss is no role; there are node, viewer");
    assert_refused("ann client " HASH_A "\n", "client is no role");
    assert_refused("ann viewer, " HASH_A "\n", "viewer, is no role");
    assert_refused("ann viewer gradus_secretsecretsecret\n", "tokens:1: the third word is no hash");
    assert_refused("ann viewer " HASH_A "a\n", "is no hash");
    assert_refused("ann viewer sha256:G" HASH_A "\n", "is no hash");
    assert_refused("ann viewer " HASH_A " expires=tomorrow\n", "expires=tomorrow is no date");
    assert_refused("ann viewer " HASH_A " expires=2027-11-23T10\n", "is no date");
    assert_refused("ann viewer " HASH_A " expires=1969-01-01\n", "is no date");
    assert_refused("ann viewer " HASH_A " for=fun\n", "there may be expires=DATE and node=NAME");
    assert_refused("ann viewer " HASH_A " node=\n", "a name has 1 to");
    assert_refused("ann viewer " HASH_A "\nbob admin " HASH_A "\n", "have the same token");
    /* A token that stands where a hash should is not repeated. */
    struct err err = {0};
    const char *text = "ann viewer gradus_secretsecretsecret";
    assert_null(token_list_parse(text, strlen(text), "tokens", &err));
    assert_null(strstr(err.msg, "secretsecret"));
    assert_null(token_list_parse("a\0b viewer", 10, "tokens", &err));
    assert_non_null(strstr(err.msg, "NUL"));
}

static void test_names(void **state)
{
    (void)state;
    char longest[AUTH_NAME_BYTES + 1];
    memset(longest, 'x', sizeof longest);
    longest[AUTH_NAME_BYTES - 1] = '\0';
    assert_int_equal(token_check_name(longest, NULL), 0);
    longest[AUTH_NAME_BYTES - 1] = 'x';
    longest[AUTH_NAME_BYTES] = '\0';
    assert_int_equal(token_check_name(longest, NULL), ERR_INVALID);
    assert_int_equal(token_check_name("", NULL), ERR_INVALID);
    assert_int_equal(token_check_name("#ann", NULL), ERR_INVALID);
    assert_int_equal(token_check_name("ann b", NULL), ERR_INVALID);
    assert_int_equal(token_check_name("ann\x1b[0m", NULL), ERR_INVALID);
}

static void test_too_many(void **state)
{
    (void)state;
    struct buf file = {0};
    for (int i = 0; i <= TOKEN_LIST_MAX; i++) {
        buf_printf(&file, "n viewer sha256:%064x\n", (unsigned)i);
    }
    assert_refused(buf_str(&file), "tokens:10001: more than 10000 tokens");
    buf_release(&file);
}

static void test_base64url(void **state)
{
    (void)state;
    static const char *const pairs[][2] = {{"", ""},        {"f", "Zg"},        {"fo", "Zm8"},
                                           {"foo", "Zm9v"}, {"foob", "Zm9vYg"}, {"\xff\xfe", "__4"},
                                           {"\xfb", "-w"}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        struct buf text = {0}, data = {0};
        base64url_encode(pairs[i][0], strlen(pairs[i][0]), &text);
        assert_string_equal(buf_str(&text), pairs[i][1]);
        assert_true(base64url_decode(pairs[i][1], strlen(pairs[i][1]), &data));
        assert_string_equal(buf_str(&data), pairs[i][0]);
        buf_release(&text);
        buf_release(&data);
    }
    static const char *const wrong[] = {"Zg==", "Z", "Zm 9", "Zm9+", "Zm9/", "Zh", "Zm9", "Zm9vY"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct buf data = {0};
        assert_false(base64url_decode(wrong[i], strlen(wrong[i]), &data));
        assert_int_equal(data.len, 0);
        buf_release(&data);
    }
    struct buf data = {0};
    assert_false(base64url_decode("AA\0A", 4, &data));
    buf_release(&data);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_drawn_is_found),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_base64url),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
