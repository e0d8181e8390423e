/* For experiments with stragglers: makes every computation take so many times as long.
 *
 * Owner: one thread waits; any thread may end the waiting. */
#ifndef GRADUS_WORKER_SLOW_DOWN_H
#define GRADUS_WORKER_SLOW_DOWN_H

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
/* After a computation that took @ns: wait for (factor − 1) times as long, or until
 * slow_down_end(). */
void slow_down_wait(struct slow_down *s, uint64_t ns);
/* Any thread: wait no more, from now on. */
void slow_down_end(struct slow_down *s);

#endif
