/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens that go with calls: what the other side hears, a file that changes, and where none goes.
 */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/file.h"
#include "rpc/rpc_token.h"
#include "support/echo_service.h"

static char heard[256];

static int admit(void *ctx, const struct rpc_arriving *call, struct auth_identity *who,
                 struct err *err)
{
    (void)ctx;
    (void)err;
    auth_identity_open(who);
    (void)snprintf(heard, sizeof heard, "%s",
                   call->authorization != NULL ? call->authorization : "nothing");
    return 0;
}

static const char *heard_at(const char *address, const struct rpc_credentials *credentials)
{
    struct err err = {0};
    echo_item item;
    struct rpc_channel_options options = {.target = address, .credentials = credentials};
    struct rpc_channel *channel = rpc_channel_new(&options, &err);
    assert_string_equal(err.msg, "");
    gradus__test__item__init(&item);
    const struct rpc_request request = {.service = &gradus__test__echo__descriptor,
                                        .method = "Unary",
                                        .body = &item.base,
                                        .request_bulk = ECHO_BULK_FIELD,
                                        .response_bulk = ECHO_BULK_FIELD,
                                        .timeout_ms = 60000};
    assert_int_equal(rpc_call_blocking(channel, &request, NULL, &err), 0);
    rpc_channel_free(channel);
    return heard;
}

static void test_calls(void **state)
{
    (void)state;
    struct err err = {0};
    struct echo echo;
    char *path = mem_printf("unix:/tmp/gradus-test-%ld.sock", (long)getpid());
    const char *const addresses[] = {"127.0.0.1:0", path};
    const struct rpc_guard guard = {.admit = admit};
    const struct rpc_server_options options = {
        .addresses = addresses, .address_count = 2, .guard = &guard};
    echo_init(&echo);
    struct rpc_server *server = echo_server(&echo, &options, &err);
    assert_non_null(server);
    const char *tcp = rpc_server_address(server, 0);
    struct rpc_credentials *c =
        rpc_credentials_new(&(struct rpc_credentials_options){.token = "  abc.def-g \n"}, &err);
    assert_non_null(c);
    assert_false(rpc_credentials_tls(c));
    assert_null(rpc_credentials_given(c)->token);
    assert_string_equal(heard_at(tcp, c), "Bearer abc.def-g");
    assert_string_equal(heard_at(path, c), "nothing"); /* the socket says whose it is */
    assert_string_equal(heard_at(tcp, NULL), "nothing");

    static const char *const others[] = {"10.0.0.7:7000", "master:7000", "[fe80::1]:7000",
                                         "1270.example:7000"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct rpc_channel_options to = {.target = others[i], .credentials = c};
        assert_null(rpc_channel_new(&to, &err));
        assert_non_null(strstr(err.msg, "a token is not sent to "));
    }
    static const char *const own[] = {"localhost:7000", "127.9.9.9:7000", "[::1]:7000"};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        struct rpc_channel_options to = {.target = own[i], .credentials = c};
        struct rpc_channel *channel = rpc_channel_new(&to, &err);
        assert_non_null(channel);
        rpc_channel_free(channel);
    }
    rpc_credentials_free(c);
    rpc_server_free(server);
    echo_release(&echo);
    free(path);
}

static void assert_no_token(const char *file, const char *text, const char *words)
{
    struct err err = {0};
    const struct rpc_credentials_options o = {.token_file = file, .token = text};
    assert_null(rpc_credentials_new(&o, &err));
    if (strstr(err.msg, words) == NULL) {
        fail_msg("\"%s\" says not \"%s\"", err.msg, words);
    }
}

static void test_files(void **state)
{
    (void)state;
    struct err err = {0};
    char path[] = "/tmp/gradus-test-token-XXXXXX";
    struct buf out = {0};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_no_token(path, NULL, "has no token: 1 to 8192");
    assert_no_token("/nowhere/token", NULL, "/nowhere/token");
    assert_no_token(NULL, "two words", "GRADUS_TOKEN has no token");
    assert_no_token(NULL, " ", "GRADUS_TOKEN has no token");
    char *huge = mem_new(1, 20000);
    memset(huge, 'x', 19999);
    assert_no_token(NULL, huge, "GRADUS_TOKEN has no token");
    assert_int_equal(file_write_atomic(path, huge, 19999, &err), 0);
    assert_no_token(path, NULL, path);
    free(huge);
    assert_int_equal(file_write_atomic(path, "first\r\n", 7, &err), 0);
    struct rpc_token *t = rpc_token_new(path, NULL, &err);
    assert_non_null(t);
    rpc_token_add(t, &out);
    assert_string_equal(buf_str(&out), "Bearer first");
    rpc_token_free(t);
    rpc_token_free(NULL);
    buf_release(&out);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_files),
    };
    rpc_init();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return failed;
}
