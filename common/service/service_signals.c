#include "service/service_signals.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/chrono.h"
#include "base/log.h"
#include "base/mem.h"

/* What the thread is told, one byte each: a signal's number, or this. */
#define WAKE 0
#define TIMED_OUT (-1)

struct service_signals {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ending;
    bool over; /* nothing to force any more */
    int64_t stop_ms;
    pthread_t thread;
};

/* A handler and a pipe, and not sigwait() with blocked signals: libraries may start threads before
 * main() (OpenBLAS does), which block nothing, and a signal that the kernel gives to one of them
 * would end the process. A handler can reach only what is global. */
static int notices[2] = {-1, -1};

static void tell(int what)
{
    const unsigned char byte = (unsigned char)what;
    while (write(notices[1], &byte, 1) < 0 && errno == EINTR) {
    }
}

static void on_signal(int signal)
{
    int saved = errno;
    tell(signal);
    errno = saved;
}

static void endings(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SERVICE_SIGNAL_PARENT);
}

/* The next thing told, or TIMED_OUT at @deadline_ms. */
static int hear(uint64_t deadline_ms)
{
    for (;;) {
        uint64_t now_ms = chrono_now_ms();
        int left_ms = -1;
        if (deadline_ms != UINT64_MAX) {
            left_ms = deadline_ms > now_ms ? (int)(deadline_ms - now_ms) : 0;
        }
        struct pollfd p = {.fd = notices[0], .events = POLLIN};
        int rc = poll(&p, 1, left_ms);
        unsigned char byte = WAKE;
        if (rc == 0) {
            return TIMED_OUT;
        }
        if (rc > 0 && read(notices[0], &byte, 1) == 1) {
            return byte;
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

/* After the first signal: a second one, or too long a time, ends the process whatever it does. */
static void guard_end(struct service_signals *s, int first)
{
    uint64_t deadline_ms = chrono_now_ms() + (uint64_t)s->stop_ms;
    while (!is_over(s)) {
        int heard = hear(deadline_ms);
        if (heard == TIMED_OUT) {
            log_error("exit_forced", "reason=\"the end took too long\" stop_ms=%lld",
                      (long long)s->stop_ms);
            _exit(first == WAKE ? 1 : 128 + first);
        }
        if (heard == SERVICE_SIGNAL_PARENT) {
            continue;
        }
        if (heard != WAKE && first != WAKE) {
            log_warn("exit_forced", "reason=\"a second signal\" signal=%d", heard);
            _exit(128 + heard);
        }
        first = first == WAKE ? heard : first; /* it was ending by itself */
    }
}

static void *watch(void *arg)
{
    struct service_signals *s = arg;
    sigset_t set;
    endings(&set);
    pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    int first = hear(UINT64_MAX);
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

static int catch_signals(struct err *err)
{
    if (pipe2(notices, O_CLOEXEC | O_NONBLOCK) != 0) {
        return err_errno(err, errno, "make the pipe for signals");
    }
    sigset_t set;
    endings(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    const struct sigaction catch = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    if (sigaction(SIGTERM, &catch, NULL) != 0 || sigaction(SIGINT, &catch, NULL) != 0 ||
        sigaction(SERVICE_SIGNAL_PARENT, &catch, NULL) != 0 ||
        sigaction(SIGHUP, &ignore, NULL) != 0 || sigaction(SIGPIPE, &ignore, NULL) != 0) {
        return err_errno(err, errno, "catch signals");
    }
    return 0;
}

struct service_signals *service_signals_new(int64_t stop_ms, struct err *err)
{
    if (catch_signals(err) != 0) {
        return NULL;
    }
    struct service_signals *s = mem_new(1, sizeof *s);
    s->stop_ms = stop_ms;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    int rc = pthread_create(&s->thread, NULL, watch, s);
    if (rc != 0) {
        pthread_cond_destroy(&s->changed);
        pthread_mutex_destroy(&s->lock);
        free(s);
        err_errno(err, rc, "start the thread for signals");
        return NULL;
    }
    (void)pthread_setname_np(s->thread, "signals");
    return s;
}

/* The pipe and the handlers stay: a signal in the last moments of the process changes nothing. */
void service_signals_free(struct service_signals *s)
{
    if (s == NULL) {
        return;
    }
    pthread_mutex_lock(&s->lock);
    s->over = true;
    pthread_mutex_unlock(&s->lock);
    tell(WAKE);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void service_signals_end(struct service_signals *s)
{
    (void)s;
    tell(WAKE);
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
