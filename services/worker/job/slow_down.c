/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a worker slow on purpose, for experiments: it sleeps after each computation for the time
 * that a slower processor would have needed besides. The sleep ends at once when the job does. */
#include "worker/job/slow_down.h"

#include <time.h>

#include "os/chrono.h"

#define NS_PER_S UINT64_C(1000000000)

void slow_down_init(struct slow_down *s, double factor)
{
    *s = (struct slow_down){.factor = factor};
    pthread_mutex_init(&s->mutex, NULL);
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC); /* as chrono_now_ns() */
    pthread_cond_init(&s->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

void slow_down_release(struct slow_down *s)
{
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
}

void slow_down_wait(struct slow_down *s, uint64_t begin_ns, uint64_t used_ns)
{
    if (s->factor <= 1) {
        return;
    }
    uint64_t until = begin_ns + (uint64_t)(s->factor * (double)used_ns);
    const struct timespec deadline = {.tv_sec = (time_t)(until / NS_PER_S),
                                      .tv_nsec = (long)(until % NS_PER_S)};
    pthread_mutex_lock(&s->mutex);
    while (!s->over && pthread_cond_timedwait(&s->changed, &s->mutex, &deadline) == 0) {
    }
    pthread_mutex_unlock(&s->mutex);
}

void slow_down_end(struct slow_down *s)
{
    pthread_mutex_lock(&s->mutex);
    s->over = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}
