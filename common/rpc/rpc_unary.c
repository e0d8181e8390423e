/* SPDX-License-Identifier: Apache-2.0 */
/* Unary calls of the client: one batch, one event. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "rpc/rpc_client.h"

struct unary {
    struct rpc_tag tag;
    struct rpc_outgoing out;
    grpc_byte_buffer *request;
    grpc_byte_buffer *response; /* written by gRPC */
    void (*done)(void *ctx, const struct rpc_status *status, struct rpc_msg *reply);
    void *ctx;
};

static int unary_init(struct unary *u, struct rpc_channel *c, const struct rpc_request *request,
                      grpc_completion_queue *cq, struct err *err)
{
    int rc = rpc_outgoing_init(&u->out, c, request, cq, err);
    if (rc != 0) {
        rpc_blob_release(request->blob);
        return rc;
    }
    struct err why;
    u->request = rpc_buffer_encode(u->out.input, request->body, request->request_bulk,
                                   request->blob, c->message_bytes_max, &why);
    return u->request ? 0 : err_set(err, why.code, "%s: request: %s", u->out.label, why.msg);
}

static void unary_release(struct unary *u)
{
    if (u->request) {
        grpc_byte_buffer_destroy(u->request);
    }
    if (u->response) {
        grpc_byte_buffer_destroy(u->response);
    }
    rpc_outgoing_release(&u->out);
}

#define UNARY_OPS 6

static void fill_ops(struct unary *u, grpc_op *ops)
{
    memset(ops, 0, UNARY_OPS * sizeof(*ops));
    ops[0] = rpc_outgoing_headers(&u->out);
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = u->request;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &u->out.initial;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &u->response;
    ops[5] = rpc_outgoing_status(&u->out);
}

/* Fills in how the call ended; @reply is set only on success, and owned. */
static void unary_result(struct unary *u, struct rpc_status *status, struct rpc_msg **reply)
{
    rpc_outgoing_result(&u->out, status);
    *reply = NULL;
    if (status->err.code != 0) {
        return;
    }
    if (!u->response) {
        err_set(&status->err, ERR_INTERNAL, "%s: the answer has no message", u->out.label);
        return;
    }
    struct err why;
    *reply = rpc_buffer_decode(&u->out.decoding, u->response, &why);
    u->response = NULL;
    if (!*reply) {
        err_set(&status->err, why.code, "%s: response: %s", u->out.label, why.msg);
    }
}

/* ---- blocking ---- */

static void call_and_wait(struct unary *u, grpc_completion_queue *cq)
{
    grpc_op ops[UNARY_OPS];
    fill_ops(u, ops);
    rpc_tag_release(&u->tag);
    if (grpc_call_start_batch(u->out.call, ops, UNARY_OPS, &u->tag, NULL) == GRPC_CALL_OK) {
        grpc_completion_queue_pluck(cq, &u->tag, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL);
        rpc_tag_acquire(&u->tag);
    }
}

int rpc_call_blocking(struct rpc_channel *c, const struct rpc_request *request,
                      struct rpc_msg **reply, struct err *err)
{
    grpc_completion_queue *cq = grpc_completion_queue_create_for_pluck(NULL);
    struct unary u = {.request = NULL};
    struct rpc_status status = {.err = {.code = 0}};
    struct rpc_msg *received = NULL;
    if (unary_init(&u, c, request, cq, &status.err) == 0) {
        call_and_wait(&u, cq);
        unary_result(&u, &status, &received);
    }
    unary_release(&u);
    grpc_completion_queue_shutdown(cq);
    grpc_completion_queue_destroy(cq);

    int rc = status.err.code;
    if (rc != 0) {
        err_set(err, rc, "%s", status.err.msg);
    } else if (reply) {
        *reply = received;
    } else {
        rpc_msg_unref(received);
    }
    if (request->status) {
        *request->status = status;
    } else {
        rpc_status_release(&status);
    }
    return rc;
}

/* ---- asynchronous ---- */

static void unary_run(struct rpc_tag *tag, bool ok)
{
    (void)ok;
    struct unary *u = RPC_OWNER(tag, struct unary, tag);
    struct rpc_status status;
    struct rpc_msg *reply = NULL;
    unary_result(u, &status, &reply);
    u->done(u->ctx, &status, reply);
    rpc_msg_unref(reply);
    rpc_status_release(&status);
    unary_release(u);
    free(u);
}

int rpc_call_start(struct rpc_channel *c, const struct rpc_request *request,
                   void (*done)(void *ctx, const struct rpc_status *status, struct rpc_msg *reply),
                   void *ctx, struct err *err)
{
    struct unary *u = mem_new(1, sizeof(*u));
    u->tag.run = unary_run;
    u->done = done;
    u->ctx = ctx;
    int rc = unary_init(u, c, request, NULL, err);
    if (rc != 0) {
        unary_release(u);
        free(u);
        return rc;
    }
    grpc_op ops[UNARY_OPS];
    fill_ops(u, ops);
    rpc_batch_start(u->out.call, ops, UNARY_OPS, &u->tag);
    return 0;
}
