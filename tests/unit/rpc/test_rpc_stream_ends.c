/* SPDX-License-Identifier: Apache-2.0 */
/* How streams end, both ends ours: by an error, a cancelling, too much, garbage, without a channel.
 */
#include "rpc_rig.h"

static void test_stream_fails(void **state)
{
    (void)state;
    struct rpc_rig f;
    struct rpc_seen seen;
    rpc_rig_start(&f, NULL);
    rpc_seen_init(&seen);
    struct rpc_stream *stream = rpc_rig_stream(&f, &seen, "Chat", NULL);
    rpc_rig_send(stream, 0);
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
    rpc_seen_release(&seen);
    rpc_rig_stop(&f);
}

static void test_cancel(void **state)
{
    (void)state;
    struct rpc_rig f;
    struct rpc_seen seen;
    rpc_rig_start(&f, NULL);
    rpc_seen_init(&seen);
    echo_item item = GRADUS__TEST__ITEM__INIT;
    char hang[] = "hang";
    item.text = hang;
    struct rpc_stream *stream = rpc_rig_stream(&f, &seen, "Count", &item);
    assert_true(latch_wait(&f.echo.held, 1));
    rpc_stream_cancel(stream);
    assert_true(latch_wait(&seen.done, 1));
    assert_int_equal(seen.code, ERR_CANCELLED);
    assert_true(latch_wait(&f.echo.cancelled, 1));
    rpc_stream_free(stream);
    rpc_seen_release(&seen);
    rpc_rig_stop(&f);
}

/* A unary method whose client says that it is done without having said anything. */
static void test_no_message(void **state)
{
    (void)state;
    struct rpc_rig f;
    struct rpc_seen seen;
    rpc_rig_start(&f, NULL);
    rpc_seen_init(&seen);
    struct rpc_stream *stream = rpc_rig_stream(&f, &seen, "Unary", NULL);
    assert_int_equal(rpc_stream_half_close(stream), 0);
    assert_true(latch_wait(&seen.done, 1));
    assert_int_equal(seen.code, ERR_INVALID);
    assert_non_null(strstr(seen.message, "request: there is none"));
    rpc_stream_free(stream);
    rpc_seen_release(&seen);
    rpc_rig_stop(&f);
}

/* Too large for the server in the middle of a stream. */
static void test_oversize(void **state)
{
    (void)state;
    struct rpc_rig f;
    struct rpc_seen seen;
    rpc_rig_start(&f, &(struct rpc_server_options){.message_bytes_max = 10000});
    rpc_seen_init(&seen);
    struct rpc_stream *stream = rpc_rig_stream(&f, &seen, "Chat", NULL);
    rpc_rig_send(stream, 0);
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
    rpc_seen_release(&seen);
    rpc_rig_stop(&f);
}

static void count_message(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    (void)msg;
    struct rpc_seen *s = ctx;
    latch_add(&s->messages);
}

/* One side takes Chat's items for messages of another type, which some of them could be. */
static void chat_with_a_stranger(bool server_is_misread, const char *says)
{
    static const struct rpc_stream_events counting = {.message = count_message,
                                                      .done = rpc_seen_done};
    struct rpc_rig f;
    struct rpc_seen seen;
    struct err err = {0};
    rpc_rig_start(&f, NULL);
    rpc_seen_init(&seen);
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
    rpc_seen_release(&seen);
    rpc_rig_stop(&f);
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
        struct rpc_rig f;
        struct rpc_seen seen;
        rpc_rig_start(&f, NULL);
        rpc_seen_init(&seen);
        struct rpc_stream *stream = rpc_rig_stream(&f, &seen, "Chat", NULL);
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
        rpc_seen_release(&seen);
        rpc_rig_stop(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stream_fails), cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_no_message),   cmocka_unit_test(test_oversize),
        cmocka_unit_test(test_garbage),      cmocka_unit_test(test_free_while_busy),
    };
    rpc_init();
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return rc;
}
