/* SPDX-License-Identifier: Apache-2.0 */
/* A server's life: addresses, health, reflection, draining, coming back. */
#include "support/test.h"
#include "support/tmp_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <grpc/health/v1/health.pb-c.h>
#include <grpc/reflection/v1/reflection.pb-c.h>

#include "base/mem.h"
#include "support/echo_service.h"
#include "support/held_port.h"
#include "support/wait_until.h"

static struct rpc_channel *channel_to(const char *target)
{
    struct err err = {0};
    struct rpc_channel_options options = {.target = target, .own_connection = true};
    struct rpc_channel *c = rpc_channel_new(&options, &err);
    assert_non_null(c);
    return c;
}

static int call_unary(struct rpc_channel *c, const char *text, bool wait, struct err *err)
{
    char *copy = mem_strdup(text);
    echo_item item = GRADUS__TEST__ITEM__INIT;
    item.text = copy;
    struct rpc_request request = {.service = &gradus__test__echo__descriptor,
                                  .method = "Unary",
                                  .body = &item.base,
                                  .timeout_ms = 60000,
                                  .wait_for_ready = wait};
    int rc = rpc_call_blocking(c, &request, NULL, err);
    free(copy);
    return rc;
}

static void test_port_in_use(void **state)
{
    (void)state;
    struct echo echo;
    echo_init(&echo);
    struct err err = {0};
    struct rpc_server *first = echo_server(&echo, NULL, &err);
    assert_non_null(first);
    const char *address = rpc_server_address(first, 0);
    assert_null(strstr(address, ":0"));
    struct rpc_server_options options = {.addresses = &address, .address_count = 1};
    assert_null(echo_server(&echo, &options, &err));
    assert_int_equal(err.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(err.msg, address));
    assert_non_null(strstr(err.msg, "in use"));

    static const char *const bad[] = {"nowhere", "127.0.0.1:99999", ""};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        options.addresses = &bad[i];
        assert_null(echo_server(&echo, &options, &err));
        assert_non_null(strstr(err.msg, bad[i]));
    }
    options.address_count = 0;
    assert_null(rpc_server_new(&options, &err));
    rpc_server_free(first);
    echo_release(&echo);
}

/* gRPC would take %41 for A, and a name to end at # or ?. */
static void test_unix_socket(void **state)
{
    (void)state;
    char *directory = tmp_dir_make("rpc");
    char *path = mem_printf("unix:%s/%s", directory, "a socket%41#1?a=b");
    const char *addresses[] = {path, "127.0.0.1:0"};
    struct rpc_server_options options = {.addresses = addresses, .address_count = 2};
    struct echo echo;
    echo_init(&echo);
    struct err err = {0};
    struct rpc_server *s = echo_server(&echo, &options, &err);
    assert_string_equal(err.msg, "");
    assert_string_equal(rpc_server_address(s, 0), path);
    assert_null(rpc_server_address(s, 2));
    for (size_t i = 0; i < 2; i++) {
        struct rpc_channel *c = channel_to(rpc_server_address(s, i));
        assert_int_equal(call_unary(c, "x", false, &err), 0);
        rpc_channel_free(c);
    }
    options.address_count = 1;
    assert_null(echo_server(&echo, &options, &err));
    assert_non_null(strstr(err.msg, path));
    assert_int_equal(access(path + strlen("unix:"), F_OK), 0);
    rpc_server_free(s);
    echo_release(&echo);
    unlink(path + strlen("unix:"));
    assert_int_equal(rmdir(directory), 0); /* nothing is left in it */
    tmp_dir_remove(directory);
    free(path);
}

struct answer {
    struct latch done;
    int code;
};

static void on_answer(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    (void)reply;
    struct answer *a = ctx;
    a->code = status->err.code;
    latch_add(&a->done);
}

static void start_hanging(struct rpc_channel *c, struct answer *a)
{
    char text[] = "hang";
    echo_item item = GRADUS__TEST__ITEM__INIT;
    item.text = text;
    struct rpc_request request = {
        .service = &gradus__test__echo__descriptor, .method = "Unary", .body = &item.base};
    struct err err = {0};
    latch_init(&a->done);
    assert_int_equal(rpc_call_start(c, &request, on_answer, a, &err), 0);
}

static void *stop_thread(void *arg)
{
    rpc_server_stop(arg);
    return NULL;
}

/* A call in flight may end while the server drains. */
static void test_drain(void **state)
{
    (void)state;
    struct echo echo;
    echo_init(&echo);
    struct err err = {0};
    struct rpc_server *s =
        echo_server(&echo, &(struct rpc_server_options){.grace_ms = 120000}, &err);
    struct rpc_channel *c = channel_to(rpc_server_address(s, 0));
    struct answer answer;
    start_hanging(c, &answer);
    assert_true(latch_wait(&echo.held, 1));
    struct rpc_channel *late = channel_to(rpc_server_address(s, 0));
    assert_int_equal(rpc_channel_wait_ready(late, 60000, &err), 0); /* a new one finds nobody */
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, stop_thread, s), 0);
    wait_until(call_unary(late, "x", false, &err) != 0); /* the server refuses */
    /* TIMEOUT: its new connection was accepted when nobody served it any more. */
    if (err.code != ERR_UNAVAILABLE && err.code != ERR_TIMEOUT) {
        fail_msg("%s", err.msg);
    }
    assert_int_equal(latch_count(&answer.done), 0);
    echo_answer(&echo, "in time");
    assert_true(latch_wait(&answer.done, 1));
    assert_int_equal(answer.code, 0);
    pthread_join(thread, NULL);
    rpc_channel_free(late);
    rpc_channel_free(c);
    rpc_server_free(s);
    latch_release(&answer.done);
    echo_release(&echo);
}

/* One that does not end is cancelled after the grace time. */
static void test_drain_cancels(void **state)
{
    (void)state;
    struct echo echo;
    echo_init(&echo);
    struct err err = {0};
    struct rpc_server *s = echo_server(&echo, &(struct rpc_server_options){.grace_ms = 20}, &err);
    struct rpc_channel *c = channel_to(rpc_server_address(s, 0));
    struct answer answer;
    start_hanging(c, &answer);
    assert_true(latch_wait(&echo.held, 1));
    rpc_server_stop(s);
    assert_int_equal(latch_count(&echo.cancelled), 1);
    assert_true(latch_wait(&answer.done, 1));
    assert_int_equal(answer.code, ERR_UNAVAILABLE);
    rpc_server_stop(s); /* once more is fine */
    echo_answer(&echo, "too late");
    rpc_channel_free(c);
    rpc_server_free(s);
    latch_release(&answer.done);
    echo_release(&echo);
}

static void test_restart(void **state)
{
    (void)state;
    struct echo echo;
    echo_init(&echo);
    struct err err = {0};
    struct held_port port;
    held_port_take(&port);
    const char *address = port.address;
    const struct rpc_server_options options = {.addresses = &address, .address_count = 1};
    struct rpc_server *s = echo_server(&echo, &options, &err);
    assert_non_null(s);
    struct rpc_channel *c = channel_to(address);
    assert_int_equal(rpc_channel_wait_ready(c, 60000, &err), 0);
    assert_int_equal(call_unary(c, "x", false, &err), 0);
    rpc_server_free(s);
    assert_int_equal(call_unary(c, "x", false, &err), ERR_UNAVAILABLE);
    s = echo_server(&echo, &options, &err);
    assert_non_null(s);
    assert_int_equal(call_unary(c, "x", true, &err), 0);
    rpc_channel_free(c);
    rpc_server_free(s);
    held_port_release(&port);
    echo_release(&echo);
}

/* ---- health ---- */

typedef Grpc__Health__V1__HealthCheckRequest health_request;
typedef Grpc__Health__V1__HealthCheckResponse health_response;

static int check(struct rpc_channel *c, const char *service, int *serving, struct err *err)
{
    char *copy = mem_strdup(service);
    health_request body = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    body.service = copy;
    struct rpc_request request = {.service = &grpc__health__v1__health__descriptor,
                                  .method = "Check",
                                  .body = &body.base,
                                  .timeout_ms = 60000};
    struct rpc_msg *reply = NULL;
    int rc = rpc_call_blocking(c, &request, &reply, err);
    if (rc == 0) {
        *serving = (int)((const health_response *)reply->body)->status;
    }
    rpc_msg_unref(reply);
    free(copy);
    return rc;
}

struct watch {
    struct latch changes;
    struct latch done;
    int seen[8];
    int code;
};

static void on_change(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    struct watch *w = ctx;
    w->seen[w->changes.count % 8] = (int)((const health_response *)msg->body)->status;
    latch_add(&w->changes);
}

static void on_watch_done(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    struct watch *w = ctx;
    w->code = status->err.code;
    latch_add(&w->done);
}

static struct rpc_stream *watch(struct rpc_channel *c, struct watch *w, const char *service)
{
    static const struct rpc_stream_events events = {.message = on_change, .done = on_watch_done};
    *w = (struct watch){0};
    latch_init(&w->changes);
    latch_init(&w->done);
    char *copy = mem_strdup(service);
    health_request body = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    body.service = copy;
    struct rpc_request request = {
        .service = &grpc__health__v1__health__descriptor, .method = "Watch", .body = &body.base};
    struct err err = {0};
    struct rpc_stream *stream = rpc_stream_open(c, &request, &events, w, &err);
    assert_non_null(stream);
    free(copy);
    return stream;
}

static void test_health(void **state)
{
    (void)state;
    struct echo echo;
    echo_init(&echo);
    struct err err = {0};
    struct rpc_server *s = echo_server(&echo, NULL, &err);
    struct rpc_channel *c = channel_to(rpc_server_address(s, 0));
    int status = 0;
    assert_int_equal(check(c, "", &status, &err), 0);
    assert_int_equal(status, 2);
    struct watch w;
    struct watch unknown;
    struct rpc_stream *stream = watch(c, &w, "gradus.test.Echo");
    struct rpc_stream *other = watch(c, &unknown, "gradus.test.Nobody");
    assert_true(latch_wait(&w.changes, 1));
    assert_true(latch_wait(&unknown.changes, 1));
    rpc_server_set_serving(s, true);
    rpc_server_set_serving(s, true); /* no change, no message */
    assert_int_equal(check(c, "gradus.test.Echo", &status, &err), 0);
    assert_int_equal(status, 1);
    assert_int_equal(check(c, "gradus.test.Nobody", &status, &err), ERR_NOT_FOUND);
    assert_true(latch_wait(&w.changes, 2));
    rpc_server_stop(s); /* ends the watches by itself */
    assert_true(latch_wait(&w.done, 1));
    assert_true(latch_wait(&unknown.done, 1));
    assert_int_equal(w.code, ERR_UNAVAILABLE);
    assert_int_equal(latch_count(&w.changes), 3);
    assert_int_equal(w.seen[0], 2);
    assert_int_equal(w.seen[1], 1);
    assert_int_equal(w.seen[2], 2);
    assert_int_equal(unknown.seen[0], 3);
    rpc_stream_free(stream);
    rpc_stream_free(other);
    rpc_channel_free(c);
    rpc_server_free(s);
    latch_release(&w.changes);
    latch_release(&w.done);
    latch_release(&unknown.changes);
    latch_release(&unknown.done);
    echo_release(&echo);
}

/* ---- reflection ---- */

struct reflection {
    struct latch answers;
    struct latch done;
    char text[2048]; /* the last answer */
};

static void on_info(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    struct reflection *r = ctx;
    const Grpc__Reflection__V1__ServerReflectionResponse *m =
        (const Grpc__Reflection__V1__ServerReflectionResponse *)msg->body;
    size_t n = 0;
    r->text[0] = '\0';
    if (m->list_services_response &&
        m->message_response_case ==
            GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_LIST_SERVICES_RESPONSE) {
        for (size_t i = 0; i < m->list_services_response->n_service; i++) {
            n += (size_t)snprintf(r->text + n, sizeof(r->text) - n, "%s ",
                                  m->list_services_response->service[i]->name);
        }
    } else if (
        m->message_response_case ==
        GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_FILE_DESCRIPTOR_RESPONSE) {
        for (size_t i = 0; i < m->file_descriptor_response->n_file_descriptor_proto; i++) {
            const ProtobufCBinaryData *d = &m->file_descriptor_response->file_descriptor_proto[i];
            /* field 1, the name: tag, length, text */
            n += (size_t)snprintf(r->text + n, sizeof(r->text) - n, "%.*s ", (int)d->data[1],
                                  (const char *)d->data + 2);
        }
    } else {
        snprintf(r->text, sizeof(r->text), "error %d %s", m->error_response->error_code,
                 m->error_response->error_message);
    }
    latch_add(&r->answers);
}

static void on_info_done(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    (void)status;
    struct reflection *r = ctx;
    latch_add(&r->done);
}

static void ask(struct rpc_stream *stream, struct reflection *r, int what, const char *about)
{
    char *copy = mem_strdup(about);
    Grpc__Reflection__V1__ServerReflectionRequest request =
        GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__INIT;
    request.message_request_case =
        (Grpc__Reflection__V1__ServerReflectionRequest__MessageRequestCase)what;
    request.list_services = copy; /* all text members share their place */
    struct err err = {0};
    unsigned before = latch_count(&r->answers);
    assert_int_equal(rpc_stream_send(stream, &request.base, NULL, &err), 0);
    assert_true(latch_wait(&r->answers, before + 1));
    free(copy);
}

static void test_reflection(void **state)
{
    (void)state;
    enum { FILE_NAME = 3, SYMBOL = 4, EXTENSIONS = 6, LIST = 7 };
    struct echo echo;
    echo_init(&echo);
    struct err err = {0};
    struct rpc_server *s = echo_server(&echo, NULL, &err);
    struct rpc_channel *c = channel_to(rpc_server_address(s, 0));
    static const struct rpc_stream_events events = {.message = on_info, .done = on_info_done};
    ProtobufCServiceDescriptor old = grpc__reflection__v1__server_reflection__descriptor;
    old.name = "grpc.reflection.v1alpha.ServerReflection";
    const ProtobufCServiceDescriptor *both[] = {
        &grpc__reflection__v1__server_reflection__descriptor, &old};
    for (size_t i = 0; i < 2; i++) {
        struct reflection r = {0};
        latch_init(&r.answers);
        latch_init(&r.done);
        struct rpc_request request = {.service = both[i], .method = "ServerReflectionInfo"};
        struct rpc_stream *stream = rpc_stream_open(c, &request, &events, &r, &err);
        assert_non_null(stream);
        ask(stream, &r, LIST, "");
        assert_non_null(strstr(r.text, "gradus.test.Echo "));
        assert_non_null(strstr(r.text, "grpc.health.v1.Health "));
        assert_non_null(strstr(r.text, "grpc.reflection.v1.ServerReflection "));
        ask(stream, &r, FILE_NAME, "echo.proto");
        assert_string_equal(r.text, "echo.proto ");
        ask(stream, &r, FILE_NAME, "google/rpc/status.proto");
        assert_string_equal(r.text, "google/rpc/status.proto google/protobuf/any.proto ");
        static const char *const symbols[] = {"gradus.test.Echo", "gradus.test.Echo.Unary",
                                              "gradus.test.Item"};
        for (size_t k = 0; k < 3; k++) {
            ask(stream, &r, SYMBOL, symbols[k]);
            assert_string_equal(r.text, "echo.proto ");
        }
        ask(stream, &r, SYMBOL, "grpc.health.v1.HealthCheckResponse.ServingStatus");
        assert_string_equal(r.text, "grpc/health/v1/health.proto ");
        static const char *const absent[] = {"gradus.test.Echo.Nothing", "gradus.test", "Item", ""};
        for (size_t k = 0; k < 4; k++) {
            ask(stream, &r, SYMBOL, absent[k]);
            assert_non_null(strstr(r.text, "error 5 not found"));
        }
        ask(stream, &r, EXTENSIONS, "gradus.test.Item");
        assert_non_null(strstr(r.text, "error 12 "));
        rpc_stream_half_close(stream);
        assert_true(latch_wait(&r.done, 1));
        rpc_stream_free(stream);
        latch_release(&r.answers);
        latch_release(&r.done);
    }
    rpc_channel_free(c);
    rpc_server_free(s);
    echo_release(&echo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_port_in_use), cmocka_unit_test(test_unix_socket),
        cmocka_unit_test(test_drain),       cmocka_unit_test(test_drain_cancels),
        cmocka_unit_test(test_restart),     cmocka_unit_test(test_health),
        cmocka_unit_test(test_reflection),
    };
    rpc_init();
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return rc;
}
