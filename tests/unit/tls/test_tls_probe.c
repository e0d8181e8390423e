/* SPDX-License-Identifier: Apache-2.0 */
/* Handshakes that fail, in words: each of the two sides is told what it has to do. */
#include "support/test.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/file.h"
#include "tls/certificates.h"
#include "tls/tls_openssl.h"
#include "tls/tls_probe.h"

struct rig {
    char dir[64];
    char *own, *other; /* two authorities */
    char *both;        /* believes the two */
};

/* What a server does with one client, in a thread of its own. */
struct server {
    const char *dir;   /* whose certificate it shows, and whose clients it believes */
    const char *plain; /* no TLS: it says this */
    bool asks;         /* for a certificate */
    bool waits;        /* after the handshake, for the client to end it; else it says a word */
    int version, fd;
    bool shook_hands; /* once it is over */
};

static char *authority(const char *dir, const char *name)
{
    char *path = file_join(dir, name);
    const char *const hosts[] = {"node.gradus", "10.1.2.3"};
    const struct certificates_options o = {
        .dir = path, .days = 30, .hosts = hosts, .host_count = 2};
    assert_int_equal(certificates_init(&o, NULL), 0);
    return path;
}

static int setup(void **state)
{
    struct rig *r = mem_new(1, sizeof *r);
    (void)strcpy(r->dir, "/tmp/gradus-test-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    r->own = authority(r->dir, "own");
    r->other = authority(r->dir, "other");
    r->both = file_join(r->dir, "both");
    assert_int_equal(file_make_dirs(r->both, NULL), 0);
    struct buf all = {0};
    for (int i = 0; i < 2; i++) {
        struct buf one = {0};
        char *ca = file_join(i == 0 ? r->own : r->other, "ca.crt");
        assert_int_equal(file_read(ca, 1 << 16, &one, NULL), 0);
        buf_add(&all, one.data, one.len);
        buf_release(&one);
        free(ca);
    }
    char *path = file_join(r->both, "ca.crt");
    assert_int_equal(file_write_atomic(path, all.data, all.len, NULL), 0);
    free(path);
    buf_release(&all);
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    struct rig *r = *state;
    (void)file_remove_tree(r->dir, NULL);
    free(r->own);
    free(r->other);
    free(r->both);
    free(r);
    return 0;
}

static void serve_tls(struct server *s)
{
    char *certificate = file_join(s->dir, "node.crt"), *key = file_join(s->dir, "node.key"),
         *ca = file_join(s->dir, "ca.crt");
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    char byte;
    if (SSL_CTX_use_certificate_chain_file(context, certificate) == 1 &&
        SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1 &&
        SSL_CTX_load_verify_locations(context, ca, NULL) == 1 &&
        SSL_CTX_set_max_proto_version(context, s->version) == 1) {
        SSL_CTX_set_verify(
            context, s->asks ? SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT : SSL_VERIFY_NONE,
            NULL);
        SSL *ssl = SSL_new(context);
        s->shook_hands = SSL_set_fd(ssl, s->fd) == 1 && SSL_accept(ssl) == 1;
        if (s->shook_hands) {
            (void)(s->waits ? SSL_read(ssl, &byte, 1) : SSL_write(ssl, "x", 1));
        }
        SSL_free(ssl);
    }
    SSL_CTX_free(context);
    ERR_clear_error();
    free(certificate);
    free(key);
    free(ca);
}

static void *serve(void *arg)
{
    struct server *s = arg;
    char hello[4096];
    if (s->plain == NULL) {
        serve_tls(s);
    } else if (read(s->fd, hello, sizeof hello) > 0) {
        (void)send(s->fd, s->plain, strlen(s->plain), MSG_NOSIGNAL);
    }
    (void)close(s->fd);
    return NULL;
}

/* What a client with the files of @dir (NULL: without TLS) finds out about @s, after
 * @patience_ms of silence at the latest (0: never). @as: whose certificate it shows; NULL: none. */
static void probe_for(unsigned patience_ms, struct server *s, const char *dir, const char *as,
                      const char *host, int code, const char *says)
{
    int fds[2];
    pthread_t thread;
    struct err err = {0};
    const struct timeval patience = {.tv_sec = patience_ms / 1000,
                                     .tv_usec = patience_ms % 1000 * 1000L};
    char *ca = dir == NULL ? NULL : file_join(dir, "ca.crt");
    char *certificate = as == NULL ? NULL : file_join(as, "submitter.crt");
    char *key = as == NULL ? NULL : file_join(as, "submitter.key");
    const struct tls_files files = {certificate, key, ca};
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    s->fd = fds[1];
    s->version = s->version == 0 ? TLS1_3_VERSION : s->version;
    assert_int_equal(pthread_create(&thread, NULL, serve, s), 0);
    int rc = tls_probe(fds[0], host, dir == NULL ? NULL : &files, &err);
    (void)close(fds[0]);
    (void)pthread_join(thread, NULL);
    if (rc != code || (says != NULL && strstr(err.msg, says) == NULL)) {
        fail_msg("%d \"%s\", expected %d \"%s\"", rc, err.msg, code, says);
    }
    free(ca);
    free(certificate);
    free(key);
}

static void probe(struct server s, const char *dir, const char *as, const char *host, int code,
                  const char *says)
{
    if (!s.waits) {
        probe_for(0, &s, dir, as, host, code, says);
        return;
    }
    for (unsigned ms = 100; !s.shook_hands; ms *= 2) { /* the handshake needs less than that */
        assert_true(ms < 100000);
        probe_for(ms, &s, dir, as, host, code, says);
    }
}

static void test_nothing_is_wrong(void **state)
{
    const struct rig *r = *state;
    static const char *const hosts[] = {"node.gradus", "localhost", "127.0.0.1", "::1", "10.1.2.3"};
    for (size_t i = 0; i < sizeof hosts / sizeof hosts[0]; i++) {
        probe((struct server){.dir = r->own}, r->own, NULL, hosts[i], 0, NULL);
    }
    probe((struct server){.dir = r->own, .asks = true}, r->own, r->own, "localhost", 0, NULL);
    /* A server that says nothing after the handshake: its word is not waited for. */
    probe((struct server){.dir = r->own, .asks = true, .waits = true}, r->own, r->own, "localhost",
          0, NULL);
    probe((struct server){.plain = "HTTP/1.1 400 what\r\n\r\n"}, NULL, NULL, "localhost", 0, NULL);
}

static void test_its_certificate(void **state)
{
    const struct rig *r = *state;
    struct server s = {.dir = r->own};
    const int rc = ERR_UNAUTHENTICATED;
    probe(s, r->own, NULL, "far.gradus", rc,
          "its certificate is for node.gradus, 10.1.2.3, localhost, 127.0.0.1, ::1 and not for "
          "far.gradus; issue one with that host, or name");
    probe(s, r->own, NULL, "10.1.2.4", rc, " and not for 10.1.2.4; issue");
    probe(s, r->other, NULL, "localhost", rc, "its certificate was issued by ");
    probe(s, r->other, NULL, "localhost", rc, "/other/ca.crt");
}

static void test_our_certificate(void **state)
{
    const struct rig *r = *state;
    const int rc = ERR_UNAUTHENTICATED;
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        struct server s = {.dir = r->own, .asks = true, .version = version};
        probe(s, r->own, NULL, "localhost", rc,
              "it asks for a certificate, and this side was given no --tls-cert and --tls-key");
        probe(s, r->own, r->other, "localhost", rc, "it does not take our certificate: ");
        probe(s, r->both, r->other, "localhost", rc, "it does not take our certificate, ");
        probe(s, r->both, r->other, "localhost", rc, ": another CA than the one it believes? (");
    }
    /* A certificate and a key that are no pair. */
    struct err err = {0};
    char *certificate = file_join(r->own, "node.crt"), *key = file_join(r->other, "node.key"),
         *ca = file_join(r->own, "ca.crt");
    const struct tls_files files = {certificate, key, ca};
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    assert_int_equal(tls_probe(fds[0], "localhost", &files, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "cannot be used together"));
    (void)close(fds[0]);
    (void)close(fds[1]);
    free(certificate);
    free(key);
    free(ca);
}

static FILE *open_in(const char *dir, const char *name, const char *how)
{
    char *path = file_join(dir, name);
    FILE *f = fopen(path, how);
    assert_non_null(f);
    free(path);
    return f;
}

/* The certificate of nodes of @dir once more, good between two times from now on. */
static void issue_between(const char *dir, long from_s, long to_s)
{
    FILE *f = open_in(dir, "node.crt", "r"), *k = open_in(dir, "ca.key", "r");
    X509 *certificate = PEM_read_X509(f, NULL, NULL, NULL);
    EVP_PKEY *key = PEM_read_PrivateKey(k, NULL, NULL, NULL);
    (void)fclose(f);
    (void)fclose(k);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(certificate), from_s));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(certificate), to_s));
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    f = open_in(dir, "node.crt", "w");
    assert_int_equal(PEM_write_X509(f, certificate), 1);
    assert_int_equal(fclose(f), 0);
    EVP_PKEY_free(key);
    X509_free(certificate);
}

static void test_dates(void **state)
{
    const struct rig *r = *state;
    struct server s = {.dir = r->own};
    const int rc = ERR_UNAUTHENTICATED;
    issue_between(r->own, -7200, -3600);
    probe(s, r->own, NULL, "localhost", rc, "its certificate expired on 2");
    issue_between(r->own, 3600, 7200);
    probe(s, r->own, NULL, "localhost", rc, "its certificate is not valid before 2");
    issue_between(r->own, -3600, 3600);
    probe(s, r->own, NULL, "localhost", 0, NULL);
}

static void test_one_of_them_speaks_no_tls(void **state)
{
    const struct rig *r = *state;
    const int rc = ERR_UNAUTHENTICATED;
    probe((struct server){.plain = "HTTP/1.1 400 what\r\n\r\n"}, r->own, NULL, "localhost", rc,
          "it speaks no TLS, and the files of TLS (--tls-ca …) are given here");
    probe((struct server){.dir = r->own}, NULL, NULL, "localhost", rc,
          "it speaks TLS, and this side was given no --tls-cert, --tls-key and --tls-ca");
    /* One that goes without a word: the network's business. */
    probe((struct server){.plain = ""}, r->own, NULL, "localhost", 0, NULL);
    probe((struct server){.plain = ""}, NULL, NULL, "localhost", 0, NULL);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* a client that has seen enough closes */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_is_wrong),          cmocka_unit_test(test_its_certificate),
        cmocka_unit_test(test_our_certificate),           cmocka_unit_test(test_dates),
        cmocka_unit_test(test_one_of_them_speaks_no_tls),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
