/* SPDX-License-Identifier: Apache-2.0 */
/* Functions with which handlers answer a call. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rpc/rpc_call.h"
#include "rpc/rpc_status.h"

/* More than this in the queue: the client may not be reading. */
#define STUCK_BYTES (64U << 10)

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
        rpc_call_proceed(call);
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

int rpc_call_end(struct rpc_call *call, const struct err *end, struct rpc_field *detail)
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
    if (end && (end->code == ERR_UNAVAILABLE || end->code == ERR_TIMEOUT)) {
        call->trailers.field[call->trailers.count++] = (struct rpc_field){
            .key = mem_strdup(RPC_ANSWERED_KEY), .value = mem_strdup("1"), .bytes = 1};
    }
    if (detail) {
        call->trailers.field[call->trailers.count++] = *detail;
    }
    rpc_call_proceed(call);
    return 0;
}

int rpc_finish(struct rpc_call *call)
{
    return rpc_call_end(call, NULL, NULL);
}

int rpc_fail(struct rpc_call *call, const struct err *err)
{
    return rpc_call_end(call, err, NULL);
}

int rpc_abandon(struct rpc_call *call, const struct err *err)
{
    struct rpc_queued *dropped = NULL;
    grpc_call *stuck = NULL;
    pthread_mutex_lock(&call->lock);
    if (call->sending && call->queue.bytes > STUCK_BYTES) { /* while it sends it is not torn down */
        dropped = rpc_queue_clear(&call->queue);
        stuck = call->grpc;
        grpc_call_ref(stuck);
    }
    pthread_mutex_unlock(&call->lock);
    rpc_queued_free(dropped);
    int rc = rpc_fail(call, err);
    if (stuck) {
        grpc_call_cancel(stuck, NULL);
        grpc_call_unref(stuck);
    }
    return rc;
}

int rpc_fail_detail(struct rpc_call *call, const struct err *err, const ProtobufCMessage *detail)
{
    size_t bytes = 0;
    unsigned char *packed = rpc_details_pack(err, detail, &bytes);
    if (!packed) {
        return rpc_call_end(call, err, NULL);
    }
    struct rpc_field field = {
        .key = mem_strdup(RPC_DETAILS_KEY), .value = (char *)packed, .bytes = bytes};
    return rpc_call_end(call, err, &field);
}

static int set_field(struct rpc_call *call, bool trailer, const char *key, const char *value,
                     struct err *err)
{
    int rc = rpc_header_check(key, value, err);
    if (rc != 0) {
        return rc;
    }
    pthread_mutex_lock(&call->lock);
    struct rpc_fields *f = trailer ? &call->trailers : &call->headers;
    bool late = trailer ? call->ended : call->headers_sent || call->ended;
    if (late) {
        rc = err_set(err, ERR_STATE, "metadata \"%s\" is set too late", key);
    } else if (f->count == RPC_METADATA_MAX) {
        rc = err_set(err, ERR_EXHAUSTED, "more than %d metadata entries", RPC_METADATA_MAX);
    } else {
        f->field[f->count++] = (struct rpc_field){
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
