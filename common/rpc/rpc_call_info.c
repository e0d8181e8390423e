/* SPDX-License-Identifier: Apache-2.0 */
/* What a handler can ask about a call: its peer, its caller, its metadata, the time that is left.
 */
#include <stdint.h>
#include <string.h>

#include "rpc/rpc_call.h"

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

const char *rpc_method_name(const struct rpc_call *call)
{
    return call->entry ? call->entry->path + 1 : ""; /* without the '/' */
}

const struct auth_identity *rpc_caller(const struct rpc_call *call)
{
    return &call->caller;
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
