/* SPDX-License-Identifier: Apache-2.0 */
/* Streams of the client. The mirror image of rpc_call.h: events of gRPC in, callbacks out, a queue
 * of outgoing messages, and no function of gRPC called with the lock held. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "rpc/rpc_client.h"

struct rpc_stream {
    atomic_size_t refs;      /* the caller's and one until the stream is torn down */
    struct rpc_outgoing out; /* gone after tear_down() */
    char *label;             /* for the messages of rpc_stream_send(), after tear_down(), too */
    struct rpc_stream_events events;
    void *ctx;
    size_t message_bytes_max;

    struct rpc_tag send_tag;
    struct rpc_tag receive_tag;
    struct rpc_tag status_tag;
    grpc_byte_buffer *received; /* written by gRPC */
    struct rpc_queued *sent;    /* messages of the batch under way */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t writable;
    unsigned tags; /* batches under way */
    bool busy;     /* a thread runs callbacks */
    bool headers_sent;
    bool headers_asked;
    bool sending;
    bool broken;
    bool closing; /* half-close is wanted … */
    bool closed;  /* … and sent */
    bool receiving;
    bool read_end;
    bool paused;
    bool over; /* the status is here */
    bool done; /* the last callback ran */
    bool torn_down;
    struct rpc_msg *incoming;
    struct rpc_queue queue;
    struct err failure; /* found on this side: a message that cannot be read */
};

static void stream_unref(struct rpc_stream *s)
{
    if (atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) == 1) {
        pthread_cond_destroy(&s->writable);
        pthread_mutex_destroy(&s->lock);
        free(s->label);
        free(s);
    }
}

/* gRPC is done with the stream; the caller may still hold it. */
static void tear_down(struct rpc_stream *s)
{
    rpc_outgoing_release(&s->out);
    stream_unref(s);
}

/* ---- batches ---- */

struct send {
    bool wanted;
    bool with_headers;
    bool with_close;
};

/* Locked. Decide on the next send batch and own the right to it. */
static struct send prepare_send(struct rpc_stream *s)
{
    struct send send = {.wanted = false};
    bool close_due = s->closing && !s->closed;
    if (s->sending || s->broken || s->over || (!s->queue.head && !close_due && s->headers_sent)) {
        return send;
    }
    s->sent = rpc_queue_pop(&s->queue);
    send = (struct send){.wanted = true,
                         .with_headers = !s->headers_sent,
                         .with_close = close_due && !s->queue.head};
    s->headers_sent = true;
    s->closed |= send.with_close;
    s->sending = true;
    s->tags++;
    return send;
}

static void start_send(struct rpc_stream *s, const struct send *send)
{
    grpc_op ops[3];
    size_t n = 0;
    memset(ops, 0, sizeof(ops));
    if (send->with_headers) {
        ops[n++] = rpc_outgoing_headers(&s->out);
    }
    if (s->sent) {
        ops[n].op = GRPC_OP_SEND_MESSAGE;
        ops[n++].data.send_message.send_message = s->sent->buffer;
    }
    if (send->with_close) {
        ops[n++].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    }
    rpc_batch_start(s->out.call, ops, n, &s->send_tag);
}

static bool prepare_receive(struct rpc_stream *s)
{
    if (s->busy || s->receiving || s->read_end || s->paused || s->incoming || s->done) {
        return false;
    }
    s->receiving = true;
    s->tags++;
    return true;
}

static void start_receive(struct rpc_stream *s, bool with_headers)
{
    grpc_op ops[2];
    size_t n = 0;
    memset(ops, 0, sizeof(ops));
    s->received = NULL;
    if (with_headers) {
        ops[n].op = GRPC_OP_RECV_INITIAL_METADATA;
        ops[n++].data.recv_initial_metadata.recv_initial_metadata = &s->out.initial;
    }
    ops[n].op = GRPC_OP_RECV_MESSAGE;
    ops[n++].data.recv_message.recv_message = &s->received;
    rpc_batch_start(s->out.call, ops, n, &s->receive_tag);
}

/* Locked; returns unlocked. */
static void proceed(struct rpc_stream *s)
{
    struct send send = prepare_send(s);
    bool receive = prepare_receive(s);
    bool with_headers = receive && !s->headers_asked;
    s->headers_asked |= with_headers;
    pthread_mutex_unlock(&s->lock);
    if (receive) {
        start_receive(s, with_headers);
    }
    if (send.wanted) {
        start_send(s, &send);
    }
}

/* ---- callbacks ---- */

static void run_done(struct rpc_stream *s)
{
    struct rpc_status status;
    rpc_outgoing_result(&s->out, &status);
    if (s->failure.code != 0) {
        status.err = s->failure;
    }
    s->events.done(s, &status, s->ctx);
    rpc_status_release(&status);
}

/* Locked. Runs one callback that is due, with the lock released meanwhile; false: none is due. */
static bool run_one(struct rpc_stream *s)
{
    struct rpc_msg *msg = s->incoming;
    s->incoming = NULL;
    if (msg) {
        pthread_mutex_unlock(&s->lock);
        if (s->events.message) {
            s->events.message(s, msg, s->ctx);
        }
        rpc_msg_unref(msg);
        pthread_mutex_lock(&s->lock);
        return true;
    }
    if (s->over && !s->done && !s->receiving && (s->read_end || s->paused)) {
        s->done = true;
        struct rpc_queued *dropped = rpc_queue_clear(&s->queue);
        pthread_cond_broadcast(&s->writable);
        pthread_mutex_unlock(&s->lock);
        rpc_queued_free(dropped);
        run_done(s);
        pthread_mutex_lock(&s->lock);
    }
    return false;
}

/* Locked; returns unlocked. After every event: callbacks, then what they made due. */
static void settle(struct rpc_stream *s)
{
    if (!s->busy) {
        s->busy = true;
        while (run_one(s)) {
        }
        s->busy = false;
    }
    if (s->done && s->tags == 0 && !s->busy && !s->torn_down) {
        s->torn_down = true;
        pthread_mutex_unlock(&s->lock);
        tear_down(s);
        return;
    }
    proceed(s);
}

/* ---- events ---- */

static void send_run(struct rpc_tag *tag, bool ok)
{
    struct rpc_stream *s = RPC_OWNER(tag, struct rpc_stream, send_tag);
    size_t sent_bytes = s->sent ? s->sent->bytes : 0;
    rpc_queued_free(s->sent);
    s->sent = NULL;
    pthread_mutex_lock(&s->lock);
    s->tags--;
    s->sending = false;
    s->broken |= !ok;
    s->queue.bytes -= sent_bytes;
    if (s->broken || s->queue.bytes <= s->queue.bytes_max / 2) {
        pthread_cond_broadcast(&s->writable);
    }
    settle(s);
}

static void receive_run(struct rpc_tag *tag, bool ok)
{
    struct rpc_stream *s = RPC_OWNER(tag, struct rpc_stream, receive_tag);
    struct rpc_msg *msg = NULL;
    struct err why = {.code = 0};
    if (s->received && ok) {
        msg = rpc_buffer_decode(&s->out.decoding, s->received, &why);
        if (!msg) {
            grpc_call_cancel(s->out.call, NULL);
        }
    } else if (s->received) {
        grpc_byte_buffer_destroy(s->received);
    }
    s->received = NULL;
    pthread_mutex_lock(&s->lock);
    if (why.code != 0) {
        err_set(&s->failure, why.code, "%s: response: %s", s->label, why.msg);
    }
    s->tags--;
    s->receiving = false;
    s->incoming = msg;
    s->read_end = !msg;
    settle(s);
}

static void status_run(struct rpc_tag *tag, bool ok)
{
    (void)ok;
    struct rpc_stream *s = RPC_OWNER(tag, struct rpc_stream, status_tag);
    pthread_mutex_lock(&s->lock);
    s->tags--;
    s->over = true;
    settle(s);
}

/* ---- the caller's side ---- */

static int queue_message(struct rpc_stream *s, grpc_byte_buffer *buffer, struct err *err)
{
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    if (s->over || s->broken) {
        rc = err_set(err, ERR_CANCELLED, "%s: the stream is over", s->label);
    } else if (s->closing) {
        rc = err_set(err, ERR_STATE, "%s: send after half-close", s->label);
    } else if (!rpc_queue_push(&s->queue, buffer)) {
        rc = err_set(err, ERR_EXHAUSTED, "%s: %zu bytes are queued already, at most %zu may be",
                     s->label, s->queue.bytes, s->queue.bytes_max);
    }
    if (rc != 0) {
        pthread_mutex_unlock(&s->lock);
        grpc_byte_buffer_destroy(buffer);
        return rc;
    }
    proceed(s);
    return 0;
}

static grpc_byte_buffer *encode(struct rpc_stream *s, const ProtobufCMessage *msg,
                                const struct rpc_blob *blob, struct err *err)
{
    struct err why;
    grpc_byte_buffer *buffer =
        rpc_buffer_encode(s->out.input, msg, s->out.request_bulk, blob, s->message_bytes_max, &why);
    if (!buffer) {
        err_set(err, ERR_INVALID, "%s: request: %s", s->label, why.msg);
    }
    return buffer;
}

static struct rpc_stream *stream_new(const struct rpc_stream_events *events, void *ctx)
{
    struct rpc_stream *s = mem_new(1, sizeof(*s));
    atomic_init(&s->refs, 2);
    s->events = *events;
    s->ctx = ctx;
    s->send_tag.run = send_run;
    s->receive_tag.run = receive_run;
    s->status_tag.run = status_run;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->writable, &attr);
    pthread_condattr_destroy(&attr);
    return s;
}

struct rpc_stream *rpc_stream_open(struct rpc_channel *c, const struct rpc_request *request,
                                   const struct rpc_stream_events *events, void *ctx,
                                   struct err *err)
{
    struct rpc_stream *s = stream_new(events, ctx);
    int rc = rpc_outgoing_init(&s->out, c, request, NULL, err);
    s->label = mem_strdup(s->out.label);
    s->queue.bytes_max = c->send_bytes_max;
    s->message_bytes_max = c->message_bytes_max;
    if (rc != 0) {
        rpc_blob_release(request->blob);
    } else if (request->body) {
        grpc_byte_buffer *first = encode(s, request->body, request->blob, err);
        rc = first ? 0 : ERR_INVALID;
        if (first) {
            rpc_queue_push(&s->queue, first);
        }
    }
    if (rc != 0) {
        tear_down(s);
        stream_unref(s);
        return NULL;
    }
    s->closing = request->body != NULL && !request->more;
    pthread_mutex_lock(&s->lock);
    s->tags++;
    pthread_mutex_unlock(&s->lock);
    grpc_op status = rpc_outgoing_status(&s->out);
    rpc_batch_start(s->out.call, &status, 1, &s->status_tag);
    pthread_mutex_lock(&s->lock);
    proceed(s);
    return s;
}

int rpc_stream_send(struct rpc_stream *s, const ProtobufCMessage *msg, const struct rpc_blob *blob,
                    struct err *err)
{
    grpc_byte_buffer *buffer = encode(s, msg, blob, err);
    return buffer ? queue_message(s, buffer, err) : ERR_INVALID;
}

int rpc_stream_wait_writable(struct rpc_stream *s, unsigned timeout_ms, struct err *err)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    int rc = 0;
    pthread_mutex_lock(&s->lock);
    while (rc == 0 && !s->over && !s->broken && s->queue.bytes > s->queue.bytes_max / 2) {
        rc = timeout_ms == 0 ? pthread_cond_wait(&s->writable, &s->lock)
                             : pthread_cond_timedwait(&s->writable, &s->lock, &until);
    }
    if (s->over || s->broken) {
        rc = err_set(err, ERR_CANCELLED, "%s: the stream is over", s->label);
    } else if (rc != 0) {
        rc = err_set(err, ERR_TIMEOUT, "%s: %zu bytes still queued after %u ms", s->label,
                     s->queue.bytes, timeout_ms);
    }
    pthread_mutex_unlock(&s->lock);
    return rc;
}

int rpc_stream_half_close(struct rpc_stream *s)
{
    pthread_mutex_lock(&s->lock);
    int rc = s->over || s->broken ? ERR_CANCELLED : s->closing ? ERR_STATE : 0;
    s->closing = true;
    proceed(s);
    return rc;
}

void rpc_stream_cancel(struct rpc_stream *s)
{
    grpc_call *call = NULL;
    pthread_mutex_lock(&s->lock);
    if (!s->torn_down) {
        call = s->out.call;
        grpc_call_ref(call);
    }
    pthread_mutex_unlock(&s->lock);
    if (call) {
        atomic_store(&s->out.cancelled, true);
        grpc_call_cancel(call, NULL);
        grpc_call_unref(call);
    }
}

void rpc_stream_pause(struct rpc_stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->paused = true;
    pthread_mutex_unlock(&s->lock);
}

void rpc_stream_resume(struct rpc_stream *s)
{
    pthread_mutex_lock(&s->lock);
    s->paused = false;
    proceed(s);
}

void rpc_stream_free(struct rpc_stream *s)
{
    if (s) {
        rpc_stream_cancel(s);
        stream_unref(s);
    }
}
