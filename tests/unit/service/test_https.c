/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP port with TLS: who may see what, and that slow and foreign clients keep nobody out. */
#include "support/test.h"

#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/file.h"
#include "service/address.h"
#include "service/http.h"
#include "service/http_tls.h"
#include "tls/certificates.h"
#include "tls/tls_ask.h"
#include "tls/tls_openssl.h"

#define GAUGES 3000 /* a page larger than what sockets hold */

struct fixture {
    char dir[64];
    char *own, *other; /* two authorities */
    struct meter_registry *meters;
    struct http *http;
    struct address at;
    sem_t resume; /* what /waits waits for */
    sem_t waits;
    char answer[(size_t)1 << 20];
};

static bool healthy(void *ctx, char *reason, size_t n)
{
    (void)ctx;
    reason[0] = '\0';
    return n > 0;
}

/* Holds the thread of the server. */
static bool wait_for_resume(void *ctx, char *reason, size_t n)
{
    struct fixture *f = ctx;
    reason[0] = '\0';
    (void)sem_post(&f->waits);
    (void)sem_wait(&f->resume);
    return n > 0;
}

static const struct http_check checks[] = {{"/healthz", healthy}, {"/waits", wait_for_resume}};

static char *authority(const char *dir, const char *name)
{
    char *path = file_join(dir, name);
    const struct certificates_options o = {.dir = path, .days = 30};
    assert_int_equal(certificates_init(&o, NULL), 0);
    return path;
}

typedef int token_check(void *ctx, const char *authorization, struct auth_identity *who,
                        struct err *err);
static token_check *tokens; /* of the server that is started next */

static struct http *serve(struct fixture *f, const char *dir, struct err *err)
{
    char *files[] = {file_join(dir, "node.crt"), file_join(dir, "node.key"),
                     file_join(dir, "ca.crt")};
    const struct tls_files tls = {.certificate = files[0], .key = files[1], .ca = files[2]};
    const struct http_options options = {.address = "127.0.0.1:0",
                                         .meters = f->meters,
                                         .checks = checks,
                                         .check_count = 2,
                                         .ctx = f,
                                         .tls = &tls,
                                         .token = tokens};
    struct http *h = http_start(&options, err);
    for (size_t i = 0; i < 3; i++) {
        free(files[i]); /* it has copies */
    }
    return h;
}

static int start(void **state)
{
    (void)signal(SIGPIPE, SIG_IGN);
    struct fixture *f = mem_new(1, sizeof *f);
    struct err err = {0};
    (void)strcpy(f->dir, "/tmp/gradus-test-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->own = authority(f->dir, "own");
    f->other = authority(f->dir, "other");
    f->meters = meter_registry_new();
    (void)sem_init(&f->resume, 0, 0);
    (void)sem_init(&f->waits, 0, 0);
    for (int i = 0; i < GAUGES; i++) {
        char number[16];
        (void)snprintf(number, sizeof number, "%d", i);
        const struct meter_label label = {"number", number};
        meter_set(meter_gauge(f->meters, "numbers", "Numbers", &label, 1), i);
    }
    f->http = serve(f, f->own, &err);
    if (f->http == NULL) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(address_parse(http_address(f->http), &f->at, NULL), 0);
    *state = f;
    return 0;
}

static int stop(void **state)
{
    struct fixture *f = *state;
    http_stop(f->http);
    meter_registry_free(f->meters);
    (void)file_remove_tree(f->dir, NULL);
    free(f->own);
    free(f->other);
    free(f);
    return 0;
}

static int connected(const struct fixture *f)
{
    int fd = address_connect(&f->at, 0, NULL);
    assert_true(fd >= 0);
    return fd;
}

/* GET with the client's certificate of @dir, NULL: none; the whole answer. */
static const char *get(struct fixture *f, const char *dir, const char *path)
{
    char request[128];
    size_t n = 0;
    size_t have = 0;
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    assert_non_null(context);
    if (dir != NULL) {
        char *certificate = file_join(dir, "submitter.crt");
        char *key = file_join(dir, "submitter.key");
        assert_int_equal(SSL_CTX_use_certificate_chain_file(context, certificate), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM), 1);
        free(certificate);
        free(key);
    }
    SSL *ssl = SSL_new(context);
    int fd = connected(f);
    assert_int_equal(SSL_set_fd(ssl, fd), 1);
    assert_int_equal(SSL_connect(ssl), 1);
    (void)snprintf(request, sizeof request,
                   "GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", path);
    assert_int_equal(SSL_write_ex(ssl, request, strlen(request), &n), 1);
    while (SSL_read_ex(ssl, f->answer + have, sizeof f->answer - 1 - have, &n) == 1) {
        have += n;
    }
    f->answer[have] = '\0';
    assert_int_equal(SSL_get_shutdown(ssl) & SSL_RECEIVED_SHUTDOWN, SSL_RECEIVED_SHUTDOWN);
    SSL_free(ssl);
    SSL_CTX_free(context);
    (void)close(fd);
    return f->answer;
}

static void assert_answer(const char *answer, const char *status, const char *part)
{
    if (strncmp(answer, "HTTP/1.1 ", 9) != 0 || strncmp(answer + 9, status, 3) != 0 ||
        strstr(answer, part) == NULL) {
        fail_msg("not %s with \"%s\": %.500s", status, part, answer);
    }
}

static void test_who_may_see_what(void **state)
{
    struct fixture *f = *state;
    assert_answer(get(f, NULL, "/healthz"), "200", "\r\n\r\nok\n");
    assert_answer(get(f, f->other, "/healthz"), "200", "\r\n\r\nok\n");
    assert_answer(get(f, f->own, "/healthz"), "200", "\r\n\r\nok\n");
    assert_answer(get(f, NULL, "/nothing"), "404", "not found");
    assert_answer(get(f, NULL, "/metrics"), "403",
                  "\r\n\r\nno client certificate was shown; /metrics is for holders of a "
                  "certificate of this cluster\n");
    assert_null(strstr(f->answer, "gradus_numbers"));
    assert_answer(get(f, f->other, "/metrics"), "403", " is not believed: ");
    assert_answer(get(f, f->own, "/metrics"), "200", "gradus_numbers{number=\"0\"} 0\n");
    assert_non_null(strstr(f->answer, "gradus_numbers{number=\"2999\"} 2999\n"));
}

static int check_token(void *ctx, const char *authorization, struct auth_identity *who,
                       struct err *err)
{
    assert_non_null(ctx);
    if (strcmp(authorization, "Bearer viewer") == 0) {
        who->roles = AUTH_VIEWER;
    } else if (strcmp(authorization, "Bearer nobody") != 0) {
        return err_set(err, ERR_UNAUTHENTICATED, "the token of ann expired");
    }
    return 0;
}

/* Who shows a token is known by it, whatever the certificate beside it says. */
static void test_tokens_do_as_well(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    static const char viewer[] = "/metrics HTTP/1.1\r\nAuthorization: Bearer viewer\r\nX-Rest:";
    static const char nobody[] = "/metrics HTTP/1.1\r\nAuthorization: Bearer nobody\r\nX-Rest:";
    static const char old[] = "/metrics HTTP/1.1\r\nAuthorization: Bearer old\r\nX-Rest:";
    assert_answer(get(f, NULL, viewer), "403", "no client certificate was shown"); /* not known */
    http_stop(f->http);
    tokens = check_token;
    f->http = serve(f, f->own, &err);
    tokens = NULL;
    assert_non_null(f->http);
    assert_int_equal(address_parse(http_address(f->http), &f->at, NULL), 0);
    assert_answer(get(f, NULL, viewer), "200", "gradus_numbers{number=\"0\"} 0\n");
    assert_answer(get(f, NULL, nobody), "403", "GET /metrics");
    assert_answer(get(f, NULL, old), "403", "\r\n\r\nthe token of ann expired\n");
    assert_answer(get(f, f->own, old), "403", "\r\n\r\nthe token of ann expired\n");
    assert_answer(get(f, f->own, "/metrics"), "200", "gradus_numbers");
    assert_answer(get(f, NULL, "/metrics"), "403", "certificate of this cluster, or of a token\n");
    assert_answer(get(f, NULL, "/healthz"), "200", "\r\n\r\nok\n");
}

static void assert_refused_plain(int fd)
{
    char answer[1024] = "";
    for (size_t have = 0, n = 1; n > 0; have += n) {
        ssize_t k = recv(fd, answer + have, sizeof answer - 1 - have, 0);
        n = k > 0 ? (size_t)k : 0;
    }
    (void)close(fd);
    assert_answer(answer, "400", "\r\n\r\nthis port speaks HTTPS\n");
}

static void test_a_plain_client_is_told(void **state)
{
    struct fixture *f = *state;
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    int fd = connected(f);
    assert_int_equal(send(fd, request, sizeof request - 1, MSG_NOSIGNAL), sizeof request - 1);
    assert_refused_plain(fd);
}

static void test_a_probe_finds_out(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    if (http_probe(http_address(f->http), 60000, &err) != 0) {
        fail_msg("%s", err.msg);
    }
}

static void test_files_that_are_none(void **state)
{
    struct fixture *f = *state;
    struct err err = {0};
    assert_null(serve(f, "/nowhere", &err));
    assert_int_equal(err.code, ERR_INVALID);
    assert_non_null(strstr(err.msg, "/nowhere/node.crt"));
}

/* Some say nothing, some begin a handshake, some end in the middle of it, some talk nonsense. */
static void test_strangers_leave_room_for_a_probe(void **state)
{
    struct fixture *f = *state;
    static const char *const words[] = {"", "\x16\x03\x01", "\x16\x03\x01\xff\xff and so on",
                                        "GET"};
    int fds[3 * HTTP_CONNECTIONS_MAX];
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        const char *says = words[i % 4];
        fds[i] = connected(f);
        (void)send(fds[i], says, strlen(says), MSG_NOSIGNAL);
        if (i % 8 == 5) {
            (void)shutdown(fds[i], SHUT_WR);
        }
        if (i % HTTP_CONNECTIONS_MAX == HTTP_CONNECTIONS_MAX - 1) {
            test_a_probe_finds_out(state);
        }
    }
    char byte;
    assert_int_equal(recv(fds[0], &byte, 1, 0), 0); /* the oldest was sent away */
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        (void)close(fds[i]);
    }
    assert_answer(get(f, f->own, "/metrics"), "200", "gradus_numbers");
}

static SSL *shake_hands(SSL_CTX *context, int fd)
{
    SSL *ssl = SSL_new(context);
    assert_int_equal(SSL_set_fd(ssl, fd), 1);
    assert_int_equal(SSL_connect(ssl), 1);
    return ssl;
}

/* The server gets no processor for a while; all who came meanwhile come in one millisecond. */
static void test_a_crowd_at_once_leaves_room_for_who_came_last(void **state)
{
    struct fixture *f = *state;
    static const char wait[] = "GET /waits HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    static const char probe[] = "GET /healthz HTTP/1.0\r\n\r\n";
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    int waiting = connected(f);
    SSL *ssl = shake_hands(context, waiting);
    size_t n = 0;
    assert_int_equal(SSL_write_ex(ssl, wait, sizeof wait - 1, &n), 1);
    assert_int_equal(sem_wait(&f->waits), 0);
    int fds[4 * HTTP_CONNECTIONS_MAX];
    const size_t count = sizeof fds / sizeof fds[0];
    for (size_t i = 0; i < count; i++) {
        fds[i] = connected(f);
    }
    int last = connected(f);
    assert_int_equal(send(last, probe, sizeof probe - 1, MSG_NOSIGNAL), sizeof probe - 1);
    assert_int_equal(sem_post(&f->resume), 0);
    assert_refused_plain(last);
    for (size_t i = 0; i < count; i++) {
        char byte;
        if (i < count - HTTP_CONNECTIONS_MAX) {
            assert_int_equal(recv(fds[i], &byte, 1, 0), 0); /* sent away */
        } else if (i >= count - HTTP_CONNECTIONS_MAX / 2) {
            assert_int_equal(recv(fds[i], &byte, 1, MSG_DONTWAIT), -1);
        }
        (void)close(fds[i]);
    }
    SSL_free(ssl);
    (void)close(waiting);
    SSL_CTX_free(context);
    ERR_clear_error();
}

/* Each asks for a large page and reads none of it. */
static void test_clients_that_do_not_read(void **state)
{
    struct fixture *f = *state;
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    char *certificate = file_join(f->own, "submitter.crt");
    char *key = file_join(f->own, "submitter.key");
    assert_int_equal(SSL_CTX_use_certificate_chain_file(context, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM), 1);
    free(certificate);
    free(key);
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
    struct {
        int fd;
        SSL *ssl;
    } clients[2 * HTTP_TLS_LINES];
    const int little = 4096;
    for (size_t i = 0; i < sizeof clients / sizeof clients[0]; i++) {
        size_t n = 0;
        clients[i].fd = connected(f);
        (void)setsockopt(clients[i].fd, SOL_SOCKET, SO_RCVBUF, &little, sizeof little);
        clients[i].ssl = shake_hands(context, clients[i].fd);
        assert_int_equal(SSL_write_ex(clients[i].ssl, request, sizeof request - 1, &n), 1);
    }
    test_a_probe_finds_out(state);
    for (size_t i = 0; i < sizeof clients / sizeof clients[0]; i++) {
        SSL_free(clients[i].ssl);
        (void)close(clients[i].fd);
    }
    SSL_CTX_free(context);
    ERR_clear_error();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_who_may_see_what, start, stop),
        cmocka_unit_test_setup_teardown(test_tokens_do_as_well, start, stop),
        cmocka_unit_test_setup_teardown(test_a_plain_client_is_told, start, stop),
        cmocka_unit_test_setup_teardown(test_a_probe_finds_out, start, stop),
        cmocka_unit_test_setup_teardown(test_files_that_are_none, start, stop),
        cmocka_unit_test_setup_teardown(test_strangers_leave_room_for_a_probe, start, stop),
        cmocka_unit_test_setup_teardown(test_a_crowd_at_once_leaves_room_for_who_came_last, start,
                                        stop),
        cmocka_unit_test_setup_teardown(test_clients_that_do_not_read, start, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
