/* SPDX-License-Identifier: Apache-2.0 */
/* Signals as something to read from a descriptor (signalfd(2)) instead of handlers. In a thread
 * that has them unblocked, a library's for instance, a handler blocks them and sends the signal
 * again. */
#include "os/signals.h"

#include <errno.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <ucontext.h>
#include <unistd.h>

static sigset_t blocked;

static void send_on(int signal, siginfo_t *info, void *context)
{
    (void)info;
    int saved = errno;
    ucontext_t *interrupted = context;
    for (int i = 1; i < NSIG; i++) {
        if (sigismember(&blocked, i) == 1) {
            /* takes effect when this handler returns */
            (void)sigaddset(&interrupted->uc_sigmask, i);
        }
    }
    /* the signal is blocked in this thread now, so the kernel gives it to a thread that waits for
     * it */
    (void)kill(getpid(), signal);
    errno = saved;
}

void signals_block(const sigset_t *set)
{
    blocked = *set;
    pthread_sigmask(SIG_BLOCK, set, NULL);
    struct sigaction action = {.sa_sigaction = send_on, .sa_flags = SA_SIGINFO | SA_RESTART};
    action.sa_mask = *set;
    for (int i = 1; i < NSIG; i++) {
        if (sigismember(set, i) == 1) {
            (void)sigaction(i, &action, NULL);
        }
    }
}

int signals_open(const sigset_t *set, struct err *err)
{
    int fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
    return fd >= 0 ? fd : err_errno(err, errno, "make a descriptor for signals");
}

int signals_read(int fd)
{
    struct signalfd_siginfo info;
    return read(fd, &info, sizeof info) == (ssize_t)sizeof info ? (int)info.ssi_signo : 0;
}

bool signals_repeats(int signal, uint64_t ms)
{
    return ms < (signal == SIGINT ? SIGNALS_REPEAT_INTERRUPT_MS : SIGNALS_REPEAT_MS);
}
