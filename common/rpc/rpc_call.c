/* One call on the server: events of gRPC in, callbacks of its method out.
 *
 * Poller threads bring events concurrently; `busy` makes one of them run the callbacks while the
 * others only leave their event behind. No function of gRPC is called with the lock held, because
 * it may run the release function of a blob, and that is the caller's code. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rpc/rpc_server.h"
#include "rpc/rpc_status.h"

struct field {
    char *key;
    char *value;
    size_t bytes;
};

struct fields {
    struct field field[RPC_METADATA_MAX + 1]; /* one more for the details */
    size_t count;
};

struct rpc_call {
    atomic_size_t refs;
    struct rpc_server *server; /* valid while in its list */
    struct rpc_call *next;     /* in the list of the server */
    struct rpc_call **link;    /* what points to this call there; NULL: not in it */
    const struct rpc_method_entry *entry;
    gpr_timespec deadline;
    grpc_metadata_array metadata;
    grpc_call *grpc;
    _Atomic(void *) data;
    atomic_bool cancelled;

    struct rpc_tag close_tag;
    struct rpc_tag receive_tag;
    struct rpc_tag send_tag;
    int close_cancelled;        /* written by gRPC */
    grpc_byte_buffer *received; /* written by gRPC */
    struct rpc_queued *sent;    /* of the batch under way */
    bool sent_status;           /* the batch under way has the status … */
    bool sent_close;            /* … and notices the end of the call */

    pthread_mutex_t lock; /* guards what follows */
    unsigned tags;        /* batches under way */
    bool busy;            /* a thread runs callbacks */
    bool direct;          /* the first callback runs; its answer leaves in a single batch */
    bool open_due;
    bool half_close_due;
    bool half_closed;
    bool receiving;
    bool paused;
    bool sending;
    bool broken; /* sending failed */
    bool headers_sent;
    bool ended; /* rpc_reply(), rpc_finish() or rpc_fail() was called */
    bool status_sent;
    bool close_armed;
    bool over; /* gRPC says so */
    bool done; /* the last callback ran */
    bool torn_down;
    struct rpc_msg *incoming;
    struct rpc_queue queue;
    struct fields headers;
    struct fields trailers;
    struct err end;
    char *peer;
};

/* ---- life ---- */

struct rpc_call *rpc_call_ref(struct rpc_call *call)
{
    atomic_fetch_add_explicit(&call->refs, 1, memory_order_relaxed);
    return call;
}

static void fields_release(struct fields *f)
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
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    rpc_call_unref(call);
}

/* ---- batches ---- */

static grpc_op operation(grpc_op_type type)
{
    grpc_op op;
    memset(&op, 0, sizeof(op));
    op.op = type;
    return op;
}

static size_t fill_fields(grpc_metadata *out, const struct fields *f)
{
    for (size_t i = 0; i < f->count; i++) {
        memset(&out[i], 0, sizeof(out[i]));
        /* Copies: the header compression of the connection keeps them longer than the call. */
        out[i].key = grpc_slice_from_copied_string(f->field[i].key);
        out[i].value = grpc_slice_from_copied_buffer(f->field[i].value, f->field[i].bytes);
    }
    return f->count;
}

static void drop_fields(const grpc_metadata *fields, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        grpc_slice_unref(fields[i].key);
        grpc_slice_unref(fields[i].value);
    }
}

static grpc_op close_operation(struct rpc_call *call)
{
    grpc_op op = operation(GRPC_OP_RECV_CLOSE_ON_SERVER);
    op.data.recv_close_on_server.cancelled = &call->close_cancelled;
    return op;
}

static void start_close(struct rpc_call *call)
{
    grpc_op op = close_operation(call);
    rpc_batch_start(call->grpc, &op, 1, &call->close_tag);
}

static void start_receive(struct rpc_call *call)
{
    call->received = NULL;
    grpc_op op = operation(GRPC_OP_RECV_MESSAGE);
    op.data.recv_message.recv_message = &call->received;
    rpc_batch_start(call->grpc, &op, 1, &call->receive_tag);
}

struct send {
    bool wanted;
    bool with_headers;
    bool more; /* messages follow */
};

static void start_send(struct rpc_call *call, const struct send *send)
{
    grpc_op ops[4];
    size_t n = 0;
    grpc_metadata headers[RPC_METADATA_MAX + 1];
    grpc_metadata trailers[RPC_METADATA_MAX + 1];
    size_t header_count = 0;
    size_t trailer_count = 0;
    grpc_slice text = grpc_empty_slice();
    if (send->with_headers) {
        header_count = fill_fields(headers, &call->headers);
        ops[n] = operation(GRPC_OP_SEND_INITIAL_METADATA);
        ops[n].data.send_initial_metadata.count = header_count;
        ops[n++].data.send_initial_metadata.metadata = headers;
    }
    if (call->sent) {
        ops[n] = operation(GRPC_OP_SEND_MESSAGE);
        ops[n].flags = send->more ? GRPC_WRITE_BUFFER_HINT : 0;
        ops[n++].data.send_message.send_message = call->sent->buffer;
    }
    if (call->sent_status) {
        trailer_count = fill_fields(trailers, &call->trailers);
        text = grpc_slice_from_copied_string(call->end.msg);
        ops[n] = operation(GRPC_OP_SEND_STATUS_FROM_SERVER);
        ops[n].data.send_status_from_server.status =
            (grpc_status_code)rpc_code_of_err(call->end.code);
        ops[n].data.send_status_from_server.status_details = call->end.code ? &text : NULL;
        ops[n].data.send_status_from_server.trailing_metadata_count = trailer_count;
        ops[n++].data.send_status_from_server.trailing_metadata = trailers;
    }
    if (call->sent_close) {
        ops[n++] = close_operation(call);
    }
    rpc_batch_start(call->grpc, ops, n, &call->send_tag);
    grpc_slice_unref(text);
    drop_fields(headers, header_count);
    drop_fields(trailers, trailer_count);
}

/* Locked. Decide on the next send batch and own the right to it. */
static struct send prepare_send(struct rpc_call *call)
{
    struct send send = {.wanted = false};
    bool status_due = call->ended && !call->status_sent;
    if (call->sending || call->broken || call->over || call->direct ||
        (!call->queue.head && !status_due)) {
        return send;
    }
    call->sent = rpc_queue_pop(&call->queue);
    call->sent_status = status_due && !call->queue.head;
    call->sent_close = call->sent_status && !call->close_armed;
    send = (struct send){.wanted = true,
                         .with_headers = !call->headers_sent,
                         .more = call->queue.head || (status_due && !call->sent_status)};
    call->headers_sent = true;
    call->sending = true;
    call->status_sent |= call->sent_status;
    call->close_armed |= call->sent_close;
    call->tags++;
    return send;
}

static bool prepare_receive(struct rpc_call *call)
{
    if (!call->entry || !call->entry->client_streams || call->busy || call->receiving ||
        call->paused || call->half_closed || call->ended || call->over || call->incoming ||
        call->queue.bytes > call->queue.bytes_max / 2) {
        return false;
    }
    call->receiving = true;
    call->tags++;
    return true;
}

static bool prepare_close(struct rpc_call *call)
{
    if (call->close_armed || call->direct) {
        return false;
    }
    call->close_armed = true;
    call->tags++;
    return true;
}

/* Locked; returns unlocked. Start what is due. The batches that are counted keep the call alive
 * until the last of them is started. */
static void proceed(struct rpc_call *call)
{
    struct send send = prepare_send(call);
    bool receive = prepare_receive(call);
    bool close = prepare_close(call);
    pthread_mutex_unlock(&call->lock);
    if (close) {
        start_close(call);
    }
    if (receive) {
        start_receive(call);
    }
    if (send.wanted) {
        start_send(call, &send);
    }
}

/* ---- callbacks ---- */

/* Locked. Run one callback that is due, unlocked meanwhile; false when none is. */
static bool run_one(struct rpc_call *call)
{
    const struct rpc_method *row = call->entry ? call->entry->row : NULL;
    void *service = call->entry ? call->entry->service : NULL;
    struct rpc_msg *msg = call->incoming;
    call->incoming = NULL;
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
    if (call->open_due) {
        call->open_due = false;
        call->incoming = msg;
        pthread_mutex_unlock(&call->lock);
        row->open(call, service);
    } else if (msg) {
        pthread_mutex_unlock(&call->lock);
        row->request(call, msg, service);
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

/* Locked; returns unlocked. After every event: callbacks, then what they made due. */
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
    proceed(call);
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

static int end_call(struct rpc_call *call, const struct err *end, struct field *detail);

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
        end_call(call, &err, NULL);
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

void rpc_call_begin(struct rpc_server *s, const struct rpc_method_entry *entry, const char *path,
                    struct rpc_arrival *arrival)
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

    pthread_mutex_lock(&s->lock);
    bool refuse = s->stopping && entry && (entry->row->flags & RPC_END_ON_STOP);
    call->next = s->calls;
    call->link = &s->calls;
    if (s->calls) {
        s->calls->link = &call->next;
    }
    s->calls = call;
    pthread_mutex_unlock(&s->lock);

    struct err err;
    struct rpc_msg *msg = NULL;
    pthread_mutex_lock(&call->lock);
    call->busy = true; /* nothing runs before everything is here */
    pthread_mutex_unlock(&call->lock);
    if (!entry) {
        err_set(&err, ERR_UNSUPPORTED, "unknown method %s", path);
        end_call(call, &err, NULL);
    } else if (refuse) {
        err_set(&err, ERR_UNAVAILABLE, "the server is shutting down");
        end_call(call, &err, NULL);
    } else if (arrival->payload) {
        msg = decode(call, arrival->payload);
        arrival->payload = NULL;
    } else if (!entry->client_streams) {
        err_set(&err, ERR_INVALID, "request: there is none, or it is over the limit of %zu bytes",
                s->message_bytes_max);
        end_call(call, &err, NULL);
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

/* ---- answers ---- */

static int queue_message(struct rpc_call *call, const ProtobufCMessage *msg,
                         const struct rpc_blob *blob, bool last)
{
    struct err err;
    grpc_byte_buffer *buffer = NULL;
    int rc = 0;
    if (!call->entry) {
        rpc_blob_release(blob);
        return ERR_STATE;
    }
    buffer = rpc_buffer_encode(call->entry->output, msg, call->entry->row->response_bulk, blob,
                               call->server->message_bytes_max, &err);
    if (!buffer) {
        err_wrap(&err, "response");
        rpc_fail(call, &err);
        return err.code;
    }
    pthread_mutex_lock(&call->lock);
    if (call->over || call->broken) {
        rc = ERR_CANCELLED;
    } else if (call->ended) {
        rc = ERR_STATE;
    } else if (!rpc_queue_push(&call->queue, buffer)) {
        rc = ERR_EXHAUSTED;
    } else {
        call->ended = last;
        proceed(call);
        return 0;
    }
    pthread_mutex_unlock(&call->lock);
    grpc_byte_buffer_destroy(buffer);
    return rc;
}

int rpc_reply(struct rpc_call *call, const ProtobufCMessage *msg, const struct rpc_blob *blob)
{
    return queue_message(call, msg, blob, true);
}

int rpc_send(struct rpc_call *call, const ProtobufCMessage *msg, const struct rpc_blob *blob)
{
    return queue_message(call, msg, blob, false);
}

/* Takes the memory of @detail when not NULL. */
static int end_call(struct rpc_call *call, const struct err *end, struct field *detail)
{
    pthread_mutex_lock(&call->lock);
    int rc = call->over || call->broken ? ERR_CANCELLED : call->ended ? ERR_STATE : 0;
    if (rc != 0) {
        pthread_mutex_unlock(&call->lock);
        if (detail) {
            free(detail->key);
            free(detail->value);
        }
        return rc;
    }
    call->ended = true;
    if (end) {
        call->end = *end;
    }
    if (detail) {
        call->trailers.field[call->trailers.count++] = *detail;
    }
    proceed(call);
    return 0;
}

int rpc_finish(struct rpc_call *call)
{
    return end_call(call, NULL, NULL);
}

int rpc_fail(struct rpc_call *call, const struct err *err)
{
    return end_call(call, err, NULL);
}

int rpc_fail_detail(struct rpc_call *call, const struct err *err, const ProtobufCMessage *detail)
{
    size_t bytes = 0;
    unsigned char *packed = rpc_details_pack(err, detail, &bytes);
    if (!packed) {
        return end_call(call, err, NULL);
    }
    struct field field = {
        .key = mem_strdup(RPC_DETAILS_KEY), .value = (char *)packed, .bytes = bytes};
    return end_call(call, err, &field);
}

void rpc_pause(struct rpc_call *call)
{
    pthread_mutex_lock(&call->lock);
    call->paused = true;
    pthread_mutex_unlock(&call->lock);
}

void rpc_resume(struct rpc_call *call)
{
    pthread_mutex_lock(&call->lock);
    call->paused = false;
    proceed(call);
}

/* ---- questions ---- */

bool rpc_cancelled(const struct rpc_call *call)
{
    return atomic_load(&call->cancelled);
}

int64_t rpc_time_left_ms(const struct rpc_call *call)
{
    gpr_timespec deadline = gpr_convert_clock_type(call->deadline, GPR_CLOCK_MONOTONIC);
    if (gpr_time_cmp(deadline, gpr_inf_future(GPR_CLOCK_MONOTONIC)) == 0) {
        return INT64_MAX;
    }
    gpr_timespec left = gpr_time_sub(deadline, gpr_now(GPR_CLOCK_MONOTONIC));
    return left.tv_sec * 1000 + left.tv_nsec / 1000000;
}

const char *rpc_peer(struct rpc_call *call)
{
    pthread_mutex_lock(&call->lock);
    if (!call->peer && !call->torn_down) {
        call->peer = grpc_call_get_peer(call->grpc);
    }
    const char *peer = call->peer ? call->peer : "";
    pthread_mutex_unlock(&call->lock);
    return peer;
}

size_t rpc_queued_bytes(struct rpc_call *call)
{
    pthread_mutex_lock(&call->lock);
    size_t bytes = call->queue.bytes;
    pthread_mutex_unlock(&call->lock);
    return bytes;
}

void rpc_set_data(struct rpc_call *call, void *data)
{
    atomic_store(&call->data, data);
}

void *rpc_data(const struct rpc_call *call)
{
    return atomic_load(&call->data);
}

bool rpc_metadata(const struct rpc_call *call, const char *key, char *out, size_t n)
{
    const grpc_metadata *m = rpc_header_find(&call->metadata, key);
    if (!m || n == 0) {
        return false;
    }
    size_t bytes = GRPC_SLICE_LENGTH(m->value);
    bytes = bytes < n - 1 ? bytes : n - 1;
    memcpy(out, GRPC_SLICE_START_PTR(m->value), bytes);
    out[bytes] = '\0';
    return true;
}

static int set_field(struct rpc_call *call, bool trailer, const char *key, const char *value,
                     struct err *err)
{
    int rc = rpc_header_check(key, value, err);
    if (rc != 0) {
        return rc;
    }
    pthread_mutex_lock(&call->lock);
    struct fields *f = trailer ? &call->trailers : &call->headers;
    bool late = trailer ? call->ended : call->headers_sent || call->ended;
    if (late) {
        rc = err_set(err, ERR_STATE, "metadata \"%s\" is set too late", key);
    } else if (f->count == RPC_METADATA_MAX) {
        rc = err_set(err, ERR_EXHAUSTED, "more than %d metadata entries", RPC_METADATA_MAX);
    } else {
        f->field[f->count++] = (struct field){
            .key = mem_strdup(key), .value = mem_strdup(value), .bytes = strlen(value)};
    }
    pthread_mutex_unlock(&call->lock);
    return rc;
}

int rpc_set_header(struct rpc_call *call, const char *key, const char *value, struct err *err)
{
    return set_field(call, false, key, value, err);
}

int rpc_set_trailer(struct rpc_call *call, const char *key, const char *value, struct err *err)
{
    return set_field(call, true, key, value, err);
}
