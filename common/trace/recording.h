/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a node records for a trace, and for which one: the decisions behind RECORD and TAKE. It
 * has no clock, no thread and no memory for what is recorded; those belong to its owner.
 *
 * A node records for one trace at a time. A parameter server records from RECORD until TAKE. A
 * worker is asked for a number of steps: it begins with the next one, and is through when that many
 * are complete and every exchange that was begun meanwhile is answered. Both give up when the time
 * is up. The id of a trace is good for one recording, so that a RECORD which comes late, or once
 * more, does not begin another that nobody will take. */
#ifndef GRADUS_TRACE_RECORDING_H
#define GRADUS_TRACE_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECORDING_OVER_MAX 8 /* as many traces as a master leads at once */

enum recording_state {
    RECORDING_IDLE,
    RECORDING_WAITING, /* a worker waits for the first step */
    RECORDING_ON,
    RECORDING_CLOSING, /* a worker's steps are complete, their exchanges are not */
};

struct recording {
    enum recording_state state;
    uint64_t id, deadline_ns;
    uint64_t over[RECORDING_OVER_MAX]; /* the last that ended, or were taken before; 0: none */
    size_t over_next;
    uint32_t steps_wanted;                  /* 0: until it is taken */
    uint32_t steps;                         /* complete */
    bool seen;                              /* kept in every state: */
    uint64_t seen_step;                     /* step of the last computation */
    uint64_t exchange_first, exchange_last; /* begun while it was on */
    unsigned open;                          /* of these exchanges */
};

enum recording_asked {
    RECORDING_BEGUN,
    RECORDING_AGAIN, /* records for this very trace already */
    RECORDING_OTHER, /* records for another trace */
    RECORDING_OVER,  /* this trace was recorded, and is over */
};

/* RECORD of @id (0: one that has none). @steps 0: from now on until it is taken. */
enum recording_asked recording_ask(struct recording *r, uint64_t id, uint32_t steps,
                                   uint64_t now_ns, uint64_t deadline_ns);
/* TAKE. False: there is no recording of @id; nor will there be. */
bool recording_take(struct recording *r, uint64_t id);
/* Ends the recording with what it has. */
void recording_end(struct recording *r);

/* True if something is recorded now. A server whose time is up waits to be taken, or replaced. */
bool recording_is_on(const struct recording *r);

/* ---- of a worker ---- */

struct recording_step {
    bool begins;    /* the recording begins with this computation */
    bool completes; /* it ends the step before it, which counts */
    bool ends;      /* everything that was asked for is recorded */
};
/* A computation of @step begins: another step than that of the computation before, or one more of
 * its replicas. */
struct recording_step recording_step(struct recording *r, uint64_t step);
/* An exchange is begun to be sent. Their numbers rise; one that is sent again keeps its own. */
void recording_sending(struct recording *r, uint64_t exchange);
/* It is answered, or was given up. True: all is recorded that was asked for. */
bool recording_answered(struct recording *r, uint64_t exchange);

#endif
