/* SPDX-License-Identifier: Apache-2.0 */
/* Unary calls, both ends ours: answers at once and later, of several threads and to loops. */
#include "rpc_rig.h"

#include "os/chrono.h"

static void test_echo(void **state)
{
    (void)state;
    struct rpc_rig f;
    rpc_rig_start(&f, NULL);
    struct rpc_rig_call *c = rpc_rig_call("hello");
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
    rpc_rig_stop(&f);
}

static void release_count(void *ctx)
{
    latch_add(ctx);
}

/* Scattered pieces of any size arrive as one bulk field, and each blob is released once. */
static void test_bulk(void **state)
{
    (void)state;
    struct rpc_rig f;
    rpc_rig_start(&f, NULL);
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
        struct rpc_rig_call *c = rpc_rig_call("bulk");
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
    rpc_rig_stop(&f); /* everything sent is gone now */
    assert_int_equal(latch_count(&released), 2);
    latch_release(&released);
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
    struct rpc_rig f;
    rpc_rig_start(&f, NULL);
    struct answer answer = {0};
    latch_init(&answer.done);
    struct rpc_rig_call *c = rpc_rig_call("hang");
    struct err err = {0};
    assert_int_equal(rpc_call_start(f.channel, &c->request, on_answer, &answer, &err), 0);
    free(c);
    assert_true(latch_wait(&f.echo.held, 1));
    echo_answer(&f.echo, "later");
    assert_true(latch_wait(&answer.done, 1));
    assert_int_equal(answer.code, 0);
    assert_string_equal(answer.text, "later");
    rpc_rig_stop(&f);
    latch_release(&answer.done);
}

/* Freeing the channel cancels what hangs; the server notices. */
static void test_channel_free_cancels(void **state)
{
    (void)state;
    struct rpc_rig f;
    rpc_rig_start(&f, NULL);
    struct answer answer = {0};
    latch_init(&answer.done);
    struct rpc_rig_call *c = rpc_rig_call("hang");
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
    rpc_rig_stop(&f);
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
    struct rpc_rig_call *c = rpc_rig_call("nested");
    struct err err = {0};
    n->nested_code = rpc_call_blocking(n->other, &c->request, NULL, &err);
    free(c);
    latch_add(&n->done);
}

/* Two channels share a loop; a blocking call on its own thread does not need it. */
static void test_shared_loop(void **state)
{
    (void)state;
    struct rpc_rig f;
    rpc_rig_start(&f, NULL);
    struct err err = {0};
    struct rpc_loop *loop = rpc_loop_new(NULL, &err);
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
        struct rpc_rig_call *c = rpc_rig_call("outer");
        assert_int_equal(rpc_call_start(channels[i], &c->request, call_again, &n, &err), 0);
        free(c);
        assert_true(latch_wait(&n.done, 1));
        assert_int_equal(n.code, 0);
        assert_int_equal(n.nested_code, 0);
        latch_release(&n.done);
    }
    rpc_channel_free(channels[0]);
    rpc_channel_cancel(channels[1]);
    struct rpc_rig_call *c = rpc_rig_call("late");
    assert_int_equal(rpc_call_start(channels[1], &c->request, call_again, NULL, &err),
                     ERR_UNAVAILABLE);
    rpc_rig_contains(err.msg, "the channel was closed");
    free(c);
    rpc_channel_free(channels[1]);
    rpc_loop_free(loop);
    rpc_rig_stop(&f);
}

static void test_metadata(void **state)
{
    (void)state;
    struct rpc_rig f;
    rpc_rig_start(&f, NULL);
    struct rpc_rig_call *c = rpc_rig_call("metadata");
    struct rpc_header header = {"x-ask", "answer"};
    c->request.headers = &header;
    c->request.header_count = 1;
    struct err err = {0};
    struct rpc_msg *reply = NULL;
    assert_int_equal(rpc_call_blocking(f.channel, &c->request, &reply, &err), 0);
    const echo_item *item = (const echo_item *)reply->body;
    rpc_rig_contains(item->text, "answer ipv4:127.0.0.1:");
    assert_in_range(item->number, 1, 66000); /* gRPC rounds it up on the wire */
    rpc_msg_unref(reply);
    free(c);

    static const struct rpc_header bad[] = {{"Upper", "x"}, {"grpc-x", "x"}, {"x", "a\nb"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        c = rpc_rig_call("metadata");
        c->request.headers = &bad[i];
        c->request.header_count = 1;
        rpc_rig_fails(&f, c, ERR_INVALID, "metadata");
    }
    rpc_rig_stop(&f);
}

enum { CLIENT_CALLS = 200 };

static void *client_thread(void *arg)
{
    struct rpc_rig *f = arg;
    struct err err = {0};
    struct rpc_channel_options options = {.target = rpc_server_address(f->server, 0),
                                          .own_connection = true};
    struct rpc_channel *channel = rpc_channel_new(&options, &err);
    unsigned good = 0;
    for (unsigned i = 0; i < CLIENT_CALLS; i++) {
        struct rpc_rig_call *c = rpc_rig_call("many");
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
    struct rpc_rig f;
    rpc_rig_start(&f, NULL);
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, client_thread, &f), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        void *good = NULL;
        pthread_join(threads[i], &good);
        assert_non_null(good);
    }
    rpc_rig_stop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_echo),         cmocka_unit_test(test_bulk),
        cmocka_unit_test(test_later_answer), cmocka_unit_test(test_channel_free_cancels),
        cmocka_unit_test(test_shared_loop),  cmocka_unit_test(test_metadata),
        cmocka_unit_test(test_two_clients),
    };
    rpc_init();
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return rc;
}
