/* SPDX-License-Identifier: Apache-2.0 */
/* The RPC layer alone, on loopback, client and server in one process: time and CPU of both per
 * call.
 *
 *     bench_rpc [seconds per row, default 0.5] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/mem.h"
#include "os/chrono.h"
#include "support/echo_service.h"

#define SAMPLES_MAX 100000

struct row {
    const char *name;
    size_t bytes;
    bool echo; /* the bytes come back, too */
    bool stream;
};

static const struct row rows[] = {
    {"unary, no payload", 0, false, false},        {"unary push 4 KiB", 4 << 10, false, false},
    {"unary push 64 KiB", 64 << 10, false, false}, {"unary push 1 MiB", 1 << 20, false, false},
    {"unary push 16 MiB", 16 << 20, false, false}, {"unary echo 1 MiB", 1 << 20, true, false},
    {"unary echo 16 MiB", 16 << 20, true, false},  {"stream echo, no payload", 0, true, true},
    {"stream echo 1 MiB", 1 << 20, true, true},
};

struct bench {
    struct rpc_channel *channel;
    struct rpc_stream *stream;
    struct latch answers;
    unsigned sent;
    float *data;
    float sum;
};

static void nothing(void *ctx)
{
    (void)ctx;
}

static double cpu_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

static void add_floats(void *ctx, size_t index, const float *values, size_t n)
{
    (void)index;
    float *sum = ctx;
    for (size_t i = 0; i < n; i += 16) {
        *sum += values[i];
    }
}

static void on_message(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    struct bench *b = ctx;
    rpc_spans_each_floats(msg->bulk, rpc_spans_left(msg->bulk) / sizeof(float), add_floats,
                          &b->sum);
    latch_add(&b->answers);
}

static void on_done(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    (void)status;
    (void)ctx;
}

static int once(struct bench *b, const struct row *row, struct err *err)
{
    char text[] = "sink";
    echo_item item = GRADUS__TEST__ITEM__INIT;
    if (!row->echo) {
        item.text = text;
    }
    struct rpc_piece piece = {b->data, row->bytes};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1, .release = nothing};
    struct rpc_request request = {.service = &gradus__test__echo__descriptor,
                                  .method = row->stream ? "Chat" : "Unary",
                                  .body = row->stream ? NULL : &item.base,
                                  .blob = row->stream ? NULL : &blob,
                                  .request_bulk = ECHO_BULK_FIELD,
                                  .response_bulk = ECHO_BULK_FIELD};
    if (!row->stream) {
        struct rpc_msg *reply = NULL;
        int rc = rpc_call_blocking(b->channel, &request, &reply, err);
        if (rc == 0) {
            rpc_spans_each_floats(reply->bulk, rpc_spans_left(reply->bulk) / sizeof(float),
                                  add_floats, &b->sum);
            rpc_msg_unref(reply);
        }
        return rc;
    }
    if (!b->stream) {
        static const struct rpc_stream_events events = {.message = on_message, .done = on_done};
        b->stream = rpc_stream_open(b->channel, &request, &events, b, err);
    }
    int rc = rpc_stream_send(b->stream, &item.base, &blob, err);
    b->sent++;
    return rc == 0 && latch_wait(&b->answers, b->sent) ? 0 : ERR_TIMEOUT;
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return *x < *y ? -1 : *x > *y;
}

static int run(struct bench *b, const struct row *row, double seconds, struct err *err)
{
    uint64_t *samples = mem_new(SAMPLES_MAX, sizeof(*samples));
    size_t n = 0;
    int rc = 0;
    for (int i = 0; i < 5 && rc == 0; i++) { /* warm up */
        rc = once(b, row, err);
    }
    double cpu = cpu_seconds();
    uint64_t start = chrono_now_ns();
    uint64_t now = start;
    while (rc == 0 && n < SAMPLES_MAX && (double)(now - start) < seconds * 1e9) {
        rc = once(b, row, err);
        uint64_t end = chrono_now_ns();
        samples[n++] = end - now;
        now = end;
    }
    if (rc == 0) {
        cpu = cpu_seconds() - cpu;
        qsort(samples, n, sizeof(*samples), compare);
        double per_second = (double)n / ((double)(now - start) * 1e-9);
        printf("%-26s %9.1f %9.1f %9.1f %9.0f %7.2f\n", row->name, (double)samples[n / 2] * 1e-3,
               (double)samples[n * 99 / 100] * 1e-3, cpu * 1e6 / (double)n, per_second,
               per_second * (double)row->bytes * (row->echo ? 2 : 1) * 1e-9);
    }
    free(samples);
    return rc;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? strtod(argv[1], NULL) : 0.5;
    rpc_init();
    struct echo echo;
    echo_init(&echo);
    struct err err = {0};
    struct rpc_server *server = echo_server(&echo, NULL, &err);
    struct bench b = {.data = mem_new((size_t)16 << 20, 1)};
    latch_init(&b.answers);
    int rc = server ? 0 : err.code;
    if (server) {
        b.channel = rpc_channel_new(
            &(struct rpc_channel_options){.target = rpc_server_address(server, 0)}, &err);
        printf("%-26s %9s %9s %9s %9s %7s\n", "", "p50 us", "p99 us", "CPU us", "per s", "GB/s");
        for (size_t i = 0; rc == 0 && i < sizeof(rows) / sizeof(rows[0]); i++) {
            rc = run(&b, &rows[i], seconds, &err);
        }
        rpc_stream_free(b.stream);
        rpc_channel_free(b.channel);
    }
    if (rc != 0) {
        fprintf(stderr, "%s\n", err.msg);
    }
    rpc_server_free(server);
    echo_release(&echo);
    latch_release(&b.answers);
    free(b.data);
    rpc_shutdown();
    return rc == 0 ? 0 : 1;
}
