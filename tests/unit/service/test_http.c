/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/address.h"
#include "service/http.h"
#include "support/interrupt.h"

#define WAIT_MS 60000

struct fixture {
    struct meter_registry *meters;
    struct http *http;
    _Atomic(const char *) reason; /* NULL: well; the server's thread reads it */
};

static bool healthy(void *ctx, char *reason, size_t n)
{
    const struct fixture *f = ctx;
    const char *why = f->reason;
    (void)snprintf(reason, n, "%s", why != NULL ? why : "");
    return why == NULL;
}

static bool other(void *ctx, char *reason, size_t n)
{
    (void)ctx;
    (void)snprintf(reason, n, "never");
    return false;
}

static int start(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->meters = meter_registry_new();
    meter_add(meter_counter(f->meters, "pushes_total", "Pushes", NULL, 0), 5);
    static const struct http_check checks[] = {{"/healthz", healthy}, {"/other", other}};
    const struct http_options options = {.address = "127.0.0.1:0",
                                         .meters = f->meters,
                                         .checks = checks,
                                         .check_count = 2,
                                         .ctx = f};
    struct err err = {0};
    f->http = http_start(&options, &err);
    assert_non_null(f->http);
    *state = f;
    return 0;
}

static int stop(void **state)
{
    struct fixture *f = *state;
    http_stop(f->http);
    meter_registry_free(f->meters);
    free(f);
    return 0;
}

/* Send @request as it is and read until the server closes. */
static char *ask(const struct fixture *f, const char *request, size_t n)
{
    struct address a;
    assert_int_equal(address_parse(http_address(f->http), &a, NULL), 0);
    int fd = address_connect(&a, 0, NULL);
    assert_true(fd >= 0);
    while (n > 0) {
        ssize_t k = send(fd, request, n, MSG_NOSIGNAL);
        if (k <= 0) {
            break; /* refused while we were sending */
        }
        request += k;
        n -= (size_t)k;
    }
    static char answer[65536];
    size_t have = 0;
    for (ssize_t k = 1; k > 0 && have + 1 < sizeof answer; have += k > 0 ? (size_t)k : 0) {
        k = recv(fd, answer + have, sizeof answer - 1 - have, 0);
    }
    answer[have] = '\0';
    (void)close(fd);
    return answer;
}

static char *get(const struct fixture *f, const char *path)
{
    char request[256];
    int n = snprintf(request, sizeof request,
                     "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
    return ask(f, request, (size_t)n);
}

static void assert_answer(const char *answer, const char *status, const char *part)
{
    char line[64];
    (void)snprintf(line, sizeof line, "HTTP/1.1 %s", status);
    if (strncmp(answer, line, strlen(line)) != 0 || strstr(answer, part) == NULL) {
        fail_msg("not \"%s\" with \"%s\": %s", line, part, answer);
    }
}

static void test_pages(void **state)
{
    struct fixture *f = *state;
    assert_answer(get(f, "/metrics"), "200", "\ngradus_pushes_total 5\n");
    assert_answer(get(f, "/metrics"), "200", "text/plain; version=0.0.4");
    assert_answer(get(f, "/healthz"), "200", "\r\n\r\nok\n");
    assert_answer(get(f, "/nothing"), "404", "not found");
    assert_answer(get(f, "/"), "404", "not found; there are /metrics /healthz /other\n");
    assert_answer(get(f, "/other"), "503", "\r\n\r\nnever\n");
    assert_null(strstr(http_address(f->http), ":0"));
}

static void test_unhealthy_says_why(void **state)
{
    struct fixture *f = *state;
    f->reason = "the master is gone";
    assert_answer(get(f, "/healthz"), "503", "the master is gone\n");
    struct err err = {0};
    assert_int_equal(http_probe(http_address(f->http), WAIT_MS, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "the master is gone (HTTP 503)"));
    f->reason = NULL;
    assert_int_equal(http_probe(http_address(f->http), WAIT_MS, &err), 0);
    assert_int_equal(http_probe("nonsense", WAIT_MS, &err), ERR_INVALID);
    char other[ADDRESS_BYTES + 16];
    (void)snprintf(other, sizeof other, "%s/other", http_address(f->http));
    assert_int_equal(http_probe(other, WAIT_MS, &err), ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, "/other: never (HTTP 503)"));
    (void)snprintf(other, sizeof other, "%s/healthz", http_address(f->http));
    assert_int_equal(http_probe(other, WAIT_MS, &err), 0);
    assert_int_equal(http_probe("127.0.0.1:1/a b", WAIT_MS, &err), ERR_INVALID);
    assert_int_equal(http_probe("127.0.0.1:1/longer_than_any_page_is", WAIT_MS, &err), ERR_INVALID);
}

static void test_other_requests(void **state)
{
    struct fixture *f = *state;
    static const char post[] = "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
                               "Content-Length: 3\r\n\r\nabc";
    assert_answer(ask(f, post, sizeof post - 1), "405", "Allow: GET, HEAD");
    static const char head[] = "HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    const char *answer = ask(f, head, sizeof head - 1);
    assert_answer(answer, "200", "Content-Length: ");
    assert_null(strstr(answer, "gradus_pushes"));
}

static void test_garbage_and_too_much(void **state)
{
    struct fixture *f = *state;
    static const char garbage[] = "\x16\x03\x01\x02\r\n\r\n";
    (void)ask(f, garbage, sizeof garbage - 1);
    static char huge[200000];
    memset(huge, 'a', sizeof huge);
    memcpy(huge, "GET /", 5);
    (void)ask(f, huge, sizeof huge);
    assert_answer(get(f, "/healthz"), "200", "ok"); /* and it lives */
}

static void test_port_in_use(void **state)
{
    struct fixture *f = *state;
    const struct http_options options = {.address = http_address(f->http), .meters = f->meters};
    struct err err = {0};
    assert_null(http_start(&options, &err));
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, http_address(f->http)));
    assert_non_null(strstr(err.msg, "in use"));
    const struct http_options bad = {.address = "no port", .meters = f->meters};
    assert_null(http_start(&bad, &err));
    assert_int_equal(err.code, ERR_INVALID);
    assert_int_equal(http_probe("127.0.0.1:1", WAIT_MS, &err), ERR_UNAVAILABLE);
}

/* Somebody else on the port: says one thing to whoever comes, and closes. */
struct stranger {
    int fd;
    const char *says;
    struct interrupt *asks; /* it is interrupted before and in between; NULL: it is not */
};

static void *answer_one(void *ctx)
{
    const struct stranger *s = ctx;
    char request[256];
    int fd = accept(s->fd, NULL, NULL);
    (void)recv(fd, request, sizeof request, 0);
    const size_t half = s->asks != NULL ? strlen(s->says) / 2 : 0;
    for (size_t i = 0; s->asks != NULL && i < 2; i++) {
        interrupt_now(s->asks);
        (void)send(fd, s->says, i == 0 ? half : 0, MSG_NOSIGNAL);
    }
    (void)send(fd, s->says + half, strlen(s->says) - half, MSG_NOSIGNAL);
    (void)close(fd);
    return NULL;
}

static void test_a_probe_of_a_stranger(void **state)
{
    (void)state;
    static const struct {
        const char *says;
        int code;
        const char *message; /* behind the address */
    } rows[] = {
        {"", ERR_UNAVAILABLE, " does not answer"},
        {"SSH-2.0-OpenSSH\r\n", ERR_UNAVAILABLE, " does not answer"},
        {"HTTP/1.1 404 Not Found\r\n", ERR_UNAVAILABLE, ":  (HTTP 404)"},
        {"HTTP/1.0 500 No\r\n\r\nout of order\r\nline 2", ERR_UNAVAILABLE,
         ": out of order (HTTP 500)"},
        {"HTTP/1.0 200 OK\r\n\r\n", 0, ""},
    };
    struct address a;
    char address[ADDRESS_BYTES];
    struct err err = {0};
    assert_int_equal(address_parse("127.0.0.1:0", &a, NULL), 0);
    int fd = address_listen(&a, &err);
    assert_true(fd >= 0);
    address_format(&a, address, sizeof address);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct stranger stranger = {fd, rows[i].says, NULL};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, answer_one, &stranger), 0);
        err = (struct err){0};
        assert_int_equal(http_probe(address, WAIT_MS, &err), rows[i].code);
        pthread_join(thread, NULL);
        char message[2 * ADDRESS_BYTES] = "";
        if (rows[i].code != 0) {
            (void)snprintf(message, sizeof message, "%s%s", address, rows[i].message);
        }
        assert_string_equal(err.msg, message);
    }
    (void)close(fd);
}

/* A probe that is stopped while it waits, and goes on. */
static void test_a_probe_that_is_interrupted(void **state)
{
    (void)state;
    struct address a = {.host = "127.0.0.1"};
    char address[ADDRESS_BYTES];
    struct err err = {0};
    struct interrupt probe;
    pthread_t thread;
    int fd = address_listen(&a, &err);
    assert_true(fd >= 0);
    address_format(&a, address, sizeof address);
    interrupt_prepare(&probe);
    struct stranger stranger = {fd, "HTTP/1.0 200 OK\r\n\r\n", &probe};
    assert_int_equal(pthread_create(&thread, NULL, answer_one, &stranger), 0);
    if (http_probe(address, WAIT_MS, &err) != 0) {
        fail_msg("%s", err.msg);
    }
    pthread_join(thread, NULL);
    (void)close(fd);
}

/* As many as may be open send half of a request and wait. */
static void test_slow_clients_leave_room_for_a_probe(void **state)
{
    struct fixture *f = *state;
    struct address a;
    assert_int_equal(address_parse(http_address(f->http), &a, NULL), 0);
    int fds[2 * HTTP_CONNECTIONS_MAX];
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        fds[i] = address_connect(&a, 0, NULL);
        assert_true(fds[i] >= 0);
        (void)send(fds[i], "GET /he", 7, MSG_NOSIGNAL);
        if (i % HTTP_CONNECTIONS_MAX == HTTP_CONNECTIONS_MAX - 1) {
            struct err err = {0};
            assert_int_equal(http_probe(http_address(f->http), WAIT_MS, &err), 0);
        }
    }
    char byte;
    assert_int_equal(recv(fds[0], &byte, 1, 0), 0); /* the oldest was sent away */
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        (void)close(fds[i]);
    }
    assert_answer(get(f, "/metrics"), "200", "pushes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pages, start, stop),
        cmocka_unit_test_setup_teardown(test_unhealthy_says_why, start, stop),
        cmocka_unit_test_setup_teardown(test_other_requests, start, stop),
        cmocka_unit_test_setup_teardown(test_garbage_and_too_much, start, stop),
        cmocka_unit_test_setup_teardown(test_slow_clients_leave_room_for_a_probe, start, stop),
        cmocka_unit_test_setup_teardown(test_port_in_use, start, stop),
        cmocka_unit_test(test_a_probe_of_a_stranger),
        cmocka_unit_test(test_a_probe_that_is_interrupted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
