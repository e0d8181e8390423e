/* SPDX-License-Identifier: Apache-2.0 */
/* The only header that includes gRPC's: what the server and the client side share. */
#ifndef GRADUS_RPC_RPC_GRPC_H
#define GRADUS_RPC_RPC_GRPC_H

#include <pthread.h>
#include <stddef.h>

#include <grpc/byte_buffer.h>
#include <grpc/compression.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/slice.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>

#include "base/buf.h"
#include "rpc/rpc.h"
#include "rpc/rpc_codec.h"

#define RPC_MESSAGE_BYTES_DEFAULT ((size_t)64 << 20)
#define RPC_SEND_FACTOR 4 /* default send queue, in largest messages */
#define RPC_KEEPALIVE_MS_DEFAULT 10000
#define RPC_KEEPALIVE_TIMEOUT_MS 5000

/* ---- log ---- */

/* Writes the log lines of gRPC on this thread into @out (cut, terminated) instead of the log, until
 * called with NULL. */
void rpc_log_capture(char *out, size_t n);

/* ---- completion queues ---- */

/* What a completion queue gives back: the code to run. Embedded in the owner of the operation. */
struct rpc_tag {
    void (*run)(struct rpc_tag *tag, bool ok);
};

/* The struct that @tag is the @member of. */
#define RPC_OWNER(tag, type, member) ((type *)(void *)((char *)(tag)-offsetof(type, member)))

/* Start a batch; a batch that gRPC refuses cancels the call and completes at once, failed. */
void rpc_batch_start(grpc_call *call, const grpc_op *ops, size_t count, struct rpc_tag *tag);

/* For ThreadSanitizer, which does not see into gRPC: a tag carries what was written before it was
 * handed over to the thread that gets it back. */
void rpc_tag_release(struct rpc_tag *tag);
void rpc_tag_acquire(struct rpc_tag *tag);

/* A completion queue and the thread that runs its tags. */
struct rpc_poller {
    grpc_completion_queue *cq;
    struct rpc_polling *polling; /* borrows; NULL: it never polls */
    pthread_t thread;
    bool started;
};

/* A thread named "rpc" that takes no signals. Returns an errno. */
int rpc_thread_start(pthread_t *thread, void *(*run)(void *arg), void *arg);

int rpc_poller_start(struct rpc_poller *p, struct rpc_polling *polling, struct err *err);
/* Every operation must have been completed or be sure to complete. */
void rpc_poller_stop(struct rpc_poller *p);

gpr_timespec rpc_deadline(unsigned timeout_ms); /* 0: never */
gpr_timespec rpc_monotonic_ms(unsigned from_now_ms);

/* ---- messages ---- */

/* The wire form of @msg with @blob as its bulk field. Takes @blob (may be NULL) in any case.
 * Returns owned, or NULL. Errors: ERR_EXHAUSTED over @bytes_max; ERR_INVALID a blob without a bulk
 * field, or @msg is not of @type. */
grpc_byte_buffer *rpc_buffer_encode(const ProtobufCMessageDescriptor *type,
                                    const ProtobufCMessage *msg, uint32_t bulk_field,
                                    const struct rpc_blob *blob, size_t bytes_max, struct err *err);
/* Takes @buffer. As rpc_msg_decode(). */
struct rpc_msg *rpc_buffer_decode(const struct rpc_decoding *how, grpc_byte_buffer *buffer,
                                  struct err *err);
void rpc_blob_release(const struct rpc_blob *blob); /* NULL is fine */

/* ---- queue of outgoing messages ---- */

struct rpc_queued {
    struct rpc_queued *next;
    grpc_byte_buffer *buffer;
    size_t bytes;
};

/* Not locked. Who pops a message subtracts its bytes when it has left. */
struct rpc_queue {
    struct rpc_queued *head;
    struct rpc_queued *tail;
    size_t bytes;
    size_t bytes_max;
};

/* Takes @buffer. False when full; an empty queue takes any message. */
bool rpc_queue_push(struct rpc_queue *q, grpc_byte_buffer *buffer);
struct rpc_queued *rpc_queue_pop(struct rpc_queue *q); /* NULL when empty */
/* Empty @q and return what was queued, to be freed by rpc_queued_free() without a lock: freeing a
 * message may run the release function of a blob. */
struct rpc_queued *rpc_queue_clear(struct rpc_queue *q);
void rpc_queued_free(struct rpc_queued *list);

/* ---- metadata ---- */

#define RPC_AUTHORIZATION_KEY "authorization"

/* Errors: ERR_INVALID for a key or value that HTTP/2 cannot carry. */
int rpc_header_check(const char *key, const char *value, struct err *err);
/* The value of @key, or NULL. */
const grpc_metadata *rpc_header_find(const grpc_metadata_array *array, const char *key);
/* Takes the slice; a terminated copy; returns owned. */
char *rpc_slice_to_str(grpc_slice slice);

/* "host:port" (gRPC takes 99999 for another port), where an address of IPv6 stands in brackets, and
 * "unix:/path" are allowed. Errors: ERR_INVALID naming @address. */
int rpc_address_check(const char *address, struct err *err);
/* @address as gRPC takes it: a URL, so that of "unix:/path" all but letters, digits and "/-._~" is
 * written as %XX. Returns owned. */
char *rpc_address_url(const char *address);

/* ---- channel arguments ---- */

#define RPC_ARGS_MAX 24

struct rpc_args {
    grpc_arg arg[RPC_ARGS_MAX];
    size_t count;
};

void rpc_args_add(struct rpc_args *args, const char *key, int value);
void rpc_args_add_text(struct rpc_args *args, const char *key, const char *value); /* borrows */
/* What servers and channels have in common: message size, probes, keepalive.
 *
 * Probes of the bandwidth (decision 35): a connection keeps a window of 64 KiB until the core's
 * probes, pings behind data, say otherwise. Without them each longer message waits for a round trip
 * in its middle: 1.8 times the time of an exchange of 64 KiB over a link with 0.2 ms. Idle
 * connections are looked after each second, since the answer to a keepalive ping may take five. */
void rpc_args_common(struct rpc_args *args, size_t message_bytes_max, unsigned keepalive_ms);

/* ---- credentials ---- */

/* May a channel to @target say what @c has to say? Errors: ERR_INVALID. */
int rpc_credentials_check(const struct rpc_credentials *c, const char *target, struct err *err);
/* Append the value of the header `authorization` for a call on a channel to @target; false: there
 * is none. */
bool rpc_credentials_authorize(const struct rpc_credentials *c, const char *target,
                               struct buf *out);
/* A channel to @target, with what @c says (NULL: plain) in addition to @args. Returns owned. */
grpc_channel *rpc_credentials_channel(const struct rpc_credentials *c, const char *target,
                                      struct rpc_args *args);
/* Credentials for a server's @address. Returns owned. */
grpc_server_credentials *rpc_credentials_server(const struct rpc_credentials *c,
                                                const char *address);

/* The argument that widens the send buffers of Unix-domain sockets; false: this core takes none. */
bool rpc_socket_argument(grpc_arg *arg);

/* rpc_locks.c */
void rpc_locks_unwatched(void); /* before gRPC takes its first lock */

#endif
