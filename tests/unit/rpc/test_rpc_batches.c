/* SPDX-License-Identifier: Apache-2.0 */
/* How many operations of gRPC a call costs the server: each is a way through its polling threads.
 */
#include "support/test.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#include "rpc/rpc_grpc.h"
#include "support/echo_service.h"

static atomic_uint batches; /* of the server's calls, but for those that only receive a request */

/* Stands in front of gRPC's. */
grpc_call_error grpc_call_start_batch(grpc_call *call, const grpc_op *ops, size_t n, void *tag,
                                      void *reserved)
{
    grpc_call_error (*real)(grpc_call *, const grpc_op *, size_t, void *, void *);
    void *symbol = dlsym(RTLD_NEXT, "grpc_call_start_batch");
    assert_non_null(symbol);
    memcpy(&real, &symbol, sizeof real);
    bool counts = false;
    for (size_t i = 0; i < n; i++) {
        counts = counts || ops[i].op == GRPC_OP_RECV_CLOSE_ON_SERVER ||
                 ops[i].op == GRPC_OP_SEND_STATUS_FROM_SERVER;
    }
    atomic_fetch_add(&batches, counts);
    return real(call, ops, n, tag, reserved);
}

struct fixture {
    struct echo echo;
    struct rpc_server *server;
    struct rpc_channel *channel;
};

static int start(void **state)
{
    static struct fixture f;
    struct err err = {0};
    echo_init(&f.echo);
    f.server = echo_server(&f.echo, NULL, &err);
    assert_non_null(f.server);
    struct rpc_channel_options options = {.target = rpc_server_address(f.server, 0)};
    f.channel = rpc_channel_new(&options, &err);
    assert_non_null(f.channel);
    *state = &f;
    return 0;
}

static int stop(void **state)
{
    struct fixture *f = *state;
    rpc_channel_free(f->channel);
    rpc_server_free(f->server);
    echo_release(&f->echo);
    return 0;
}

static int call(struct fixture *f, const char *text)
{
    char words[32];
    strcpy(words, text);
    echo_item item;
    gradus__test__item__init(&item);
    item.text = words;
    const struct rpc_request request = {.service = &gradus__test__echo__descriptor,
                                        .method = "Unary",
                                        .body = &item.base,
                                        .request_bulk = ECHO_BULK_FIELD,
                                        .response_bulk = ECHO_BULK_FIELD,
                                        .timeout_ms = 60000};
    struct rpc_msg *reply = NULL;
    struct err err = {0};
    atomic_store(&batches, 0);
    int rc = rpc_call_blocking(f->channel, &request, &reply, &err);
    if (rc == 0) {
        rpc_msg_unref(reply);
    }
    return rc;
}

static void an_answer_at_once_is_one_operation(void **state)
{
    for (unsigned i = 1; i < 4; i++) {
        assert_int_equal(call(*state, "hello"), 0);
        assert_int_equal(atomic_load(&batches), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_at_once_is_one_operation),
    };
    rpc_init();
    int rc = cmocka_run_group_tests(tests, start, stop);
    rpc_shutdown();
    return rc;
}
