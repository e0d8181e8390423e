/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/address.h"
#include "support/held_port.h"
#include "support/interrupt.h"

static void test_parse_and_format(void **state)
{
    (void)state;
    const struct {
        const char *text;
        const char *host;
        unsigned port;
    } rows[] = {{"127.0.0.1:80", "127.0.0.1", 80},
                {"master:0", "master", 0},
                {"[::1]:65535", "::1", 65535}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct address a;
        char out[ADDRESS_BYTES];
        assert_int_equal(address_parse(rows[i].text, &a, NULL), 0);
        assert_string_equal(a.host, rows[i].host);
        assert_int_equal(a.port, rows[i].port);
        assert_string_equal(address_format(&a, out, sizeof out), rows[i].text);
    }
}

static void test_the_usual_port(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"master", "master:7000"},      {"10.0.0.1", "10.0.0.1:7000"}, {"::1", "::1"},
        {"[::1]", "[::1]:7000"},        {"[::1]:80", "[::1]:80"},      {"master:80", "master:80"},
        {"unix:/run/x", "unix:/run/x"}, {"/run/x", "/run/x"},          {"", ""},
        {"fe80::1:2", "fe80::1:2"}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text = address_with_port(rows[i][0], 7000);
        assert_string_equal(text, rows[i][1]);
        free(text);
    }
}

static void test_bad_addresses(void **state)
{
    (void)state;
    char long_host[ADDRESS_HOST_BYTES + 8];
    memset(long_host, 'a', sizeof long_host);
    memcpy(long_host + ADDRESS_HOST_BYTES, ":80", 4);
    const char *const rows[] = {"",         "host",     "host:",  ":80",   "host:65536", "host:-1",
                                "host:80x", "host: 80", "::1:80", "[]:80", "[::1]80",    long_host};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct address a = {.host = "kept"};
        struct err err = {0};
        assert_int_equal(address_parse(rows[i], &a, &err), ERR_INVALID);
        assert_non_null(strstr(err.msg, "; host:port"));
        assert_string_equal(a.host, "kept");
    }
}

static void test_kinds(void **state)
{
    (void)state;
    const struct {
        const char *host;
        bool loopback;
        bool any;
    } rows[] = {{"127.0.0.1", true, false}, {"127.9.9.9", true, false}, {"::1", true, false},
                {"localhost", true, false}, {"0.0.0.0", false, true},   {"::", false, true},
                {"10.0.0.1", false, false}, {"master", false, false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct address a = {.port = 1};
        strcpy(a.host, rows[i].host);
        assert_int_equal(address_is_loopback(&a), rows[i].loopback);
        assert_int_equal(address_is_any(&a), rows[i].any);
    }
}

#define QUEUE 2

struct queue {
    int fd, accepted[QUEUE];
    struct interrupt connects;
};

static void test_listen_and_connect(void **state)
{
    (void)state;
    struct address a = {.host = "127.0.0.1"};
    struct err err = {0};
    int server = address_listen(&a, &err);
    assert_true(server >= 0);
    assert_true(a.port != 0);
    int client = address_connect(&a, 60000, &err);
    assert_true(client >= 0);
    struct address again = a;
    assert_int_equal(address_listen(&again, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "listen on 127.0.0.1:"));
    assert_non_null(strstr(err.msg, "Address already in use"));
    (void)close(client);
    (void)close(server);
    struct held_port nobody;
    held_port_take(&nobody);
    a.port = nobody.port;
    assert_int_equal(address_connect(&a, 60000, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "refused"));
    held_port_release(&nobody);
}

/* Two connections that nobody accepts fill the queue; room for the third is made when it was
 * interrupted. */
static void *interrupt_and_accept(void *ctx)
{
    struct queue *q = ctx;
    interrupt_now(&q->connects);
    for (size_t i = 0; i < QUEUE; i++) {
        q->accepted[i] = accept(q->fd, NULL, NULL);
    }
    return NULL;
}

static void test_who_is_interrupted_connects_all_the_same(void **state)
{
    (void)state;
    struct address a;
    struct err err = {0};
    struct queue q;
    struct held_port port;
    pthread_t thread;
    int before[QUEUE];
    held_port_take(&port);
    q.fd = port.fd;
    assert_int_equal(listen(port.fd, QUEUE - 1), 0);
    assert_int_equal(address_parse(port.address, &a, NULL), 0);
    for (size_t i = 0; i < QUEUE; i++) {
        before[i] = address_connect(&a, 60000, NULL);
        assert_true(before[i] >= 0);
    }
    interrupt_prepare(&q.connects);
    assert_int_equal(pthread_create(&thread, NULL, interrupt_and_accept, &q), 0);
    int fd = address_connect(&a, 60000, &err);
    if (fd < 0) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), 1);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < QUEUE; i++) {
        (void)close(before[i]);
        (void)close(q.accepted[i]);
    }
    (void)close(fd);
    held_port_release(&port);
}

/* 0.0.0.0 is all addresses of the host, those of IPv6 as well where it has any. */
static void any_is_of_both_families(void **state)
{
    (void)state;
    struct err err = {0};
    struct address a = {.host = "::1"};
    int only = address_listen(&a, &err);
    if (only < 0) {
        skip(); /* no IPv6 here */
    }
    (void)close(only);
    for (int i = 0; i < 2; i++) {
        struct address any = {0};
        (void)snprintf(any.host, sizeof any.host, "%s", i == 0 ? "0.0.0.0" : "::");
        int fd = address_listen(&any, &err);
        assert_true(fd >= 0);
        static const char *const hosts[] = {"127.0.0.1", "::1"};
        for (size_t k = 0; k < 2; k++) {
            struct address to = {.port = any.port};
            (void)snprintf(to.host, sizeof to.host, "%s", hosts[k]);
            int client = address_connect(&to, 60000, &err);
            assert_true(client >= 0);
            (void)close(client);
        }
        (void)close(fd);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parse_and_format),
        cmocka_unit_test(test_bad_addresses),
        cmocka_unit_test(test_the_usual_port),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_listen_and_connect),
        cmocka_unit_test(any_is_of_both_families),
        cmocka_unit_test(test_who_is_interrupted_connects_all_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
