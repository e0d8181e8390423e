/* SPDX-License-Identifier: Apache-2.0 */
/* Calls an echo service of any language: rpc_echo_client ADDRESS. Says what differs and fails. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/echo_service.h"

static unsigned failures;

#define EXPECT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            failures++;                                                                            \
        }                                                                                          \
    } while (0)

#define BULK_BYTES 300007 /* not a multiple of anything */

static unsigned char *pattern(void)
{
    unsigned char *data = mem_new(BULK_BYTES, 1);
    for (size_t i = 0; i < BULK_BYTES; i++) {
        data[i] = (unsigned char)(i * 31 + i / 253);
    }
    return data;
}

static bool same_bulk(struct rpc_msg *msg, const unsigned char *data)
{
    unsigned char *copy = mem_new(BULK_BYTES, 1);
    bool same = rpc_spans_bytes(msg->bulk) == BULK_BYTES &&
                rpc_spans_read(msg->bulk, copy, BULK_BYTES) && memcmp(copy, data, BULK_BYTES) == 0;
    free(copy);
    return same;
}

static struct rpc_request request_of(const char *method, const echo_item *item)
{
    return (struct rpc_request){.service = &gradus__test__echo__descriptor,
                                .method = method,
                                .body = item ? &item->base : NULL,
                                .request_bulk = ECHO_BULK_FIELD,
                                .response_bulk = ECHO_BULK_FIELD,
                                .timeout_ms = 60000,
                                .wait_for_ready = true};
}

static void unary(struct rpc_channel *c, const unsigned char *data)
{
    char text[] = "grüße";
    echo_item item = GRADUS__TEST__ITEM__INIT;
    item.text = text;
    struct rpc_request request = request_of("Unary", &item);
    struct rpc_piece pieces[] = {{data, 100001}, {data + 100001, BULK_BYTES - 100001}};
    struct rpc_blob blob = {.pieces = pieces, .piece_count = 2};
    request.blob = &blob;
    struct rpc_header header = {"x-ask", "value"};
    request.headers = &header;
    request.header_count = 1;
    struct err err = {0};
    struct rpc_msg *reply = NULL;
    int rc = rpc_call_blocking(c, &request, &reply, &err);
    EXPECT(rc == 0);
    EXPECT(strcmp(err.msg, "") == 0);
    if (rc == 0) {
        EXPECT(strcmp(((const echo_item *)reply->body)->text, "grüße value") == 0);
        EXPECT(same_bulk(reply, data));
        rpc_msg_unref(reply);
    }
}

static void failure(struct rpc_channel *c)
{
    char text[] = "fail-detail";
    echo_item item = GRADUS__TEST__ITEM__INIT;
    item.text = text;
    struct rpc_request request = request_of("Unary", &item);
    struct rpc_status status;
    request.status = &status;
    struct err err = {0};
    EXPECT(rpc_call_blocking(c, &request, NULL, &err) == ERR_ABORTED);
    EXPECT(strstr(err.msg, "généré") != NULL);
    ProtobufCMessage *detail = rpc_status_detail(&status, &gradus__test__pair__descriptor);
    EXPECT(detail != NULL);
    if (detail) {
        EXPECT(((const Gradus__Test__Pair *)detail)->value == 4);
        protobuf_c_message_free_unpacked(detail, NULL);
    }
    rpc_status_release(&status);

    char hang[] = "hang";
    item.text = hang;
    request = request_of("Unary", &item);
    request.timeout_ms = 100;
    EXPECT(rpc_call_blocking(c, &request, NULL, &err) == ERR_TIMEOUT);
    request = request_of("Unary", &item);
    ProtobufCServiceDescriptor other = gradus__test__echo__descriptor;
    other.name = "gradus.test.Nobody";
    request.service = &other;
    EXPECT(rpc_call_blocking(c, &request, NULL, &err) == ERR_UNSUPPORTED);
}

struct seen {
    const unsigned char *data;
    struct latch done;
    unsigned messages;
    uint64_t numbers;
    unsigned bulks;
    int code;
};

static void on_message(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    struct seen *s = ctx;
    s->messages++;
    s->numbers += ((const echo_item *)msg->body)->number;
    s->bulks += same_bulk(msg, s->data);
}

static void on_done(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    struct seen *s = ctx;
    s->code = status->err.code;
    latch_add(&s->done);
}

/* Open @method, send the numbers 0 … @sends - 1 with the bulk data, wait for the end. */
static void stream(struct rpc_channel *c, struct seen *s, const char *method, const echo_item *item,
                   unsigned sends)
{
    static const struct rpc_stream_events events = {.message = on_message, .done = on_done};
    latch_init(&s->done);
    struct rpc_request request = request_of(method, item);
    struct err err = {0};
    struct rpc_stream *stream = rpc_stream_open(c, &request, &events, s, &err);
    for (unsigned i = 0; i < sends; i++) {
        struct rpc_piece piece = {s->data, BULK_BYTES};
        struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
        echo_item next = GRADUS__TEST__ITEM__INIT;
        next.number = i;
        EXPECT(rpc_stream_send(stream, &next.base, &blob, &err) == 0);
    }
    if (!item) {
        EXPECT(rpc_stream_half_close(stream) == 0);
    }
    EXPECT(latch_wait(&s->done, 1));
    EXPECT(s->code == 0);
    rpc_stream_free(stream);
}

static void streams(struct rpc_channel *c, const unsigned char *data)
{
    echo_item item = GRADUS__TEST__ITEM__INIT;
    item.number = 100;
    struct seen count = {.data = data};
    stream(c, &count, "Count", &item, 0);
    EXPECT(count.messages == 100 && count.numbers == 4950);

    struct seen sum = {.data = data};
    stream(c, &sum, "Sum", NULL, 20);
    EXPECT(sum.messages == 1 && sum.numbers == 190);

    struct seen chat = {.data = data};
    stream(c, &chat, "Chat", NULL, 20);
    EXPECT(chat.messages == 20 && chat.numbers == 190 && chat.bulks == 20);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: rpc_echo_client ADDRESS\n");
        return 2;
    }
    rpc_init();
    struct err err = {0};
    struct rpc_channel *c = rpc_channel_new(&(struct rpc_channel_options){.target = argv[1]}, &err);
    if (!c || rpc_channel_wait_ready(c, 60000, &err) != 0) {
        fprintf(stderr, "%s\n", err.msg);
        return 1;
    }
    unsigned char *data = pattern();
    unary(c, data);
    failure(c);
    streams(c, data);
    rpc_channel_free(c);
    free(data);
    rpc_shutdown();
    return failures == 0 ? 0 : 1;
}
