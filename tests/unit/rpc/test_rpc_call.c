/* SPDX-License-Identifier: Apache-2.0 */
/* Unary calls, both ends ours. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/chrono.h"
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
    assert_non_null(f->server);
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

/* A unary call with @text; the request can be changed between these two. */
struct call {
    char text[32];
    echo_item item;
    struct rpc_request request;
};

static struct call *call_new(const char *text)
{
    struct call *c = mem_new(1, sizeof(*c));
    strcpy(c->text, text);
    gradus__test__item__init(&c->item);
    c->item.text = c->text;
    c->request = (struct rpc_request){.service = &gradus__test__echo__descriptor,
                                      .method = "Unary",
                                      .body = &c->item.base,
                                      .request_bulk = ECHO_BULK_FIELD,
                                      .response_bulk = ECHO_BULK_FIELD,
                                      .timeout_ms = 20000};
    return c;
}

static void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part)) {
        fail_msg("\"%s\" does not contain \"%s\"", text, part);
    }
}

static void test_echo(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, NULL);
    struct call *c = call_new("hello");
    c->item.number = 7;
    struct err err = {0};
    struct rpc_msg *reply = NULL;
    assert_int_equal(rpc_call_blocking(f.channel, &c->request, &reply, &err), 0);
    const echo_item *item = (const echo_item *)reply->body;
    assert_string_equal(item->text, "hello");
    assert_int_equal(item->number, 7);
    assert_non_null(reply->bulk);
    assert_int_equal(rpc_spans_bytes(reply->bulk), 0);
    rpc_msg_unref(reply);
    assert_true(latch_wait(&f.echo.done, 1));
    assert_int_equal(latch_count(&f.echo.cancelled), 0);
    free(c);
    stop(&f);
}

static void release_count(void *ctx)
{
    latch_add(ctx);
}

/* Scattered pieces of any size arrive as one bulk field, and each blob is released once. */
static void test_bulk(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, NULL);
    static const size_t sizes[] = {0, 1, 3, 511, 512, 700, 0, 70001, 4, 4, 1000000, 2};
    enum { N = sizeof(sizes) / sizeof(sizes[0]) };
    size_t total = 0;
    for (size_t i = 0; i < N; i++) {
        total += sizes[i];
    }
    unsigned char *data = mem_new(total, 1);
    for (size_t i = 0; i < total; i++) {
        data[i] = (unsigned char)(i * 7 + i / 251);
    }
    struct latch released;
    latch_init(&released);
    for (unsigned round = 0; round < 3; round++) { /* all; without release; small */
        struct rpc_piece pieces[N];
        size_t offset = 0;
        size_t count = round == 2 ? 4 : N;
        for (size_t i = 0; i < count; i++) {
            pieces[i] = (struct rpc_piece){.data = data + offset, .bytes = sizes[i]};
            offset += sizes[i];
        }
        struct rpc_blob blob = {.pieces = pieces,
                                .piece_count = count,
                                .release = round == 1 ? NULL : release_count,
                                .ctx = &released};
        struct call *c = call_new("bulk");
        c->request.blob = &blob;
        struct err err = {0};
        struct rpc_msg *reply = NULL;
        assert_int_equal(rpc_call_blocking(f.channel, &c->request, &reply, &err), 0);
        assert_int_equal(rpc_spans_bytes(reply->bulk), offset);
        unsigned char *back = mem_new(offset, 1);
        assert_true(rpc_spans_read(reply->bulk, back, offset));
        assert_memory_equal(back, data, offset);
        free(back);
        rpc_msg_unref(reply);
        free(c);
    }
    assert_true(latch_wait(&released, 2));
    free(data);
    stop(&f); /* everything sent is gone now */
    assert_int_equal(latch_count(&released), 2);
    latch_release(&released);
}

/* Call with @c and expect an error with @code whose message has @part. */
static void expect_error(struct fixture *f, struct call *c, int code, const char *part)
{
    struct err err = {0};
    struct rpc_msg *reply = NULL;
    assert_int_equal(rpc_call_blocking(f->channel, &c->request, &reply, &err), code);
    assert_int_equal(err.code, code);
    assert_null(reply);
    assert_contains(err.msg, part);
    assert_contains(err.msg, rpc_channel_target(f->channel));
    assert_contains(err.msg, c->request.method);
    free(c);
}

static void test_failure(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, NULL);
    expect_error(&f, call_new("fail"), ERR_ABORTED, "généré: generation 3 is over");

    struct call *c = call_new("fail-detail");
    struct rpc_status status;
    c->request.status = &status;
    expect_error(&f, c, ERR_ABORTED, "généré: generation 3 is over");
    assert_int_equal(status.err.code, ERR_ABORTED);
    ProtobufCMessage *detail = rpc_status_detail(&status, &gradus__test__pair__descriptor);
    assert_non_null(detail);
    const Gradus__Test__Pair *pair = (const Gradus__Test__Pair *)detail;
    assert_string_equal(pair->key, "generation");
    assert_int_equal(pair->value, 4);
    protobuf_c_message_free_unpacked(detail, NULL);
    assert_null(rpc_status_detail(&status, &gradus__test__item__descriptor));
    rpc_status_release(&status);
    stop(&f);
}

static void test_unknown_method(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, NULL);
    ProtobufCServiceDescriptor other = gradus__test__echo__descriptor;
    other.name = "gradus.test.Nobody";
    struct call *c = call_new("x");
    c->request.service = &other;
    expect_error(&f, c, ERR_UNSUPPORTED, "unknown method /gradus.test.Nobody/Unary");
    c = call_new("x");
    c->request.method = "Nothing";
    expect_error(&f, c, ERR_INVALID, "no such rpc");
    stop(&f);
}

static void test_oversize(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, &(struct rpc_server_options){.message_bytes_max = 100000});
    unsigned char *data = mem_new(1, 200000);
    struct rpc_piece piece = {.data = data, .bytes = 200000};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    struct call *c = call_new("big");
    c->request.blob = &blob;
    expect_error(&f, c, ERR_EXHAUSTED, "larger than max (200");
    c = call_new("fits");
    piece.bytes = 90000;
    c->request.blob = &blob;
    struct err err = {0};
    assert_int_equal(rpc_call_blocking(f.channel, &c->request, NULL, &err), 0);
    free(c);

    /* Over the client's own limit: never sent. */
    struct rpc_channel_options options = {.target = rpc_server_address(f.server, 0),
                                          .message_bytes_max = 1000};
    rpc_channel_free(f.channel);
    f.channel = rpc_channel_new(&options, &err);
    c = call_new("big");
    c->request.blob = &blob;
    expect_error(&f, c, ERR_EXHAUSTED, "over the message limit of 1000 bytes");
    free(data);
    stop(&f);
}

/* A message of another type where the proto says Item. */
static void test_garbage(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, NULL);
    ProtobufCMethodDescriptor method = {"Unary", &gradus__test__strange__descriptor,
                                        &gradus__test__item__descriptor};
    ProtobufCServiceDescriptor other = gradus__test__echo__descriptor;
    const unsigned order[] = {0};
    other.n_methods = 1;
    other.methods = &method;
    other.method_indices_by_name = order;
    Gradus__Test__Strange strange = GRADUS__TEST__STRANGE__INIT;
    strange.text = 3;
    strange.pairs = 5;
    struct call *c = call_new("x");
    c->request.service = &other;
    c->request.body = &strange.base;
    expect_error(&f, c, ERR_INVALID, "are not a gradus.test.Item");

    c = call_new("x"); /* and the sender's own mistake */
    c->request.body = &strange.base;
    expect_error(&f, c, ERR_INVALID, "a gradus.test.Strange is sent where the proto says");
    stop(&f);
}

static void test_unpack_limit(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, &(struct rpc_server_options){.unpack_bytes_max = 20000});
    struct call *c = call_new("pairs");
    Gradus__Test__Pair pair = GRADUS__TEST__PAIR__INIT;
    Gradus__Test__Pair *pairs[1000];
    for (size_t i = 0; i < 1000; i++) {
        pairs[i] = &pair;
    }
    c->item.pairs = pairs;
    c->item.n_pairs = 1000; /* 2000 bytes that become 1000 structs */
    expect_error(&f, c, ERR_EXHAUSTED, "need more than 20000 bytes of memory");
    c = call_new("pairs");
    c->item.pairs = pairs;
    c->item.n_pairs = 10;
    struct err err = {0};
    assert_int_equal(rpc_call_blocking(f.channel, &c->request, NULL, &err), 0);
    free(c);
    stop(&f);
}

static void test_inflight_limit(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, &(struct rpc_server_options){.inflight_bytes_max = 4000});
    unsigned char data[4500] = {0};
    struct rpc_piece piece = {.data = data, .bytes = sizeof(data)};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    struct call *c = call_new("big");
    c->request.blob = &blob;
    expect_error(&f, c, ERR_EXHAUSTED, "in flight");
    assert_int_equal(rpc_server_inflight_bytes(f.server), 0);
    piece.bytes = 1900;            /* and a chunk of memory for the body */
    for (int i = 0; i < 10; i++) { /* what is released makes room */
        c = call_new("fits");
        c->request.blob = &blob;
        struct err err = {0};
        assert_int_equal(rpc_call_blocking(f.channel, &c->request, NULL, &err), 0);
        free(c);
    }
    stop(&f);
}

static void test_unpacked_memory_is_in_flight(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, &(struct rpc_server_options){.inflight_bytes_max = 20000});
    struct call *c = call_new("pairs");
    Gradus__Test__Pair pair = GRADUS__TEST__PAIR__INIT;
    Gradus__Test__Pair *pairs[1000];
    for (size_t i = 0; i < 1000; i++) {
        pairs[i] = &pair;
    }
    c->item.pairs = pairs;
    c->item.n_pairs = 1000; /* 2000 bytes, for which there is room, that become 1000 structs */
    expect_error(&f, c, ERR_EXHAUSTED, "when unpacked: over the limit of 20000 bytes");
    assert_int_equal(rpc_server_inflight_bytes(f.server), 0);
    c = call_new("pairs");
    c->item.pairs = pairs;
    c->item.n_pairs = 50;
    struct err err = {0};
    assert_int_equal(rpc_call_blocking(f.channel, &c->request, NULL, &err), 0);
    free(c);
    stop(&f);
}

static void test_deadline(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, NULL);
    struct call *c = call_new("hang");
    c->request.timeout_ms = 50;
    expect_error(&f, c, ERR_TIMEOUT, "(tried for ");
    echo_item hang = GRADUS__TEST__ITEM__INIT;
    char text[] = "hang";
    hang.text = text;
    const struct rpc_request request = {.service = &gradus__test__echo__descriptor,
                                        .method = "Unary",
                                        .body = &hang.base,
                                        .timeout_ms = 50};
    struct err err = {0};
    uint64_t before_ms = chrono_now_ms();
    assert_int_equal(rpc_call_blocking(f.channel, &request, NULL, &err), ERR_TIMEOUT);
    const char *tried = strstr(err.msg, "(tried for ");
    assert_non_null(tried);
    assert_in_range(strtoull(tried + strlen("(tried for "), NULL, 10), 1,
                    chrono_now_ms() - before_ms + 1);
    assert_true(latch_wait(&f.echo.cancelled, 1));
    stop(&f);
}

struct answer {
    struct latch done;
    int code;
    char text[64];
    char message[256];
};

static void on_answer(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    struct answer *a = ctx;
    a->code = status->err.code;
    snprintf(a->message, sizeof(a->message), "%.250s", status->err.msg);
    if (reply) {
        snprintf(a->text, sizeof(a->text), "%.60s", ((const echo_item *)reply->body)->text);
    }
    latch_add(&a->done);
}

/* The handler keeps the call and another thread answers it. */
static void test_later_answer(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, NULL);
    struct answer answer = {0};
    latch_init(&answer.done);
    struct call *c = call_new("hang");
    struct err err = {0};
    assert_int_equal(rpc_call_start(f.channel, &c->request, on_answer, &answer, &err), 0);
    free(c);
    assert_true(latch_wait(&f.echo.held, 1));
    echo_answer(&f.echo, "later");
    assert_true(latch_wait(&answer.done, 1));
    assert_int_equal(answer.code, 0);
    assert_string_equal(answer.text, "later");
    stop(&f);
    latch_release(&answer.done);
}

/* Freeing the channel cancels what hangs; the server notices. */
static void test_channel_free_cancels(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, NULL);
    struct answer answer = {0};
    latch_init(&answer.done);
    struct call *c = call_new("hang");
    struct err err = {0};
    assert_int_equal(rpc_call_start(f.channel, &c->request, on_answer, &answer, &err), 0);
    free(c);
    assert_true(latch_wait(&f.echo.held, 1));
    rpc_channel_free(f.channel);
    f.channel = NULL;
    assert_int_equal(latch_count(&answer.done), 1);
    assert_int_equal(answer.code, ERR_CANCELLED);
    assert_true(latch_wait(&f.echo.cancelled, 1));
    assert_true(rpc_cancelled(f.echo.hanging));
    struct err late = {.code = ERR_ABORTED, .msg = "late"};
    assert_int_equal(rpc_fail(f.echo.hanging, &late), ERR_CANCELLED);
    stop(&f);
    latch_release(&answer.done);
}

struct nested {
    struct rpc_channel *other;
    struct latch done;
    int code;
    int nested_code;
};

static void call_again(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    (void)reply;
    struct nested *n = ctx;
    n->code = status->err.code;
    struct call *c = call_new("nested");
    struct err err = {0};
    n->nested_code = rpc_call_blocking(n->other, &c->request, NULL, &err);
    free(c);
    latch_add(&n->done);
}

/* Two channels share a loop; a blocking call on its own thread does not need it. */
static void test_shared_loop(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, NULL);
    struct err err = {0};
    struct rpc_loop *loop = rpc_loop_new(&err);
    assert_non_null(loop);
    struct rpc_channel *channels[2];
    struct rpc_channel_options options = {.target = rpc_server_address(f.server, 0), .loop = loop};
    for (size_t i = 0; i < 2; i++) {
        channels[i] = rpc_channel_new(&options, &err);
        assert_non_null(channels[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        struct nested n = {.other = channels[1 - i], .code = -1, .nested_code = -1};
        latch_init(&n.done);
        struct call *c = call_new("outer");
        assert_int_equal(rpc_call_start(channels[i], &c->request, call_again, &n, &err), 0);
        free(c);
        assert_true(latch_wait(&n.done, 1));
        assert_int_equal(n.code, 0);
        assert_int_equal(n.nested_code, 0);
        latch_release(&n.done);
    }
    rpc_channel_free(channels[0]);
    rpc_channel_cancel(channels[1]);
    struct call *c = call_new("late");
    assert_int_equal(rpc_call_start(channels[1], &c->request, call_again, NULL, &err),
                     ERR_UNAVAILABLE);
    assert_contains(err.msg, "the channel was closed");
    free(c);
    rpc_channel_free(channels[1]);
    rpc_loop_free(loop);
    stop(&f);
}

static void test_metadata(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, NULL);
    struct call *c = call_new("metadata");
    struct rpc_header header = {"x-ask", "answer"};
    c->request.headers = &header;
    c->request.header_count = 1;
    struct err err = {0};
    struct rpc_msg *reply = NULL;
    assert_int_equal(rpc_call_blocking(f.channel, &c->request, &reply, &err), 0);
    const echo_item *item = (const echo_item *)reply->body;
    assert_contains(item->text, "answer ipv4:127.0.0.1:");
    assert_in_range(item->number, 1, 22000); /* gRPC rounds it up on the wire */
    rpc_msg_unref(reply);
    free(c);

    static const struct rpc_header bad[] = {{"Upper", "x"}, {"grpc-x", "x"}, {"x", "a\nb"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        c = call_new("metadata");
        c->request.headers = &bad[i];
        c->request.header_count = 1;
        expect_error(&f, c, ERR_INVALID, "metadata");
    }
    stop(&f);
}

enum { CLIENT_CALLS = 200 };

static void *client_thread(void *arg)
{
    struct fixture *f = arg;
    struct err err = {0};
    struct rpc_channel_options options = {.target = rpc_server_address(f->server, 0),
                                          .own_connection = true};
    struct rpc_channel *channel = rpc_channel_new(&options, &err);
    unsigned good = 0;
    for (unsigned i = 0; i < CLIENT_CALLS; i++) {
        struct call *c = call_new("many");
        c->item.number = i;
        struct rpc_msg *reply = NULL;
        if (rpc_call_blocking(channel, &c->request, &reply, &err) == 0) {
            good += ((const echo_item *)reply->body)->number == i;
            rpc_msg_unref(reply);
        }
        free(c);
    }
    rpc_channel_free(channel);
    return good == CLIENT_CALLS ? arg : NULL;
}

static void test_two_clients(void **state)
{
    (void)state;
    struct fixture f;
    start(&f, NULL);
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, client_thread, &f), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        void *good = NULL;
        pthread_join(threads[i], &good);
        assert_non_null(good);
    }
    stop(&f);
}

static void test_unreachable(void **state)
{
    (void)state;
    struct fixture f;
    struct rpc_status status;
    start(&f, NULL);
    struct call *not_now = call_new("not now"); /* an answer, and no failed connection */
    not_now->request.status = &status;
    expect_error(&f, not_now, ERR_UNAVAILABLE, ": not now");
    assert_true(status.answered);
    assert_true(status.connected);
    rpc_status_release(&status);
    struct call *hang = call_new("hang");
    hang->request.status = &status;
    hang->request.timeout_ms = 50;
    expect_error(&f, hang, ERR_TIMEOUT, "");
    assert_false(status.answered);
    assert_true(status.connected);
    rpc_status_release(&status);
    assert_true(latch_wait(&f.echo.cancelled, 1));
    rpc_server_stop(f.server); /* now nobody listens on that port */
    struct call *alone = call_new("x");
    alone->request.status = &status;
    expect_error(&f, alone, ERR_UNAVAILABLE, "not connected (tried for ");
    assert_false(status.answered);
    assert_false(status.connected);
    rpc_status_release(&status);
    struct err err = {0};
    assert_int_equal(rpc_channel_wait_ready(f.channel, 30, &err), ERR_UNAVAILABLE);
    assert_contains(err.msg, rpc_channel_target(f.channel));
    assert_contains(err.msg, "tried for ");
    struct call *c = call_new("x");
    c->request.wait_for_ready = true;
    c->request.timeout_ms = 50;
    expect_error(&f, c, ERR_TIMEOUT, "not connected (tried for ");
    stop(&f);
    assert_null(rpc_channel_new(&(struct rpc_channel_options){.target = "nowhere"}, &err));
    assert_int_equal(err.code, ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_echo),
        cmocka_unit_test(test_bulk),
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_unknown_method),
        cmocka_unit_test(test_oversize),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_unpack_limit),
        cmocka_unit_test(test_inflight_limit),
        cmocka_unit_test(test_unpacked_memory_is_in_flight),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_later_answer),
        cmocka_unit_test(test_channel_free_cancels),
        cmocka_unit_test(test_shared_loop),
        cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_two_clients),
        cmocka_unit_test(test_unreachable),
    };
    rpc_init();
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return rc;
}
