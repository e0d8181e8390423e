/* SPDX-License-Identifier: Apache-2.0 */
/* Who speaks what to which port, over sockets of 127.0.0.1. Only the first line of this process is
 * certain to be written (log_rate.h), so each case is a process of its own. */
#include "support/test.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/first_byte.h"

#define HELLO "\x16\x03\x01\x02"
#define PREFACE "PRI * HTTP/2.0\r\n"
#define LINE_BYTES 1024

struct pair {
    int client, server;
};

static struct pair connected(int family)
{
    struct pair p;
    if (family == AF_UNIX) {
        int both[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, both), 0);
        return (struct pair){both[0], both[1]};
    }
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof at;
    int listening = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listening, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listening, 1), 0);
    assert_int_equal(getsockname(listening, (struct sockaddr *)&at, &n), 0);
    p.client = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(p.client, (struct sockaddr *)&at, sizeof at), 0);
    p.server = accept(listening, NULL, NULL);
    (void)close(listening);
    return p;
}

static ssize_t read_message(int fd, char *out, size_t n)
{
    struct iovec part = {out, n};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    return recvmsg(fd, &message, 0);
}

/* In the child: a client says @words in two parts to @port; then once more, which nobody looks at.
 */
static void talk(enum first_byte_port port, const char *words, bool by_message)
{
    struct pair p = connected(AF_INET);
    char got[64];
    first_byte_watch(p.server, port);
    assert_int_equal(recv(p.server, got, sizeof got, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(write(p.client, words, 2), 2);
        ssize_t n =
            by_message ? read_message(p.server, got, sizeof got) : recv(p.server, got, 64, 0);
        assert_int_equal(n, 2);
        assert_memory_equal(got, words, 2);
        words = HELLO;
    }
}

/* What is logged meanwhile. */
static void logged(enum first_byte_port port, const char *words, bool by_message,
                   char out[LINE_BYTES])
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)dup2(ends[1], STDERR_FILENO);
        talk(port, words, by_message);
        _exit(0);
    }
    (void)close(ends[1]);
    size_t n = 0;
    for (ssize_t got = 1; got > 0 && n < LINE_BYTES - 1; n += (size_t)got) {
        got = read(ends[0], out + n, LINE_BYTES - 1 - n);
        assert_true(got >= 0);
    }
    out[n] = '\0';
    (void)close(ends[0]);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void each_side_is_told_what_it_lacks(void **state)
{
    (void)state;
    static const struct {
        enum first_byte_port port;
        const char *words, *name, *reason;
    } cases[] = {
        {FIRST_BYTE_GRPC, HELLO, "port=grpc ", "it speaks TLS, and this port does not"},
        {FIRST_BYTE_GRPC_TLS, PREFACE, "port=grpc ", "it speaks no TLS, and this port"},
        {FIRST_BYTE_HTTP, HELLO, "port=http ", "it speaks HTTPS, and this port plain HTTP"},
        {FIRST_BYTE_HTTPS, "GET /", "port=http ", "it speaks plain HTTP, and this port HTTPS"},
    };
    char line[LINE_BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (int by_message = 0; by_message < 2; by_message++) {
            logged(cases[i].port, cases[i].words, by_message, line);
            assert_non_null(strstr(line, "event=wrong_protocol "));
            assert_non_null(strstr(line, cases[i].name));
            assert_non_null(strstr(line, "peer=127.0.0.1:"));
            assert_non_null(strstr(line, cases[i].reason));
            assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1); /* one line */
        }
    }
}

static void who_speaks_as_expected_is_not_mentioned(void **state)
{
    (void)state;
    char line[LINE_BYTES];
    logged(FIRST_BYTE_GRPC, PREFACE, true, line);
    assert_string_equal(line, "");
    logged(FIRST_BYTE_GRPC_TLS, HELLO, true, line);
    assert_string_equal(line, "");
    logged(FIRST_BYTE_HTTP, "GET /", false, line);
    assert_string_equal(line, "");
    logged(FIRST_BYTE_HTTPS, HELLO, false, line);
    assert_string_equal(line, "");
    logged(FIRST_BYTE_ANY, HELLO, false, line);
    assert_string_equal(line, "");
}

/* A connection that ended without a word, and another socket under its number. */
static void a_number_that_is_used_again_accuses_nobody(void **state)
{
    (void)state;
    struct pair silent = connected(AF_INET);
    first_byte_watch(silent.server, FIRST_BYTE_GRPC);
    struct pair other = connected(AF_INET);
    char byte;
    assert_int_equal(dup2(other.client, silent.server), silent.server);
    assert_int_equal(write(other.server, HELLO, 4), 4);
    int kept = dup(STDERR_FILENO), ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    assert_int_equal(recv(silent.server, &byte, 1, 0), 1);
    struct pair local = connected(AF_UNIX);
    first_byte_watch(local.server, FIRST_BYTE_GRPC);
    first_byte_watch(-1, FIRST_BYTE_GRPC);
    first_byte_watch(FIRST_BYTE_ROOM, FIRST_BYTE_GRPC);
    assert_int_equal(write(local.client, HELLO, 4), 4);
    assert_int_equal(recv(local.server, &byte, 1, 0), 1);
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &byte, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_side_is_told_what_it_lacks),
        cmocka_unit_test(who_speaks_as_expected_is_not_mentioned),
        cmocka_unit_test(a_number_that_is_used_again_accuses_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
