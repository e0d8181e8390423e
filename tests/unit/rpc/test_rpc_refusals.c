/* SPDX-License-Identifier: Apache-2.0 */
/* Unary calls that fail, both ends ours: each says why. */
#include "rpc_rig.h"

#include "os/chrono.h"
#include "support/held_port.h"

static void test_failure(void **state)
{
    (void)state;
    struct rpc_rig f;
    rpc_rig_start(&f, NULL);
    rpc_rig_fails(&f, rpc_rig_call("fail"), ERR_ABORTED, "généré: generation 3 is over");

    struct rpc_rig_call *c = rpc_rig_call("fail-detail");
    struct rpc_status status;
    c->request.status = &status;
    rpc_rig_fails(&f, c, ERR_ABORTED, "généré: generation 3 is over");
    assert_int_equal(status.err.code, ERR_ABORTED);
    ProtobufCMessage *detail = rpc_status_detail(&status, &gradus__test__pair__descriptor);
    assert_non_null(detail);
    const Gradus__Test__Pair *pair = (const Gradus__Test__Pair *)detail;
    assert_string_equal(pair->key, "generation");
    assert_int_equal(pair->value, 4);
    protobuf_c_message_free_unpacked(detail, NULL);
    assert_null(rpc_status_detail(&status, &gradus__test__item__descriptor));
    rpc_status_release(&status);
    rpc_rig_stop(&f);
}

static void test_unknown_method(void **state)
{
    (void)state;
    struct rpc_rig f;
    rpc_rig_start(&f, NULL);
    ProtobufCServiceDescriptor other = gradus__test__echo__descriptor;
    other.name = "gradus.test.Nobody";
    struct rpc_rig_call *c = rpc_rig_call("x");
    c->request.service = &other;
    rpc_rig_fails(&f, c, ERR_UNSUPPORTED, "unknown method /gradus.test.Nobody/Unary");
    c = rpc_rig_call("x");
    c->request.method = "Nothing";
    rpc_rig_fails(&f, c, ERR_INVALID, "no such rpc");
    rpc_rig_stop(&f);
}

static void test_oversize(void **state)
{
    (void)state;
    struct rpc_rig f;
    rpc_rig_start(&f, &(struct rpc_server_options){.message_bytes_max = 100000});
    unsigned char *data = mem_new(1, 200000);
    struct rpc_piece piece = {.data = data, .bytes = 200000};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    struct rpc_rig_call *c = rpc_rig_call("big");
    c->request.blob = &blob;
    rpc_rig_fails(&f, c, ERR_EXHAUSTED, "larger than max (200");
    c = rpc_rig_call("fits");
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
    c = rpc_rig_call("big");
    c->request.blob = &blob;
    rpc_rig_fails(&f, c, ERR_EXHAUSTED, "over the message limit of 1000 bytes");
    free(data);
    rpc_rig_stop(&f);
}

/* A message of another type where the proto says Item. */
static void test_garbage(void **state)
{
    (void)state;
    struct rpc_rig f;
    rpc_rig_start(&f, NULL);
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
    struct rpc_rig_call *c = rpc_rig_call("x");
    c->request.service = &other;
    c->request.body = &strange.base;
    rpc_rig_fails(&f, c, ERR_INVALID, "are not a gradus.test.Item");

    c = rpc_rig_call("x"); /* and the sender's own mistake */
    c->request.body = &strange.base;
    rpc_rig_fails(&f, c, ERR_INVALID, "a gradus.test.Strange is sent where the proto says");
    rpc_rig_stop(&f);
}

static void test_unpack_limit(void **state)
{
    (void)state;
    struct rpc_rig f;
    rpc_rig_start(&f, &(struct rpc_server_options){.unpack_bytes_max = 20000});
    struct rpc_rig_call *c = rpc_rig_call("pairs");
    Gradus__Test__Pair pair = GRADUS__TEST__PAIR__INIT;
    Gradus__Test__Pair *pairs[1000];
    for (size_t i = 0; i < 1000; i++) {
        pairs[i] = &pair;
    }
    c->item.pairs = pairs;
    c->item.n_pairs = 1000; /* 2000 bytes that become 1000 structs */
    rpc_rig_fails(&f, c, ERR_EXHAUSTED, "need more than 20000 bytes of memory");
    c = rpc_rig_call("pairs");
    c->item.pairs = pairs;
    c->item.n_pairs = 10;
    struct err err = {0};
    assert_int_equal(rpc_call_blocking(f.channel, &c->request, NULL, &err), 0);
    free(c);
    rpc_rig_stop(&f);
}

static void test_inflight_limit(void **state)
{
    (void)state;
    struct rpc_rig f;
    rpc_rig_start(&f, &(struct rpc_server_options){.inflight_bytes_max = 4000});
    unsigned char data[4500] = {0};
    struct rpc_piece piece = {.data = data, .bytes = sizeof(data)};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    struct rpc_rig_call *c = rpc_rig_call("big");
    c->request.blob = &blob;
    rpc_rig_fails(&f, c, ERR_EXHAUSTED, "in flight");
    assert_int_equal(rpc_server_inflight_bytes(f.server), 0);
    piece.bytes = 1900;            /* and a chunk of memory for the body */
    for (int i = 0; i < 10; i++) { /* what is released makes room */
        c = rpc_rig_call("fits");
        c->request.blob = &blob;
        struct err err = {0};
        assert_int_equal(rpc_call_blocking(f.channel, &c->request, NULL, &err), 0);
        free(c);
    }
    rpc_rig_stop(&f);
}

static void test_unpacked_memory_is_in_flight(void **state)
{
    (void)state;
    struct rpc_rig f;
    rpc_rig_start(&f, &(struct rpc_server_options){.inflight_bytes_max = 20000});
    struct rpc_rig_call *c = rpc_rig_call("pairs");
    Gradus__Test__Pair pair = GRADUS__TEST__PAIR__INIT;
    Gradus__Test__Pair *pairs[1000];
    for (size_t i = 0; i < 1000; i++) {
        pairs[i] = &pair;
    }
    c->item.pairs = pairs;
    c->item.n_pairs = 1000; /* 2000 bytes, for which there is room, that become 1000 structs */
    rpc_rig_fails(&f, c, ERR_EXHAUSTED, "when unpacked: over the limit of 20000 bytes");
    assert_int_equal(rpc_server_inflight_bytes(f.server), 0);
    c = rpc_rig_call("pairs");
    c->item.pairs = pairs;
    c->item.n_pairs = 50;
    struct err err = {0};
    assert_int_equal(rpc_call_blocking(f.channel, &c->request, NULL, &err), 0);
    free(c);
    rpc_rig_stop(&f);
}

/* A call that the server had when its time was up; @status may be NULL, else rpc_status_release().
 */
static void hang_until_timeout(struct rpc_rig *f, struct rpc_status *status)
{
    const unsigned had = latch_count(&f->echo.held);
    for (unsigned ms = 50; latch_count(&f->echo.held) == had; ms *= 2) {
        struct rpc_rig_call *c = rpc_rig_call("hang");
        if (status != NULL && ms > 50) {
            rpc_status_release(status);
        }
        c->request.status = status;
        c->request.timeout_ms = ms;
        rpc_rig_fails(f, c, ERR_TIMEOUT, "(tried for ");
    }
}

static void test_deadline(void **state)
{
    (void)state;
    struct rpc_rig f;
    rpc_rig_start(&f, NULL);
    hang_until_timeout(&f, NULL);
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
    rpc_rig_stop(&f);
}

static void test_unreachable(void **state)
{
    (void)state;
    struct rpc_rig f;
    struct rpc_status status;
    struct held_port port;
    held_port_take(&port);
    const char *address = port.address;
    rpc_rig_start(&f, &(struct rpc_server_options){.addresses = &address, .address_count = 1});
    struct rpc_rig_call *not_now =
        rpc_rig_call("not now"); /* an answer, and no failed connection */
    not_now->request.status = &status;
    rpc_rig_fails(&f, not_now, ERR_UNAVAILABLE, ": not now");
    assert_true(status.answered);
    assert_true(status.connected);
    rpc_status_release(&status);
    hang_until_timeout(&f, &status);
    assert_false(status.answered);
    assert_true(status.connected);
    rpc_status_release(&status);
    assert_true(latch_wait(&f.echo.cancelled, 1));
    rpc_server_stop(f.server); /* now nobody listens on that port */
    struct rpc_rig_call *alone = rpc_rig_call("x");
    alone->request.status = &status;
    rpc_rig_fails(&f, alone, ERR_UNAVAILABLE, "not connected (tried for ");
    assert_false(status.answered);
    assert_false(status.connected);
    rpc_status_release(&status);
    struct err err = {0};
    assert_int_equal(rpc_channel_wait_ready(f.channel, 30, &err), ERR_UNAVAILABLE);
    rpc_rig_contains(err.msg, rpc_channel_target(f.channel));
    rpc_rig_contains(err.msg, "tried for ");
    struct rpc_rig_call *c = rpc_rig_call("x");
    c->request.wait_for_ready = true;
    c->request.timeout_ms = 50;
    rpc_rig_fails(&f, c, ERR_TIMEOUT, "not connected (tried for ");
    rpc_rig_stop(&f);
    held_port_release(&port);
    assert_null(rpc_channel_new(&(struct rpc_channel_options){.target = "nowhere"}, &err));
    assert_int_equal(err.code, ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failure),
        cmocka_unit_test(test_unknown_method),
        cmocka_unit_test(test_oversize),
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_unpack_limit),
        cmocka_unit_test(test_inflight_limit),
        cmocka_unit_test(test_unpacked_memory_is_in_flight),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_unreachable),
    };
    rpc_init();
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return rc;
}
