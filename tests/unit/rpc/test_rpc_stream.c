/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, both ends ours: what goes through them, and how much of it at a time. */
#include "rpc_rig.h"

#include "support/wait_until.h"

static void test_server_stream(void **state)
{
    (void)state;
    struct rpc_rig f;
    struct rpc_seen seen;
    rpc_rig_start(&f, NULL);
    rpc_seen_init(&seen);
    echo_item item = GRADUS__TEST__ITEM__INIT;
    item.number = 1000;
    struct rpc_stream *stream = rpc_rig_stream(&f, &seen, "Count", &item);
    assert_true(latch_wait(&seen.done, 1));
    assert_int_equal(seen.code, 0);
    assert_int_equal(latch_count(&seen.messages), 1000);
    assert_true(seen.in_order);
    struct err err;
    assert_int_equal(rpc_stream_send(stream, &item.base, NULL, &err), ERR_CANCELLED);
    rpc_stream_free(stream);
    rpc_seen_release(&seen);
    rpc_rig_stop(&f);
}

/* Streams on which nobody says anything are calls, too. */
static void test_calls_are_limited(void **state)
{
    (void)state;
    struct rpc_rig f;
    struct rpc_seen seen[4];
    struct rpc_stream *streams[4];
    rpc_rig_start(&f, &(struct rpc_server_options){.calls_max = 2, .pollers = 1});
    for (size_t i = 0; i < 3; i++) {
        rpc_seen_init(&seen[i]);
        streams[i] = rpc_rig_stream(&f, &seen[i], "Sum", NULL);
        /* one after the other: the third one is too much */
        wait_until(i == 2 || rpc_server_calls(f.server) > i);
    }
    assert_true(latch_wait(&seen[2].done, 1));
    assert_int_equal(seen[2].code, ERR_EXHAUSTED);
    assert_non_null(strstr(seen[2].message, "this server has 2 calls in hand and takes no more"));
    rpc_rig_send(streams[0], 5); /* those that are there go on */
    assert_int_equal(rpc_stream_half_close(streams[0]), 0);
    assert_true(latch_wait(&seen[0].done, 1));
    assert_int_equal(seen[0].numbers, 5);
    wait_until(rpc_server_calls(f.server) <= 1); /* the client knew first */
    rpc_seen_init(&seen[3]);
    streams[3] = rpc_rig_stream(&f, &seen[3], "Sum", NULL);
    assert_int_equal(rpc_stream_half_close(streams[3]), 0);
    assert_true(latch_wait(&seen[3].done, 1));
    assert_int_equal(seen[3].code, 0);
    for (size_t i = 0; i < 4; i++) {
        rpc_stream_free(streams[i]);
    }
    rpc_channel_cancel(f.channel);
    assert_true(latch_wait(&seen[1].done, 1));
    for (size_t i = 0; i < 4; i++) {
        rpc_seen_release(&seen[i]);
    }
    rpc_rig_stop(&f);
}

static void test_client_stream(void **state)
{
    (void)state;
    struct rpc_rig f;
    struct rpc_seen seen;
    rpc_rig_start(&f, NULL);
    rpc_seen_init(&seen);
    struct rpc_stream *stream = rpc_rig_stream(&f, &seen, "Sum", NULL);
    for (uint64_t i = 1; i <= 100; i++) {
        rpc_rig_send(stream, i);
    }
    assert_int_equal(rpc_stream_half_close(stream), 0);
    struct err err;
    echo_item item = GRADUS__TEST__ITEM__INIT;
    assert_int_equal(rpc_stream_send(stream, &item.base, NULL, &err), ERR_STATE);
    assert_true(latch_wait(&seen.done, 1));
    assert_int_equal(seen.code, 0);
    assert_int_equal(seen.numbers, 5050);
    rpc_stream_free(stream);
    rpc_seen_release(&seen);
    rpc_rig_stop(&f);
}

/* 32 MiB in 1 MiB messages through queues that hold only a few of them. */
static void test_chat_large(void **state)
{
    (void)state;
    enum { CHUNK = 1 << 20, CHUNKS = 32 };
    struct rpc_rig f;
    struct rpc_seen seen;
    rpc_rig_start(&f, &(struct rpc_server_options){.send_bytes_max = 4 << 20});
    rpc_seen_init(&seen);
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
    struct rpc_stream *stream = rpc_rig_stream(&f, &seen, "Chat", NULL);
    for (uint64_t i = 0; i < CHUNKS; i++) {
        assert_int_equal(rpc_stream_wait_writable(stream, 60000, &err), 0);
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
    rpc_rig_stop(&f);
    assert_true(latch_wait(&released, CHUNKS));
    latch_release(&released);
    rpc_seen_release(&seen);
    free(data);
}

/* The server pauses: what the client sends meets a full queue, not memory without end. */
static void test_back_pressure(void **state)
{
    (void)state;
    struct rpc_rig f;
    struct rpc_seen seen;
    rpc_rig_start(&f, NULL);
    rpc_seen_init(&seen);
    struct err err = {0};
    rpc_channel_free(f.channel);
    f.channel =
        rpc_channel_new(&(struct rpc_channel_options){.target = rpc_server_address(f.server, 0),
                                                      .send_bytes_max = 4 << 20},
                        &err);
    struct rpc_stream *stream = rpc_rig_stream(&f, &seen, "Chat", NULL);
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
    rpc_seen_release(&seen);
    free(data);
    rpc_rig_stop(&f);
}

/* The server takes a message back, and it comes again before those behind it. */
static void test_a_message_comes_again(void **state)
{
    (void)state;
    struct rpc_rig f;
    struct rpc_seen seen;
    struct err err = {0};
    char again[] = "again";
    for (int cancelled = 0; cancelled < 2; cancelled++) {
        rpc_rig_start(&f, NULL);
        rpc_seen_init(&seen);
        struct rpc_stream *stream = rpc_rig_stream(&f, &seen, "Chat", NULL);
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
        rpc_seen_release(&seen);
        rpc_rig_stop(&f);
    }
}

/* A message that was taken back keeps nobody out. */
static void test_what_comes_again_is_not_in_flight(void **state)
{
    (void)state;
    struct rpc_rig f;
    struct rpc_seen seen[2];
    struct err err = {0};
    char again[] = "again";
    static unsigned char data[2000];
    struct rpc_piece piece = {data, sizeof data};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    struct rpc_stream *streams[2];
    rpc_rig_start(&f, &(struct rpc_server_options){.inflight_bytes_max = 5000});
    for (size_t i = 0; i < 2; i++) {
        echo_item item = GRADUS__TEST__ITEM__INIT;
        item.text = i == 0 ? again : item.text;
        rpc_seen_init(&seen[i]);
        streams[i] = rpc_rig_stream(&f, &seen[i], "Chat", NULL);
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
        rpc_seen_release(&seen[i]);
    }
    assert_int_equal(rpc_server_inflight_bytes(f.server), 0);
    rpc_rig_stop(&f);
}

/* A pause lets one message through, which was asked for before; the rest comes after it, in order.
 */
static void test_pause_and_resume(void **state)
{
    (void)state;
    struct rpc_rig f;
    struct rpc_seen seen, behind;
    rpc_rig_start(&f, NULL);
    rpc_seen_init(&seen);
    rpc_seen_init(&behind);
    echo_item item = GRADUS__TEST__ITEM__INIT;
    struct rpc_stream *stream = rpc_rig_stream(&f, &seen, "Chat", NULL);
    rpc_stream_pause(stream);
    for (uint64_t i = 0; i < 3; i++) {
        rpc_rig_send(stream, i);
    }
    assert_true(latch_wait(&seen.messages, 1));
    item.number = 100; /* on the same connection: when it is over, what is not held has come */
    struct rpc_stream *other = rpc_rig_stream(&f, &behind, "Count", &item);
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
    rpc_seen_release(&behind);
    rpc_seen_release(&seen);
    rpc_rig_stop(&f);
}

/* The client takes nothing: the server's queue fills up, and its sends say so. */
static void test_slow_reader(void **state)
{
    (void)state;
    struct rpc_rig f;
    struct rpc_seen seen;
    rpc_rig_start(&f, &(struct rpc_server_options){.send_bytes_max = 1 << 20});
    rpc_seen_init(&seen);
    unsigned char *data = mem_new(65536, 1);
    echo_item item = GRADUS__TEST__ITEM__INIT;
    item.number = 10000;
    item.plain = (ProtobufCBinaryData){.len = 65536, .data = data};
    struct rpc_stream *stream = rpc_rig_stream(&f, &seen, "Count", &item);
    rpc_stream_pause(stream);
    assert_true(latch_wait(&f.echo.filled, 1));
    rpc_stream_free(stream); /* cancels while sending */
    assert_true(latch_wait(&seen.done, 1));
    assert_int_equal(seen.code, ERR_CANCELLED);
    assert_true(latch_wait(&f.echo.cancelled, 1));
    rpc_seen_release(&seen);
    free(data);
    rpc_rig_stop(&f);
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
    };
    rpc_init();
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return rc;
}
