/* SPDX-License-Identifier: Apache-2.0 */
/* The memory for gradients of a server, within the budget of gradient_budget.h, which decides who
 * gets some and who waits. Here are its lock, the buffers, and the threads that tell who waited.
 *
 * A gradient in memory that its worker shares (ps_shared_memory.c) takes as much room as any other.
 * Pages of such memory stay mapped after their use, because touching them anew costs time; what
 * they fill counts as buffers do that lie about, and they leave this process when somebody needs
 * the room.
 *
 * Any thread may call everything.
 *
 * A gradient in messages is decoded into its buffer chunk by chunk, while the rest arrives
 * (decision 36), and counts from its first chunk on. Nothing of it may be applied before all is
 * there: a stream that breaks must leave no trace. The slices of gRPC are the wrong place to keep
 * it meanwhile: they begin and end anywhere in a value, are mostly not aligned, and are cut from
 * memory that nobody counts. */
#ifndef GRADUS_PS_DATA_GRADIENT_MEMORY_H
#define GRADUS_PS_DATA_GRADIENT_MEMORY_H

#include "execution/pool.h"
#include "metrics/meter.h"
#include "ps/core/gradient_budget.h"
#include "ps/data/buffer.h"

struct gradient_memory {
    pthread_mutex_t lock; /* guards everything here, and shares and waiters */
    struct gradient_budget budget;
    struct gradient_view *views, **view_end; /* views that may be used again, the oldest first */
    bool telling;                            /* a task that tells who waited is on its way */
    struct pool *pool;                       /* on which waiters are told */
    struct meter *bytes, *waits, *wait_seconds, *mapped;
    uint64_t bytes_shown;
};

/* Memory of another process that this one may map; not copied. */
struct gradient_view {
    uint64_t bytes; /* bytes that may have been touched */
    /* Lets its pages go; their content stays in the memory that is shared. Under the lock. */
    void (*drop)(struct gradient_view *v);
    /* in the list of views that may be used again; link NULL: not in it */
    struct gradient_view *next, **link;
};

/* The gradients of one shard: its share of the budget, and the buffers. */
struct gradient_pool {
    struct gradient_share share; /* the first member */
    struct gradient_memory *memory;
    struct buffer_pool buffers;
};

/* Zeroed but for `ready` at first; part of who waits. */
struct gradient_wait {
    struct gradient_waiter waiter; /* the first member */
    /* Called on a thread of the pool, without a lock: gradient_pool_get() will say something else
     * than 1. The waiter stays alive until this returns, or gradient_wait_cancel() said that it
     * will not be called. */
    void (*ready)(struct gradient_wait *w);
    uint64_t since_ns; /* 0: it does not wait any more */
};

/* @pool and @meters are borrowed; @bytes_max 0: as much as the shares' budget has. */
void gradient_memory_init(struct gradient_memory *m, uint64_t bytes_max, struct pool *pool,
                          struct meter_registry *r);
void gradient_memory_release(struct gradient_memory *m); /* every pool has left */

/* Adds a pool whose gradients have @floats floats, on @budget; a gradient of a shard with tables
 * alone counts as one float. */
void gradient_pool_join(struct gradient_pool *p, struct gradient_memory *m, uint64_t floats,
                        struct budget *budget);
/* Reserves room for @count gradients at any time. On an error the pool keeps what it had:
 * ERR_RANGE: more than the limit, whatever others hold; ERR_EXHAUSTED: not now, or the budget. */
int gradient_pool_reserve(struct gradient_pool *p, size_t count, struct err *err);
size_t gradient_pool_reserved(const struct gradient_pool *p); /* so many */
/* Closes a pool: it gives out no gradient any more, and its waiters are told. The reserve is free
 * for others, and so is the memory of each buffer once it is back. */
void gradient_pool_close(struct gradient_pool *p);
/* Call when every buffer is back and nobody waits; zeroed is fine. */
void gradient_pool_leave(struct gradient_pool *p);

/* A gradient's buffer for @w, which does not wait: 0; or 1: wait, or do without. Errors:
 * ERR_NOT_FOUND closed; ERR_EXHAUSTED no memory. */
int gradient_pool_get(struct gradient_pool *p, struct gradient_wait *w, struct buffer **out,
                      struct err *err);
/* gradient_pool_get() for a gradient that lies in @v, which nobody uses yet. */
int gradient_pool_enter(struct gradient_pool *p, struct gradient_wait *w, struct gradient_view *v,
                        struct err *err);
void gradient_pool_exit(struct gradient_pool *p, struct gradient_view *v);
/* Call after gradient_pool_get() or gradient_pool_enter() said 1: w->ready will be called, maybe
 * before this returns. */
void gradient_pool_wait(struct gradient_pool *p, struct gradient_wait *w);
/* Ends the waiting, and returns what was granted and not fetched. True: w->ready was due and will
 * not be called. */
bool gradient_wait_cancel(struct gradient_wait *w);

/* Pages of the first @bytes of @v, which may be more than v->bytes, were touched for something else
 * than a gradient: they stay while there is room. */
void gradient_view_touched(struct gradient_memory *m, struct gradient_view *v, uint64_t bytes);
void gradient_view_forget(struct gradient_memory *m, struct gradient_view *v); /* then unmap it */

/* Takes memory out of the common part for something else than gradients, unless a waiter needs it.
 */
bool gradient_memory_lend(struct gradient_memory *m, uint64_t bytes);
void gradient_memory_take_back(struct gradient_memory *m, uint64_t bytes);

#endif
