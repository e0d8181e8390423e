/* SPDX-License-Identifier: Apache-2.0 */
/* Tags of completion queues: batches that are started with them, events that run them. */
#include "rpc/rpc_grpc.h"

#if defined(__SANITIZE_THREAD__)
#define RPC_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define RPC_TSAN 1
#endif
#endif

#ifdef RPC_TSAN
void __tsan_acquire(void *address);
void __tsan_release(void *address);
#endif

void rpc_tag_release(struct rpc_tag *tag)
{
#ifdef RPC_TSAN
    __tsan_release(tag);
#else
    (void)tag;
#endif
}

void rpc_tag_acquire(struct rpc_tag *tag)
{
#ifdef RPC_TSAN
    __tsan_acquire(tag);
#else
    (void)tag;
#endif
}

void rpc_batch_start(grpc_call *call, const grpc_op *ops, size_t count, struct rpc_tag *tag)
{
    rpc_tag_release(tag);
    if (grpc_call_start_batch(call, ops, count, tag, NULL) != GRPC_CALL_OK) {
        grpc_call_cancel(call, NULL);
        tag->run(tag, false);
    }
}
