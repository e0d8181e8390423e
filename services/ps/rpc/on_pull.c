/* SPDX-License-Identifier: Apache-2.0 */
/* Pull: the values of a whole shard in one message, for readers without a stream. */
#include "ps/rpc/ps_shell.h"

static void answer_values(struct ps_request *r, const struct shard_action *a, const struct err *err)
{
    if (a->code != 0) {
        (void)rpc_fail(r->call, err);
        return;
    }
    Gradus__V1__PullResponse m = GRADUS__V1__PULL_RESPONSE__INIT;
    m.version = a->version;
    m.progress = a->answer.train.progress;
    m.clock = a->answer.train.clock;
    m.type = (Gradus__V1__WireType)r->pulled;
    struct ps_source values = ps_values_answer(r->shard, a, 1);
    struct rpc_piece piece = ps_values_piece(r, &values, 0, r->shard->elements);
    struct rpc_blob blob = {
        .pieces = &piece, .piece_count = 1, .release = values.release, .ctx = values.ctx};
    (void)rpc_reply(r->call, &m.base, &blob); /* too large a message ends the call by itself */
}

/* Reads what @m asks for. Errors: ERR_INVALID. */
static int read_ask(struct ps_request *r, const Gradus__V1__PullRequest *m, struct err *err)
{
    if (m->what_case == GRADUS__V1__PULL_REQUEST__WHAT_PINNED) {
        wire_pinned_from_proto(m->pinned, &r->event.ask);
        return 0;
    }
    const Gradus__V1__Pull *pull =
        m->what_case == GRADUS__V1__PULL_REQUEST__WHAT_PULL ? m->pull : NULL;
    int rc = wire_pull_from_proto(pull, &r->event.ask, err);
    return rc != 0 ? rc : ps_read_types(NULL, pull, r, err);
}

void ps_on_pull(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Gradus__V1__PullRequest *m = (const Gradus__V1__PullRequest *)msg->body;
    struct ps_request *r =
        ps_unary_exchange(service, m->shard, m->worker, false, call, answer_values);
    struct err err;
    if (r == NULL) {
        return;
    }
    if (read_ask(r, m, &err) == 0) {
        ps_request_name(r, m->worker);
        ps_request_post_unary(r);
        return;
    }
    (void)ps_shard_wrap(r->shard, &err);
    (void)rpc_fail(call, &err);
    ps_request_unref(r);
}
