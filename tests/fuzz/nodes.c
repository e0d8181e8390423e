/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz/nodes.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "execution/pool.h"
#include "rpc/rpc_codec.h"

#define DEFAULTS_MAX 8
#define CALLS_MAX 500 /* of one input: who is answered wrongly asks again and again */

struct answer {
    const ProtobufCMessageDescriptor *type;
    const uint8_t *data;
    size_t n;
};

static struct answer answers[FUZZ_CALLS_MAX], defaults[DEFAULTS_MAX];
static size_t answer_count, default_count, asked;

void nodes_begin(void)
{
    answer_count = asked = 0;
}

void nodes_answer(const ProtobufCMessageDescriptor *type, const struct fuzz_call_bytes *bytes)
{
    if (answer_count < FUZZ_CALLS_MAX) {
        answers[answer_count++] = (struct answer){type, bytes->data, bytes->n};
    }
}

void nodes_default(const ProtobufCMessageDescriptor *type, const void *data, size_t n)
{
    fuzz_require(default_count < DEFAULTS_MAX, "there is room for defaults");
    defaults[default_count++] = (struct answer){type, data, n};
}

static struct answer take(const ProtobufCMessageDescriptor *type)
{
    for (size_t i = 0; i < answer_count; i++) {
        if (answers[i].type == type) {
            struct answer found = answers[i];
            memmove(&answers[i], &answers[i + 1], (--answer_count - i) * sizeof answers[0]);
            return found;
        }
    }
    for (size_t i = 0; i < default_count; i++) {
        if (defaults[i].type == type) {
            return defaults[i];
        }
    }
    return (struct answer){.type = type, .data = (const uint8_t *)""};
}

struct call {
    const ProtobufCMessageDescriptor *type;
    void (*done)(void *ctx, const struct rpc_status *status, struct rpc_msg *reply);
    void *ctx;
};

static struct rpc_msg *decode(const struct answer *a, struct err *err)
{
    const struct rpc_piece piece = {a->data, a->n};
    const struct rpc_frame frame = {.pieces = &piece, .piece_count = 1, .bytes = a->n};
    const struct rpc_decoding how = {.type = a->type};
    return rpc_msg_decode(&how, &frame, err);
}

static void run(void *ctx)
{
    struct call *call = ctx;
    struct rpc_status status = {0};
    struct answer a = take(call->type);
    struct rpc_msg *reply = NULL;
    if (asked++ >= CALLS_MAX) {
        (void)err_set(&status.err, ERR_UNAVAILABLE, "nobody answers any more");
    } else {
        reply = decode(&a, &status.err);
    }
    call->done(call->ctx, &status, reply);
    rpc_msg_unref(reply);
    free(call);
}

int rpc_call_start(struct rpc_channel *c, const struct rpc_request *request,
                   void (*done)(void *ctx, const struct rpc_status *status, struct rpc_msg *reply),
                   void *ctx, struct err *err)
{
    (void)c;
    const ProtobufCMethodDescriptor *m =
        protobuf_c_service_descriptor_get_method_by_name(request->service, request->method);
    fuzz_require(m != NULL && request->body->descriptor == m->input,
                 "what is called exists and takes that");
    if (asked > 2 * CALLS_MAX) {
        return err_set(err, ERR_UNAVAILABLE, "there is no way");
    }
    uint8_t *packed = mem_new(protobuf_c_message_get_packed_size(request->body) + 1, 1);
    (void)protobuf_c_message_pack(request->body, packed);
    free(packed);
    struct call *call = mem_new(1, sizeof *call);
    *call = (struct call){.type = m->output, .done = done, .ctx = ctx};
    return pool_post(NULL, run, call, err);
}

struct rpc_loop {
    int unused;
};
struct rpc_channel {
    char *target;
};

struct rpc_loop *rpc_loop_new(struct rpc_polling *polling, struct err *err)
{
    (void)polling;
    (void)err;
    return mem_new(1, sizeof(struct rpc_loop));
}

void rpc_loop_free(struct rpc_loop *loop)
{
    free(loop);
}

struct rpc_channel *rpc_channel_new(const struct rpc_channel_options *options, struct err *err)
{
    (void)err;
    struct rpc_channel *c = mem_new(1, sizeof *c);
    c->target = mem_strdup(options->target);
    return c;
}

void rpc_channel_free(struct rpc_channel *c)
{
    free(c->target);
    free(c);
}

const char *rpc_channel_target(const struct rpc_channel *c)
{
    return c->target;
}
