/* SPDX-License-Identifier: Apache-2.0 */
/* A node that is to end waits until what it holds is elsewhere: its heartbeats say that it leaves,
 * and the answers whether anything is on its way. */
#ifndef GRADUS_SERVICE_DEPARTURE_H
#define GRADUS_SERVICE_DEPARTURE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "service/membership.h"

#define DEPARTURE_POLL_MS 100
/* Nobody at its address for so long: the master has probably ended with it, and it does not wait.
 * One that is only slow may still answer. */
#define DEPARTURE_AWAY_MS 1000

struct departure {
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t heard;
    bool begun, over;
    uint64_t answered_ms; /* the last answer that was one, or the beginning */
};

void departure_init(struct departure *d);
void departure_release(struct departure *d);
/* For membership_events: leaves(), and moves(). The membership's thread. */
bool departure_has_begun(struct departure *d);
void departure_heard(struct departure *d, int code, bool moves);
/* Waits until nothing is about to move, @timeout_ms at most. True: nothing is. */
bool departure_wait(struct departure *d, struct membership *m, uint64_t timeout_ms);

#endif
