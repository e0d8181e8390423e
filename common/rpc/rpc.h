/* SPDX-License-Identifier: Apache-2.0 */
/* Any protobuf-c service over gRPC: servers from method tables, channels, calls, streams.
 *
 * No type of gRPC appears here; only the files behind rpc_grpc.h know it.
 *
 * Bulk fields. One top-level `bytes` field of a message may be declared its *bulk* field. It leaves
 * as separate slices of the caller's own memory (struct rpc_blob) and arrives as a cursor over the
 * received slices (struct rpc_spans), so a tensor is never copied into or out of a message. On the
 * wire it is ordinary protobuf; any other gRPC client or server reads and writes it. Compressed
 * messages are refused (ERR_UNSUPPORTED).
 *
 * Threads. Callbacks run on poller threads and must not block. The callbacks of one call or stream
 * never overlap, and its `done` is the last. Everything else here may be called from any thread.
 *
 * Errors carry ERR_* codes, which are the negated gRPC codes, in both directions. */
#ifndef GRADUS_RPC_RPC_H
#define GRADUS_RPC_RPC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "auth/auth_identity.h"
#include "base/err.h"
#include "base/poll_policy.h"

/* ---- process ---- */

/* Once, before other threads start: memory settings for large messages, SIGPIPE ignored, gRPC's
 * errors into base/log. No fork() without exec after it. May be nested; count the shutdowns. */
void rpc_init(void);
/* Before rpc_init(), in a process with few connections and several threads that wait for them: each
 * thread then waits for its own connections. gRPC's default, one thread that waits for all and
 * wakes the others, costs a wake-up more per message (a fifth of a worker's throughput, measured on
 * 2 CPUs), but does not slow down with thousands of connections. GRPC_POLL_STRATEGY in the
 * environment wins. */
void rpc_expect_few_connections(void);
/* Call after every server, channel and loop was freed. */
void rpc_shutdown(void);

/* ---- polling ---- */

/* What the threads of a process that wait for connections share when they may poll before they
 * sleep (poll_policy.h decides). */
struct rpc_polling;

struct rpc_polling_totals {
    uint64_t found, missed, slept; /* waits: polled to their end, polled in vain, slept at once */
    uint64_t polled_ns;
    unsigned waiters[POLL_WHY_COUNT]; /* threads by their last decision */
    unsigned neighbours, processors;
};

struct rpc_polling *rpc_polling_new(const struct poll_setting *setting);
void rpc_polling_free(struct rpc_polling *p); /* after all threads that use it; NULL is fine */
/* Any thread: another process that computes on this host is known now, or is gone. NULL is fine. */
void rpc_polling_neighbour(struct rpc_polling *p, bool comes);
struct rpc_polling_totals rpc_polling_totals(const struct rpc_polling *p);

/* ---- outgoing bulk data ---- */

struct rpc_piece {
    const void *data;
    size_t bytes;
};

/* Memory that leaves as the bulk field. The array @pieces is read before the sending function
 * returns; the memory behind it must not change until @release(@ctx), which is called exactly once,
 * on any thread, also when sending fails, and perhaps inside any function of this room: it must not
 * take a lock that a caller of this room holds. Without @release everything is copied at once. */
struct rpc_blob {
    const struct rpc_piece *pieces;
    size_t piece_count;
    void (*release)(void *ctx);
    void *ctx;
};

/* ---- received messages ---- */

/* A cursor over the received bulk bytes. Not for two threads at a time. */
struct rpc_spans;

size_t rpc_spans_bytes(const struct rpc_spans *s); /* in all */
size_t rpc_spans_left(const struct rpc_spans *s);  /* from the cursor on */
/* The next contiguous part, in place; false at the end. It lives as long as the message. */
bool rpc_spans_next(struct rpc_spans *s, const unsigned char **data, size_t *bytes);
/* rpc_spans_next() with a limit: at most @bytes_max bytes. */
bool rpc_spans_take(struct rpc_spans *s, size_t bytes_max, const unsigned char **data,
                    size_t *bytes);
/* Copy exactly @bytes to @dst; false (and nothing moved) when fewer are left. */
bool rpc_spans_read(struct rpc_spans *s, void *dst, size_t bytes);
bool rpc_spans_skip(struct rpc_spans *s, size_t bytes);
void rpc_spans_rewind(struct rpc_spans *s);
/* rpc_spans_read() of @count little-endian floats. */
bool rpc_spans_read_floats(struct rpc_spans *s, float *dst, size_t count);
/* Call @each(ctx, index of the first value, values, how many) over the next @count floats, in
 * order, in runs that are contiguous and aligned; floats that straddle slices are put together.
 * False, and no call, when fewer are left. */
bool rpc_spans_each_floats(struct rpc_spans *s, size_t count,
                           void (*each)(void *ctx, size_t index, const float *values, size_t n),
                           void *ctx);

/* A received message, reference counted. Its bytes, and the memory that its body was unpacked into,
 * count against the in-flight limit of the server until the last reference is gone. */
struct rpc_msg {
    const ProtobufCMessage *body; /* of the method's type; a declared bulk field is empty in it */
    struct rpc_spans *bulk;       /* NULL when the method declares no bulk field */
    size_t wire_bytes;
};

struct rpc_msg *rpc_msg_ref(struct rpc_msg *msg);
void rpc_msg_unref(struct rpc_msg *msg); /* NULL is fine */

/* ---- credentials ---- */

/* The identity of this process and whom it believes, for all its servers and channels over TCP: TLS
 * 1.2 or later, mutual where there is a certificate, and a bearer token that goes with each call.
 * Unix-domain sockets have none of it: they belong to one user of one host. */
struct rpc_credentials;

#define RPC_TOKEN_BYTES_MAX ((size_t)8192)

struct rpc_credentials_options {  /* files, which are read again when they change; NULL or "": none
                                   */
    const char *certificate_file; /* ours, in PEM form, and behind it those between it and the CA */
    const char *key_file;
    const char *ca_file;   /* without: no TLS */
    const char *peer_name; /* in the certificates of servers; NULL or "": the host of the target */
    /* a client without a certificate may connect; a certificate that is shown has to be one of the
     * CA */
    bool clients_without_certificate;
    const char *token_file;
    const char *token; /* instead of the file */
};

/* Call after rpc_init(). Errors: ERR_INVALID, and those of reading the token. tls_files_check()
 * says whether the files of TLS are good. */
struct rpc_credentials *rpc_credentials_new(const struct rpc_credentials_options *options,
                                            struct err *err);
/* The options it was made of, NULL for those that were not given, and without the token; borrows.
 */
const struct rpc_credentials_options *rpc_credentials_given(const struct rpc_credentials *c);
bool rpc_credentials_tls(const struct rpc_credentials *c); /* NULL is fine, and has none */
void rpc_credentials_free(struct rpc_credentials *c); /* NULL is fine; its servers may live on */

/* ---- who calls ---- */

struct rpc_call;

/* A call that has just come: what its connection proves, and the headers that say who calls. */
struct rpc_arriving {
    struct rpc_call *call; /* for rpc_peer() */
    const char *method;    /* "gradus.v1.Jobs/Submit" */
    bool certified;        /* by mutual TLS; then: */
    struct auth_certificate certificate;
    bool local;                /* through a Unix-domain socket */
    const char *authorization; /* the header of that name; NULL: none, or none that is text */
};

/* Looks at each call before anything of it is read. On poller threads, several at a time. */
struct rpc_guard {
    /* Say who calls in @who, which is zeroed; borrows everything for the call. Errors: the call
     * ends with this one and none of its method's callbacks runs. */
    int (*admit)(void *ctx, const struct rpc_arriving *call, struct auth_identity *who,
                 struct err *err);
    void *ctx;
};

/* A trailer of calls that are refused because another server serves: its address, or
 * RPC_LEADER_NONE: it is not known. */
#define RPC_LEADER_KEY "gradus-leader"
#define RPC_LEADER_NONE "none"
#define RPC_LEADER_BYTES 300

/* ---- server ---- */

struct rpc_server;

struct rpc_server_options {
    const char *const *addresses; /* "host:port" (port 0: any free one), "unix:/path" */
    size_t address_count;
    unsigned pollers;          /* threads; 0: 2 */
    size_t message_bytes_max;  /* of one message, in either direction; 0: 64 MiB */
    size_t inflight_bytes_max; /* received and unpacked, not yet released; more is refused; 0: 8 x
                                  the above */
    size_t calls_max;          /* in hand at once; further ones end with ERR_EXHAUSTED; 0: 16384 */
    size_t unpack_bytes_max;   /* memory of one unpacked body; 0: 8 MiB + 4 x its wire bytes */
    size_t send_bytes_max;     /* queued on one stream; 0: 4 x message_bytes_max */
    unsigned grace_ms;         /* time for calls in flight at stop; 0: 5000 */
    unsigned keepalive_ms;     /* 0: 10000 */
    const struct rpc_credentials *credentials; /* borrows until it is bound; NULL: plain */
    const struct rpc_guard *guard;             /* borrows; NULL: every caller is an admin */
    struct rpc_polling *polling;               /* borrows; NULL: its threads never poll */
    /* A packed FileDescriptorSet with services that are not in proto/ (those are built in). */
    const unsigned char *descriptors;
    size_t descriptors_bytes;
};

enum rpc_method_flag {
    /* A call that nobody needs to end in order: stop fails it at once with ERR_UNAVAILABLE. */
    RPC_END_ON_STOP = 1,
};

/* One rpc of a service. Which side streams is taken from the proto. @service is the pointer given
 * to rpc_server_add(). A callback borrows @call; who keeps it takes a reference.
 *
 * unary          request(msg) → rpc_reply() or rpc_fail(), inline or later from any thread
 * server stream  request(msg) → rpc_send()*, rpc_finish() or rpc_fail()
 * client streams open?, request(msg)*, half_close? → rpc_send()*, rpc_finish() or rpc_fail();
 *                (without server streaming: one rpc_reply()) */
struct rpc_method {
    const char *name; /* as in the proto: "OpenShard" */
    void (*request)(struct rpc_call *call, struct rpc_msg *msg, void *service);
    void (*open)(struct rpc_call *call, void *service);       /* optional; client streams only */
    void (*half_close)(struct rpc_call *call, void *service); /* NULL: rpc_finish() */
    /* Optional: the call is over: answered, or @cancelled because the client is gone, its deadline
     * passed or the server stops. */
    void (*done)(struct rpc_call *call, bool cancelled, void *service);
    uint32_t request_bulk; /* field numbers; 0: none */
    uint32_t response_bulk;
    unsigned flags;
};

/* Keeps nothing of @options but @descriptors and @guard (borrows). Errors: ERR_INVALID. */
struct rpc_server *rpc_server_new(const struct rpc_server_options *options, struct err *err);

/* Serve a service. @methods (borrows) must have exactly one row for each rpc of the proto.
 * Errors: ERR_INVALID naming the method that is missing, unknown, double or of another kind. */
int rpc_server_add(struct rpc_server *s, const ProtobufCServiceDescriptor *service,
                   const struct rpc_method *methods, size_t method_count, void *ctx,
                   struct err *err);

/* Bind now, so that the addresses are known before the server answers; rpc_server_start() does it
 * otherwise. Errors: ERR_UNAVAILABLE naming the address that cannot be bound. */
int rpc_server_bind(struct rpc_server *s, struct err *err);
/* Between both: one more address. Errors: as rpc_server_bind(); it serves the others all the same.
 */
int rpc_server_bind_also(struct rpc_server *s, const char *address, struct err *err);
/* Bind and serve, together with grpc.health.v1 and reflection. Health says NOT_SERVING until
 * rpc_server_set_serving(). Errors: ERR_UNAVAILABLE naming the address that cannot be bound. */
int rpc_server_start(struct rpc_server *s, struct err *err);
/* The address in use, with the port that was chosen: "127.0.0.1:40123"; borrows. */
const char *rpc_server_address(const struct rpc_server *s, size_t i);
void rpc_server_set_serving(struct rpc_server *s, bool serving);
/* Bytes received and unpacked, and not yet released. */
size_t rpc_server_inflight_bytes(const struct rpc_server *s);
size_t rpc_server_calls(const struct rpc_server *s); /* calls in hand, with those that wait */

/* Health becomes NOT_SERVING, new calls are refused, calls in flight get grace_ms, then they are
 * cancelled; returns when every `done` has run. Not from a callback. Idempotent. */
void rpc_server_stop(struct rpc_server *s);
/* Stops when that did not happen yet. References to calls must be returned before. */
void rpc_server_free(struct rpc_server *s);

/* ---- a call on the server ---- */

struct rpc_call *rpc_call_ref(struct rpc_call *call);
void rpc_call_unref(struct rpc_call *call);

/* Answers a call whose response is one message. @blob may be NULL; it needs response_bulk. Errors:
 * ERR_CANCELLED the client is gone; ERR_STATE already answered. Ignoring them is fine. */
int rpc_reply(struct rpc_call *call, const ProtobufCMessage *msg, const struct rpc_blob *blob);
/* Queue one message of a streamed response. Receiving pauses by itself while more than half of
 * send_bytes_max is queued. Errors: as rpc_reply(); ERR_EXHAUSTED the queue is full. */
int rpc_send(struct rpc_call *call, const ProtobufCMessage *msg, const struct rpc_blob *blob);
/* Ends a streamed response with success, behind the queued messages. */
int rpc_finish(struct rpc_call *call);
/* Ends any call with @err, behind the queued messages. */
int rpc_fail(struct rpc_call *call, const struct err *err);
/* rpc_fail() for a client that may not read: large messages that have not left by now never leave,
 * so that nothing is held for longer. With only small ones in front of it @err comes in order. */
int rpc_abandon(struct rpc_call *call, const struct err *err);
/* rpc_fail() with a typed detail (grpc-status-details-bin, google.rpc.Status); see rpc_status. */
int rpc_fail_detail(struct rpc_call *call, const struct err *err, const ProtobufCMessage *detail);

/* Client streams: take no further message after this callback until rpc_resume(). */
void rpc_pause(struct rpc_call *call);
/* In the callback of a message: rpc_pause(), and the callback comes again with this very message,
 * on the thread that resumes or on a poller. When the call is over before, it does not come.
 * Meanwhile the message, one of each call at most, does not count against inflight_bytes_max. */
void rpc_pause_again(struct rpc_call *call);
void rpc_resume(struct rpc_call *call);

/* For a unary call only after its callback has returned. */
bool rpc_cancelled(const struct rpc_call *call);
int64_t rpc_time_left_ms(const struct rpc_call *call); /* INT64_MAX without a deadline */
const char *rpc_peer(struct rpc_call *call); /* "ipv4:127.0.0.1:40000", "unix:"; borrows */
const char *rpc_method_name(const struct rpc_call *call); /* "gradus.v1.Jobs/Submit"; borrows */
/* The caller, as the guard identified it; borrows. */
const struct auth_identity *rpc_caller(const struct rpc_call *call);
size_t rpc_queued_bytes(struct rpc_call *call);
/* A free pointer for the handler; NULL at first. */
void rpc_set_data(struct rpc_call *call, void *data);
void *rpc_data(const struct rpc_call *call);
/* Copy the value of @key that the client sent into @out (cut, terminated); false when absent. */
bool rpc_metadata(const struct rpc_call *call, const char *key, char *out, size_t n);
/* Send metadata: headers before the first message or answer, trailers with the end. Keys are lower
 * case. Errors: ERR_INVALID, ERR_STATE too late, ERR_EXHAUSTED more than RPC_METADATA_MAX. */
#define RPC_METADATA_MAX 8
int rpc_set_header(struct rpc_call *call, const char *key, const char *value, struct err *err);
int rpc_set_trailer(struct rpc_call *call, const char *key, const char *value, struct err *err);

/* ---- client ---- */

/* One thread that runs the callbacks of the channels that share it. */
struct rpc_loop;
struct rpc_channel;

/* @polling (NULL: none) for rpc_loop_wait(). */
struct rpc_loop *rpc_loop_new(struct rpc_polling *polling, struct err *err);
void rpc_loop_free(struct rpc_loop *loop); /* after its channels */

/* For one other thread, the guest, which is about to sleep until a callback of @loop wakes it:
 * takes events in the place of the loop's thread and runs their callbacks until @ready(@ctx): it
 * polls as long as that pays, and sleeps in the queue then, until @until_ms (chrono_now_ms();
 * UINT64_MAX: for ever) or rpc_loop_wake(). True: it is ready. False: look, and sleep elsewhere;
 * the loop's thread takes events again. Either way rpc_loop_waited() says when the wait is over.
 * After true the loop's thread still stands aside: a guest that goes on to wait for a callback
 * elsewhere, or to compute while something is under way, gives its place back first, or callbacks
 * come a few hundredths of a second late. */
bool rpc_loop_wait(struct rpc_loop *loop, bool (*ready)(void *ctx), void *ctx, uint64_t until_ms);
void rpc_loop_wake(struct rpc_loop *loop); /* any thread: @ready is worth a look */
void rpc_loop_waited(struct rpc_loop *loop);
void rpc_loop_give_back(struct rpc_loop *loop); /* also when it has none; any thread */

/* Whether a channel may lead to @target (below). Errors: ERR_INVALID naming what is no address. */
int rpc_target_check(const char *target, struct err *err);

struct rpc_channel_options {
    /* "host:port", "unix:/path"; or "host:port,host:port": servers of which one at a time serves.
     * The channel leads to the next one when there is no answer, and to the one that an answer
     * names (RPC_LEADER_KEY). */
    const char *target;
    const struct rpc_credentials *credentials; /* borrows; NULL: plain */
    struct rpc_loop *loop; /* borrows; NULL: a loop of its own, started with the first callback */
    size_t message_bytes_max; /* as in the server's options */
    size_t unpack_bytes_max;
    size_t send_bytes_max;
    unsigned keepalive_ms; /* 0: 10000 */
    bool retries;          /* gRPC's own; off for channels that carry bulk data */
    bool own_connection;   /* do not share a connection with channels to the same target */
};

/* Errors: ERR_INVALID the target is no address; or there is a token, and no TLS to keep it from
 * those on the way to another host. */
struct rpc_channel *rpc_channel_new(const struct rpc_channel_options *options, struct err *err);
/* Cancel what is in flight, on any thread; new calls fail with ERR_UNAVAILABLE from now on. */
void rpc_channel_cancel(struct rpc_channel *c);
/* Cancels, waits until the last callback has run. Not from a callback. */
void rpc_channel_free(struct rpc_channel *c);
/* Where it leads now; borrows, as long as the channel. */
const char *rpc_channel_target(const struct rpc_channel *c);
/* Connect and wait. Errors: ERR_UNAVAILABLE naming the target and how long it tried. */
int rpc_channel_wait_ready(struct rpc_channel *c, unsigned timeout_ms, struct err *err);

/* Is there a connection at this moment? One that nobody uses is kept; it ends with its peer. */
bool rpc_channel_is_connected(struct rpc_channel *c);

/* How a call ended, for callers that need more than code and message. */
struct rpc_status {
    struct err err;         /* code 0: well. "master.v1.Join at host:port: " and the peer's words */
    unsigned char *details; /* a packed google.rpc.Status, or NULL */
    size_t details_bytes;
    /* Of ERR_UNAVAILABLE and ERR_TIMEOUT: the peer said so, and it is not that there was none. */
    bool answered;
    bool connected; /* whether it was connected at the end of the call */
    /* The channel leads to another server now: it may be worth to call again; @answered: nothing
     * was done. */
    bool moved;
};

void rpc_status_release(struct rpc_status *status);
/* The first detail of type @type, unpacked; returns owned (protobuf_c_message_free_unpacked), or
 * NULL. */
ProtobufCMessage *rpc_status_detail(const struct rpc_status *status,
                                    const ProtobufCMessageDescriptor *type);

struct rpc_header {
    const char *key;
    const char *value;
};

/* What to call and how. Everything is borrowed until the function that takes it returns; only the
 * memory of a blob with a release function lives longer. */
struct rpc_request {
    const ProtobufCServiceDescriptor *service;
    const char *method;
    const ProtobufCMessage *body; /* NULL only for rpc_stream_open() */
    const struct rpc_blob *blob;
    uint32_t request_bulk; /* field numbers; 0: none */
    uint32_t response_bulk;
    unsigned timeout_ms; /* 0: none */
    bool wait_for_ready; /* keep trying to connect until the time is up */
    bool more;           /* rpc_stream_open(): further messages follow @body */
    bool terse;          /* an error that the server answered is its words alone, for people */
    const struct rpc_header *headers;
    size_t header_count;
    struct rpc_status *status; /* blocking calls: also filled when not NULL (take: release) */
};

/* A unary call. @reply (may be NULL) is owned: rpc_msg_unref(). Errors name method and target, and
 * for ERR_TIMEOUT and ERR_UNAVAILABLE how long it tried. Works on any thread. */
int rpc_call_blocking(struct rpc_channel *c, const struct rpc_request *request,
                      struct rpc_msg **reply, struct err *err);

/* A unary call that calls @done on the loop's thread, exactly once unless starting fails. @reply is
 * NULL unless the status is 0; take a reference to keep it. */
int rpc_call_start(struct rpc_channel *c, const struct rpc_request *request,
                   void (*done)(void *ctx, const struct rpc_status *status, struct rpc_msg *reply),
                   void *ctx, struct err *err);

/* ---- streams of the client ---- */

struct rpc_stream;

struct rpc_stream_events {
    /* Take a reference to keep @msg. */
    void (*message)(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx);
    /* Exactly once, last. */
    void (*done)(struct rpc_stream *stream, const struct rpc_status *status, void *ctx);
};

/* Server-stream, client-stream or bidi. A request->body is sent at once, and half-closes the stream
 * (as server streams need it) unless request->more. Callbacks may come before this returns. Returns
 * owned: rpc_stream_free(). */
struct rpc_stream *rpc_stream_open(struct rpc_channel *c, const struct rpc_request *request,
                                   const struct rpc_stream_events *events, void *ctx,
                                   struct err *err);
/* Queue a message. Errors: ERR_EXHAUSTED queue full (@blob is released; see wait_writable);
 * ERR_STATE half-closed; ERR_CANCELLED over; ERR_INVALID another type, or over the size limit. */
int rpc_stream_send(struct rpc_stream *s, const ProtobufCMessage *msg, const struct rpc_blob *blob,
                    struct err *err);
/* Wait until the queue takes a message again, with @timeout_ms 0 as long as the stream lives: a
 * peer that reads nothing for a while may have its reasons, and one that is gone ends the stream,
 * by keepalive at the latest. Not from a callback. Errors: ERR_TIMEOUT, ERR_CANCELLED over. */
int rpc_stream_wait_writable(struct rpc_stream *s, unsigned timeout_ms, struct err *err);
int rpc_stream_half_close(struct rpc_stream *s); /* behind the queued messages */
void rpc_stream_cancel(struct rpc_stream *s);    /* `done` still comes */
/* Take no further message after this callback until resumed. */
void rpc_stream_pause(struct rpc_stream *s);
void rpc_stream_resume(struct rpc_stream *s);
/* Returns the caller's reference; cancels the call when it is not over. `done` still comes, unless
 * it came before. */
void rpc_stream_free(struct rpc_stream *s);

#endif
