/* SPDX-License-Identifier: Apache-2.0 */
/* Too many connections are closed, and those that are there are not. Descriptors are real here, so
 * each test sets limits of its own. */
#include "support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "os/accept_limit.h"

#define MANY 400

static int held[MANY + 64], held_count;

static int hold(int fd)
{
    assert_true(fd >= 0);
    held[held_count++] = fd;
    return fd;
}

static int release(void **state)
{
    (void)state;
    while (held_count > 0) {
        (void)close(held[--held_count]);
    }
    return 0;
}

/* Take descriptors until the next one has the number @next. */
static void fill(int next)
{
    for (int fd = -1; fd < next - 1;) {
        fd = hold(open("/dev/null", O_RDONLY));
    }
}

static int listening(struct sockaddr_in *at)
{
    socklen_t n = sizeof *at;
    int fd = hold(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    *at = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    assert_int_equal(bind(fd, (const struct sockaddr *)at, sizeof *at), 0);
    assert_int_equal(listen(fd, 16), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)at, &n), 0);
    return fd;
}

static int client(const struct sockaddr_in *at)
{
    int fd = hold(socket(AF_INET, SOCK_STREAM, 0));
    assert_int_equal(connect(fd, (const struct sockaddr *)at, sizeof *at), 0);
    return fd;
}

static bool ended(int fd)
{
    char byte;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1 && recv(fd, &byte, 1, 0) <= 0;
}

static void what_is_too_much_is_closed(void **state)
{
    (void)state;
    struct sockaddr_in at, peer;
    int server = listening(&at), first = client(&at), second = client(&at);
    assert_int_equal(accept_limit_set(16), 16);
    uint64_t before = accept_limit_refused();
    fill(16 + ACCEPT_LIMIT_OTHERS - 1); /* room for one */
    socklen_t n = sizeof peer;
    int taken = hold(accept4(server, (struct sockaddr *)&peer, &n, SOCK_CLOEXEC));
    assert_int_equal(taken, 16 + ACCEPT_LIMIT_OTHERS - 1);
    assert_int_equal(n, sizeof peer);
    assert_int_equal(accept4(server, (struct sockaddr *)&peer, &n, SOCK_CLOEXEC), -1);
    assert_int_equal(errno, EAGAIN); /* as if nobody were there */
    assert_int_equal(accept_limit_refused(), before + 1);
    assert_false(ended(first));
    assert_true(ended(second));
    (void)close(taken); /* there is room again */
    held_count--;
    int third = client(&at); /* takes it */
    assert_int_equal(accept4(server, NULL, NULL, 0), -1);
    assert_true(ended(third));
    (void)close(third);
    held_count--;
    accept_limit_exempt(server);
    (void)client(&at);
    (void)hold(accept4(server, NULL, NULL, 0));
    assert_int_equal(accept_limit_refused(), before + 2);
}

static void a_full_table_is_no_broken_port(void **state)
{
    (void)state;
    struct sockaddr_in at;
    struct rlimit before, now;
    int server = listening(&at);
    int fd = client(&at);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    now = before;
    now.rlim_cur = 200;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
    fill(200);
    assert_int_equal(accept4(server, NULL, NULL, 0), -1);
    assert_int_equal(errno, EAGAIN);
    assert_false(ended(fd)); /* it waits */
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    (void)hold(accept4(server, NULL, NULL, 0));
}

/* The limit of the system is raised as far as it goes, and what cannot be is said. */
static void the_systems_limit_counts(void **state)
{
    (void)state;
    struct rlimit before, now;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    now = before;
    now.rlim_cur = 128;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
    assert_int_equal(accept_limit_set(64), 64);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
    assert_true(now.rlim_cur >= 64 + ACCEPT_LIMIT_OTHERS);
    const size_t many = (size_t)1 << 30; /* the kernel allows no process that */
    assert_true(accept_limit_set(many) < many);
    struct err err = {0};
    assert_int_equal(accept_limit_files_need(64, "this", &err), 0);
    assert_int_equal(accept_limit_files_need(many, "this", &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, "this takes at least 1073741824 open files, and "));
    assert_non_null(strstr(err.msg, " are allowed here (ulimit -n)"));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(a_full_table_is_no_broken_port, release),
        cmocka_unit_test_teardown(the_systems_limit_counts, release),
        /* the last one: what is exempt stays so */
        cmocka_unit_test_teardown(what_is_too_much_is_closed, release),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
