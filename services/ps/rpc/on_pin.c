/* SPDX-License-Identifier: Apache-2.0 */
/* Pin, Unpin: versions that stay readable. */
#include "ps/rpc/ps_shell.h"

void ps_on_pin(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Gradus__V1__PinRequest *m = (const Gradus__V1__PinRequest *)msg->body;
    struct ps_request *r = ps_unary(service, m->shard, SHARD_PIN, call, msg, ps_answer_state);
    if (r == NULL) {
        return;
    }
    r->event.pin_id = m->pin_id;
    r->event.slots = m->slots != 0;
    if (m->slots && update_slot_count(r->shard->slots_of) > 0) {
        struct err err;
        struct buffer *copy = buffer_get(&r->shard->slot_copies, &err);
        if (copy == NULL) {
            (void)err_wrap(&err, "a copy of the slots");
            (void)ps_shard_wrap(r->shard, &err);
            (void)rpc_fail(call, &err);
            ps_request_unref(r);
            return;
        }
        r->event.slots_buffer = copy;
    }
    ps_request_post_unary(r);
}

void ps_on_unpin(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Gradus__V1__PinRequest *m = (const Gradus__V1__PinRequest *)msg->body;
    struct ps_request *r = ps_unary(service, m->shard, SHARD_UNPIN, call, msg, ps_answer_state);
    if (r != NULL) {
        r->event.pin_id = m->pin_id;
        ps_request_post_unary(r);
    }
}
