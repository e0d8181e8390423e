/* SPDX-License-Identifier: Apache-2.0 */
/* The same bytes over a plain blocking socket, between two processes: what the kernel allows.
 *
 * Usage: bench_raw tcp|unix BYTES
 *
 * Prints "ready", then reads lines "exchange|push|pull SECONDS" and answers each with a line of
 * JSON. A push is BYTES there and a head back, a pull the mirror of it, an exchange BYTES there and
 * then BYTES back. One message at a time, one buffer on each side, nothing is done with them. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text.h"
#include "bench/samples.h"

struct head {
    uint64_t there, back; /* bytes */
};

struct end {
    int fd;
    char *buffer;
};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int read_all(int fd, void *to, size_t bytes)
{
    char *p = to;
    while (bytes > 0) {
        ssize_t n = recv(fd, p, bytes, 0);
        if (n == 0 || (n < 0 && errno != EINTR)) {
            return -1;
        }
        size_t got = n < 0 ? 0 : (size_t)n;
        p += got;
        bytes -= got;
    }
    return 0;
}

static int write_all(int fd, struct head head, char *body, size_t bytes)
{
    struct iovec parts[2] = {{&head, sizeof head}, {body, bytes}};
    struct iovec *at = parts;
    size_t left = sizeof head + bytes;
    while (left > 0) {
        struct msghdr m = {.msg_iov = at, .msg_iovlen = (size_t)(parts + 2 - at)};
        ssize_t n = sendmsg(fd, &m, MSG_NOSIGNAL);
        if (n < 0 && errno != EINTR) {
            return -1;
        }
        size_t sent = n < 0 ? 0 : (size_t)n;
        left -= sent;
        while (at < parts + 2 && sent >= at->iov_len) {
            sent -= at->iov_len;
            at++;
        }
        if (at < parts + 2) {
            at->iov_base = (char *)at->iov_base + sent;
            at->iov_len -= sent;
        }
    }
    return 0;
}

static void serve(struct end e)
{
    struct head head;
    while (read_all(e.fd, &head, sizeof head) == 0 && read_all(e.fd, e.buffer, head.there) == 0 &&
           write_all(e.fd, head, e.buffer, head.back) == 0) {
    }
}

static int once(void *ctx, const struct head *head)
{
    struct end *e = ctx;
    struct head answer;
    return write_all(e->fd, *head, e->buffer, head->there) != 0 ||
                   read_all(e->fd, &answer, sizeof answer) != 0 ||
                   read_all(e->fd, e->buffer, head->back) != 0
               ? -1
               : 0;
}

static void connect_tcp(int fds[2])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t n = sizeof a;
    const int on = 1;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    fds[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || fds[0] < 0 || bind(listener, (struct sockaddr *)&a, n) != 0 ||
        listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)&a, &n) != 0 ||
        connect(fds[0], (struct sockaddr *)&a, n) != 0) {
        die("connect");
    }
    fds[1] = accept(listener, NULL, NULL);
    if (fds[1] < 0 || setsockopt(fds[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        setsockopt(fds[1], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0) {
        die("accept");
    }
    (void)close(listener);
}

static void measure(struct end *e, const struct head *head, double seconds)
{
    struct samples s;
    samples_begin(&s);
    for (int rc = 0; rc == 0 && samples_seconds(&s) < seconds;) {
        uint64_t from = chrono_now_ns();
        rc = once(e, head);
        samples_add(&s, chrono_now_ns() - from);
    }
    samples_print(&s);
}

int main(int argc, char **argv)
{
    int64_t bytes;
    int fds[2];
    if (argc != 3 || !text_to_int(argv[2], &bytes) || bytes < 1 ||
        (strcmp(argv[1], "tcp") != 0 && strcmp(argv[1], "unix") != 0)) {
        (void)fputs("usage: bench_raw tcp|unix BYTES\n", stderr);
        return 2;
    }
    if (strcmp(argv[1], "tcp") == 0) {
        connect_tcp(fds);
    } else if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) {
        die("socketpair");
    }
    pid_t child = fork();
    struct end e = {fds[child == 0], samples_touched((size_t)bytes)};
    (void)close(fds[child != 0]);
    if (child == 0) {
        serve(e);
        return 0;
    }
    char kind[16];
    double seconds;
    samples_ready();
    while (samples_command(kind, sizeof kind, &seconds)) {
        struct head head = {strcmp(kind, "pull") == 0 ? 0 : (uint64_t)bytes,
                            strcmp(kind, "push") == 0 ? 0 : (uint64_t)bytes};
        measure(&e, &head, seconds);
    }
    (void)close(e.fd);
    (void)waitpid(child, NULL, 0);
    free(e.buffer);
    return 0;
}
