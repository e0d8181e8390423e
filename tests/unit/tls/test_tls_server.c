/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions of a server that does not wait: what it makes of clients' certificates, and that it
 * takes files that are replaced, and keeps those that it has while the new ones are no pair. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/file.h"
#include "tls/certificates.h"
#include "tls/tls_openssl.h"
#include "tls/tls_server.h"

struct rig {
    char dir[64];
    char *own, *other;
    char *certificate, *key, *ca;
    struct tls_server *server;
    char refusal[TLS_REFUSAL_BYTES]; /* of the last client; empty: believed */
    struct tls_peer peer;            /* of one that is believed */
};

static char *authority(const char *dir, const char *name)
{
    char *path = file_join(dir, name);
    const struct certificates_options o = {.dir = path, .days = 30};
    assert_int_equal(certificates_init(&o, NULL), 0);
    return path;
}

static int setup(void **state)
{
    struct rig *r = mem_new(1, sizeof *r);
    struct err err = {0};
    (void)strcpy(r->dir, "/tmp/gradus-test-XXXXXX");
    assert_non_null(mkdtemp(r->dir));
    r->own = authority(r->dir, "own");
    r->other = authority(r->dir, "other");
    r->certificate = file_join(r->own, "node.crt");
    r->key = file_join(r->own, "node.key");
    r->ca = file_join(r->own, "ca.crt");
    const struct tls_files files = {r->certificate, r->key, r->ca};
    r->server = tls_server_new(&files, &err);
    assert_non_null(r->server);
    *state = r;
    return 0;
}

static int teardown(void **state)
{
    struct rig *r = *state;
    tls_server_free(r->server);
    (void)file_remove_tree(r->dir, NULL);
    char *const owned[] = {r->own, r->other, r->certificate, r->key, r->ca};
    for (size_t i = 0; i < sizeof owned / sizeof owned[0]; i++) {
        free(owned[i]);
    }
    free(r);
    return 0;
}

static SSL *client_of(SSL_CTX *context, const char *dir, int fd)
{
    if (dir != NULL) {
        char *certificate = file_join(dir, "submitter.crt");
        char *key = file_join(dir, "submitter.key");
        assert_int_equal(SSL_CTX_use_certificate_chain_file(context, certificate), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM), 1);
        free(certificate);
        free(key);
    }
    SSL *ssl = SSL_new(context);
    assert_int_equal(SSL_set_fd(ssl, fd), 1);
    return ssl;
}

/* A handshake between two that do not wait, in turns; whether it came about. */
static bool meet(struct rig *r, SSL *client, struct tls_session *session)
{
    enum tls_step step = TLS_WANTS_READ;
    int connected = 0;
    for (int turn = 0; turn < 100 && (connected != 1 || step != TLS_DONE); turn++) {
        connected = connected == 1 ? 1 : SSL_connect(client);
        ERR_clear_error();
        step = step == TLS_DONE ? TLS_DONE : tls_session_shake_hands(session);
    }
    r->refusal[0] = '\0';
    if (step == TLS_DONE) {
        memset(&r->peer, 0, sizeof r->peer);
        if (tls_session_refusal(session, r->refusal) == NULL) {
            tls_session_peer(session, &r->peer);
        }
    }
    return connected == 1 && step == TLS_DONE;
}

/* The first bytes of the serial number of the certificate that a client of @dir (NULL: nobody) is
 * shown, 0: there is no session; then a word in each direction. */
static uint64_t talk(struct rig *r, const char *dir, int version)
{
    int fds[2];
    char word[8] = "";
    size_t n = 0;
    uint64_t serial = 0;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_set_security_level(context, 0);
    assert_int_equal(SSL_CTX_set_max_proto_version(context, version), 1);
    SSL *client = client_of(context, dir, fds[0]);
    struct tls_session *session = tls_session_new(r->server, fds[1]);
    if (meet(r, client, session)) {
        const X509 *shown = SSL_get0_peer_certificate(client);
        const ASN1_INTEGER *number = X509_get0_serialNumber(shown);
        assert_true(ASN1_STRING_length(number) >= (int)sizeof serial);
        memcpy(&serial, ASN1_STRING_get0_data(number), sizeof serial);
        assert_int_equal(tls_session_read(session, word, sizeof word, &n), TLS_WANTS_READ);
        assert_int_equal(SSL_write(client, "ask", 3), 3);
        assert_int_equal(tls_session_read(session, word, sizeof word, &n), TLS_DONE);
        assert_int_equal(n, 3);
        assert_int_equal(tls_session_write(session, "tell", 4, &n), TLS_DONE);
        assert_int_equal(SSL_read(client, word, sizeof word), 4);
        tls_session_end(session);
        assert_int_equal(SSL_read(client, word, sizeof word), 0);
        assert_int_equal(SSL_get_shutdown(client), SSL_RECEIVED_SHUTDOWN);
        (void)close(fds[0]);
        fds[0] = -1;
        assert_int_equal(tls_session_read(session, word, sizeof word, &n), TLS_ENDED);
    }
    tls_session_free(session);
    SSL_free(client);
    SSL_CTX_free(context);
    if (fds[0] >= 0) {
        (void)close(fds[0]);
    }
    (void)close(fds[1]);
    ERR_clear_error();
    return serial;
}

static void test_clients(void **state)
{
    struct rig *r = *state;
    for (int version = TLS1_2_VERSION; version <= TLS1_3_VERSION; version++) {
        assert_true(talk(r, r->own, version) != 0);
        assert_string_equal(r->refusal, "");
        assert_string_equal(r->peer.common_name, "Gradus submitter");
        assert_non_null(strstr(r->peer.subject, "CN=Gradus submitter"));
        assert_int_equal(r->peer.uri_count, 1);
        assert_string_equal(r->peer.uris[0], "gradus:role/submitter");
        assert_true(talk(r, NULL, version) != 0);
        assert_string_equal(r->refusal, "no client certificate was shown");
        assert_true(talk(r, r->other, version) != 0);
        assert_non_null(strstr(r->refusal, "the certificate of "));
        assert_non_null(strstr(r->refusal, " is not believed: "));
    }
    assert_true(talk(r, r->own, TLS1_1_VERSION) == 0);
}

static void test_files_are_replaced(void **state)
{
    struct rig *r = *state;
    const struct certificates_options renew = {.dir = r->own, .days = 30};
    char *certificate = file_join(r->other, "node.crt");
    uint64_t first = talk(r, NULL, TLS1_3_VERSION);
    tls_server_refresh(r->server, 10000);
    assert_true(talk(r, NULL, TLS1_3_VERSION) == first);
    assert_int_equal(certificates_renew(&renew, NULL), 0);
    tls_server_refresh(r->server, 10000 + TLS_SERVER_REFRESH_MS - 1); /* too early */
    assert_true(talk(r, NULL, TLS1_3_VERSION) == first);
    tls_server_refresh(r->server, 10000 + TLS_SERVER_REFRESH_MS);
    uint64_t second = talk(r, NULL, TLS1_3_VERSION);
    assert_true(second != first && second != 0);
    /* A certificate without its key changes nothing, until the key is there. */
    assert_int_equal(rename(certificate, r->certificate), 0);
    tls_server_refresh(r->server, 20000);
    assert_true(talk(r, NULL, TLS1_3_VERSION) == second);
    free(certificate);
    char *key = file_join(r->other, "node.key");
    assert_int_equal(rename(key, r->key), 0);
    free(key);
    tls_server_refresh(r->server, 30000);
    uint64_t third = talk(r, NULL, TLS1_3_VERSION);
    assert_true(third != second && third != 0);
    /* And the CA. */
    (void)talk(r, r->other, TLS1_3_VERSION);
    assert_string_not_equal(r->refusal, "");
    char *ca = file_join(r->other, "ca.crt");
    assert_int_equal(rename(ca, r->ca), 0);
    free(ca);
    tls_server_refresh(r->server, 40000);
    (void)talk(r, r->other, TLS1_3_VERSION);
    assert_string_equal(r->refusal, "");
    (void)talk(r, r->own, TLS1_3_VERSION);
    assert_string_not_equal(r->refusal, "");
}

static void test_files_that_are_no_pair(void **state)
{
    struct rig *r = *state;
    struct err err = {0};
    char *key = file_join(r->other, "node.key");
    const struct tls_files files = {r->certificate, key, r->ca};
    assert_null(tls_server_new(&files, &err));
    assert_int_equal(err.code, ERR_INVALID);
    assert_non_null(strstr(err.msg, "cannot be used together"));
    free(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_clients, setup, teardown),
        cmocka_unit_test_setup_teardown(test_files_are_replaced, setup, teardown),
        cmocka_unit_test_setup_teardown(test_files_that_are_no_pair, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
