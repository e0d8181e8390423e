/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the data plane's client share; nobody else includes it. */
#ifndef GRADUS_PS_CLIENT_PS_CLIENT_STATE_H
#define GRADUS_PS_CLIENT_PS_CLIENT_STATE_H

#include <pthread.h>

#include "auth/shard_key.h"
#include "base/buf.h"
#include "gradus/v1/ps.pb-c.h"
#include "rpc/rpc.h"
#include "host/shared_memory.h"
#include "ps_client/ps_client.h"

#define PS_CLIENT_VALUES_FIELD 15
/* Bytes of a block for rows; only the used part takes memory. Larger requests go in messages. */
#define PS_CLIENT_ROWS_BLOCK_BYTES (64U << 20)

/* One exchange. In the link's list `open` it belongs to the stream's callbacks, in `answered` to
 * the loop; `spare` ones are used again. The lists are under the link's mutex. */
struct pending {
    struct pending *next;
    /* what was asked for, with which the answer is compared */
    float *values; /* NULL: no pull */
    /* blocks of the link's memory in which values and rows are to come; or SHARED_MEMORY_NONE */
    uint32_t block, rows_block;
    enum value_type type;
    struct exchange_request ask; /* its bytes may be gone */
    bool early;                  /* may be answered before all values are there */
    bool rows;                   /* it is for rows of tables: the loop does not tell who waits */
    uint64_t expected;           /* elements of the answer's values */
    float *along;                /* where rows are put that are asked for with a pull; NULL: none */
    uint64_t along_expected;     /* floats of them */
    /* what came */
    bool begun;
    bool tail;     /* it was answered early: these are the rest of the values */
    bool detached; /* of a tail that nobody wants any more */
    uint64_t received, along_received;
    /* Elements that were copied out of `block` before a message said that they are there: the job's
     * thread changes it, under the mutex, unless a message of it is `arriving`. */
    uint64_t copied;
    bool arriving;       /* under the mutex: it belongs to who takes the message in */
    uint64_t message_ns; /* when the last message came */
    struct ps_answer answer;
    uint8_t *decision; /* the answer's decision points here, */
    size_t decision_capacity;
    struct buf sums; /* and its sums here */
};

/* The push that leaves while its gradient is made; the job's thread. */
struct parts {
    bool open;
    bool whole; /* it is sent at the end, as any other */
    bool begun; /* its first message was sent */
    struct ps_client_request request;
    struct pending *pending; /* NULL: whole */
    /* the partition behind the one with the last element that is not made */
    size_t partition;
    uint64_t made, sent; /* elements of the shard from these on */
};

/* The values that are still to come of an answer that was delivered early. */
struct tail {
    /* the array in which the values land; NULL: there is no tail, or all of it came */
    const float *values;
    struct pending *pending; /* NULL: it failed */
    uint64_t landed;         /* elements of the shard, from its first on */
    char message[256];       /* why it failed */
};

struct shard_link {
    struct ps_client *client;
    uint32_t shard;
    const struct partition *partitions;
    size_t partition_count;
    uint64_t *variable_ends;  /* [variables] the elements of the shard up to a variable's last one
                                 there; 0: it has none of it */
    struct rpc_piece *pieces; /* room for one piece of each partition; for the job's thread */
    uint64_t elements;
    char *address; /* NULL: it has no place yet */
    bool near;     /* it is on this host, and the polling knows */
    uint64_t opening;
    char key[SHARD_KEY_BYTES];   /* shown by each stream; "": none */
    struct rpc_channel *channel; /* the job's thread makes, but any thread may cancel: `mutex` */
    /* used by the channel's thread, then by the message that it posts */
    struct ps_client_filled filled;
    bool filling;              /* the job's thread: a part is under way */
    bool local;                /* the channel is a Unix-domain socket */
    struct rpc_stream *stream; /* the job's thread opens and frees */
    struct parts parts;
    /* Memory of the present stream; NULL: none. A server that lost its stream may still write
     * there, so the memory of an old stream is never used again. The job's thread makes and drops
     * it. */
    struct shared_memory *shared_memory;
    struct shared_memory *tables_memory;               /* likewise, for rows */
    bool shared_memory_offered, tables_memory_offered; /* the job's thread */
    pthread_mutex_t mutex;                             /* guards what follows */
    bool shared_memory_open, tables_memory_open;       /* the server has them */
    bool cancelled;                                    /* for good */
    bool broken;                                       /* `done` came: the stream is to be freed */
    struct pending *open, **open_end, *answered, **answered_end; /* oldest first */
    struct pending *spare;
    size_t pending_count; /* open and answered */
    bool posted;          /* a message that delivers the answers is on its way */
    struct tail tail;
    bool landing;          /* a message of a tail is being put in its place */
    uint64_t gap_ns;       /* between the last two messages of an answer */
    pthread_cond_t landed; /* signals a change of any of these */
};

struct ps_client {
    char *job, *worker;
    const struct plan *plan;
    const uint64_t *variable_offsets;
    size_t message_bytes_max;
    size_t exchanges_max;
    uint32_t gradients_max;
    enum value_type gradients, parameters;
    const struct rpc_credentials *credentials;
    uint8_t secret[SHARD_KEY_SECRET_BYTES]; /* zeros: none */
    const char *local_sockets;
    bool shared_memory;
    struct trace *trace;
    struct rpc_loop *rpc_loop;
    struct rpc_polling *polling; /* NULL: nobody polls */
    bool waiting;                /* rpc_loop_wait() was called, rpc_loop_waited() is due */
    struct loop *loop;
    void (*answered)(void *ctx, const struct ps_answer *answer);
    void (*filled)(void *ctx, const struct ps_client_filled *answer);
    void *ctx;
    struct shard_link *links;
    uint32_t link_count;
    uint32_t tables;
    pthread_mutex_t rows_mutex; /* guards what follows */
    pthread_cond_t rows_cond;
    size_t rows_open;      /* exchanges for rows that were begun and are not over */
    uint64_t rows_last_ns; /* when a part of one came last */
    struct err rows_err;   /* of the first that failed; code 0: none */
    pthread_mutex_t sending_mutex;
    pthread_cond_t sending_cond;
    uint64_t *sending;     /* [gradients_max] messages that still refer to that gradient */
    struct staged *staged; /* unused memory for chunks in 16 bits; its messages hold the others */
    size_t staged_out;
};

/* From top to bottom; a file calls only those below it. */

/* ps_client_exchange.c: under way from now on; the job's thread may look at it until it takes the
 * next message. NULL: answered with an error. */
struct pending *ps_client_open(struct shard_link *link, const struct ps_client_request *request);

/* ps_client_link.c, the job's thread */

void ps_client_link_init(struct shard_link *link, struct ps_client *c, uint32_t shard,
                         const struct ps_client_options *o);
/* A channel to the link's address, in place of the one that it has. Errors: of rpc_channel_new().
 */
int ps_client_link_connect(struct shard_link *link, struct err *err);
/* Sees that the link has a stream, and connects anew after a broken one. Errors: ERR_UNAVAILABLE;
 * those of rpc_stream_open(). */
int ps_client_link_open(struct shard_link *link, struct err *err);
/* Closes the stream of a link. When it returns, all open exchanges are answered, and no callback
 * comes any more. */
void ps_client_link_leave(struct shard_link *link);
void ps_client_link_close(struct shard_link *link); /* for good; its memory stays */
/* Called after the stream's last callback, so the blocks of its memory may be freed. */
void ps_client_link_drop_memory(struct shard_link *link);
void ps_client_link_release(struct shard_link *link); /* after the loop was freed */

/* ps_client_answer.c */

extern const struct rpc_stream_events ps_client_events; /* the context is the link */

/* ps_client_send.c, the job's thread */

/* The blocks in which pulled values and rows are to come; SHARED_MEMORY_NONE: in messages. */
struct ps_client_blocks {
    uint32_t values, rows;
};

/* Queue all messages of an exchange. Errors: of rpc_stream_send() and of waiting for room; the
 * stream may hold half a request then. */
int ps_client_send(struct shard_link *link, const struct ps_client_request *r,
                   const struct ps_client_blocks *blocks, struct err *err);
/* Sends elements [first, end) of link->parts, at most one chunk. Unless @waits: ERR_EXHAUSTED, and
 * nothing happened, when there is no room. */
int ps_client_send_part(struct shard_link *link, uint64_t first, uint64_t end, bool waits,
                        struct err *err);
/* gRPC may hold a slice a little longer than the call that it belonged to. */
void ps_client_wait_all_sent(struct ps_client *c);
void ps_client_staged_release(struct ps_client *c);

/* ps_client_tables.c, the job's thread */

/* The keys of a request for rows, behind what @message says. */
int ps_client_send_keys(struct shard_link *link, Gradus__V1__ExchangeRequest *message,
                        const struct ps_client_request *r, struct err *err);
/* Puts what a push brings of tables, and the keys of the rows that come with pulled values, into a
 * block that the first message, @message, names (false: there is none), or into messages behind it.
 */
bool ps_client_fill_tables(struct shard_link *link, const struct ps_client_request *r,
                           Gradus__V1__ExchangeRequest *message);
int ps_client_send_tables(struct shard_link *link, Gradus__V1__ExchangeRequest *message,
                          const struct ps_client_request *r, struct err *err);

/* ps_client_message.c, the job's thread */

/* Sends one message, when there is room for it; it may have what only the first message of an
 * exchange says. */
int ps_client_send_one(struct shard_link *link, const Gradus__V1__ExchangeRequest *message,
                       const struct rpc_blob *blob, struct err *err);
/* Removes what only the first message of an exchange says. */
void ps_client_strip(Gradus__V1__ExchangeRequest *message);
/* Waits until the stream has room. Errors: of rpc_stream_wait_writable(). */
int ps_client_wait_writable(struct shard_link *link, struct err *err);

/* ps_client_early.c, under the link's mutex: more is to come after this message of @p. Answers it
 * now, if that may be and helps; the message that follows finds the tail. True: ps_client_deliver()
 * is due. */
bool ps_client_tail_begin(struct shard_link *link, struct pending *p);

/* ps_client_pending.c */

/* The job's thread: what an answer will be checked against. NULL when too many are open. */
struct pending *ps_client_pending_take(struct shard_link *link,
                                       const struct ps_client_request *request);
/* Under the link's mutex, as the next two: the open exchange of this number, or NULL. */
struct pending *ps_client_pending_find(struct shard_link *link, uint64_t exchange);
/* End an open exchange, well. True: ps_client_deliver() is due. */
bool ps_client_answer(struct shard_link *link, struct pending *p);
/* The same, with an error. */
bool ps_client_answer_error(struct shard_link *link, struct pending *p, int code,
                            const char *message);
/* Without the mutex: makes the loop deliver answers. */
void ps_client_deliver(struct shard_link *link);
void ps_client_pending_release(struct shard_link *link); /* after the loop was freed */

/* ps_client_tail.c, under the link's mutex */

void ps_client_tail_init(struct shard_link *link);
void ps_client_tail_release(struct shard_link *link);
/* A message of a tail was put in its place. */
void ps_client_tail_landed(struct shard_link *link, const struct pending *p);
/* Ends @p, which is out of the list: all of it came, or p->answer says why not. */
void ps_client_tail_end(struct shard_link *link, struct pending *p);
/* Something else is to land in @values: from now on nothing of a tail does. The job's thread. */
void ps_client_tail_detach(struct shard_link *link, const float *values);
/* How long to wait for the next message of an answer when the last one came @gap_ns after the one
 * before it. */
uint64_t ps_client_patience_ns(uint64_t gap_ns);

/* ps_client_rows_open.c */

void ps_client_rows_init(struct ps_client *c);
void ps_client_rows_release(struct ps_client *c);
/* Any thread, also under a link's mutex: some rows came; an exchange for rows is over, with @code.
 */
void ps_client_rows_came(struct ps_client *c);
void ps_client_rows_over(struct ps_client *c, int code, const char *message);

/* ps_client_poll.c; the job's thread */

void ps_client_poll_begin(struct ps_client *c);
void ps_client_poll_end(struct ps_client *c);
/* Before it waits for something that a callback brings: they run on their own thread again. */
void ps_client_stop_polling(struct ps_client *c);

/* ps_client_values.c */

/* The pieces of the flat array @values that make up elements [first, first + count) of the shard;
 * returns how many. */
size_t ps_client_gather(const struct shard_link *link, uint64_t first, uint64_t count,
                        const float *values, struct rpc_piece *pieces);
/* Copy elements [first, first + count) of the shard to where they belong in @values: from @spans,
 * or from @block, which has them all. False: @spans end before. */
bool ps_client_scatter(const struct shard_link *link, uint64_t first, uint64_t count,
                       struct rpc_spans *spans, enum value_type type, const float *block,
                       float *values);
/* The type in which the answer to @ask travels. */
enum value_type ps_client_pull_type(const struct ps_client *c, const struct exchange_request *ask);

#endif
