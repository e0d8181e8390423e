/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that go on: parts arrive as they are sent, nobody waits for a slow reader, and the number
 * of streams and of bytes has a limit. And packed answers. */
#include "support/test.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/address.h"
#include "service/http.h"
#include "service/http_gzip.h"
#include "support/wait_until.h"

struct fixture {
    struct meter_registry *meters;
    struct http *http;
    _Atomic(struct http_call *) stream; /* the newest one */
    atomic_int refused;
};

static const char *row(void *ctx, const char *path)
{
    (void)ctx;
    (void)path;
    return "inference.GRPCInferenceService/ModelInfer";
}

static void request(void *ctx, struct http_call *call)
{
    struct fixture *f = ctx;
    const struct http_answer head = {
        .status = 200, .type = "text/event-stream", .header = "Cache-Control", .more = "no-store"};
    if (strcmp(http_call_path(call), "/own/stream") == 0 && http_call_stream(call, &head)) {
        atomic_store(&f->stream, call);
        return;
    }
    struct buf body = {0};
    for (int i = 0; i < 1000; i++) {
        buf_add_str(&body, "again and ");
    }
    const struct http_answer a = {.status = 200,
                                  .type = "text/plain",
                                  .text = strcmp(http_call_path(call), "/own/bytes") != 0,
                                  .body = &body};
    atomic_fetch_add(&f->refused, 1);
    http_call_answer(call, &a);
}

static int start(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->meters = meter_registry_new();
    const struct http_pages pages = {.prefix = "/own",
                                     .body_bytes_max = 1,
                                     .bodies_bytes_max = 1,
                                     .row = row,
                                     .request = request,
                                     .ctx = f};
    const struct http_options options = {
        .address = "127.0.0.1:0", .meters = f->meters, .pages = &pages};
    struct err err = {0};
    f->http = http_start(&options, &err);
    assert_non_null(f->http);
    *state = f;
    return 0;
}

static int stop(void **state)
{
    struct fixture *f = *state;
    http_stop(f->http);
    meter_registry_free(f->meters);
    free(f);
    return 0;
}

static int ask(const struct fixture *f, const char *path, const char *headers)
{
    struct address a;
    char head[512];
    assert_int_equal(address_parse(http_address(f->http), &a, NULL), 0);
    int fd = address_connect(&a, 0, NULL);
    assert_true(fd >= 0);
    int n =
        snprintf(head, sizeof head, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n%s\r\n", path, headers);
    assert_int_equal(send(fd, head, (size_t)n, MSG_NOSIGNAL), n);
    return fd;
}

/* Reads until @part has come, or the end. */
static const char *hear(int fd, const char *part)
{
    static char text[65536];
    size_t have = 0;
    text[0] = '\0';
    for (ssize_t k = 1; k > 0 && (part == NULL || strstr(text, part) == NULL);) {
        k = recv(fd, text + have, sizeof text - 1 - have, 0);
        have += k > 0 ? (size_t)k : 0;
        text[have] = '\0';
    }
    return text;
}

static struct http_call *open_stream(struct fixture *f, int *fd)
{
    atomic_store(&f->stream, NULL);
    *fd = ask(f, "/own/stream", "");
    wait_until(atomic_load(&f->stream) != NULL);
    return atomic_load(&f->stream);
}

static void say(struct http_call *stream, const char *text)
{
    assert_true(http_stream_send(stream, text, strlen(text)));
}

static void parts_arrive_as_they_are_sent(void **state)
{
    struct fixture *f = *state;
    int fd, other;
    struct http_call *stream = open_stream(f, &fd);
    const char *head = hear(fd, "\r\n\r\n");
    assert_non_null(strstr(head, "200 OK"));
    assert_non_null(strstr(head, "Content-Type: text/event-stream\r\n"));
    assert_non_null(strstr(head, "Cache-Control: no-store\r\n"));
    for (int i = 0; i < 20; i++) { /* the connection is put aside between them */
        say(stream, "data: one\n\n");
        assert_non_null(strstr(hear(fd, "one\n\n"), "data: one\n\n"));
        other = ask(f, "/metrics", "Connection: close\r\n"); /* nobody waits for it */
        assert_non_null(strstr(hear(other, NULL), "200 OK"));
        (void)close(other);
    }
    wait_until(http_stream_unsent(stream) == 0);
    http_stream_end(stream);
    (void)hear(fd, "0\r\n\r\n");
    (void)close(fd);
}

static void a_reader_may_leave(void **state)
{
    struct fixture *f = *state;
    int fd;
    struct http_call *stream = open_stream(f, &fd);
    say(stream, "x");
    (void)hear(fd, "x");
    (void)close(fd);
    wait_until(!http_stream_send(stream, ":\n\n", 3)); /* seen when something is sent */
    http_stream_end(stream);
    stream = open_stream(f, &fd);
    (void)close(fd);
    http_stream_end(stream); /* or at the end */
}

static void a_slow_reader_holds_little_and_is_cut_off(void **state)
{
    struct fixture *f = *state;
    static char block[50000];
    int fd;
    memset(block, 'x', sizeof block);
    struct http_call *stream = open_stream(f, &fd);
    while (http_stream_send(stream, block, sizeof block)) { /* and nobody reads */
    }
    assert_true(http_stream_unsent(stream) <= HTTP_STREAM_BYTES_MAX);
    assert_true(http_stream_unsent(stream) > HTTP_STREAM_BYTES_MAX - sizeof block - 1);
    int other = ask(f, "/metrics", "Connection: close\r\n");
    assert_non_null(strstr(hear(other, NULL), "200 OK"));
    (void)close(other);
    http_stream_end(stream);
    while (recv(fd, block, sizeof block, 0) > 0) { /* what was on its way, and the end */
    }
    (void)close(fd);
}

static void there_is_room_for_so_many(void **state)
{
    struct fixture *f = *state;
    int fds[HTTP_STREAMS_MAX];
    struct http_call *streams[HTTP_STREAMS_MAX];
    for (size_t i = 0; i < HTTP_STREAMS_MAX; i++) {
        streams[i] = open_stream(f, &fds[i]);
    }
    int fd = ask(f, "/own/stream", "Connection: close\r\n");
    assert_non_null(strstr(hear(fd, NULL), "again and"));
    assert_int_equal(atomic_load(&f->refused), 1);
    (void)close(fd);
    http_stream_end(streams[0]);
    streams[0] = open_stream(f, &fd);
    for (size_t i = 0; i < HTTP_STREAMS_MAX; i++) { /* also those that are put aside */
        http_stream_end(streams[i]);
        (void)close(fds[i]);
    }
    (void)close(fd);
}

static void answers_are_packed_for_who_takes_that(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *path, *headers;
        bool packed;
    } cases[] = {{"/own/text", "Accept-Encoding: gzip\r\n", true},
                 {"/own/text", "Accept-Encoding: br;q=1, GZIP;q=0.5\r\n", true},
                 {"/own/text", "Accept-Encoding: gzip;q=0\r\n", false},
                 {"/own/text", "Accept-Encoding: gzip;q=0.0, br\r\n", false},
                 {"/own/text", "Accept-Encoding: gzippy\r\n", false},
                 {"/own/text", "", false},
                 {"/own/bytes", "Accept-Encoding: gzip\r\n", false}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char headers[128];
        (void)snprintf(headers, sizeof headers, "%sConnection: close\r\n", cases[i].headers);
        int fd = ask(f, cases[i].path, headers);
        const char *said = hear(fd, NULL);
        assert_int_equal(strstr(said, "Content-Encoding: gzip\r\n") != NULL, cases[i].packed);
        assert_int_equal(strstr(said, "again and again") == NULL, cases[i].packed);
        (void)close(fd);
    }
}

static void what_would_not_be_shorter_stays(void **state)
{
    (void)state;
    struct buf body = {0};
    buf_add_str(&body, "short");
    assert_false(http_gzip(&body));
    assert_string_equal(buf_str(&body), "short");
    uint32_t random = 1;
    for (int i = 0; i < 5000; i++) {
        random = random * 1664525u + 1013904223u;
        buf_add_char(&body, (char)(random >> 24));
    }
    assert_false(http_gzip(&body));
    assert_int_equal(body.len, 5005);
    buf_release(&body);
    assert_false(http_gzip_taken(NULL));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(parts_arrive_as_they_are_sent),
        TEST(a_reader_may_leave),
        TEST(a_slow_reader_holds_little_and_is_cut_off),
        TEST(there_is_room_for_so_many),
        TEST(answers_are_packed_for_who_takes_that),
        cmocka_unit_test(what_would_not_be_shorter_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
