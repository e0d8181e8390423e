/* SPDX-License-Identifier: Apache-2.0 */
/* A server of the echo service and a channel to it, calls, and streams with what they brought. */
#include "rpc_rig.h"

void rpc_rig_start(struct rpc_rig *f, const struct rpc_server_options *server_options)
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

void rpc_rig_stop(struct rpc_rig *f)
{
    rpc_channel_free(f->channel);
    rpc_server_free(f->server);
    echo_release(&f->echo);
}

void rpc_rig_contains(const char *text, const char *part)
{
    if (!strstr(text, part)) {
        fail_msg("\"%s\" does not contain \"%s\"", text, part);
    }
}

struct rpc_rig_call *rpc_rig_call(const char *text)
{
    struct rpc_rig_call *c = mem_new(1, sizeof(*c));
    strcpy(c->text, text);
    gradus__test__item__init(&c->item);
    c->item.text = c->text;
    c->request = (struct rpc_request){.service = &gradus__test__echo__descriptor,
                                      .method = "Unary",
                                      .body = &c->item.base,
                                      .request_bulk = ECHO_BULK_FIELD,
                                      .response_bulk = ECHO_BULK_FIELD,
                                      .timeout_ms = 60000};
    return c;
}

/* Call with @c and expect an error with @code whose message has @part. */
void rpc_rig_fails(struct rpc_rig *f, struct rpc_rig_call *c, int code, const char *part)
{
    struct err err = {0};
    struct rpc_msg *reply = NULL;
    assert_int_equal(rpc_call_blocking(f->channel, &c->request, &reply, &err), code);
    assert_int_equal(err.code, code);
    assert_null(reply);
    rpc_rig_contains(err.msg, part);
    rpc_rig_contains(err.msg, rpc_channel_target(f->channel));
    rpc_rig_contains(err.msg, c->request.method);
    free(c);
}

void rpc_seen_init(struct rpc_seen *s)
{
    *s = (struct rpc_seen){.in_order = true};
    latch_init(&s->messages);
    latch_init(&s->done);
}

void rpc_seen_release(struct rpc_seen *s)
{
    latch_release(&s->messages);
    latch_release(&s->done);
}

static void on_message(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    struct rpc_seen *s = ctx;
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

void rpc_seen_done(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    struct rpc_seen *s = ctx;
    s->code = status->err.code;
    snprintf(s->message, sizeof(s->message), "%.290s", status->err.msg);
    latch_add(&s->done);
}

static const struct rpc_stream_events events = {.message = on_message, .done = rpc_seen_done};

struct rpc_stream *rpc_rig_stream(struct rpc_rig *f, struct rpc_seen *seen, const char *method,
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

void rpc_rig_send(struct rpc_stream *stream, uint64_t number)
{
    echo_item item = GRADUS__TEST__ITEM__INIT;
    item.number = number;
    struct err err = {0};
    rpc_stream_send(stream, &item.base, NULL, &err);
    assert_string_equal(err.msg, "");
}
