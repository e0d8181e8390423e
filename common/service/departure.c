/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the master, heartbeat by heartbeat, whether it is worth waiting. */
#include "service/departure.h"

#include <time.h>

#include "os/chrono.h"

void departure_init(struct departure *d)
{
    pthread_condattr_t attr;
    pthread_mutex_init(&d->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&d->heard, &attr);
    pthread_condattr_destroy(&attr);
    d->begun = d->over = false;
    d->answered_ms = 0;
}

void departure_release(struct departure *d)
{
    pthread_cond_destroy(&d->heard);
    pthread_mutex_destroy(&d->lock);
}

bool departure_has_begun(struct departure *d)
{
    pthread_mutex_lock(&d->lock);
    const bool begun = d->begun;
    pthread_mutex_unlock(&d->lock);
    return begun;
}

/* A master that does not know the node has given it nothing to keep. */
void departure_heard(struct departure *d, int code, bool moves)
{
    const uint64_t now_ms = chrono_now_ms();
    pthread_mutex_lock(&d->lock);
    const bool away = code == ERR_UNAVAILABLE && now_ms - d->answered_ms >= DEPARTURE_AWAY_MS;
    d->answered_ms = code == 0 ? now_ms : d->answered_ms;
    d->over = d->over || away || code == ERR_NOT_FOUND || (code == 0 && !moves);
    pthread_cond_broadcast(&d->heard);
    pthread_mutex_unlock(&d->lock);
}

/* Until it is over, for DEPARTURE_POLL_MS at most. */
static bool wait_a_moment(struct departure *d)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += DEPARTURE_POLL_MS * 1000000L;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&d->lock);
    while (!d->over && pthread_cond_timedwait(&d->heard, &d->lock, &until) == 0) {
        /* it goes on */
    }
    const bool over = d->over;
    pthread_mutex_unlock(&d->lock);
    return over;
}

bool departure_wait(struct departure *d, struct membership *m, uint64_t timeout_ms)
{
    const uint64_t begin_ms = chrono_now_ms();
    struct membership_node node;
    bool over = false;
    pthread_mutex_lock(&d->lock);
    d->begun = true;
    d->answered_ms = begin_ms;
    pthread_mutex_unlock(&d->lock);
    while (!over && chrono_now_ms() - begin_ms < timeout_ms) {
        membership_hurry(m);
        over = wait_a_moment(d) || !membership_node(m, &node);
    }
    return over;
}
