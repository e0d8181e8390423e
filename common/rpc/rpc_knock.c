/* SPDX-License-Identifier: Apache-2.0 */
/* An event for a completion queue. gRPC's C core has none that is cheap and its own, but a call of
 * a channel that leads nowhere ends at once, and that is one. */
#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"
#include "rpc/rpc_client.h"

struct rpc_knock {
    struct rpc_tag tag;
    grpc_completion_queue *cq;
    grpc_channel *nowhere;
    atomic_bool under_way;

    grpc_call *call; /* of the event that is under way */
    grpc_metadata_array trailing;
    grpc_status_code code;
    grpc_slice details;
};

static void over(struct rpc_tag *tag, bool ok)
{
    struct rpc_knock *k = RPC_OWNER(tag, struct rpc_knock, tag);
    (void)ok;
    grpc_call_unref(k->call);
    grpc_metadata_array_destroy(&k->trailing);
    grpc_slice_unref(k->details);
    rpc_tag_release(&k->tag);
    atomic_store(&k->under_way, false);
}

struct rpc_knock *rpc_knock_new(grpc_completion_queue *cq)
{
    struct rpc_knock *k = mem_new(1, sizeof *k);
    k->tag.run = over;
    k->cq = cq;
    k->nowhere = grpc_lame_client_channel_create("", GRPC_STATUS_UNAVAILABLE, "it leads nowhere");
    return k;
}

void rpc_knock_free(struct rpc_knock *k)
{
    if (k != NULL) {
        grpc_channel_destroy(k->nowhere);
        free(k);
    }
}

void rpc_knock_at(struct rpc_knock *k)
{
    if (atomic_exchange(&k->under_way, true)) {
        return;
    }
    rpc_tag_acquire(&k->tag);
    k->call = grpc_channel_create_call(k->nowhere, NULL, GRPC_PROPAGATE_DEFAULTS, k->cq,
                                       grpc_slice_from_static_string("/"), NULL,
                                       gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
    grpc_metadata_array_init(&k->trailing);
    k->details = grpc_empty_slice();
    const grpc_op ops[] = {
        {.op = GRPC_OP_SEND_INITIAL_METADATA},
        {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
         .data.recv_status_on_client = {.trailing_metadata = &k->trailing,
                                        .status = &k->code,
                                        .status_details = &k->details}},
    };
    rpc_batch_start(k->call, ops, sizeof ops / sizeof ops[0], &k->tag);
}
