#include "service/service_signals.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/chrono.h"
#include "base/log.h"
#include "base/mem.h"

/* Wakes the thread for a reason that is in its struct. */
#define SIGNAL_WAKE SIGUSR1

struct service_signals {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ending;
    bool over;  /* nothing to force any more */
    int signal; /* the first; 0: none */
    int64_t stop_ms;
    pthread_t thread;
};

static void waited_for(sigset_t *set)
{
    sigemptyset(set);
    sigaddset(set, SIGTERM);
    sigaddset(set, SIGINT);
    sigaddset(set, SIGNAL_WAKE);
}

void service_signals_block(void)
{
    sigset_t set;
    waited_for(&set);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    (void)sigaction(SIGHUP, &ignore, NULL);
    (void)sigaction(SIGPIPE, &ignore, NULL);
}

static bool note(struct service_signals *s, int signal)
{
    pthread_mutex_lock(&s->lock);
    bool over = s->over;
    if (!over) {
        s->ending = true;
        s->signal = signal == SIGNAL_WAKE ? 0 : signal;
        pthread_cond_broadcast(&s->changed);
    }
    pthread_mutex_unlock(&s->lock);
    return !over;
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
    sigset_t set;
    waited_for(&set);
    uint64_t deadline_ms = chrono_now_ms() + (uint64_t)s->stop_ms;
    while (!is_over(s)) {
        uint64_t now_ms = chrono_now_ms();
        uint64_t left_ms = deadline_ms > now_ms ? deadline_ms - now_ms : 0;
        const struct timespec left = {.tv_sec = (time_t)(left_ms / 1000),
                                      .tv_nsec = (long)(left_ms % 1000) * 1000000};
        int signal = sigtimedwait(&set, NULL, &left);
        if (signal == SIGTERM || signal == SIGINT) {
            log_warn("exit_forced", "reason=\"a second signal\" signal=%d", signal);
            _exit(128 + signal);
        }
        if (signal < 0 && errno == EAGAIN) {
            log_error("exit_forced", "reason=\"the end took too long\" stop_ms=%lld",
                      (long long)s->stop_ms);
            _exit(first == SIGNAL_WAKE ? 1 : 128 + first);
        }
    }
}

static void *watch(void *arg)
{
    struct service_signals *s = arg;
    sigset_t set;
    waited_for(&set);
    int signal = 0;
    while (sigwait(&set, &signal) != 0) {
    }
    if (note(s, signal)) {
        if (signal != SIGNAL_WAKE) {
            log_info("signal", "signal=%d", signal);
        }
        guard_end(s, signal);
    }
    return NULL;
}

struct service_signals *service_signals_new(int64_t stop_ms, struct err *err)
{
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

void service_signals_free(struct service_signals *s)
{
    if (s == NULL) {
        return;
    }
    pthread_mutex_lock(&s->lock);
    s->over = true;
    pthread_mutex_unlock(&s->lock);
    (void)pthread_kill(s->thread, SIGNAL_WAKE);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void service_signals_end(struct service_signals *s)
{
    (void)pthread_kill(s->thread, SIGNAL_WAKE);
}

bool service_signals_ending(struct service_signals *s)
{
    pthread_mutex_lock(&s->lock);
    bool ending = s->ending;
    pthread_mutex_unlock(&s->lock);
    return ending;
}

int service_signals_wait(struct service_signals *s)
{
    pthread_mutex_lock(&s->lock);
    while (!s->ending) {
        pthread_cond_wait(&s->changed, &s->lock);
    }
    int signal = s->signal;
    pthread_mutex_unlock(&s->lock);
    return signal;
}
