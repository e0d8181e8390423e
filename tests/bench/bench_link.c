/* SPDX-License-Identifier: Apache-2.0 */
/* A network between two programs of this host: passes TCP connections on, each byte so much later
 * and no more than so many bytes in a second each way.
 *
 * Usage: bench_link PORT DELAY_US MB_PER_SECOND
 *
 * Connections to the port that it prints ("ready PORT") go on to PORT of this host. Ends with its
 * standard input. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "os/chrono.h"

#define RING_BYTES (8U << 20) /* on the way, and read ahead: more than delay times rate */
#define READ_BYTES (64U << 10)
#define PIECES_MAX (RING_BYTES / 64) /* small ones, too; the reader waits when there are more */

struct piece {
    uint64_t end; /* in the stream */
    uint64_t due_ns;
};

/* One direction of a connection: a thread reads ahead, another sends what is due. */
struct way {
    int from, to;
    uint64_t delay_ns;
    double ns_per_byte;
    char *ring;
    struct piece *pieces;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    uint64_t read, sent;  /* bytes */
    uint64_t first, last; /* pieces */
    bool ended;
};

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static void *read_ahead(void *arg)
{
    struct way *w = arg;
    uint64_t busy_until = 0;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        while (w->read - w->sent > RING_BYTES - READ_BYTES || w->last - w->first == PIECES_MAX) {
            pthread_cond_wait(&w->changed, &w->lock);
        }
        size_t at = w->read % RING_BYTES;
        pthread_mutex_unlock(&w->lock);
        size_t room = RING_BYTES - at < READ_BYTES ? RING_BYTES - at : READ_BYTES;
        ssize_t n = recv(w->from, w->ring + at, room, 0);
        uint64_t now = chrono_now_ns();
        pthread_mutex_lock(&w->lock);
        if (n > 0) {
            busy_until = busy_until < now ? now : busy_until;
            busy_until += (uint64_t)((double)n * w->ns_per_byte);
            w->read += (uint64_t)n;
            w->pieces[w->last++ % PIECES_MAX] = (struct piece){w->read, busy_until + w->delay_ns};
        } else {
            w->ended = true;
        }
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
        if (n <= 0) {
            return NULL;
        }
    }
}

static void sleep_until(uint64_t ns)
{
    const struct timespec t = {(time_t)(ns / 1000000000U), (long)(ns % 1000000000U)};
    (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static bool send_up_to(struct way *w, uint64_t end)
{
    while (w->sent < end) { /* only this thread changes it */
        size_t at = w->sent % RING_BYTES;
        size_t left = end - w->sent < RING_BYTES - at ? end - w->sent : RING_BYTES - at;
        ssize_t n = send(w->to, w->ring + at, left, MSG_NOSIGNAL);
        if (n <= 0) {
            return false;
        }
        pthread_mutex_lock(&w->lock);
        w->sent += (uint64_t)n;
        pthread_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
    }
    return true;
}

static void *send_due(void *arg)
{
    struct way *w = arg;
    for (;;) {
        pthread_mutex_lock(&w->lock);
        while (w->first == w->last && !w->ended) {
            pthread_cond_wait(&w->changed, &w->lock);
        }
        bool over = w->first == w->last;
        struct piece p = over ? (struct piece){0} : w->pieces[w->first++ % PIECES_MAX];
        pthread_mutex_unlock(&w->lock);
        if (over) {
            (void)shutdown(w->to, SHUT_WR);
            return NULL;
        }
        sleep_until(p.due_ns);
        if (!send_up_to(w, p.end)) {
            (void)shutdown(w->from, SHUT_RD);
            return NULL;
        }
    }
}

/* Threads and memory last as long as the program. */
static void begin(int from, int to, uint64_t delay_ns, double ns_per_byte)
{
    struct way *w = mem_new(1, sizeof *w);
    pthread_t thread;
    const int on = 1;
    w->from = from;
    w->to = to;
    w->delay_ns = delay_ns;
    w->ns_per_byte = ns_per_byte;
    w->ring = mem_new(RING_BYTES, 1);
    w->pieces = mem_new(PIECES_MAX, sizeof *w->pieces);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    if (setsockopt(to, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) != 0 ||
        pthread_create(&thread, NULL, read_ahead, w) != 0 || pthread_detach(thread) != 0 ||
        pthread_create(&thread, NULL, send_due, w) != 0 || pthread_detach(thread) != 0) {
        die("a connection's threads");
    }
}

static struct sockaddr_in address(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
}

static void *end_with_input(void *arg)
{
    char c;
    while (read(STDIN_FILENO, &c, 1) > 0) {
    }
    exit(0);
    return arg;
}

int main(int argc, char **argv)
{
    int64_t port, delay_us, rate;
    if (argc != 4 || !text_to_int(argv[1], &port) || port < 1 || port > UINT16_MAX ||
        !text_to_int(argv[2], &delay_us) || delay_us < 0 || !text_to_int(argv[3], &rate) ||
        rate < 1) {
        (void)fputs("usage: bench_link PORT DELAY_US MB_PER_SECOND\n", stderr);
        return 2;
    }
    (void)prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0); /* ns; else 50 µs */
    struct sockaddr_in a = address(0);
    const struct sockaddr_in target = address((uint16_t)port);
    socklen_t n = sizeof a;
    pthread_t thread;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&a, n) != 0 ||
        listen(listener, 16) != 0 || getsockname(listener, (struct sockaddr *)&a, &n) != 0 ||
        pthread_create(&thread, NULL, end_with_input, NULL) != 0) {
        die("listen");
    }
    printf("ready %d\n", ntohs(a.sin_port));
    (void)fflush(stdout);
    for (;;) {
        int near = accept(listener, NULL, NULL);
        int far = socket(AF_INET, SOCK_STREAM, 0);
        if (near < 0 || far < 0) {
            die("accept");
        }
        if (connect(far, (const struct sockaddr *)&target, sizeof target) != 0) {
            (void)close(near);
            (void)close(far);
            continue;
        }
        begin(near, far, (uint64_t)delay_us * 1000, 1e3 / (double)rate);
        begin(far, near, (uint64_t)delay_us * 1000, 1e3 / (double)rate);
    }
}
