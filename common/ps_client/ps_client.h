/* SPDX-License-Identifier: Apache-2.0 */
/* The client of the data plane: one Exchange stream per shard of a job.
 *
 * Gradients leave straight from the caller's arrays (in 16 bits: from copies, which are used again)
 * and parameters land straight in them, in chunks; the plan says which part of which variable lies
 * where in a shard. What a server answers is checked against what it was asked: whatever cannot be
 * right is ERR_INTERNAL.
 *
 * It knows nothing of who uses it: a request says what is asked, and which arrays it is about.
 *
 * Owner: one thread, that of the loop, calls everything; answers come through `answered` on the
 * same thread, because the client posts them to the loop. options.exchanges_max are open at once
 * per shard; more are answered with ERR_EXHAUSTED. A broken stream answers its open exchanges with
 * ERR_UNAVAILABLE and is opened again by the next exchange. So are exchanges with a shard that has
 * no place yet.
 *
 * A gradient may leave while it is computed (decision 33): its pushes are begun before it is made
 * (ps_client_begin()), and the values of the last layers, which backward makes first, are sent
 * first. A large kernel of a dense layer is made in blocks of rows, which depend on the layer's
 * shape alone, so the bits do not depend on who listens. Parts below 512 KiB wait for more, since
 * each message wakes both sides. A gradient goes whole when it is summed first, when its step may
 * be over before it arrives, when it follows one that is still on its way, or when it passes in
 * memory or in 16 bits.
 *
 * A computation may begin while its parameters arrive (decision 34): the first message of an answer
 * says everything but the rest of its values. The forward pass waits for a variable before it first
 * reads it; pushes begin in the backward pass, when all parameters are there. So a computation
 * whose parameters do not all come is given up as if it had not begun: nothing of it was sent or
 * counted, and the same batch is computed again from parameters that are pulled anew. The thread
 * waits for one message a second at most, or four times as long as for the message before, ten
 * seconds at most: meanwhile it hears of nothing else. This is done for answers in messages to the
 * push before, in sync that waits for all replicas without rounds of sums, and in async and bounded
 * modes without overlap. */
#ifndef GRADUS_PS_CLIENT_PS_CLIENT_H
#define GRADUS_PS_CLIENT_PS_CLIENT_H

#include "base/err.h"
#include "execution/loop.h"
#include "job/plan/plan.h"
#include "job/progress/exchange.h"
#include "tensor/half.h"
#include "trace/trace.h"

#define PS_CLIENT_SHARED_MEMORY_FROM_BYTES                                                         \
    (32U << 10)                          /* a smaller shard is as fast in a message                \
                                          */
#define PS_CLIENT_CHUNK_BYTES (2U << 20) /* a tenth less CPU than 1 MiB; 4 MiB is as good */
/* Of an unfinished gradient, less than this is not sent before the end, and less than this of an
 * answer is waited for: each message wakes both sides, which takes as long as so many bytes. */
#define PS_CLIENT_PART_BYTES_MIN (512U << 10)
/* How long the job's thread waits for the next message of an answer that has begun: four times as
 * long as for the message before, within these bounds. Meanwhile it hears of nothing. */
#define PS_CLIENT_STALL_MS_MIN 1000
#define PS_CLIENT_STALL_MS_MAX 10000
#define PS_CLIENT_STALL_LOOKS 10 /* in that time */

struct ps_client;

/* Rows of tables that lie on one shard; keys and counts may change when the call returns. */
struct ps_client_rows {
    const uint32_t *counts; /* [options.tables] keys of each table */
    const uint64_t *keys;   /* [count] table after table, rising in each */
    uint64_t count;
    float *values;   /* [floats] where the rows are put, in the order of the keys */
    uint64_t floats; /* of all rows together */
};

/* One exchange with one shard; all borrowed for the call but the arrays of values. */
struct ps_client_request {
    uint64_t exchange; /* its number: no other open exchange with the shard has it */
    uint32_t shard;
    uint64_t generation;
    struct exchange_request ask;
    float *values;         /* the flat array to pull into; NULL without a pull */
    bool early;            /* it may be answered before all values are there */
    const float *gradient; /* the flat array to push from; NULL: no values. It must not change
                              before ps_client_wait_sent() */
    uint32_t gradient_id;  /* the caller's number of that array, below options.gradients_max */
    const double *norms;   /* of the gradient */
    size_t norm_count;
    const void *tables; /* what a push brings of the job's tables (table/table_gradient.h), one
                           behind the other, with values of ps_client_push_type() */
    uint64_t tables_bytes;
    struct ps_client_rows rows; /* EXCHANGE_ROWS; with a pull: rows that come with it (count 0:
                                   none) */
};

struct ps_answer {
    uint64_t exchange;
    uint32_t shard;
    int code; /* 0 or ERR_*; with an error only `message` counts */
    char message[256];
    uint64_t begun_ns, sent_ns;     /* sending, by chrono_now_ns(); 0: it was refused at once */
    uint32_t waited_us, applied_us; /* of this time, at the shard */
    uint64_t version;
    bool partial;                  /* the rest of the values is still coming */
    bool rows;                     /* the rows that were to come with a pull have come */
    bool batches;                  /* it answers a push of batches (async, bounded) */
    struct exchange_answer answer; /* checked against what was asked; its kind also with an error;
                                      its bytes are borrowed for the call */
};

/* Initial values for one shard: elements [first, first + count) of it. */
struct ps_client_given {
    uint32_t shard;
    uint64_t generation;
    const float *values; /* the flat array of all values; read before the call returns */
    uint64_t first, count;
};
/* How far the shard is filled; or why nobody knows, and `message` says what is wrong. */
struct ps_client_filled {
    uint32_t shard;
    int code;
    char message[ERR_MESSAGE_BYTES];
    uint64_t filled;
};

struct ps_client_options {
    const char *job, *worker;
    const struct plan *plan;          /* borrows */
    const uint64_t *variable_offsets; /* [variables] of each in the flat arrays; borrows */
    size_t message_bytes_max;
    size_t exchanges_max;                  /* open at once with one shard */
    uint32_t gradients_max;                /* arrays that are pushed from */
    uint32_t tables;                       /* of the job */
    enum value_type gradients, parameters; /* how they travel; pinned versions travel as fp32, and
                                              so do sums of several replicas */
    const struct rpc_credentials *credentials; /* for TCP; borrows; NULL: plain */
    const uint8_t *secret; /* of the job, FENCE_SECRET_BYTES, for the keys of its shards
                              (shard_key.h); NULL: none */
    /* Servers on this host are reached through their sockets there (local_socket.h) when they have
     * any; NULL: always by TCP. Borrows. */
    const char *local_sockets;
    bool
        shared_memory; /* and values are handed over in memory where that is so (shared_memory.h) */
    struct trace *trace; /* gets TRACE_RECEIVE while it is on; borrows; NULL: none */
    struct loop *loop;   /* borrows; gets one message per shard at a time. With @polling the client
                            is told while it is idle (loop_set_idle) */
    struct rpc_polling *polling; /* the loop's thread may poll for answers; borrows; NULL: never */
    void (*answered)(void *ctx, const struct ps_answer *answer);
    /* Called with answers to ps_client_fill(), on the loop; NULL: nobody asks. */
    void (*filled)(void *ctx, const struct ps_client_filled *answer);
    void *ctx;
};

/* Errors: those of rpc_loop_new(). */
int ps_client_new(const struct ps_client_options *options, struct ps_client **out, struct err *err);
/* Where a shard is. */
struct ps_client_place {
    const char *address;
    uint64_t opening; /* with which the shard was opened there (job/fence.h) */
};
/* Sets the place of a shard: if it is a new one, open exchanges are answered with ERR_UNAVAILABLE
 * and the next one connects anew. Not between ps_client_begin() and ps_client_made_all(). Errors:
 * ERR_INVALID the address: the shard has no place then. */
int ps_client_place(struct ps_client *c, uint32_t shard, const struct ps_client_place *place,
                    struct err *err);
/* Any thread: ends what is under way and refuses what comes, so that the job's thread is not kept
 * waiting by a server that takes or sends nothing. */
void ps_client_cancel(struct ps_client *c);
/* Cancel everything and wait until no thread posts to the loop or reads a gradient any more. */
void ps_client_close(struct ps_client *c);
/* After ps_client_close() and after the loop was freed: its discarded messages point in here. NULL
 * is fine. */
void ps_client_free(struct ps_client *c);
/* How the gradient of @push travels: as options.gradients; as fp32, if it is a sum of replicas. */
enum value_type ps_client_push_type(const struct ps_client *c, const struct exchange_push *push);
/* The job's thread is about to compute: exchanges go on meanwhile. */
void ps_client_busy(struct ps_client *c);
/* Begin an exchange. Failures are answered, not returned. */
void ps_client_exchange(struct ps_client *c, const struct ps_client_request *request);
/* ps_client_exchange() with a gradient that is not made yet: it leaves as it is made, from its end
 * on. One with each shard, and nothing else is asked of the client until ps_client_made_all().
 * False: the shard has one already, or there is no gradient; nothing happened. */
bool ps_client_begin(struct ps_client *c, const struct ps_client_request *request);
/* Elements [first, first + count) of @variable are made, in the gradient of all that are begun. */
void ps_client_made(struct ps_client *c, size_t variable, uint64_t first, uint64_t count);
/* All of it is. */
void ps_client_made_all(struct ps_client *c);
/* Wait until nothing is sent from that gradient any more. */
void ps_client_wait_sent(struct ps_client *c, uint32_t gradient_id);
/* True if @variable is there. An exchange with `early` may be answered when the first variable has
 * come, if the rest is much: the rest goes on landing in the array, until another exchange pulls
 * into it. */
bool ps_client_has_values(struct ps_client *c, const float *values, size_t variable);
/* Waits until @variable is there. Errors: ERR_UNAVAILABLE the rest does not come, or nothing came
 * for a while: the array is to be pulled anew. */
int ps_client_wait_values(struct ps_client *c, const float *values, size_t variable,
                          struct err *err);

/* ---- rows of tables (ps_client_rows.c) ---- */

/* Begin to read rows: an exchange of EXCHANGE_ROWS, which is not answered by `answered`. One with
 * each shard at a time. */
void ps_client_rows_begin(struct ps_client *c, const struct ps_client_request *request);
/* Waits until all rows that were asked for are there. Errors: those of the shards, of several
 * ERR_RANGE first; ERR_UNAVAILABLE a stream broke, or nothing came for PS_CLIENT_STALL_MS_MAX.
 * Nothing is written to the arrays any more when this returns. */
int ps_client_rows_wait(struct ps_client *c, struct err *err);

/* ---- initial values (ps_client_fill.c) ---- */

/* Sends initial values to their shard; with none it only asks how far the shard is filled. `filled`
 * is called with the answer; until then nothing else is asked so of that shard. Errors:
 * ERR_UNAVAILABLE, and it is not called. */
int ps_client_fill(struct ps_client *c, const struct ps_client_given *given, struct err *err);

#endif
