/* SPDX-License-Identifier: Apache-2.0 */
/* One question over TLS: what arrives at the other side, what of the answer is kept, and who is no
 * other side at all. */
#include "support/test.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "os/file.h"
#include "support/interrupt.h"
#include "support/tmp_dir.h"
#include "tls/certificates.h"
#include "tls/tls_ask.h"
#include "tls/tls_openssl.h"

#define QUESTION "GET /healthz HTTP/1.0\r\n\r\n"

struct server {
    const char *dir;
    int fd;
    bool plain;
    struct interrupt *asks;     /* before each record; NULL: it is not interrupted */
    const char *first, *second; /* the answer, in two records */
    char asked[64];
};

static int setup(void **state)
{
    char *dir = tmp_dir_make("ask");
    const struct certificates_options o = {.dir = dir, .days = 30};
    assert_int_equal(certificates_init(&o, NULL), 0);
    *state = dir;
    return 0;
}

static int teardown(void **state)
{
    tmp_dir_remove(*state);
    return 0;
}

static bool say(struct server *s, SSL *ssl, const char *words)
{
    size_t sent = 0;
    if (s->asks != NULL) {
        interrupt_now(s->asks);
    }
    return SSL_write_ex(ssl, words, strlen(words), &sent) == 1;
}

static void answer(struct server *s, SSL *ssl)
{
    size_t got = 0;
    if (s->asks != NULL) {
        interrupt_now(s->asks); /* waits for the handshake */
    }
    if (SSL_accept(ssl) == 1 && SSL_read_ex(ssl, s->asked, sizeof s->asked - 1, &got) == 1 &&
        say(s, ssl, s->first) && say(s, ssl, s->second)) {
        (void)SSL_shutdown(ssl);
    }
}

static void *serve(void *arg)
{
    struct server *s = arg;
    if (s->plain) {
        assert_true(read(s->fd, s->asked, sizeof s->asked) > 0);
        assert_true(write(s->fd, "what?\n", 6) == 6);
        (void)close(s->fd);
        return NULL;
    }
    char *certificate = file_join(s->dir, "node.crt"), *key = file_join(s->dir, "node.key");
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate_chain_file(context, certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM), 1);
    SSL *ssl = SSL_new(context);
    assert_int_equal(SSL_set_fd(ssl, s->fd), 1);
    answer(s, ssl);
    SSL_free(ssl);
    SSL_CTX_free(context);
    (void)close(s->fd);
    free(certificate);
    free(key);
    ERR_clear_error();
    return NULL;
}

static int ask(struct server *s, const char *dir, char *out, size_t n, struct err *err)
{
    int fds[2];
    pthread_t thread;
    const struct timeval limit = {.tv_sec = 60};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
    s->dir = dir;
    s->fd = fds[1];
    assert_int_equal(pthread_create(&thread, NULL, serve, s), 0);
    int rc = tls_ask(fds[0], QUESTION, out, n, err);
    (void)close(fds[0]);
    (void)pthread_join(thread, NULL);
    return rc;
}

static void test_an_answer(void **state)
{
    struct server s = {.first = "HTTP/1.0 200 ", .second = "OK\r\n\r\nwell\n"};
    struct err err;
    char out[64];
    memset(out, 'x', sizeof out);
    assert_int_equal(ask(&s, *state, out, sizeof out, &err), 0);
    assert_string_equal(s.asked, QUESTION);
    assert_string_equal(out, "HTTP/1.0 200 OK\r\n\r\nwell\n");
}

/* The process was stopped while it waited, and goes on. */
static void test_who_is_interrupted(void **state)
{
    struct interrupt asks;
    struct server s = {.first = "HTTP/1.0 200 ", .second = "OK\r\n\r\nwell\n", .asks = &asks};
    struct err err = {0};
    char out[64];
    interrupt_prepare(&asks);
    assert_int_equal(ask(&s, *state, out, sizeof out, &err), 0);
    assert_string_equal(s.asked, QUESTION);
    assert_string_equal(out, "HTTP/1.0 200 OK\r\n\r\nwell\n");
}

static void test_an_answer_that_is_too_long(void **state)
{
    struct server s = {.first = "HTTP/1.0 200 ", .second = "OK\r\n\r\nwell\n"};
    struct err err;
    char out[20];
    memset(out, 'x', sizeof out);
    assert_int_equal(ask(&s, *state, out, 16, &err), 0);
    assert_string_equal(out, "HTTP/1.0 200 OK");
    assert_int_equal(out[16], 'x');
    s = (struct server){.first = "HTTP/1.0 200 ", .second = "OK"};
    assert_int_equal(ask(&s, *state, out, 1, &err), 0);
    assert_string_equal(out, "");
}

static void test_nobody_who_speaks_tls(void **state)
{
    struct server s = {.plain = true};
    struct err err = {0};
    char out[8];
    assert_int_equal(ask(&s, *state, out, sizeof out, &err), ERR_UNAVAILABLE);
    assert_int_equal(strncmp(err.msg, "the TLS handshake failed: ", 26), 0);
    assert_int_equal(ERR_peek_error(), 0); /* nothing is left for the next one to tell */
    assert_int_equal(tls_ask(-1, QUESTION, out, sizeof out, &err), ERR_UNAVAILABLE);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* a client that has seen enough closes */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_an_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_who_is_interrupted, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_answer_that_is_too_long, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_who_speaks_tls, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
