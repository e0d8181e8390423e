/* SPDX-License-Identifier: Apache-2.0 */
/* What a node decides about its place in the cluster: when to join, to send a heartbeat, to try
 * again, and when it was given up. No clock, thread or socket inside; one call is open at a time.
 */
#ifndef GRADUS_MEMBERSHIP_MEMBERSHIP_CORE_H
#define GRADUS_MEMBERSHIP_MEMBERSHIP_CORE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define MEMBERSHIP_BACKOFF_MIN_MS 100
#define MEMBERSHIP_BACKOFF_MAX_MS 1000
#define MEMBERSHIP_PLACE_MS                                                                        \
    200 /* while the address still belongs to the process that was there                           \
         */
/* While the master is not reached: its channel makes pauses of its own between attempts to connect,
 * and a call beside these costs nothing and sees the connection that is there at last. */
#define MEMBERSHIP_AWAY_MS 200
#define MEMBERSHIP_TELL_MS 10000         /* between two tellings of the same trouble */
#define MEMBERSHIP_INTERVAL_MAX_MS 60000 /* the longest interval, whatever a master says */

enum membership_state {
    MEMBERSHIP_OUT, /* joining */
    MEMBERSHIP_IN,
    MEMBERSHIP_LEAVING,
    MEMBERSHIP_LEFT,
};

enum membership_call {
    MEMBERSHIP_NO_CALL,
    MEMBERSHIP_JOIN,
    MEMBERSHIP_HEARTBEAT,
    MEMBERSHIP_LEAVE,
};

struct membership_core {
    enum membership_state state;
    uint64_t seed;        /* spreads the back-off of many nodes */
    uint64_t call;        /* number of the last call; answers to others are late */
    bool calling;         /* it is open */
    bool again;           /* a heartbeat was asked for meanwhile */
    uint32_t failures;    /* in a row */
    uint64_t failing_ms;  /* since when */
    uint64_t told_ms;     /* when that was last told */
    uint32_t interval_ms; /* of heartbeats */
};

enum membership_event_kind {
    MEMBERSHIP_ON_TIMER, /* also the first event of all */
    MEMBERSHIP_ON_ANSWER,
    MEMBERSHIP_ON_HURRY,
    MEMBERSHIP_ON_LEAVE,
};

struct membership_event {
    enum membership_event_kind kind;
    uint64_t now_ms;
    uint64_t call;        /* MEMBERSHIP_ON_ANSWER */
    int code;             /* 0 or ERR_* */
    uint32_t interval_ms; /* of a join that succeeded */
};

/* What to do, in this order. */
struct membership_actions {
    bool lost;
    bool joined;
    bool trouble;              /* tell that it fails, since core.failing_ms */
    bool well;                 /* tell that it is well again */
    enum membership_call call; /* start it, with the number core.call */
    uint64_t timer_ms;         /* the time to come back; 0: the timer stays as it is */
    bool left;
};

void membership_step(struct membership_core *c, const struct membership_event *e,
                     struct membership_actions *out);

#endif
