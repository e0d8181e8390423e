/* SPDX-License-Identifier: Apache-2.0 */
/* Turns SIGTERM and SIGINT into a request to end. A second one, or an end that takes too long,
 * ends the process at once: this thread works even when the rest of the process hangs. */
#include "service/service_signals.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/chrono.h"
#include "os/log.h"
#include "os/signals.h"
#include "os/thread.h"

/* What the thread hears: a signal's number, or one of these. */
#define WAKE 0
#define TIMED_OUT (-1)

struct service_signals {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ending;
    bool over; /* nothing to force any more */
    int64_t stop_ms;
    int signal_fd, wake_fd;
    pthread_t thread;
};

static void wake(struct service_signals *s)
{
    uint64_t one = 1;
    ssize_t n = write(s->wake_fd, &one, sizeof one);
    (void)n; /* a full counter is readable all the same */
}

/* The next thing told, or TIMED_OUT at @deadline_ms. */
static int hear(struct service_signals *s, uint64_t deadline_ms)
{
    for (;;) {
        uint64_t now_ms = chrono_now_ms();
        int left_ms = -1;
        if (deadline_ms != UINT64_MAX) {
            left_ms = deadline_ms > now_ms ? (int)(deadline_ms - now_ms) : 0;
        }
        struct pollfd fds[2] = {
            {.fd = s->signal_fd, .events = POLLIN},
            {.fd = s->wake_fd, .events = POLLIN},
        };
        int rc = poll(fds, 2, left_ms);
        if (rc == 0) {
            return TIMED_OUT;
        }
        int signal = rc > 0 ? signals_read(s->signal_fd) : 0;
        if (signal != 0) {
            return signal;
        }
        uint64_t count;
        if (rc > 0 && read(s->wake_fd, &count, sizeof count) == (ssize_t)sizeof count) {
            return WAKE;
        }
    }
}

static bool is_over(struct service_signals *s)
{
    pthread_mutex_lock(&s->lock);
    bool over = s->over;
    pthread_mutex_unlock(&s->lock);
    return over;
}

/* After the first signal: a second one, or too long a time, ends the process, whatever it does. */
static void guard_end(struct service_signals *s, int first)
{
    uint64_t first_ms = chrono_now_ms();
    uint64_t deadline_ms = first_ms + (uint64_t)s->stop_ms;
    while (!is_over(s)) {
        int heard = hear(s, deadline_ms);
        if (heard == TIMED_OUT) {
            log_error("exit_forced", "reason=\"the end took too long\" stop_ms=%lld",
                      (long long)s->stop_ms);
            _exit(first == WAKE ? 1 : 128 + first);
        }
        if (heard == SERVICE_SIGNAL_PARENT) {
            continue;
        }
        if (heard != WAKE && first != WAKE && signals_repeats(heard, chrono_now_ms() - first_ms)) {
            continue;
        }
        if (heard != WAKE && first != WAKE) {
            log_warn("exit_forced", "reason=\"a second signal\" signal=%d", heard);
            _exit(128 + heard);
        }
        if (first == WAKE && heard != WAKE) { /* it was ending by itself */
            first = heard;
            first_ms = chrono_now_ms();
        }
    }
}

static void *watch(void *arg)
{
    struct service_signals *s = arg;
    int first = hear(s, UINT64_MAX);
    if (is_over(s)) {
        return NULL;
    }
    if (first != WAKE) {
        log_info("signal", "signal=%d", first);
    }
    pthread_mutex_lock(&s->lock);
    s->ending = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    guard_end(s, first);
    return NULL;
}

/* Takes the signals; the descriptors are the caller's to close also after an error. */
static int listen_to_signals(struct service_signals *s, struct err *err)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    if (sigaction(SIGHUP, &ignore, NULL) != 0 || sigaction(SIGPIPE, &ignore, NULL) != 0) {
        return err_errno(err, errno, "ignore signals");
    }
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SERVICE_SIGNAL_PARENT);
    signals_block(&set);
    s->signal_fd = signals_open(&set, err);
    if (s->signal_fd < 0) {
        return s->signal_fd;
    }
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return s->wake_fd >= 0 ? 0 : err_errno(err, errno, "make a descriptor to wake the signals");
}

static void release(struct service_signals *s)
{
    if (s->signal_fd >= 0) {
        (void)close(s->signal_fd);
    }
    if (s->wake_fd >= 0) {
        (void)close(s->wake_fd);
    }
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

struct service_signals *service_signals_new(int64_t stop_ms, struct err *err)
{
    struct service_signals *s = mem_new(1, sizeof *s);
    s->stop_ms = stop_ms;
    s->signal_fd = -1;
    s->wake_fd = -1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    int rc = listen_to_signals(s, err);
    if (rc == 0) {
        rc = thread_start(&s->thread, "signals", watch, s);
        if (rc != 0) {
            rc = err_errno(err, rc, "start the thread for signals");
        }
    }
    if (rc != 0) {
        release(s);
        return NULL;
    }
    return s;
}

/* The signals stay blocked: one in the last moments of the process changes nothing. */
void service_signals_free(struct service_signals *s)
{
    if (s == NULL) {
        return;
    }
    pthread_mutex_lock(&s->lock);
    s->over = true;
    pthread_mutex_unlock(&s->lock);
    wake(s);
    pthread_join(s->thread, NULL);
    release(s);
}

void service_signals_end(struct service_signals *s)
{
    wake(s);
}

bool service_signals_ending(struct service_signals *s)
{
    pthread_mutex_lock(&s->lock);
    bool ending = s->ending;
    pthread_mutex_unlock(&s->lock);
    return ending;
}

void service_signals_wait(struct service_signals *s)
{
    pthread_mutex_lock(&s->lock);
    while (!s->ending) {
        pthread_cond_wait(&s->changed, &s->lock);
    }
    pthread_mutex_unlock(&s->lock);
}
