/* SPDX-License-Identifier: Apache-2.0 */
/* A service's own pages on the HTTP port: answered at once and later, bodies and their limits, who
 * may ask, and the end. */
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/address.h"
#include "service/http.h"
#include "support/wait_until.h"

#define BODY_MAX 100000

struct fixture {
    struct meter_registry *meters;
    struct http *http;
    _Atomic(struct http_call *) waits; /* of /own/later */
    atomic_int asked;
};

static const char *row(void *ctx, const char *path)
{
    (void)ctx;
    return strcmp(path, "/own/nothing") == 0 ? NULL : "inference.GRPCInferenceService/ModelInfer";
}

static void say(struct http_call *call, unsigned status, const char *text)
{
    struct buf body = {0};
    buf_add_str(&body, text);
    const struct http_answer a = {.status = status,
                                  .type = "text/plain",
                                  .header = "X-Path",
                                  .more = http_call_path(call),
                                  .body = &body};
    http_call_answer(call, &a);
}

static void request(void *ctx, struct http_call *call)
{
    struct fixture *f = ctx;
    const struct err *refusal = http_call_refusal(call);
    char text[256];
    atomic_fetch_add(&f->asked, 1);
    if (refusal != NULL) {
        say(call, 400, refusal->msg);
    } else if (strcmp(http_call_path(call), "/own/later") == 0) {
        atomic_store(&f->waits, call);
    } else {
        const char *header = http_call_header(call, "X-Word");
        (void)snprintf(text, sizeof text, "%s of %zu bytes, %s\n", http_call_method(call),
                       http_call_body(call)->len, header != NULL ? header : "no word");
        say(call, 200, text);
    }
}

static enum http_deed deed(void *ctx, const char *path)
{
    (void)ctx;
    return strcmp(path, "/own/change") == 0 ? HTTP_CHANGES
           : strcmp(path, "/own/cost") == 0 ? HTTP_COSTS
                                            : HTTP_LOOKS;
}

static int token(void *ctx, const char *authorization, struct auth_identity *who, struct err *err)
{
    (void)ctx;
    if (strcmp(authorization, "Bearer viewer") != 0) {
        return err_set(err, ERR_UNAUTHENTICATED, "the token of ann expired");
    }
    who->roles = AUTH_VIEWER;
    return 0;
}

static void serve(struct fixture *f, bool guarded, bool tokens)
{
    const struct http_pages pages = {.prefix = "/own",
                                     .body_bytes_max = BODY_MAX,
                                     .bodies_bytes_max = BODY_MAX + BODY_MAX / 2,
                                     .row = row,
                                     .deed = deed,
                                     .request = request,
                                     .ctx = f};
    const struct http_options options = {.address = "127.0.0.1:0",
                                         .meters = f->meters,
                                         .pages = &pages,
                                         .token = tokens ? token : NULL,
                                         .guarded = guarded};
    struct err err = {0};
    f->http = http_start(&options, &err);
    assert_non_null(f->http);
}

static int start(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->meters = meter_registry_new();
    serve(f, false, false);
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

static int ask(const struct fixture *f, const char *method, const char *path, const char *headers,
               size_t bytes)
{
    struct address a;
    char head[512];
    assert_int_equal(address_parse(http_address(f->http), &a, NULL), 0);
    int fd = address_connect(&a, 0, NULL);
    assert_true(fd >= 0);
    int n = snprintf(head, sizeof head,
                     "%s %s HTTP/1.1\r\n%sConnection: close\r\nContent-Length: "
                     "%zu\r\n%s\r\n",
                     method, path, strstr(headers, "Host:") ? "" : "Host: 127.0.0.1\r\n", bytes,
                     headers);
    assert_int_equal(send(fd, head, (size_t)n, MSG_NOSIGNAL), n);
    char *body = calloc(bytes + 1, 1);
    for (size_t at = 0; at < bytes;) {
        ssize_t k = send(fd, body + at, bytes - at, MSG_NOSIGNAL);
        assert_true(k > 0);
        at += (size_t)k;
    }
    free(body);
    return fd;
}

static const char *answer(int fd)
{
    static char text[4096];
    size_t have = 0;
    for (ssize_t k = 1; k > 0 && have + 1 < sizeof text; have += k > 0 ? (size_t)k : 0) {
        k = recv(fd, text + have, sizeof text - 1 - have, 0);
    }
    text[have] = '\0';
    (void)close(fd);
    return text;
}

static void assert_says(const char *text, const char *status, const char *part)
{
    if (strncmp(text, "HTTP/1.1 ", 9) != 0 || strncmp(text + 9, status, 3) != 0 ||
        strstr(text, part) == NULL) {
        fail_msg("not %s with \"%s\": %s", status, part, text);
    }
}

static void test_bodies(void **state)
{
    struct fixture *f = *state;
    assert_says(answer(ask(f, "GET", "/own", "", 0)), "200", "GET of 0 bytes, no word");
    assert_says(answer(ask(f, "POST", "/own/a%20b?c=d", "X-Word: yes\r\n", 3)), "200",
                "POST of 3 bytes, yes");
    assert_says(answer(ask(f, "POST", "/own/a%20b?c=d", "", 3)), "200", "X-Path: /own/a b\r\n");
    assert_says(answer(ask(f, "POST", "/own/x", "", BODY_MAX)), "200", "POST of 100000 bytes");
    assert_says(answer(ask(f, "POST", "/own/x", "", BODY_MAX + 1)), "400",
                "the body has more than 100000 bytes");
    assert_says(answer(ask(f, "GET", "/own/nothing", "", 0)), "400", "there is no such page");
    assert_says(answer(ask(f, "POST", "/other", "", 3)), "405", "only GET and HEAD");
    assert_says(answer(ask(f, "GET", "/owner", "", 0)), "404", "not found");
}

static void *answer_later(void *ctx)
{
    struct fixture *f = ctx;
    say(atomic_load(&f->waits), 200, "at last");
    return NULL;
}

/* Others are answered meanwhile, and what it holds counts. */
static void test_an_answer_that_takes_long(void **state)
{
    struct fixture *f = *state;
    pthread_t thread;
    int fd = ask(f, "POST", "/own/later", "", BODY_MAX);
    wait_until(atomic_load(&f->waits) != NULL);
    assert_says(answer(ask(f, "POST", "/own/x", "", BODY_MAX / 2)), "200", "of 50000 bytes");
    assert_says(answer(ask(f, "POST", "/own/x", "", BODY_MAX / 2 + 1)), "400",
                "the requests in hand have ");
    assert_says(answer(ask(f, "GET", "/metrics", "", 0)), "200", "");
    assert_int_equal(pthread_create(&thread, NULL, answer_later, f), 0);
    assert_says(answer(fd), "200", "at last");
    pthread_join(thread, NULL);
    assert_says(answer(ask(f, "POST", "/own/x", "", BODY_MAX)), "200", "of 100000 bytes");
}

static void test_a_client_that_does_not_wait(void **state)
{
    struct fixture *f = *state;
    int fd = ask(f, "POST", "/own/later", "", 10);
    wait_until(atomic_load(&f->waits) != NULL);
    (void)close(fd);
    say(atomic_load(&f->waits), 200, "to nobody");
    assert_says(answer(ask(f, "GET", "/own", "", 0)), "200", "GET of 0 bytes");
}

/* The service is not asked any more; what it has not answered is answered before the end. */
static void test_the_end(void **state)
{
    struct fixture *f = *state;
    int fd = ask(f, "POST", "/own/later", "", 10);
    wait_until(atomic_load(&f->waits) != NULL);
    http_close_pages(f->http);
    assert_string_equal(answer(ask(f, "GET", "/own", "", 0)), "");
    assert_int_equal(atomic_load(&f->asked), 1);
    say(atomic_load(&f->waits), 503, "the server ends");
    assert_says(answer(fd), "503", "the server ends");
    http_close_pages(NULL);
}

static void test_who_may_ask(void **state)
{
    struct fixture *f = *state;
    http_stop(f->http);
    serve(f, true, false);
    assert_says(answer(ask(f, "GET", "/own", "Authorization: Bearer viewer\r\n", 0)), "400",
                "this port has no TLS; inference.GRPCInferenceService/ModelInfer is for holders of "
                "a certificate of this cluster");
    http_stop(f->http);
    serve(f, true, true);
    assert_says(answer(ask(f, "GET", "/own", "", 0)), "400", "or of a token");
    assert_says(answer(ask(f, "GET", "/own", "Authorization: Bearer old\r\n", 0)), "400",
                "the token of ann expired");
    assert_says(answer(ask(f, "POST", "/own", "Authorization: Bearer viewer\r\n", 7)), "200",
                "POST of 7 bytes");
}

/* A name of another host may lead to the own one, whose port asks nobody who it is. */
static void test_names_of_the_host(void **state)
{
    struct fixture *f = *state;
    static const char *const own[] = {"localhost:7001", "[::1]:7001", "[::1]", "LocalHost",
                                      "127.0.0.2:80"};
    static const char *const others[] = {"evil.example:7001",     "10.0.0.1", "[::2]", "[", "a:b:c",
                                         "localhost.evil.example"};
    char host[128];
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        (void)snprintf(host, sizeof host, "Host: %s\r\n", own[i]);
        assert_says(answer(ask(f, "GET", "/own", host, 0)), "200", "GET of 0 bytes");
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        (void)snprintf(host, sizeof host, "Host: %s\r\n", others[i]);
        assert_says(answer(ask(f, "GET", "/own", host, 0)), "400", "ask for 127.0.0.1");
    }
    http_stop(f->http);
    serve(f, true, true); /* who asks has a token, which no other page has */
    assert_says(
        answer(ask(f, "GET", "/own", "Host: evil.example\r\nAuthorization: Bearer viewer\r\n", 0)),
        "200", "GET of 0 bytes");
}

#define VIEWER "Authorization: Bearer viewer\r\nContent-Type: application/json\r\n"

static void test_changes(void **state)
{
    struct fixture *f = *state;
    assert_says(answer(ask(f, "POST", "/own/change", "Content-Type: application/json\r\n", 2)),
                "400", "nothing can be changed by HTTP");
    assert_says(answer(ask(f, "GET", "/own/change", "", 0)), "200", "GET of 0 bytes");
    http_stop(f->http);
    serve(f, true, true);
    assert_says(answer(ask(f, "POST", "/own/change", VIEWER, 2)), "200", "POST of 2 bytes");
    assert_says(answer(ask(f, "POST", "/own/change", VIEWER "Origin: http://127.0.0.1\r\n", 2)),
                "200", "POST of 2 bytes");
    assert_says(answer(ask(f, "POST", "/own/change",
                           "Authorization: Bearer viewer\r\nContent-Type: text/plain\r\n", 2)),
                "400", "Content-Type: application/json");
    static const char *const others[] = {"http://evil.example", "null", "http://127.0.0.1:80"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        char headers[256];
        (void)snprintf(headers, sizeof headers, VIEWER "Origin: %s\r\n", others[i]);
        assert_says(answer(ask(f, "POST", "/own/change", headers, 2)), "400", "may not send this");
    }
    assert_says(answer(ask(f, "POST", "/own/change", "Content-Type: application/json\r\n", 2)),
                "400", "or of a token");
}

/* What only costs something may everybody ask for where nobody has to say who he is, but not
 * another page. */
static void test_costs(void **state)
{
    struct fixture *f = *state;
    assert_says(answer(ask(f, "POST", "/own/cost", "Content-Type: application/json\r\n", 2)), "200",
                "POST of 2 bytes");
    assert_says(answer(ask(f, "POST", "/own/cost", "Content-Type: text/plain\r\n", 2)), "400",
                "Content-Type: application/json");
    assert_says(answer(ask(f, "POST", "/own/cost",
                           "Content-Type: application/json\r\nOrigin: http://evil.example\r\n", 2)),
                "400", "may not send this");
    assert_says(answer(ask(f, "POST", "/own/cost",
                           "Content-Type: application/json\r\nHost: evil.example\r\n", 2)),
                "400", "ask for 127.0.0.1");
    http_stop(f->http);
    serve(f, true, true);
    assert_says(answer(ask(f, "POST", "/own/cost", VIEWER, 2)), "200", "POST of 2 bytes");
    assert_says(answer(ask(f, "POST", "/own/cost", "Content-Type: application/json\r\n", 2)), "400",
                "or of a token");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bodies, start, stop),
        cmocka_unit_test_setup_teardown(test_an_answer_that_takes_long, start, stop),
        cmocka_unit_test_setup_teardown(test_a_client_that_does_not_wait, start, stop),
        cmocka_unit_test_setup_teardown(test_the_end, start, stop),
        cmocka_unit_test_setup_teardown(test_who_may_ask, start, stop),
        cmocka_unit_test_setup_teardown(test_names_of_the_host, start, stop),
        cmocka_unit_test_setup_teardown(test_changes, start, stop),
        cmocka_unit_test_setup_teardown(test_costs, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
