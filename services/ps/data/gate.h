/* SPDX-License-Identifier: Apache-2.0 */
/* The gate: how many bytes of gradients that are not applied yet a server holds.
 *
 * A gradient takes its memory here before its first value is received. A share (of one shard) has a
 * reserve, which nobody else gets: as many gradients as the shard must hold to go on whatever comes
 * in whatever order. What the limit leaves besides is for all, first come, first served. Who gets
 * nothing waits, and its stream is read no further meanwhile. So a shard never waits for another
 * one, and within a shard one gradient more always finds room once those that come in are complete.
 *
 * A gradient in memory that its worker shares (ps_windows.c) takes as much room as any other. Pages
 * of such memory stay mapped after their use, because touching them anew costs time; what they fill
 * counts as buffers do that lie about, and they leave this process when somebody needs the room.
 *
 * Any thread may call everything. */
#ifndef GRADUS_PS_DATA_GATE_H
#define GRADUS_PS_DATA_GATE_H

#include "metrics/meter.h"
#include "ps/data/buffer.h"
#include "execution/pool.h"

struct gate {
    pthread_mutex_t lock; /* guards everything here, and shares and waiters */
    uint64_t bytes_max;   /* 0: no limit but the budget's */
    uint64_t held;        /* by gradients */
    uint64_t promised;  /* of each share the reserve, or what it holds, if that is more; and lent */
    uint64_t allocated; /* held, or to be used again, or lent */
    struct gate_view *views, **view_end; /* to be used again, the oldest first */
    struct gate_share *shares;
    struct gate_waiter *first, **end;       /* who waits, in the order in which they came */
    struct gate_waiter *ready, **ready_end; /* who waits no longer and has not been told */
    bool telling;                           /* a task that tells them is on its way */
    struct pool *pool;                      /* where they are told */
    struct meter *bytes, *waits, *wait_seconds, *mapped;
};

/* Memory of another process that this one may map; not copied. */
struct gate_view {
    uint64_t bytes; /* no more than a gradient's */
    /* Let its pages go; what they hold stays. Under the gate's lock. */
    void (*drop)(struct gate_view *v);
    struct gate_view *next, **link; /* of those to be used again; link NULL: not one of them */
};

struct gate_share {
    struct gate *gate;
    struct gate_share *next, **link;
    struct buffer_pool pool;
    uint64_t unit; /* bytes of one gradient */
    uint64_t reserve, held;
    size_t viewed;     /* gradients in views, of those held */
    size_t buffers;    /* of the pool, made or being made */
    uint64_t held_max; /* the budget had no more */
    bool closed;
};

enum gate_state { GATE_IDLE, GATE_WAITS, GATE_READY, GATE_TOLD };

/* Zeroed but for `ready` at first; part of who waits. */
struct gate_waiter {
    /* On a thread of the pool, without a lock: gate_get() will say something else than 1. Whoever
     * waits stays alive until this returns, or gate_cancel() said that it will not be called. */
    void (*ready)(struct gate_waiter *w);
    struct gate_share *share;
    struct gate_waiter *next;
    enum gate_state state;
    bool granted; /* gate_get() has not fetched it yet */
    uint64_t since_ns;
};

/* @pool and @meters are borrowed; @bytes_max 0: as much as the shares' budget has. */
void gate_init(struct gate *g, uint64_t bytes_max, struct pool *pool, struct meter_registry *r);
void gate_release(struct gate *g); /* every share has left */

/* Gradients of @floats floats, on @budget. */
void gate_join(struct gate_share *s, struct gate *g, uint64_t floats, struct budget *budget);
/* Room for @count gradients at any time, on the budget from now on. When it fails the share keeps
 * what it had. Errors: ERR_RANGE: more than the gate's limit, whatever others hold; ERR_EXHAUSTED:
 * not now, or the budget. */
int gate_reserve(struct gate_share *s, size_t count, struct err *err);
/* Nobody gets a gradient any more; who waits hears of it. The reserve is free for others, and so is
 * the memory of each buffer once it is back. */
void gate_close(struct gate_share *s);
void gate_leave(struct gate_share *s); /* every buffer is back, nobody waits; zeroed is fine */

/* A gradient's buffer for @w, which does not wait: 0; or 1: wait, or do without. Errors:
 * ERR_NOT_FOUND closed; ERR_EXHAUSTED no memory. */
int gate_get(struct gate_share *s, struct gate_waiter *w, struct buffer **out, struct err *err);
/* The same for a gradient that lies in @v, which nobody uses yet. */
int gate_enter(struct gate_share *s, struct gate_waiter *w, struct gate_view *v, struct err *err);
void gate_exit(struct gate_share *s, struct gate_view *v);
/* After gate_get() or gate_enter() said 1: w->ready comes, maybe before this returns. */
void gate_wait(struct gate_share *s, struct gate_waiter *w);
/* Wait no longer, and return what was granted and not fetched. True: w->ready was due and will not
 * come. */
bool gate_cancel(struct gate_waiter *w);

/* Pages of @v were touched for something else than a gradient: they stay while there is room. */
void gate_touched(struct gate *g, struct gate_view *v);
void gate_forget(struct gate *g, struct gate_view *v); /* before it is unmapped */

/* Memory for other things than gradients, out of what is common, unless somebody waits for it. */
bool gate_lend(struct gate *g, uint64_t bytes);
void gate_take_back(struct gate *g, uint64_t bytes);

#endif
