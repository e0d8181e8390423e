/* SPDX-License-Identifier: Apache-2.0 */
/* The batches of a call on the server: which are due, and how gRPC is told. */
#include <string.h>

#include "rpc/rpc_call.h"
#include "rpc/rpc_status.h"

static grpc_op operation(grpc_op_type type)
{
    grpc_op op;
    memset(&op, 0, sizeof(op));
    op.op = type;
    return op;
}

static size_t fill_fields(grpc_metadata *out, const struct rpc_fields *f)
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
};

static void start_send(struct rpc_call *call, const struct send *send)
{
    grpc_op ops[4];
    size_t n = 0;
    grpc_metadata headers[RPC_FIELDS_MAX];
    grpc_metadata trailers[RPC_FIELDS_MAX];
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
    send = (struct send){.wanted = true, .with_headers = !call->headers_sent};
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

void rpc_call_proceed(struct rpc_call *call)
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
