/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, both ends ours. */
#include "support/test.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "support/echo_service.h"

struct fixture {
    struct echo echo;
    struct rpc_server *server;
    struct rpc_channel *channel;
};

static void start(struct fixture *f, const struct rpc_server_options *server_options)
{
    struct err err = {0};
    echo_init(&f->echo);
    f->server = echo_server(&f->echo, server_options, &err);
    assert_string_equal(err.msg, "");
    struct rpc_channel_options options = {.target = rpc_server_address(f->server, 0)};
    f->channel = rpc_channel_new(&options, &err);
    assert_non_null(f->channel);
}

static void stop(struct fixture *f)
{
    rpc_channel_free(f->channel);
    rpc_server_free(f->server);
    echo_release(&f->echo);
}

/* What a stream brought; only the loop writes it until `done` is counted. */
struct seen {
    struct latch messages;
    struct latch done;
    uint64_t numbers; /* sum */
    bool in_order;    /* numbers are 0, 1, 2 … */
    size_t bulk_bytes;
    uint64_t bulk_sum;
    int code;
    char message[300];
};

static void seen_init(struct seen *s)
{
    *s = (struct seen){.in_order = true};
    latch_init(&s->messages);
    latch_init(&s->done);
}

static void seen_release(struct seen *s)
{
    latch_release(&s->messages);
    latch_release(&s->done);
}

static void on_message(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    struct seen *s = ctx;
    const echo_item *item = (const echo_item *)msg->body;
    s->in_order = s->in_order && item->number == s->messages.count;
    s->numbers += item->number;
    const unsigned char *data = NULL;
    size_t bytes = 0;
    while (msg->bulk && rpc_spans_next(msg->bulk, &data, &bytes)) {
        s->bulk_bytes += bytes;
        for (size_t i = 0; i < bytes; i += 97) {
            s->bulk_sum += data[i];
        }
    }
    latch_add(&s->messages);
}

static void on_done(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    struct seen *s = ctx;
    s->code = status->err.code;
    snprintf(s->message, sizeof(s->message), "%.290s", status->err.msg);
    latch_add(&s->done);
}

static const struct rpc_stream_events events = {.message = on_message, .done = on_done};

static struct rpc_stream *open_stream(struct fixture *f, struct seen *seen, const char *method,
                                      const echo_item *body)
{
    struct rpc_request request = {.service = &gradus__test__echo__descriptor,
                                  .method = method,
                                  .body = body ? &body->base : NULL,
                                  .request_bulk = ECHO_BULK_FIELD,
                                  .response_bulk = ECHO_BULK_FIELD,
                                  .timeout_ms = 60000};
    struct err err = {0};
    struct rpc_stream *stream = rpc_stream_open(f->channel, &request, &events, seen, &err);
    assert_string_equal(err.msg, "");
    return stream;
}

static void send_number(struct rpc_stream *stream, uint64_t number)
{
    echo_item item = GRADUS__TEST__ITEM__INIT;
    item.number = number;
    struct err err = {0};
    rpc_stream_send(stream, &item.base, NULL, &err);
    assert_string_equal(err.msg, "");
}

static void test_server_stream(void **state)
{
    (void)state;
    struct fixture f;
    struct seen seen;
    start(&f, NULL);
    seen_init(&seen);
    echo_item item = GRADUS__TEST__ITEM__INIT;
    item.number = 1000;
    struct rpc_stream *stream = open_stream(&f, &seen, "Count", &item);
    assert_true(latch_wait(&seen.done, 1));
    assert_int_equal(seen.code, 0);
    assert_int_equal(latch_count(&seen.messages), 1000);
    assert_true(seen.in_order);
    struct err err;
    assert_int_equal(rpc_stream_send(stream, &item.base, NULL, &err), ERR_CANCELLED);
    rpc_stream_free(stream);
    seen_release(&seen);
    stop(&f);
}

/* Streams on which nobody says anything are calls, too. */
static void test_calls_are_limited(void **state)
{
    (void)state;
    struct fixture f;
    struct seen seen[4];
    struct rpc_stream *streams[4];
    start(&f, &(struct rpc_server_options){.calls_max = 2, .pollers = 1});
    for (size_t i = 0; i < 3; i++) {
        seen_init(&seen[i]);
        streams[i] = open_stream(&f, &seen[i], "Sum", NULL);
        while (i < 2 && rpc_server_calls(f.server) <= i) {
            (void)sched_yield(); /* one after the other: the third one is too much */
        }
    }
    assert_true(latch_wait(&seen[2].done, 1));
    assert_int_equal(seen[2].code, ERR_EXHAUSTED);
    assert_non_null(strstr(seen[2].message, "this server has 2 calls in hand and takes no more"));
    send_number(streams[0], 5); /* those that are there go on */
    assert_int_equal(rpc_stream_half_close(streams[0]), 0);
    assert_true(latch_wait(&seen[0].done, 1));
    assert_int_equal(seen[0].numbers, 5);
    while (rpc_server_calls(f.server) > 1) {
        (void)sched_yield(); /* the client knew first */
    }
    seen_init(&seen[3]);
    streams[3] = open_stream(&f, &seen[3], "Sum", NULL);
    assert_int_equal(rpc_stream_half_close(streams[3]), 0);
    assert_true(latch_wait(&seen[3].done, 1));
    assert_int_equal(seen[3].code, 0);
    for (size_t i = 0; i < 4; i++) {
        rpc_stream_free(streams[i]);
    }
    rpc_channel_cancel(f.channel);
    assert_true(latch_wait(&seen[1].done, 1));
    for (size_t i = 0; i < 4; i++) {
        seen_release(&seen[i]);
    }
    stop(&f);
}

static void test_client_stream(void **state)
{
    (void)state;
    struct fixture f;
    struct seen seen;
    start(&f, NULL);
    seen_init(&seen);
    struct rpc_stream *stream = open_stream(&f, &seen, "Sum", NULL);
    for (uint64_t i = 1; i <= 100; i++) {
        send_number(stream, i);
    }
    assert_int_equal(rpc_stream_half_close(stream), 0);
    struct err err;
    echo_item item = GRADUS__TEST__ITEM__INIT;
    assert_int_equal(rpc_stream_send(stream, &item.base, NULL, &err), ERR_STATE);
    assert_true(latch_wait(&seen.done, 1));
    assert_int_equal(seen.code, 0);
    assert_int_equal(seen.numbers, 5050);
    rpc_stream_free(stream);
    seen_release(&seen);
    stop(&f);
}

/* 32 MiB in 1 MiB messages through queues that hold only a few of them. */
static void test_chat_large(void **state)
{
    (void)state;
    enum { CHUNK = 1 << 20, CHUNKS = 32 };
    struct fixture f;
    struct seen seen;
    start(&f, &(struct rpc_server_options){.send_bytes_max = 4 << 20});
    seen_init(&seen);
    rpc_channel_free(f.channel);
    struct err err = {0};
    f.channel =
        rpc_channel_new(&(struct rpc_channel_options){.target = rpc_server_address(f.server, 0),
                                                      .send_bytes_max = 4 << 20},
                        &err);
    unsigned char *data = mem_new(CHUNK, 1);
    uint64_t sum = 0;
    for (size_t i = 0; i < CHUNK; i++) {
        data[i] = (unsigned char)(i % 251);
        sum += data[i];
    }
    struct latch released;
    latch_init(&released);
    struct rpc_stream *stream = open_stream(&f, &seen, "Chat", NULL);
    for (uint64_t i = 0; i < CHUNKS; i++) {
        assert_int_equal(rpc_stream_wait_writable(stream, 20000, &err), 0);
        struct rpc_piece pieces[] = {{data, 1001}, {data + 1001, CHUNK - 1001}};
        struct rpc_blob blob = {pieces, 2, (void (*)(void *))latch_add, &released};
        echo_item item = GRADUS__TEST__ITEM__INIT;
        item.number = i;
        assert_int_equal(rpc_stream_send(stream, &item.base, &blob, &err), 0);
    }
    rpc_stream_half_close(stream);
    assert_true(latch_wait(&seen.done, 1));
    assert_int_equal(seen.code, 0);
    assert_int_equal(latch_count(&seen.messages), CHUNKS);
    assert_true(seen.in_order);
    assert_int_equal(seen.bulk_bytes, (size_t)CHUNK * CHUNKS);
    assert_true(seen.bulk_sum > 0 && sum > seen.bulk_sum / 1000);
    rpc_stream_free(stream);
    stop(&f);
    assert_true(latch_wait(&released, CHUNKS));
    latch_release(&released);
    seen_release(&seen);
    free(data);
}

/* The server pauses: what the client sends meets a full queue, not memory without end. */
static void test_back_pressure(void **state)
{
    (void)state;
    struct fixture f;
    struct seen seen;
    start(&f, NULL);
    seen_init(&seen);
    struct err err = {0};
    rpc_channel_free(f.channel);
    f.channel =
        rpc_channel_new(&(struct rpc_channel_options){.target = rpc_server_address(f.server, 0),
                                                      .send_bytes_max = 4 << 20},
                        &err);
    struct rpc_stream *stream = open_stream(&f, &seen, "Chat", NULL);
    char pause[] = "pause";
    echo_item item = GRADUS__TEST__ITEM__INIT;
    item.text = pause;
    assert_int_equal(rpc_stream_send(stream, &item.base, NULL, &err), 0);
    assert_true(latch_wait(&f.echo.held, 1));

    size_t bytes = 1 << 20;
    unsigned char *data = mem_new(bytes, 1);
    struct rpc_piece piece = {data, bytes};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    gradus__test__item__init(&item);
    int rc = 0;
    uint64_t sent = 0;
    do { /* until the windows of HTTP/2 are full, too */
        item.number = sent;
        rc = rpc_stream_send(stream, &item.base, &blob, &err);
        sent += rc == 0;
        if (rc == ERR_EXHAUSTED) {
            assert_non_null(strstr(err.msg, "queued already"));
            rc = rpc_stream_wait_writable(stream, 200, &err);
        }
    } while (rc == 0 && sent < 1000);
    assert_int_equal(rc, ERR_TIMEOUT);
    assert_int_equal(latch_count(&seen.messages), 0);

    rpc_resume(f.echo.hanging);
    assert_true(latch_wait(&seen.messages, (unsigned)sent));
    rpc_stream_half_close(stream);
    assert_true(latch_wait(&seen.done, 1));
    assert_int_equal(seen.code, 0);
    assert_true(seen.in_order);
    rpc_stream_free(stream);
    seen_release(&seen);
    free(data);
    stop(&f);
}

/* The server takes a message back, and it comes again before those behind it. */
static void test_a_message_comes_again(void **state)
{
    (void)state;
    struct fixture f;
    struct seen seen;
    struct err err = {0};
    char again[] = "again";
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        start(&f, NULL);
        seen_init(&seen);
        struct rpc_stream *stream = open_stream(&f, &seen, "Chat", NULL);
        for (uint64_t i = 0; i < 3; i++) {
            echo_item item = GRADUS__TEST__ITEM__INIT;
            item.number = i;
            item.text = i == 0 ? again : item.text;
            assert_int_equal(rpc_stream_send(stream, &item.base, NULL, &err), 0);
        }
        rpc_stream_half_close(stream);
        assert_true(latch_wait(&f.echo.held, 1));
        assert_int_equal(latch_count(&seen.messages), 0);
        if (cancelled) {
            rpc_stream_cancel(stream);
            assert_true(latch_wait(&f.echo.done, 1));
        }
        rpc_resume(f.echo.hanging);
        assert_true(latch_wait(&seen.done, 1));
        assert_int_equal(latch_count(&seen.messages), cancelled ? 0 : 3);
        assert_int_equal(seen.code, cancelled ? ERR_CANCELLED : 0);
        assert_true(seen.in_order);
        rpc_stream_free(stream);
        seen_release(&seen);
        stop(&f);
    }
}

/* A message that was taken back keeps nobody out. */
static void test_what_comes_again_is_not_in_flight(void **state)
{
    (void)state;
    struct fixture f;
    struct seen seen[2];
    struct err err = {0};
    char again[] = "again";
    static unsigned char data[2000];
    struct rpc_piece piece = {data, sizeof data};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    struct rpc_stream *streams[2];
    start(&f, &(struct rpc_server_options){.inflight_bytes_max = 5000});
    for (size_t i = 0; i < 2; i++) {
        echo_item item = GRADUS__TEST__ITEM__INIT;
        item.text = i == 0 ? again : item.text;
        seen_init(&seen[i]);
        streams[i] = open_stream(&f, &seen[i], "Chat", NULL);
        assert_int_equal(rpc_stream_send(streams[i], &item.base, &blob, &err), 0);
        rpc_stream_half_close(streams[i]);
        assert_true(i == 0 ? latch_wait(&f.echo.held, 1) : latch_wait(&seen[1].done, 1));
    }
    assert_int_equal(seen[1].code, 0);
    rpc_resume(f.echo.hanging);
    assert_true(latch_wait(&seen[0].done, 1));
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(seen[i].code, 0);
        assert_int_equal(seen[i].bulk_bytes, sizeof data);
        rpc_stream_free(streams[i]);
        seen_release(&seen[i]);
    }
    assert_int_equal(rpc_server_inflight_bytes(f.server), 0);
    stop(&f);
}

/* A pause lets one message through, which was asked for before; the rest comes after it, in order.
 */
static void test_pause_and_resume(void **state)
{
    (void)state;
    struct fixture f;
    struct seen seen, behind;
    start(&f, NULL);
    seen_init(&seen);
    seen_init(&behind);
    echo_item item = GRADUS__TEST__ITEM__INIT;
    struct rpc_stream *stream = open_stream(&f, &seen, "Chat", NULL);
    rpc_stream_pause(stream);
    for (uint64_t i = 0; i < 3; i++) {
        send_number(stream, i);
    }
    assert_true(latch_wait(&seen.messages, 1));
    item.number = 100; /* on the same connection: when it is over, what is not held has come */
    struct rpc_stream *other = open_stream(&f, &behind, "Count", &item);
    assert_true(latch_wait(&behind.done, 1));
    assert_int_equal(latch_count(&seen.messages), 1);
    rpc_stream_resume(stream);
    assert_true(latch_wait(&seen.messages, 3));
    assert_true(seen.in_order);
    assert_int_equal(rpc_stream_half_close(stream), 0);
    int again = rpc_stream_half_close(stream);
    assert_true(again == ERR_STATE || again == ERR_CANCELLED); /* the server may have ended it */
    assert_true(latch_wait(&seen.done, 1));
    assert_int_equal(seen.code, 0);
    rpc_stream_free(other);
    rpc_stream_free(stream);
    seen_release(&behind);
    seen_release(&seen);
    stop(&f);
}

/* The client takes nothing: the server's queue fills up, and its sends say so. */
static void test_slow_reader(void **state)
{
    (void)state;
    struct fixture f;
    struct seen seen;
    start(&f, &(struct rpc_server_options){.send_bytes_max = 1 << 20});
    seen_init(&seen);
    unsigned char *data = mem_new(65536, 1);
    echo_item item = GRADUS__TEST__ITEM__INIT;
    item.number = 10000;
    item.plain = (ProtobufCBinaryData){.len = 65536, .data = data};
    struct rpc_stream *stream = open_stream(&f, &seen, "Count", &item);
    rpc_stream_pause(stream);
    assert_true(latch_wait(&f.echo.filled, 1));
    rpc_stream_free(stream); /* cancels while sending */
    assert_true(latch_wait(&seen.done, 1));
    assert_int_equal(seen.code, ERR_CANCELLED);
    assert_true(latch_wait(&f.echo.cancelled, 1));
    seen_release(&seen);
    free(data);
    stop(&f);
}

static void test_stream_fails(void **state)
{
    (void)state;
    struct fixture f;
    struct seen seen;
    start(&f, NULL);
    seen_init(&seen);
    struct rpc_stream *stream = open_stream(&f, &seen, "Chat", NULL);
    send_number(stream, 0);
    char text[] = "fail";
    echo_item item = GRADUS__TEST__ITEM__INIT;
    item.text = text;
    struct err err = {0};
    assert_int_equal(rpc_stream_send(stream, &item.base, NULL, &err), 0);
    assert_true(latch_wait(&seen.done, 1));
    assert_int_equal(latch_count(&seen.messages), 1);
    assert_int_equal(seen.code, ERR_ABORTED);
    assert_non_null(strstr(seen.message, "gradus.test.Echo.Chat at 127.0.0.1:"));
    assert_int_equal(rpc_stream_half_close(stream), ERR_CANCELLED);
    rpc_stream_free(stream);
    seen_release(&seen);
    stop(&f);
}

static void test_cancel(void **state)
{
    (void)state;
    struct fixture f;
    struct seen seen;
    start(&f, NULL);
    seen_init(&seen);
    echo_item item = GRADUS__TEST__ITEM__INIT;
    char hang[] = "hang";
    item.text = hang;
    struct rpc_stream *stream = open_stream(&f, &seen, "Count", &item);
    assert_true(latch_wait(&f.echo.held, 1));
    rpc_stream_cancel(stream);
    assert_true(latch_wait(&seen.done, 1));
    assert_int_equal(seen.code, ERR_CANCELLED);
    assert_true(latch_wait(&f.echo.cancelled, 1));
    rpc_stream_free(stream);
    seen_release(&seen);
    stop(&f);
}

/* A unary method whose client says that it is done without having said anything. */
static void test_no_message(void **state)
{
    (void)state;
    struct fixture f;
    struct seen seen;
    start(&f, NULL);
    seen_init(&seen);
    struct rpc_stream *stream = open_stream(&f, &seen, "Unary", NULL);
    assert_int_equal(rpc_stream_half_close(stream), 0);
    assert_true(latch_wait(&seen.done, 1));
    assert_int_equal(seen.code, ERR_INVALID);
    assert_non_null(strstr(seen.message, "request: there is none"));
    rpc_stream_free(stream);
    seen_release(&seen);
    stop(&f);
}

/* Too large for the server in the middle of a stream. */
static void test_oversize(void **state)
{
    (void)state;
    struct fixture f;
    struct seen seen;
    start(&f, &(struct rpc_server_options){.message_bytes_max = 10000});
    seen_init(&seen);
    struct rpc_stream *stream = open_stream(&f, &seen, "Chat", NULL);
    send_number(stream, 0);
    assert_true(latch_wait(&seen.messages, 1));
    unsigned char data[20000] = {0};
    struct rpc_piece piece = {data, sizeof(data)};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    echo_item item = GRADUS__TEST__ITEM__INIT;
    struct err err = {0};
    assert_int_equal(rpc_stream_send(stream, &item.base, &blob, &err), 0);
    assert_true(latch_wait(&seen.done, 1));
    assert_int_equal(seen.code, ERR_EXHAUSTED);
    assert_true(latch_wait(&f.echo.done, 1));
    rpc_stream_free(stream);
    seen_release(&seen);
    stop(&f);
}

static void count_message(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    (void)msg;
    struct seen *s = ctx;
    latch_add(&s->messages);
}

/* One side takes Chat's items for messages of another type, which some of them could be. */
static void chat_with_a_stranger(bool server_is_misread, const char *says)
{
    static const struct rpc_stream_events counting = {.message = count_message, .done = on_done};
    struct fixture f;
    struct seen seen;
    struct err err = {0};
    start(&f, NULL);
    seen_init(&seen);
    ProtobufCMethodDescriptor method = {"Chat", &gradus__test__item__descriptor,
                                        &gradus__test__item__descriptor};
    ProtobufCServiceDescriptor other = gradus__test__echo__descriptor;
    const unsigned order[] = {0};
    other.n_methods = 1;
    other.methods = &method;
    other.method_indices_by_name = order;
    if (server_is_misread) {
        method.output = &gradus__test__strange__descriptor;
    } else {
        method.input = &gradus__test__strange__descriptor;
    }
    struct rpc_request request = {.service = &other, .method = "Chat", .timeout_ms = 60000};
    struct rpc_stream *stream = rpc_stream_open(f.channel, &request, &counting, &seen, &err);
    assert_non_null(stream);
    Gradus__Test__Strange strange = GRADUS__TEST__STRANGE__INIT;
    echo_item item = GRADUS__TEST__ITEM__INIT;
    char text[] = "text";
    const ProtobufCMessage *m = server_is_misread ? &item.base : &strange.base;
    assert_int_equal(rpc_stream_send(stream, m, NULL, &err), 0); /* empty: of any type */
    assert_true(latch_wait(&seen.messages, 1));
    strange.text = 3;
    item.text = text;
    assert_int_equal(rpc_stream_send(stream, m, NULL, &err), 0);
    assert_true(latch_wait(&seen.done, 1));
    assert_int_equal(latch_count(&seen.messages), 1);
    assert_true(seen.code == ERR_INVALID || seen.code == ERR_INTERNAL);
    if (strstr(seen.message, says) == NULL) {
        fail_msg("'%s' does not say '%s'", seen.message, says);
    }
    assert_true(latch_wait(&f.echo.done, 1)); /* the other side hears of it */
    rpc_stream_free(stream);
    seen_release(&seen);
    stop(&f);
}

static void test_garbage(void **state)
{
    (void)state;
    chat_with_a_stranger(false, "are not a gradus.test.Item");
    chat_with_a_stranger(true, "are not a gradus.test.Strange");
}

/* A channel is freed while a stream is busy in both directions. */
static void test_free_while_busy(void **state)
{
    (void)state;
    for (unsigned round = 0; round < 10; round++) {
        struct fixture f;
        struct seen seen;
        start(&f, NULL);
        seen_init(&seen);
        struct rpc_stream *stream = open_stream(&f, &seen, "Chat", NULL);
        unsigned char data[40000] = {0};
        struct rpc_piece piece = {data, sizeof(data)};
        struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
        for (unsigned i = 0; i < 20; i++) {
            echo_item item = GRADUS__TEST__ITEM__INIT;
            struct err err = {0};
            assert_int_equal(rpc_stream_send(stream, &item.base, &blob, &err), 0);
        }
        assert_true(latch_wait(&seen.messages, round + 1));
        rpc_channel_free(f.channel);
        f.channel = NULL;
        assert_int_equal(latch_count(&seen.done), 1);
        assert_int_equal(seen.code, ERR_CANCELLED);
        rpc_stream_free(stream);
        assert_true(latch_wait(&f.echo.cancelled, 1));
        seen_release(&seen);
        stop(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_server_stream),
        cmocka_unit_test(test_calls_are_limited),
        cmocka_unit_test(test_client_stream),
        cmocka_unit_test(test_chat_large),
        cmocka_unit_test(test_back_pressure),
        cmocka_unit_test(test_a_message_comes_again),
        cmocka_unit_test(test_what_comes_again_is_not_in_flight),
        cmocka_unit_test(test_pause_and_resume),
        cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_stream_fails),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_no_message),
        cmocka_unit_test(test_oversize),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_free_while_busy),
    };
    rpc_init();
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return rc;
}
