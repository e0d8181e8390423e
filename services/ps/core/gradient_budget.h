/* SPDX-License-Identifier: Apache-2.0 */
/* The budget for gradients: how many bytes of gradients that are not applied yet a server holds,
 * and who gets memory when there is not enough for all.
 *
 * A gradient takes its memory here before its first value is received. A share (of one shard) has a
 * reserve, which nobody else gets: as many gradients as the shard must hold to go on whatever comes
 * in whatever order (plan_memory_gradients()). What the limit leaves besides is for all, first
 * come, first served. Who gets nothing waits, and its stream is read no further meanwhile. So a
 * shard never waits for another one, and within a shard one gradient more always finds room once
 * those that come in are complete.
 *
 * These are the decisions alone: bytes are counted, none are allocated. The caller has the lock,
 * the memory and the clock (services/ps/data/gradient_memory.c), or simulates them. After each call
 * that may give memory to somebody who waits, gradient_budget_ready() says to whom.
 *
 * Why each share has a reserve (decision 30): a limit on bytes alone can stop a cluster for ever,
 * because what fills it may wait for what finds no room. The simulator runs clusters whose servers
 * have exactly the reserve, and one gradient less stops them. The shard's core knows nothing of the
 * budget, because nothing but time can be observed of it. */
#ifndef GRADUS_PS_CORE_GRADIENT_BUDGET_H
#define GRADUS_PS_CORE_GRADIENT_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct gradient_share;
struct gradient_waiter;

struct gradient_budget {
    uint64_t bytes_max;
    uint64_t held; /* by gradients */
    /* the sum over all shares of the reserve or of what a share holds, whichever is more; and what
     * is lent */
    uint64_t promised;
    uint64_t allocated; /* held, or to be used again, or lent */
    struct gradient_share *shares;
    struct gradient_waiter *first, **end; /* waiters, in the order in which they came */
    /* waiters that have their memory and were not told yet */
    struct gradient_waiter *ready, **ready_end;
};

struct gradient_share {
    struct gradient_budget *budget;
    struct gradient_share *next, **link;
    uint64_t unit; /* bytes of one gradient */
    uint64_t reserve, held;
    size_t viewed;     /* gradients among those held that lie in memory of others */
    size_t buffers;    /* memory that was allocated for gradients, in use or not */
    uint64_t held_max; /* beyond so much there was no memory */
    bool closed;
};

enum gradient_waiter_state {
    GRADIENT_WAITER_IDLE,
    GRADIENT_WAITER_WAITS,
    GRADIENT_WAITER_READY, /* to be told */
    GRADIENT_WAITER_TOLD,
};

/* Zeroed at first; part of who waits, and stays where it is while it waits. */
struct gradient_waiter {
    struct gradient_share *share;
    struct gradient_waiter *next;
    enum gradient_waiter_state state;
    bool granted; /* gradient_share_take() has not fetched it yet */
};

/* @bytes_max 0: no limit. */
void gradient_budget_init(struct gradient_budget *b, uint64_t bytes_max);
/* The next waiter that is to be told that it waits no longer: gradient_share_take() will say
 * something else than 1. NULL: there is none. */
struct gradient_waiter *gradient_budget_ready(struct gradient_budget *b);

/* ---- shares ---- */

/* Adds a share whose gradients have @unit bytes; 0 counts as 1. */
void gradient_share_join(struct gradient_share *s, struct gradient_budget *b, uint64_t unit);
/* Reserves room for @count gradients at any time. On an error the share keeps what it had:
 * ERR_RANGE more than the limit, whatever others hold; ERR_EXHAUSTED not now. */
int gradient_share_reserve(struct gradient_share *s, size_t count, struct err *err);
/* Follows a gradient_share_reserve() that succeeded. @fits: the memory for it is there, too;
 * otherwise the reserve becomes again what it was @before. */
void gradient_share_reserved(struct gradient_share *s, bool fits, uint64_t before);
/* Closes a share: it takes no gradient any more, and its waiters are ready. The reserve is free for
 * others, and so is each gradient once it is returned. */
void gradient_share_close(struct gradient_share *s);
/* the share is closed, all gradients are returned, and nobody waits */
void gradient_share_leave(struct gradient_share *s);

/* ---- gradients ---- */

/* Memory for a gradient of @w, which does not wait: 0; or 1: wait, or do without. Errors:
 * ERR_NOT_FOUND closed. */
int gradient_share_take(struct gradient_share *s, struct gradient_waiter *w, struct err *err);
/* Call after gradient_share_take() said 1. The waiter may be ready at once. */
void gradient_share_wait(struct gradient_share *s, struct gradient_waiter *w);
/* Wait no longer, and return what was granted and not fetched. True: it had not been told. */
bool gradient_waiter_cancel(struct gradient_waiter *w);
/* A gradient that was taken is not needed any more. */
void gradient_share_return(struct gradient_share *s);
/* As gradient_share_return(), for a gradient for which there was no memory beyond the reserve: the
 * share makes do with what it has until its reserve changes. False: the share has nothing to wait
 * for. */
bool gradient_share_refused(struct gradient_share *s);

/* Takes memory out of the common part for something else than gradients, unless a waiter needs it.
 */
bool gradient_budget_lend(struct gradient_budget *b, uint64_t bytes);
void gradient_budget_take_back(struct gradient_budget *b, uint64_t bytes);

/* ---- what is allocated ----
 *
 * Memory that was used stays allocated to be used again, while all of it together is no more than
 * the limit. The caller counts in `allocated` what it allocates and frees. */

/* So many bytes more than the limit: unused memory is to be freed. */
uint64_t gradient_budget_surplus(const struct gradient_budget *b);
bool gradient_budget_has_room(const struct gradient_budget *b, uint64_t bytes); /* to stay */
/* The number of unused buffers of @s to free at most, out of the surplus: no share gets below its
 * reserve, or what it holds. Of a closed share all. */
size_t gradient_share_spare(const struct gradient_share *s);
void gradient_share_made(struct gradient_share *s); /* memory for one gradient is to be allocated */
void gradient_share_freed(struct gradient_share *s, size_t buffers);

#endif
