/* SPDX-License-Identifier: Apache-2.0 */
/* Pull, Push, PushPull: a whole shard in one message, for clients without a stream. */
#include <inttypes.h>
#include <stddef.h>

#include "base/mem.h"
#include "ps/rpc/ps_shell.h"

static void answer_values(struct ps_request *r, const struct shard_action *a, const struct err *err)
{
    if (a->code != 0) {
        (void)rpc_fail(r->call, err);
        return;
    }
    Gradus__V1__PullResponse m = GRADUS__V1__PULL_RESPONSE__INIT;
    m.version = a->version;
    m.push = (Gradus__V1__PushResult)a->answer.train.push;
    m.progress = a->answer.train.progress;
    m.clock = a->answer.train.clock;
    m.type = (Gradus__V1__WireType)r->pulled;
    struct ps_source values = ps_values_answer(r->shard, a, 1);
    struct rpc_piece piece = ps_values_piece(r, &values, 0, r->shard->elements);
    struct rpc_blob blob = {
        .pieces = &piece, .piece_count = 1, .release = values.release, .ctx = values.ctx};
    (void)rpc_reply(r->call, &m.base, &blob); /* too large a message ends the call by itself */
}

static void answer_push(struct ps_request *r, const struct shard_action *a, const struct err *err)
{
    if (a->code != 0) {
        (void)rpc_fail(r->call, err);
        return;
    }
    Gradus__V1__PushResponse m = GRADUS__V1__PUSH_RESPONSE__INIT;
    m.push = (Gradus__V1__PushResult)a->answer.train.push;
    m.version = a->version;
    (void)rpc_reply(r->call, &m.base, NULL);
}

/* Copies the values of a push into memory of their own. 1: there is no memory yet. */
static int take_values(struct ps_request *r, const Gradus__V1__Push *in, struct rpc_spans *spans,
                       struct err *err)
{
    struct buffer *buffer;
    int rc = gradient_pool_get(&r->shard->gradients, &r->waiter, &buffer, err);
    if (rc != 0) {
        return rc;
    }
    (void)wire_values_read(spans, r->pushed, buffer->floats.data, r->event.elements);
    meter_add(r->shard->ps->meters.values_received, rpc_spans_bytes(spans));
    r->event.gradient = buffer;
    return ps_read_norms(r->shard, in, buffer, err);
}

/* The push and its values into the event. What has the wrong length is left to the core to
 * refuse. */
static int read_values(struct ps_request *r, const Gradus__V1__Push *in, struct rpc_spans *spans,
                       struct err *err)
{
    int rc = wire_push_from_proto(in, &r->event.ask, err);
    rc = rc != 0 ? rc : ps_read_types(in, NULL, r, err);
    if (rc != 0) {
        return rc;
    }
    size_t bytes = rpc_spans_bytes(spans);
    if (bytes % value_type_bytes(r->pushed) != 0) {
        return err_set(err, ERR_INVALID, "%zu bytes of values are no whole number of floats",
                       bytes);
    }
    r->event.elements = bytes / value_type_bytes(r->pushed);
    const bool fits = r->event.elements == r->shard->elements;
    const bool none = bytes == 0 && r->event.ask.push.examples == 0;
    return !fits || none ? 0 : take_values(r, in, spans, err);
}

static const Gradus__V1__Push *push_of(const struct rpc_msg *msg)
{
    return msg->body->descriptor == &gradus__v1__push_request__descriptor
               ? ((const Gradus__V1__PushRequest *)msg->body)->push
               : ((const Gradus__V1__PushPullRequest *)msg->body)->push;
}

/* There is memory, or there never will be: the request goes on with the message that waited with
 * it. */
static void go_on(struct gradient_wait *w)
{
    struct ps_request *r = (struct ps_request *)((char *)w - offsetof(struct ps_request, waiter));
    struct err err;
    int rc = take_values(r, push_of(r->msg), r->msg->bulk, &err);
    if (rc == 1) {
        gradient_pool_wait(&r->shard->gradients, w);
        return;
    }
    if (rc != 0) {
        (void)ps_shard_wrap(r->shard, &err);
        r->refused = mem_new(1, sizeof *r->refused);
        *r->refused = err;
    }
    rpc_msg_unref(r->msg);
    r->msg = NULL;
    ps_request_post_waited(r);
}

/* @rc is of reading the request from @msg. */
static void post_or_fail(struct ps_request *r, const char *worker, int rc, struct rpc_msg *msg,
                         struct err *err)
{
    if (rc >= 0) {
        ps_request_name(r, worker);
    }
    if (rc == 1) {
        r->msg = rpc_msg_ref(msg);
        r->waiter.ready = go_on;
        ps_request_wait_unary(r);
        return;
    }
    if (rc == 0) {
        ps_request_post_unary(r);
        return;
    }
    (void)ps_shard_wrap(r->shard, err);
    (void)rpc_fail(r->call, err);
    buffer_put(r->event.gradient);
    ps_request_unref(r);
}

static int read_pull(const Gradus__V1__Pull *in, struct ps_request *r, struct err *err)
{
    int rc = wire_pull_from_proto(in, &r->event.ask, err);
    return rc != 0 ? rc : ps_read_types(NULL, in, r, err);
}

void ps_on_pull(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Gradus__V1__PullRequest *m = (const Gradus__V1__PullRequest *)msg->body;
    struct ps_request *r =
        ps_unary_exchange(service, m->shard, m->worker, true, call, answer_values);
    if (r == NULL) {
        return;
    }
    struct err err;
    int rc = 0;
    if (m->what_case == GRADUS__V1__PULL_REQUEST__WHAT_PINNED) {
        wire_pinned_from_proto(m->pinned, &r->event.ask);
    } else {
        rc = read_pull(m->what_case == GRADUS__V1__PULL_REQUEST__WHAT_PULL ? m->pull : NULL, r,
                       &err);
    }
    post_or_fail(r, m->worker, rc, msg, &err);
}

void ps_on_push(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Gradus__V1__PushRequest *m = (const Gradus__V1__PushRequest *)msg->body;
    struct ps_request *r =
        ps_unary_exchange(service, m->shard, m->worker, false, call, answer_push);
    if (r != NULL) {
        struct err err;
        post_or_fail(r, m->worker, read_values(r, m->push, msg->bulk, &err), msg, &err);
    }
}

void ps_on_push_pull(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Gradus__V1__PushPullRequest *m = (const Gradus__V1__PushPullRequest *)msg->body;
    struct ps_request *r =
        ps_unary_exchange(service, m->shard, m->worker, false, call, answer_values);
    if (r != NULL) {
        struct err err;
        int rc = read_pull(m->pull, r, &err);
        rc = rc != 0 ? rc : read_values(r, m->push, msg->bulk, &err);
        post_or_fail(r, m->worker, rc, msg, &err);
    }
}
