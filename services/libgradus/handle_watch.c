/* SPDX-License-Identifier: Apache-2.0 */
/* A thread that sleeps until the worker's end of the socket is closed. A program that waits for
 * work learns of the end by itself; one that hangs does not, and would stay for ever after its
 * worker was killed. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "handle.h"

#define GRACE_MS 10000 /* time for the program to find out, to save what it has, and to end */

struct handle_watch {
    pthread_t thread;
    int socket; /* a descriptor of the same connection, its own to close */
    int stop_fd;
};

/* Waits until one of @fds has something, or @timeout_ms (-1: none) is over: 0. */
static int wait_for(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    int n;
    do {
        n = poll(fds, count, timeout_ms);
    } while (n < 0 && errno == EINTR);
    return n;
}

static void *watch(void *arg)
{
    const struct handle_watch *w = arg;
    struct pollfd fds[2] = {
        {.fd = w->stop_fd, .events = POLLIN},
        {.fd = w->socket, .events = POLLRDHUP},
    };
    const int n = wait_for(fds, 2, -1);
    if (n > 0 && fds[0].revents == 0 && wait_for(fds, 1, GRACE_MS) == 0) {
        (void)fputs("gradus: the worker has ended, and this program has not: it is ended now\n",
                    stderr);
        (void)kill(getpid(), SIGKILL);
    }
    return NULL;
}

static bool start_thread(struct handle_watch *w)
{
    sigset_t all, before;
    sigfillset(&all); /* signals are for the program's own threads */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    const int rc = pthread_create(&w->thread, NULL, watch, w);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0;
}

void handle_watch_forget(struct handle_watch *w)
{
    if (w == NULL) {
        return;
    }
    if (w->socket >= 0) {
        (void)close(w->socket);
    }
    if (w->stop_fd >= 0) {
        (void)close(w->stop_fd);
    }
    free(w);
}

struct handle_watch *handle_watch_start(int socket)
{
    struct handle_watch *w = calloc(1, sizeof *w);
    if (w == NULL) {
        return NULL;
    }
    w->socket = fcntl(socket, F_DUPFD_CLOEXEC, 0);
    w->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (w->socket < 0 || w->stop_fd < 0 || !start_thread(w)) {
        handle_watch_forget(w);
        return NULL;
    }
    return w;
}

void handle_watch_end(struct handle_watch **watch)
{
    struct handle_watch *w = *watch;
    *watch = NULL;
    if (w == NULL) {
        return;
    }
    const uint64_t one = 1;
    const ssize_t n = write(w->stop_fd, &one, sizeof one);
    (void)n; /* a new counter has room for it */
    (void)pthread_join(w->thread, NULL);
    handle_watch_forget(w);
}
