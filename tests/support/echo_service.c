/* SPDX-License-Identifier: Apache-2.0 */
#include "support/echo_service.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"

#define LATCH_SECONDS_MAX 60

void latch_init(struct latch *l)
{
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    l->count = 0;
}

void latch_release(struct latch *l)
{
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
}

void latch_add(struct latch *l)
{
    pthread_mutex_lock(&l->lock);
    l->count++;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
}

unsigned latch_count(struct latch *l)
{
    pthread_mutex_lock(&l->lock);
    unsigned count = l->count;
    pthread_mutex_unlock(&l->lock);
    return count;
}

bool latch_wait(struct latch *l, unsigned count)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LATCH_SECONDS_MAX;
    pthread_mutex_lock(&l->lock);
    int rc = 0;
    while (l->count < count && rc == 0) {
        rc = pthread_cond_timedwait(&l->changed, &l->lock, &until);
    }
    bool reached = l->count >= count;
    pthread_mutex_unlock(&l->lock);
    return reached;
}

void echo_init(struct echo *e)
{
    *e = (struct echo){0};
    latch_init(&e->held);
    latch_init(&e->done);
    latch_init(&e->cancelled);
    latch_init(&e->filled);
    pthread_mutex_init(&e->lock, NULL);
}

void echo_release(struct echo *e)
{
    rpc_call_unref(e->hanging);
    latch_release(&e->held);
    latch_release(&e->done);
    latch_release(&e->cancelled);
    latch_release(&e->filled);
    pthread_mutex_destroy(&e->lock);
}

static void hold(struct echo *e, struct rpc_call *call)
{
    pthread_mutex_lock(&e->lock);
    rpc_call_unref(e->hanging);
    e->hanging = rpc_call_ref(call);
    pthread_mutex_unlock(&e->lock);
    latch_add(&e->held);
}

void echo_answer(struct echo *e, const char *text)
{
    pthread_mutex_lock(&e->lock);
    struct rpc_call *call = e->hanging;
    e->hanging = NULL;
    pthread_mutex_unlock(&e->lock);
    char *copy = mem_strdup(text);
    echo_item item = GRADUS__TEST__ITEM__INIT;
    item.text = copy;
    rpc_reply(call, &item.base, NULL);
    free(copy);
    rpc_call_unref(call);
}

static void unref_msg(void *ctx)
{
    rpc_msg_unref(ctx);
}

/* The same item back; its bulk bytes leave from where they arrived. */
static void send_back(struct rpc_call *call, struct rpc_msg *msg,
                      int (*send)(struct rpc_call *, const ProtobufCMessage *,
                                  const struct rpc_blob *))
{
    size_t count = 0;
    size_t capacity = 0;
    struct rpc_piece *pieces = NULL;
    const unsigned char *data = NULL;
    size_t bytes = 0;
    while (rpc_spans_next(msg->bulk, &data, &bytes)) {
        pieces = mem_grow(pieces, &capacity, count + 1, sizeof(*pieces));
        pieces[count++] = (struct rpc_piece){.data = data, .bytes = bytes};
    }
    struct rpc_blob blob = {
        .pieces = pieces, .piece_count = count, .release = unref_msg, .ctx = rpc_msg_ref(msg)};
    send(call, msg->body, &blob);
    free(pieces);
}

static void fail(struct rpc_call *call, bool with_detail)
{
    struct err err;
    err_set(&err, ERR_ABORTED, "généré: generation 3 is over");
    if (!with_detail) {
        rpc_fail(call, &err);
        return;
    }
    char key[] = "generation";
    Gradus__Test__Pair detail = GRADUS__TEST__PAIR__INIT;
    detail.key = key;
    detail.value = 4;
    rpc_fail_detail(call, &err, &detail.base);
}

/* The client's "x-ask" comes back as header and trailer. */
static void metadata(struct rpc_call *call, struct rpc_msg *msg)
{
    char value[64] = "absent";
    rpc_metadata(call, "x-ask", value, sizeof(value));
    struct err err;
    if (rpc_set_header(call, "x-head", value, &err) != 0 ||
        rpc_set_trailer(call, "x-tail", value, &err) != 0) {
        rpc_fail(call, &err);
        return;
    }
    echo_item item = *(const echo_item *)msg->body;
    char *text = mem_printf("%s %s", value, rpc_peer(call));
    item.text = text;
    item.number = rpc_time_left_ms(call) == INT64_MAX ? 0 : (uint64_t)rpc_time_left_ms(call);
    rpc_reply(call, &item.base, NULL);
    free(text);
}

static void on_unary(struct rpc_call *call, struct rpc_msg *msg, void *ctx)
{
    const echo_item *item = (const echo_item *)msg->body;
    if (strcmp(item->text, "fail") == 0 || strcmp(item->text, "fail-detail") == 0) {
        fail(call, item->text[4] != '\0');
    } else if (strcmp(item->text, "not now") == 0) {
        struct err err;
        err_set(&err, ERR_UNAVAILABLE, "not now");
        rpc_fail(call, &err);
    } else if (strcmp(item->text, "hang") == 0) {
        hold(ctx, call);
    } else if (strcmp(item->text, "sink") == 0) {
        echo_item answer = GRADUS__TEST__ITEM__INIT;
        answer.number = rpc_spans_bytes(msg->bulk);
        rpc_reply(call, &answer.base, NULL);
    } else if (strcmp(item->text, "metadata") == 0) {
        metadata(call, msg);
    } else {
        send_back(call, msg, rpc_reply);
    }
}

static void on_count(struct rpc_call *call, struct rpc_msg *msg, void *ctx)
{
    struct echo *e = ctx;
    const echo_item *request = (const echo_item *)msg->body;
    if (strcmp(request->text, "hang") == 0) {
        hold(e, call);
        return;
    }
    echo_item item = *request;
    for (uint64_t i = 0; i < request->number; i++) {
        item.number = i;
        if (rpc_send(call, &item.base, NULL) == ERR_EXHAUSTED) {
            latch_add(&e->filled);
            hold(e, call);
            return;
        }
    }
    rpc_finish(call);
}

static void on_sum_open(struct rpc_call *call, void *ctx)
{
    (void)ctx;
    rpc_set_data(call, mem_new(1, sizeof(uint64_t)));
}

static void on_sum(struct rpc_call *call, struct rpc_msg *msg, void *ctx)
{
    (void)ctx;
    uint64_t *sum = rpc_data(call);
    *sum += ((const echo_item *)msg->body)->number;
}

static void on_sum_end(struct rpc_call *call, void *ctx)
{
    (void)ctx;
    const uint64_t *sum = rpc_data(call);
    echo_item item = GRADUS__TEST__ITEM__INIT;
    item.number = *sum;
    rpc_reply(call, &item.base, NULL);
}

static void on_done(struct rpc_call *call, bool cancelled, void *ctx)
{
    struct echo *e = ctx;
    (void)call;
    if (cancelled) {
        latch_add(&e->cancelled);
    }
    latch_add(&e->done);
}

static void on_sum_done(struct rpc_call *call, bool cancelled, void *ctx)
{
    free(rpc_data(call));
    on_done(call, cancelled, ctx);
}

static void on_chat(struct rpc_call *call, struct rpc_msg *msg, void *ctx)
{
    const echo_item *item = (const echo_item *)msg->body;
    if (strcmp(item->text, "fail") == 0) {
        fail(call, false);
    } else if (strcmp(item->text, "pause") == 0) {
        rpc_pause(call);
        hold(ctx, call);
    } else if (strcmp(item->text, "again") == 0 && rpc_data(call) == NULL) {
        rpc_set_data(call, ctx);
        rpc_pause_again(call);
        hold(ctx, call);
    } else {
        send_back(call, msg, rpc_send);
    }
}

const struct rpc_method echo_methods[ECHO_METHOD_COUNT] = {
    {.name = "Unary",
     .request = on_unary,
     .done = on_done,
     .request_bulk = ECHO_BULK_FIELD,
     .response_bulk = ECHO_BULK_FIELD},
    {.name = "Count", .request = on_count, .done = on_done},
    {.name = "Sum",
     .open = on_sum_open,
     .request = on_sum,
     .half_close = on_sum_end,
     .done = on_sum_done},
    {.name = "Chat",
     .request = on_chat,
     .done = on_done,
     .request_bulk = ECHO_BULK_FIELD,
     .response_bulk = ECHO_BULK_FIELD,
     .flags = RPC_END_ON_STOP},
};

struct rpc_server *echo_server(struct echo *e, const struct rpc_server_options *change,
                               struct err *err)
{
    const char *any_port[] = {"127.0.0.1:0"};
    struct rpc_server_options options = {0};
    if (change) {
        options = *change;
    }
    if (options.address_count == 0) {
        options.addresses = any_port;
        options.address_count = 1;
    }
    options.descriptors = echo_descriptors;
    options.descriptors_bytes = (size_t)(echo_descriptors_end - echo_descriptors);
    struct rpc_server *s = rpc_server_new(&options, err);
    if (s && (rpc_server_add(s, &gradus__test__echo__descriptor, echo_methods, ECHO_METHOD_COUNT, e,
                             err) != 0 ||
              rpc_server_start(s, err) != 0)) {
        rpc_server_free(s);
        s = NULL;
    }
    return s;
}
