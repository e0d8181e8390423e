/* SPDX-License-Identifier: Apache-2.0 */
/* A call on the server: events of gRPC in, callbacks of its method out. */
#include "rpc/rpc_call.h"

#include <stdlib.h>

#include "base/mem.h"

/* ---- life ---- */

struct rpc_call *rpc_call_ref(struct rpc_call *call)
{
    atomic_fetch_add_explicit(&call->refs, 1, memory_order_relaxed);
    return call;
}

static void fields_release(struct rpc_fields *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free(f->field[i].key);
        free(f->field[i].value);
    }
}

void rpc_call_unref(struct rpc_call *call)
{
    if (!call || atomic_fetch_sub_explicit(&call->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    for (size_t i = 0; i < call->metadata.count; i++) {
        grpc_slice_unref(call->metadata.metadata[i].key);
        grpc_slice_unref(call->metadata.metadata[i].value);
    }
    grpc_metadata_array_destroy(&call->metadata);
    fields_release(&call->headers);
    fields_release(&call->trailers);
    pthread_mutex_destroy(&call->lock);
    gpr_free(call->peer);
    free(call);
}

/* gRPC is done with the call; handlers may still hold references to the shell of it. */
static void tear_down(struct rpc_call *call)
{
    struct rpc_server *s = call->server;
    grpc_call_unref(call->grpc);
    pthread_mutex_lock(&s->lock);
    *call->link = call->next;
    if (call->next) {
        call->next->link = call->link;
    }
    atomic_fetch_sub(&s->call_count, 1);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    rpc_call_unref(call);
}

/* ---- callbacks ---- */

/* Locked. Runs one callback that is due, with the lock released meanwhile; false: none is due. */
static bool run_one(struct rpc_call *call)
{
    const struct rpc_method *row = call->entry ? call->entry->row : NULL;
    void *service = call->entry ? call->entry->service : NULL;
    if (call->again && call->paused && !call->over) {
        return false;
    }
    struct rpc_msg *msg = call->incoming;
    call->incoming = NULL;
    call->again = false;
    if (call->over) {
        bool first = !call->done;
        call->done = true;
        struct rpc_queued *dropped = rpc_queue_clear(&call->queue);
        pthread_mutex_unlock(&call->lock);
        rpc_queued_free(dropped);
        rpc_msg_unref(msg);
        if (first && row && row->done) {
            row->done(call, atomic_load(&call->cancelled), service);
        }
        pthread_mutex_lock(&call->lock);
        return false;
    }
    if (!row) { /* an unknown method, which is being refused */
        return false;
    }
    if (call->open_due) {
        call->open_due = false;
        call->incoming = msg;
        pthread_mutex_unlock(&call->lock);
        row->open(call, service);
    } else if (msg) {
        pthread_mutex_unlock(&call->lock);
        row->request(call, msg, service);
        pthread_mutex_lock(&call->lock);
        if (call->again) {
            /* otherwise many messages that wait could keep out those that they wait for */
            rpc_msg_uncount(msg);
            if (msg->bulk) {
                rpc_spans_rewind(msg->bulk);
            }
            call->incoming = msg;
            return true;
        }
        pthread_mutex_unlock(&call->lock);
        rpc_msg_unref(msg);
    } else if (call->half_close_due) {
        call->half_close_due = false;
        pthread_mutex_unlock(&call->lock);
        if (row->half_close) {
            row->half_close(call, service);
        } else {
            rpc_finish(call);
        }
    } else {
        return false;
    }
    pthread_mutex_lock(&call->lock);
    return true;
}

/* After every event. Locked; returns unlocked: runs the callbacks that are due, then starts the
 * batches that they made due. */
static void settle(struct rpc_call *call)
{
    if (!call->busy) {
        call->busy = true;
        while (run_one(call)) {
        }
        call->busy = false;
        call->direct = false;
    }
    if (call->over && call->done && call->tags == 0 && !call->busy && !call->torn_down) {
        call->torn_down = true;
        pthread_mutex_unlock(&call->lock);
        tear_down(call);
        return;
    }
    rpc_call_proceed(call);
}

/* ---- flow control ---- */

void rpc_pause(struct rpc_call *call)
{
    pthread_mutex_lock(&call->lock);
    call->paused = true;
    pthread_mutex_unlock(&call->lock);
}

void rpc_pause_again(struct rpc_call *call)
{
    pthread_mutex_lock(&call->lock);
    call->paused = true;
    call->again = true;
    pthread_mutex_unlock(&call->lock);
}

void rpc_resume(struct rpc_call *call)
{
    pthread_mutex_lock(&call->lock);
    call->paused = false;
    if (call->again) {
        settle(call);
    } else {
        rpc_call_proceed(call);
    }
}

/* ---- events ---- */

static void close_noted(struct rpc_call *call)
{
    call->over = true;
    if (call->close_cancelled) {
        atomic_store(&call->cancelled, true);
    }
}

static void close_run(struct rpc_tag *tag, bool ok)
{
    (void)ok;
    struct rpc_call *call = RPC_OWNER(tag, struct rpc_call, close_tag);
    if (call->close_cancelled) {
        atomic_store(&call->cancelled, true); /* at once: a running callback may be asking */
    }
    pthread_mutex_lock(&call->lock);
    call->tags--;
    close_noted(call);
    settle(call);
}

static void send_run(struct rpc_tag *tag, bool ok)
{
    struct rpc_call *call = RPC_OWNER(tag, struct rpc_call, send_tag);
    size_t sent_bytes = call->sent ? call->sent->bytes : 0;
    rpc_queued_free(call->sent);
    call->sent = NULL;
    pthread_mutex_lock(&call->lock);
    call->tags--;
    call->sending = false;
    call->queue.bytes -= sent_bytes;
    call->broken |= !ok;
    if (call->sent_close) {
        call->close_cancelled |= !ok;
        close_noted(call);
    }
    settle(call);
}

static struct rpc_msg *decode(struct rpc_call *call, grpc_byte_buffer *buffer)
{
    const struct rpc_decoding how = {.type = call->entry->input,
                                     .bulk_field = call->entry->row->request_bulk,
                                     .unpack_bytes_max = call->server->unpack_bytes_max,
                                     .account = call->server->account};
    struct err err;
    struct rpc_msg *msg = rpc_buffer_decode(&how, buffer, &err);
    if (!msg) {
        err_wrap(&err, "request");
        rpc_call_end(call, &err, NULL);
    }
    return msg;
}

static void receive_run(struct rpc_tag *tag, bool ok)
{
    struct rpc_call *call = RPC_OWNER(tag, struct rpc_call, receive_tag);
    struct rpc_msg *msg = NULL;
    grpc_byte_buffer *buffer = call->received;
    call->received = NULL;
    bool failed = !ok || (!buffer && grpc_call_failed_before_recv_message(call->grpc));
    if (buffer) {
        msg = decode(call, buffer);
        failed = failed || !msg;
    }
    pthread_mutex_lock(&call->lock);
    call->tags--;
    call->receiving = false;
    if (msg) {
        call->incoming = msg;
    } else {
        call->half_closed = true;
        call->half_close_due = !failed;
    }
    settle(call);
}

static struct rpc_call *call_new(struct rpc_server *s, const struct rpc_method_entry *entry,
                                 const struct rpc_arrival *arrival)
{
    struct rpc_call *call = mem_new(1, sizeof(*call));
    atomic_init(&call->refs, 1);
    pthread_mutex_init(&call->lock, NULL);
    call->server = s;
    call->entry = entry;
    call->grpc = arrival->call;
    call->deadline = arrival->deadline;
    call->metadata = arrival->metadata;
    for (size_t i = 0; i < call->metadata.count; i++) { /* gRPC keeps its own only for so long */
        call->metadata.metadata[i].key = grpc_slice_ref(call->metadata.metadata[i].key);
        call->metadata.metadata[i].value = grpc_slice_ref(call->metadata.metadata[i].value);
    }
    call->queue.bytes_max = s->send_bytes_max;
    call->close_tag.run = close_run;
    call->receive_tag.run = receive_run;
    call->send_tag.run = send_run;
    call->direct = entry && !entry->client_streams && !entry->server_streams;
    call->open_due = entry && entry->client_streams && entry->row->open;
    call->busy = true; /* nothing runs before everything is here */
    return call;
}

/* Checks that there is room for one more call; the call itself counts already. */
static int check_room(const struct rpc_call *call, struct err *err)
{
    const struct rpc_server *s = call->server;
    if (atomic_load(&s->call_count) <= s->calls_max) {
        return 0;
    }
    return err_set(err, ERR_EXHAUSTED, "this server has %zu calls in hand and takes no more",
                   s->calls_max);
}

/* Lets a call in. A call that is refused is like one of an unknown method: no callback of it runs,
 * not even the last. */
static int admit(struct rpc_call *call, struct err *err)
{
    int rc = call->entry ? rpc_call_admit(call, call->entry, err) : 0;
    rc = rc == 0 && call->entry ? check_room(call, err) : rc;
    if (rc != 0) {
        call->entry = NULL;
        call->open_due = false;
        call->direct = false;
    }
    return rc;
}

void rpc_call_begin(struct rpc_server *s, const struct rpc_method_entry *entry, const char *path,
                    struct rpc_arrival *arrival)
{
    struct rpc_call *call = call_new(s, entry, arrival);
    struct err err;
    atomic_fetch_add(&s->call_count, 1);
    bool refused = admit(call, &err) != 0; /* before other threads see the call */

    pthread_mutex_lock(&s->lock);
    bool stopping = s->stopping && entry && (entry->row->flags & RPC_END_ON_STOP);
    call->next = s->calls;
    call->link = &s->calls;
    if (s->calls) {
        s->calls->link = &call->next;
    }
    s->calls = call;
    pthread_mutex_unlock(&s->lock);

    struct rpc_msg *msg = NULL;
    if (!entry) {
        err_set(&err, ERR_UNSUPPORTED, "unknown method %s", path);
        rpc_call_end(call, &err, NULL);
    } else if (refused) {
        rpc_call_end(call, &err, NULL);
    } else if (stopping) {
        err_set(&err, ERR_UNAVAILABLE, "the server is shutting down");
        rpc_call_end(call, &err, NULL);
    } else if (arrival->payload) {
        msg = decode(call, arrival->payload);
        arrival->payload = NULL;
    } else if (!entry->client_streams) {
        err_set(&err, ERR_INVALID, "request: there is none, or it is over the limit of %zu bytes",
                s->message_bytes_max);
        rpc_call_end(call, &err, NULL);
    }
    if (arrival->payload) {
        grpc_byte_buffer_destroy(arrival->payload);
    }
    pthread_mutex_lock(&call->lock);
    call->busy = false;
    call->incoming = msg;
    settle(call);
}

void rpc_calls_end_on_stop(struct rpc_server *s)
{
    size_t count = 0;
    struct rpc_call **calls = NULL;
    size_t capacity = 0;
    pthread_mutex_lock(&s->lock);
    for (struct rpc_call *c = s->calls; c; c = c->next) {
        if (c->entry && (c->entry->row->flags & RPC_END_ON_STOP)) {
            calls = mem_grow(calls, &capacity, count + 1, sizeof(struct rpc_call *));
            calls[count++] = rpc_call_ref(c);
        }
    }
    pthread_mutex_unlock(&s->lock);
    struct err err;
    err_set(&err, ERR_UNAVAILABLE, "the server is shutting down");
    for (size_t i = 0; i < count; i++) {
        rpc_fail(calls[i], &err);
        rpc_call_unref(calls[i]);
    }
    free(calls);
}
