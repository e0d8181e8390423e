/* SPDX-License-Identifier: Apache-2.0 */
/* What a system call with a time-out meets when its process goes on after it was stopped: it is
 * interrupted. Here by a signal, while one thread waits in the kernel. */
#ifndef GRADUS_TESTS_SUPPORT_INTERRUPT_H
#define GRADUS_TESTS_SUPPORT_INTERRUPT_H

#include "support/wait_until.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct interrupt {
    pthread_t thread;
    pid_t id;
};

static inline void interrupt_nothing(int signal)
{
    (void)signal;
}

/* By the thread that is to be interrupted. */
static inline void interrupt_prepare(struct interrupt *i)
{
    struct sigaction action = {.sa_handler = interrupt_nothing};
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
    *i = (struct interrupt){.thread = pthread_self(), .id = gettid()};
}

static inline bool interrupt_finds_it_asleep(const struct interrupt *i)
{
    char path[64], text[256] = "";
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)i->id);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    (void)fclose(f);
    const char *name_end = strrchr(text, ')');
    return name_end != NULL && strncmp(name_end, ") S", 3) == 0;
}

/* By another one. */
static inline void interrupt_now(const struct interrupt *i)
{
    wait_until(interrupt_finds_it_asleep(i));
    assert_int_equal(pthread_kill(i->thread, SIGUSR1), 0);
}

#endif
