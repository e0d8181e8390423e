/* SPDX-License-Identifier: Apache-2.0 */
/* Method tables against the proto, and the files of the descriptor sets. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "rpc/rpc_methods.h"
#include "support/echo_service.h"

static size_t echo_bytes(void)
{
    return (size_t)(echo_descriptors_end - echo_descriptors);
}

static void check_fails(const struct rpc_method *rows, size_t count, const char *part)
{
    struct rpc_files files = {0};
    struct err err = {0};
    assert_int_equal(rpc_files_add(&files, echo_descriptors, echo_bytes(), &err), 0);
    struct rpc_method_entry entries[ECHO_METHOD_COUNT] = {0};
    assert_int_equal(rpc_methods_check(&files, &gradus__test__echo__descriptor, rows, count, NULL,
                                       entries, &err),
                     ERR_INVALID);
    if (!strstr(err.msg, part)) {
        fail_msg("\"%s\" does not contain \"%s\"", err.msg, part);
    }
    assert_null(entries[0].path);
    rpc_files_release(&files);
}

static void test_good_table(void **state)
{
    (void)state;
    struct rpc_files files = {0};
    struct err err = {0};
    assert_int_equal(rpc_files_add(&files, echo_descriptors, echo_bytes(), &err), 0);
    struct rpc_method_entry entries[ECHO_METHOD_COUNT] = {0};
    int service = 0;
    assert_int_equal(rpc_methods_check(&files, &gradus__test__echo__descriptor, echo_methods,
                                       ECHO_METHOD_COUNT, &service, entries, &err),
                     0);
    static const struct {
        const char *path;
        bool client_streams;
        bool server_streams;
    } expected[] = {{"/gradus.test.Echo/Unary", false, false},
                    {"/gradus.test.Echo/Count", false, true},
                    {"/gradus.test.Echo/Sum", true, false},
                    {"/gradus.test.Echo/Chat", true, true}};
    for (size_t i = 0; i < ECHO_METHOD_COUNT; i++) {
        assert_string_equal(entries[i].path, expected[i].path);
        assert_int_equal(entries[i].client_streams, expected[i].client_streams);
        assert_int_equal(entries[i].server_streams, expected[i].server_streams);
        assert_ptr_equal(entries[i].row, &echo_methods[i]);
        assert_ptr_equal(entries[i].service, &service);
        free(entries[i].path);
    }
    rpc_files_release(&files);
}

static void test_bad_tables(void **state)
{
    (void)state;
    struct rpc_method rows[ECHO_METHOD_COUNT + 1];
    memcpy(rows, echo_methods, sizeof(echo_methods));
    check_fails(rows, ECHO_METHOD_COUNT - 1, "no row for Chat");

    rows[ECHO_METHOD_COUNT] = rows[0];
    check_fails(rows, ECHO_METHOD_COUNT + 1, "two rows for Unary");
    rows[ECHO_METHOD_COUNT].name = "Gone";
    check_fails(rows, ECHO_METHOD_COUNT + 1, "no rpc Gone");
    rows[ECHO_METHOD_COUNT].name = NULL;
    check_fails(rows, ECHO_METHOD_COUNT + 1, "row 4 of service gradus.test.Echo has no name");

    rows[3].request = NULL;
    check_fails(rows, ECHO_METHOD_COUNT, "gradus.test.Echo.Chat: the row has no request");
    memcpy(rows, echo_methods, sizeof(echo_methods));
    rows[0].half_close = rows[2].half_close;
    check_fails(rows, ECHO_METHOD_COUNT, "gradus.test.Echo.Unary: the client does not stream");
    memcpy(rows, echo_methods, sizeof(echo_methods));
    rows[1].request_bulk = 1; /* a string */
    check_fails(rows, ECHO_METHOD_COUNT, "gradus.test.Echo.Count: field 1 of gradus.test.Item");
    rows[1].request_bulk = 0;
    rows[1].response_bulk = 99;
    check_fails(rows, ECHO_METHOD_COUNT, "gradus.test.Echo.Count: field 99 of gradus.test.Item");
}

/* A server refuses to start with what the table check refuses. */
static void test_server_refuses(void **state)
{
    (void)state;
    static const char *const address = "127.0.0.1:0";
    struct rpc_server_options options = {.addresses = &address,
                                         .address_count = 1,
                                         .descriptors = echo_descriptors,
                                         .descriptors_bytes = echo_bytes()};
    struct err err = {0};
    struct rpc_server *s = rpc_server_new(&options, &err);
    assert_non_null(s);
    const ProtobufCServiceDescriptor *service = &gradus__test__echo__descriptor;
    assert_int_equal(rpc_server_add(s, service, echo_methods, 2, NULL, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "no row for Sum"));
    assert_int_equal(rpc_server_add(s, service, echo_methods, ECHO_METHOD_COUNT, NULL, &err), 0);
    assert_int_equal(rpc_server_add(s, service, echo_methods, ECHO_METHOD_COUNT, NULL, &err),
                     ERR_INVALID);
    assert_non_null(strstr(err.msg, "added twice"));
    assert_int_equal(rpc_server_start(s, &err), 0);
    assert_int_equal(rpc_server_start(s, &err), ERR_STATE);
    ProtobufCServiceDescriptor other = *service;
    other.name = "gradus.test.Nobody";
    assert_int_equal(rpc_server_add(s, &other, echo_methods, ECHO_METHOD_COUNT, NULL, &err),
                     ERR_STATE);
    rpc_server_free(s);

    s = rpc_server_new(&options, &err);
    assert_int_equal(rpc_server_add(s, &other, echo_methods, ECHO_METHOD_COUNT, NULL, &err),
                     ERR_INVALID);
    assert_non_null(strstr(err.msg, "gradus.test.Nobody is not in the descriptor set"));
    rpc_server_free(s);
    options.descriptors_bytes--;
    assert_null(rpc_server_new(&options, &err));
    assert_int_equal(err.code, ERR_CORRUPT);
}

static void test_broken_set(void **state)
{
    (void)state;
    size_t bytes = echo_bytes();
    unsigned refused = 0;
    for (size_t n = 1; n < bytes; n++) {
        struct rpc_files files = {0};
        struct err err = {0};
        if (rpc_files_add(&files, echo_descriptors, n, &err) != 0) {
            assert_int_equal(err.code, ERR_CORRUPT);
            refused++;
        }
        rpc_files_release(&files);
    }
    assert_int_equal(refused, bytes - 1);
}

static void test_duplicate_files(void **state)
{
    (void)state;
    struct rpc_files files = {0};
    struct err err = {0};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rpc_files_add(&files, echo_descriptors, echo_bytes(), &err), 0);
        assert_int_equal(files.count, 1);
    }
    assert_non_null(rpc_files_find(&files, "echo.proto"));
    assert_null(rpc_files_find(&files, "other.proto"));
    assert_non_null(rpc_files_find_service(&files, "gradus.test.Echo"));
    assert_null(rpc_files_find_service(&files, "gradus.test.Item"));
    assert_null(rpc_files_find_service(&files, "Echo"));
    rpc_files_release(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_table),      cmocka_unit_test(test_bad_tables),
        cmocka_unit_test(test_server_refuses),  cmocka_unit_test(test_broken_set),
        cmocka_unit_test(test_duplicate_files),
    };
    rpc_init();
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return rc;
}
