/* SPDX-License-Identifier: Apache-2.0 */
/* The event loop of a service: one thread owns the state, everybody else sends it messages.
 *
 * A message is a function and a context; the functions run one at a time, in the order of posting,
 * on the thread inside loop_run(). Timers run on the same thread. Waiting is waiting: nothing
 * polls.
 *
 * Any thread: loop_post(), loop_stop(), loop_call(). The loop's thread (or before loop_run()):
 * timers. */
#ifndef GRADUS_EXECUTION_LOOP_H
#define GRADUS_EXECUTION_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Messages waiting at once; the memory of the mailbox is allocated by loop_new(). */
#define LOOP_MESSAGES_MAX 65536

struct loop;

/* @capacity: messages waiting at once, 1..LOOP_MESSAGES_MAX; 0: 4096. */
struct loop *loop_new(size_t capacity);
/* Frees the loop, after loop_run() returned (or was never called) and when nobody posts any more.
 * Messages that never ran are discarded: each @fn is called with its @ctx and loop_discarding()
 * true. */
void loop_free(struct loop *loop);

/* Run @fn(@ctx) on the loop's thread. Errors: ERR_EXHAUSTED the mailbox is full; ERR_STATE the loop
 * was stopped. After an error @fn is not called: the caller still owns @ctx. */
int loop_post(struct loop *loop, void (*fn)(void *ctx), void *ctx, struct err *err);
/* loop_post() and wait until @fn returned. Not from the loop's thread. Errors: as loop_post(). */
int loop_call(struct loop *loop, void (*fn)(void *ctx), void *ctx, struct err *err);
/* Inside a message: true when the loop has ended and the message must only free what it holds. */
bool loop_discarding(const struct loop *loop);
size_t loop_waiting(struct loop *loop); /* messages posted and not yet run */

/* One shot at monotonic @deadline_ms (chrono_now_ms() is the clock), at once when that is past. The
 * timer is embedded in the caller's object; a zeroed struct is a valid unset timer. Setting a set
 * timer moves it. Timers of equal deadlines run in the order in which they were set. */
struct loop_timer {
    uint64_t deadline_ms;
    uint64_t order;
    size_t slot; /* place in the heap + 1; 0: not set */
    void (*fn)(void *ctx);
    void *ctx;
};
void loop_timer_set(struct loop *loop, struct loop_timer *timer, uint64_t deadline_ms,
                    void (*fn)(void *ctx), void *ctx);
void loop_timer_clear(struct loop *loop, struct loop_timer *timer); /* unset is fine */

/* Told on the loop's thread when it has nothing to do: @begin before it sleeps, and may do
 * something useful until loop_ready(); @end when it goes on, before it does its work. */
struct loop_idle {
    void (*begin)(void *ctx);
    void (*end)(void *ctx);
    void *ctx;
    /* Any other thread, under the loop's lock: loop_ready() has become true, which @begin may sleep
     * for in a place of its own. NULL: it does not. */
    void (*wake)(void *ctx);
};
/* Sets it, on the loop's thread or before it runs. NULL: nobody is told, as at first. */
void loop_set_idle(struct loop *loop, const struct loop_idle *idle);
/* On the loop's thread: true if there is a message, a timer that is due, or the stop. */
bool loop_ready(struct loop *loop);
/* When the next timer is due; UINT64_MAX: there is none. */
uint64_t loop_next_timer_ms(const struct loop *loop);

/* Run messages and timers until loop_stop(). Messages posted before the stop still run; timers do
 * not. */
void loop_run(struct loop *loop);
/* The same on a thread of its own, named @name (at most 15 bytes). loop_join() waits for its end.
 */
int loop_start(struct loop *loop, const char *name, struct err *err);
void loop_join(struct loop *loop);
void loop_stop(struct loop *loop); /* idempotent */

#endif
