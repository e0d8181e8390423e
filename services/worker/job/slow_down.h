/* SPDX-License-Identifier: Apache-2.0 */
/* For experiments with stragglers: makes every computation take so many times as long as it uses
 * the processor. Waiting for a processor that is shared counts as waiting: slowed workers that
 * share one behave like machines of their own.
 *
 * Owner: one thread waits; any thread may end the waiting. */
#ifndef GRADUS_WORKER_JOB_SLOW_DOWN_H
#define GRADUS_WORKER_JOB_SLOW_DOWN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define SLOW_DOWN_MAX 1000

struct slow_down {
    double factor; /* 1: off */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool over; /* under the mutex */
};

/* @factor: 1 to SLOW_DOWN_MAX. */
void slow_down_init(struct slow_down *s, double factor);
void slow_down_release(struct slow_down *s);
/* After a computation that began at @begin_ns (chrono_now_ns()) and used @used_ns of processor
 * time: wait until factor times @used_ns after its beginning, or until slow_down_end(). */
void slow_down_wait(struct slow_down *s, uint64_t begin_ns, uint64_t used_ns);
/* Any thread: wait no more, from now on. */
void slow_down_end(struct slow_down *s);

#endif
