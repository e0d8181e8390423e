/* SPDX-License-Identifier: Apache-2.0 */
/* A stream of exchanges at the server: what the files that read, answer and end it share. */
#ifndef GRADUS_PS_RPC_PS_STREAM_H
#define GRADUS_PS_RPC_PS_STREAM_H

#include "ps/rpc/ps_shell.h"
#include "ps/data/ranges.h"

#define INCOMING_MAX 64 /* exchanges of one stream whose chunks arrive at the same time */

/* An exchange whose chunks have not all come. */
struct incoming {
    uint64_t exchange;
    struct ps_request *request; /* NULL: it was refused, and its chunks are skipped */
    struct buffer *buffer;      /* NULL: no values */
    uint64_t arrived, total;    /* elements */
    struct ranges taken;        /* of `buffer` */
    enum value_type type;
    /* it brings a push, be it of rows alone, and needs a buffer */
    bool gradient;
    bool keys;                             /* its values are keys of rows */
    struct tables_gradient *tables;        /* what the push brings of tables; NULL: nothing */
    uint64_t tables_arrived, tables_total; /* bytes: of a push, and then of keys of rows */
};

/* One reference for the call, until it is over, and one for each request. */
struct ps_stream {
    atomic_uint refs;
    struct ps *ps;
    struct rpc_call *call;
    bool near; /* a worker on this host, as far as its address tells */

    /* Of the call's callbacks. */
    struct ps_shard *shard; /* NULL until the first exchange */
    /* the worker that the first exchange named; with a secret all others must name it, too */
    char worker[SHARD_WORKER_BYTES + 1];
    struct incoming incoming[INCOMING_MAX];
    size_t incoming_count;
    struct gradient_wait waiter; /* waits for the memory of a gradient; keeps a reference */
    /* NULL: the client offered none that can be opened. Set once, before requests that name it: for
     * values, and for rows. */
    struct ps_shared_memory *shared_memory, *tables_memory;

    /* Used on the shard's strand. */
    struct ps_stream *next, **link; /* in the list of the shard's streams; NULL: not in it */
    struct strand_task begun;
    struct ps_request *waiting;
    bool half_closed;
    struct strand_task half_close;
    struct strand_task gone;
};

/* The call's callbacks: its shard is found; it ends when that is closed. */
void ps_stream_begin(struct ps_stream *s);
/* On the strand: it is in the list of its shard's streams no more. */
void ps_stream_unlink(struct ps_stream *s);
/* An exchange is over (on_exchange.c): give back what it holds. The last one takes its place. */
void ps_stream_remove(struct ps_stream *s, struct incoming *in);
/* Any thread may send: @exchange is refused, and why. */
void ps_answer_refuse(struct rpc_call *call, uint64_t exchange, uint64_t generation,
                      uint64_t version, const struct err *err);
/* On the strand: answers a request of a stream (ps_answer.c). */
void ps_answer(struct ps_request *r, const struct shard_action *a, const struct err *err);

/* ---- memory that its client shares (ps_shared_memory.c) ---- */

/* The server opens memory, and @call comes through the local socket, which only processes of the
 * same user can reach. A client from the network has no business with the memory of processes here:
 * it could name memory of others. */
bool ps_shared_memory_may_open(const struct ps *ps, struct rpc_call *call);
/* Shared memory with one reference; borrows @s until the stream and all gradients have ended.
 * @rows: for rows, in blocks as large as the client likes; else each block has all elements of the
 * shard. NULL: the offer cannot be opened, or is not what it says. */
struct ps_shared_memory *ps_shared_memory_open(struct ps_shard *s, bool rows,
                                               const Gradus__V1__SharedMemory *offer);
void ps_shared_memory_unref(struct ps_shared_memory *w); /* NULL is fine */
struct shared_notes_memory *ps_shared_memory_notes(const struct ps_shared_memory *w);
/* Gradient block @number, from 1, as a buffer, once there is room for it; 1: wait for that. @w may
 * be NULL. Errors: ERR_INVALID it is not open, or in use; those of gradient_pool_get(). */
int ps_shared_memory_gradient(struct ps_shared_memory *w, uint32_t number,
                              struct gradient_wait *waiter, struct buffer **out, struct err *err);
/* Gives a block back to the client without using it. */
void ps_shared_memory_decline(struct ps_shared_memory *w, uint32_t number);
bool ps_shared_memory_has_values(const struct ps_shared_memory *w, uint32_t number);
/* Elements [first, end) of @values into value block @number. */
void ps_shared_memory_fill(struct ps_shared_memory *w, uint32_t number, const float *values,
                           uint64_t first, uint64_t end);

/* Of memory for rows: hold the first @bytes of gradient block @number, which the client may write
 * to all the same; then give it back, or leave it to ps_shared_memory_decline(). @w may be NULL.
 * Errors: ERR_INVALID it is not open, in use, or shorter. */
int ps_shared_memory_hold(struct ps_shared_memory *w, uint32_t number, uint64_t bytes,
                          const unsigned char **out, struct err *err);
void ps_shared_memory_give(struct ps_shared_memory *w, uint32_t number);
void ps_shared_memory_leave(struct ps_shared_memory *w, uint32_t number);
/* Value block @number, for @floats; then they are there. NULL: it is not open, or shorter. */
float *ps_shared_memory_rows(struct ps_shared_memory *w, uint32_t number, uint64_t floats);
void ps_shared_memory_filled(struct ps_shared_memory *w, uint32_t number, uint64_t floats);

#endif
