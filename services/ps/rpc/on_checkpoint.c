/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoint: a pinned version into a file. */
#include "ps/rpc/ps_shell.h"

/* Answers a refusal of the core; other answers come from the thread that writes. */
static void answer_refusal(struct ps_request *r, const struct shard_action *a,
                           const struct err *err)
{
    (void)a;
    (void)rpc_fail(r->call, err);
}

void ps_on_checkpoint(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Gradus__V1__CheckpointShardRequest *m =
        (const Gradus__V1__CheckpointShardRequest *)msg->body;
    struct err err;
    /* a message without a shard, or with one that is not here, is refused below */
    if (m->shard != NULL &&
        (ps_check_directory(m->shard->job, m->directory, &err) != 0 ||
         (m->base_file != NULL &&
          ps_check_directory(m->shard->job, m->base_file->directory, &err) != 0))) {
        (void)rpc_fail(call, &err);
        return;
    }
    struct ps_request *r = ps_unary(service, m->shard, SHARD_CHECKPOINT, call, msg, answer_refusal);
    if (r != NULL) {
        r->event.pin_id = m->pin_id;
        ps_request_post_unary(r);
    }
}
