/* SPDX-License-Identifier: Apache-2.0 */
/* How a test waits for what another thread or process does: for a condition, which it looks at
 * again and again, as long as the machine takes for it. Only here tests sleep (test_structure.py).
 */
#ifndef GRADUS_TESTS_SUPPORT_WAIT_UNTIL_H
#define GRADUS_TESTS_SUPPORT_WAIT_UNTIL_H

#include "support/test.h"

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

/* Then the test fails. Time counts as this process sees it: of a look and the pause after it no
 * more than WAIT_UNTIL_PAUSE_MS_MAX, so what it stands still, for lack of a processor, is not its
 * fault. */
#define WAIT_UNTIL_MS 60000
#define WAIT_UNTIL_PAUSE_MS_MAX 50

struct wait_until {
    uint64_t seen_ns, waited_ns;
};

/* After a pause: whether it has been too long. */
static inline bool wait_until_over(struct wait_until *w)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    const uint64_t most_ns = WAIT_UNTIL_PAUSE_MS_MAX * UINT64_C(1000000);
    const uint64_t pause_ns = w->seen_ns == 0 ? 0 : now_ns - w->seen_ns;
    w->seen_ns = now_ns;
    w->waited_ns += pause_ns < most_ns ? pause_ns : most_ns;
    return w->waited_ns >= WAIT_UNTIL_MS * UINT64_C(1000000);
}

static inline void wait_until_fail(const char *what, const char *file, int line)
{
    print_error("%s:%d: after %d s still not: %s\n", file, line, WAIT_UNTIL_MS / 1000, what);
    _fail(file, line);
}

static inline void wait_until_pause(struct wait_until *w, const char *what, const char *file,
                                    int line)
{
    /* Not nanosleep(): some programs have one of their own. */
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){.tv_nsec = 1000000}, NULL);
    if (wait_until_over(w)) {
        wait_until_fail(what, file, line);
    }
}

static inline void wait_until_signal(struct wait_until *w, pthread_cond_t *changed,
                                     pthread_mutex_t *lock, const char *what, const char *file,
                                     int line)
{
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += WAIT_UNTIL_PAUSE_MS_MAX * 1000000L;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(changed, lock, &end);
    if (wait_until_over(w)) {
        pthread_mutex_unlock(lock);
        wait_until_fail(what, file, line);
    }
}

/* Until @condition holds, which is computed once for each look. */
#define wait_until(condition)                                                                      \
    do {                                                                                           \
        struct wait_until wait_until_ = {0};                                                       \
        while (!(condition)) {                                                                     \
            wait_until_pause(&wait_until_, #condition, __FILE__, __LINE__);                        \
        }                                                                                          \
    } while (0)

/* The same for a condition that is looked at with @lock, which the caller does not hold. */
#define wait_until_locked(condition, lock)                                                         \
    do {                                                                                           \
        struct wait_until wait_until_ = {0};                                                       \
        pthread_mutex_lock(lock);                                                                  \
        while (!(condition)) {                                                                     \
            pthread_mutex_unlock(lock);                                                            \
            wait_until_pause(&wait_until_, #condition, __FILE__, __LINE__);                        \
            pthread_mutex_lock(lock);                                                              \
        }                                                                                          \
        pthread_mutex_unlock(lock);                                                                \
    } while (0)

/* The same for one whose changes are signalled, with @lock, which the caller holds before and
 * after. */
#define wait_until_signalled(condition, changed, lock)                                             \
    do {                                                                                           \
        struct wait_until wait_until_ = {0};                                                       \
        while (!(condition)) {                                                                     \
            wait_until_signal(&wait_until_, changed, lock, #condition, __FILE__, __LINE__);        \
        }                                                                                          \
    } while (0)

#endif
