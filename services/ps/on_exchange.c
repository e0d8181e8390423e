/* Exchange: one stream per worker and shard, pushes in and parameters out in chunks. */
#include <assert.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/chrono.h"
#include "base/mem.h"
#include "ps/ps_shell.h"
#include "ps/ranges.h"

#define INCOMING_MAX 64              /* exchanges whose chunks arrive at the same time */
#define UNSENT_BYTES_MIN (64U << 20) /* answers that a client may leave unread, */
#define UNSENT_SHARDS_MAX 4          /* and as many shards of values besides */

/* An exchange of which more chunks are to come. */
struct incoming {
    uint64_t exchange;
    struct ps_request *request; /* NULL: refused; what is still to come is skipped */
    struct buffer *buffer;      /* NULL: no values */
    uint64_t arrived, total;    /* elements */
    struct ranges taken;        /* of `buffer` */
    enum value_type type;
};

/* One reference for the call, until it is over, and one for each request. */
struct ps_stream {
    atomic_uint refs;
    struct ps *ps;
    struct rpc_call *call;

    /* Of the call's callbacks. */
    struct ps_shard *shard; /* NULL until the first exchange */
    struct incoming incoming[INCOMING_MAX];
    size_t incoming_count;
    struct gate_waiter waiter; /* for the memory of a gradient; keeps a reference */
    struct windows *windows;   /* NULL: the client offered none that can be opened. Set once, before
                                  requests that name it */

    /* Of the shard's strand. */
    struct ps_request *waiting;
    bool half_closed;
    struct strand_task half_close;
    struct strand_task gone;
};

void ps_stream_ref(struct ps_stream *s)
{
    atomic_fetch_add(&s->refs, 1);
}

void ps_stream_unref(struct ps_stream *s)
{
    if (atomic_fetch_sub(&s->refs, 1) != 1) {
        return;
    }
    if (s->shard != NULL) {
        ps_shard_unref(s->shard);
    }
    windows_unref(s->windows);
    rpc_call_unref(s->call);
    free(s);
}

void ps_stream_wait(struct ps_stream *s, struct ps_request *r)
{
    r->next = s->waiting;
    r->link = &s->waiting;
    if (r->next != NULL) {
        r->next->link = &r->next;
    }
    s->waiting = r;
}

/* ---- answers, on the strand ---- */

static void send_refusal(struct rpc_call *call, uint64_t exchange, uint64_t generation,
                         uint64_t version, const struct err *err)
{
    Gradus__V1__ExchangeResponse m = GRADUS__V1__EXCHANGE_RESPONSE__INIT;
    char message[ERR_MESSAGE_BYTES];
    memcpy(message, err->msg, sizeof message);
    m.exchange = exchange;
    m.code = -err->code;
    m.message = message;
    m.generation = generation;
    m.version = version;
    if (rpc_send(call, &m.base, NULL) == ERR_EXHAUSTED) {
        (void)rpc_fail(call, err);
    }
}

/* A message with elements [at, at + n) of @values, of which a reference goes with it. */
static int send_blob(struct ps_request *r, Gradus__V1__ExchangeResponse *m,
                     const struct ps_source *values, uint64_t at, uint64_t n)
{
    struct rpc_piece piece = ps_values_piece(r, values, at, n);
    struct rpc_blob blob = {
        .pieces = &piece, .piece_count = 1, .release = values->release, .ctx = values->ctx};
    m->total = r->shard->elements;
    m->offset = at;
    m->type = (Gradus__V1__WireType)r->pulled;
    return rpc_send(r->call, &m->base, &blob);
}

/* The client's window gets what is new of the first @end elements. */
static void fill_window(struct ps_request *r, const float *values, uint64_t end)
{
    if (end > r->filled) {
        windows_copy(r->shard->elements, r->window + r->filled, values + r->filled,
                     end - r->filled);
        r->filled = end;
    }
}

/* The same, of which the client has memory. */
static int send_filled(struct ps_request *r, Gradus__V1__ExchangeResponse *m, uint64_t at,
                       uint64_t n)
{
    m->total = r->shard->elements;
    m->offset = at;
    m->in_window = n;
    return rpc_send(r->call, &m->base, NULL);
}

static void give_up(struct ps_request *r)
{
    struct err err;
    (void)err_set(&err, ERR_EXHAUSTED, "the answers of this stream are not read");
    (void)rpc_fail(r->call, &err);
}

/* Piece by piece, so that the client takes one while the next is copied. */
static void send_in_window(struct ps_request *r, const struct shard_action *a,
                           Gradus__V1__ExchangeResponse *m)
{
    uint64_t elements = r->shard->elements;
    uint64_t chunk = r->shard->ps->chunk_bytes / sizeof(float);
    struct ps_source values = ps_values_answer(r->shard, a, 1);
    int rc = 0;
    while (r->sent < elements && rc == 0) {
        uint64_t n = elements - r->sent < chunk ? elements - r->sent : chunk;
        fill_window(r, values.data, r->sent + n);
        rc = send_filled(r, m, r->sent, n);
        r->sent += n;
    }
    values.release(values.ctx);
    if (rc == ERR_EXHAUSTED) {
        give_up(r);
    }
}

/* What was not sent while it was computed. */
static void send_values(struct ps_request *r, const struct shard_action *a,
                        Gradus__V1__ExchangeResponse *m)
{
    uint64_t elements = r->shard->elements;
    uint64_t chunk = r->shard->ps->chunk_bytes / value_type_bytes(r->pulled);
    unsigned left = (unsigned)((elements - r->sent + chunk - 1) / chunk);
    if (left == 0) {
        return;
    }
    struct ps_source values = ps_values_answer(r->shard, a, left);
    int rc = 0;
    for (uint64_t at = r->sent; at < elements && rc == 0; at += chunk, left--) {
        rc = send_blob(r, m, &values, at, elements - at < chunk ? elements - at : chunk);
    }
    while (left-- > 0) {
        values.release(values.ctx);
    }
    if (rc == ERR_EXHAUSTED) {
        give_up(r);
    }
}

static void send_well(struct ps_request *r, const struct shard_action *a,
                      Gradus__V1__ExchangeResponse *m)
{
    Gradus__V1__Decision decision = GRADUS__V1__DECISION__INIT;
    Gradus__V1__SpareResponse spare = GRADUS__V1__SPARE_RESPONSE__INIT;
    uint8_t replicas[SHARD_REPLICAS_MAX / 8];
    if (a->has_decision) {
        assert(a->decision_bytes <= sizeof replicas);
        memcpy(replicas, a->decision, a->decision_bytes);
        decision.step = a->decision_step;
        decision.replicas = (ProtobufCBinaryData){a->decision_bytes, replicas};
        m->decision = &decision;
    }
    if (a->has_spare) {
        spare.given = a->spare_given;
        spare.replica = a->spare_replica;
        spare.wait_ms = a->spare_wait_ms;
        m->spare = &spare;
    }
    Gradus__V1__Sums sums = GRADUS__V1__SUMS__INIT;
    if (a->has_sums) {
        const struct buf *data = ps_sums_of(r->shard, a);
        sums.step = a->sums_step;
        sums.round = a->sums_round;
        sums.known = a->sums_known;
        sums.data = (ProtobufCBinaryData){data->len, (uint8_t *)data->data};
        m->sums = &sums;
    }
    if (a->values && r->window != NULL) {
        send_in_window(r, a, m);
    } else if (a->values) {
        send_values(r, a, m);
    } else {
        (void)rpc_send(r->call, &m->base, NULL);
    }
}

static uint32_t microseconds(uint64_t ns)
{
    uint64_t us = ns / 1000;
    return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}

static void fill(const struct ps_request *r, const struct shard_action *a,
                 Gradus__V1__ExchangeResponse *m)
{
    gradus__v1__exchange_response__init(m);
    m->exchange = r->exchange;
    m->push = (Gradus__V1__PushResult)a->push;
    m->version = a->version;
    m->progress = a->progress;
    m->clock = a->clock;
    m->generation = a->generation;
    m->staleness = a->staleness;
    struct ps_request_time t = ps_request_time(r);
    m->waited_us = microseconds(t.waited_ns);
    m->applied_us = microseconds(t.applied_ns);
    m->windows_open = r->offers_windows && r->stream->windows != NULL;
}

void ps_exchange_begin_answer(struct ps_request *r, const struct shard_action *a,
                              struct snapshot *next, uint64_t done)
{
    uint64_t chunk = r->shard->ps->chunk_bytes / value_type_bytes(r->pulled);
    Gradus__V1__ExchangeResponse m;
    if (r->stream == NULL || a->has_decision || a->has_spare || a->has_sums) {
        return;
    }
    fill(r, a, &m);
    const struct ps_source values = {next->values.data, ps_values_release, next};
    bool traced = done - r->sent >= chunk && trace_on(&r->shard->ps->trace);
    uint64_t began_ns = traced ? chrono_now_ns() : 0;
    if (r->window != NULL) {
        fill_window(r, next->values.data, done); /* the piece is in the cache yet */
    }
    while (done - r->sent >= chunk) {
        if (r->window == NULL) {
            ps_values_ref(r->shard, next, 1);
        }
        int rc = r->window != NULL ? send_filled(r, &m, r->sent, chunk)
                                   : send_blob(r, &m, &values, r->sent, chunk);
        if (rc != 0) {
            return; /* what is wrong shows when the rest is sent */
        }
        r->sent += chunk;
    }
    if (traced) {
        ps_trace_request(r, TRACE_ANSWER, began_ns, chrono_now_ns(), 0);
    }
}

static void answer(struct ps_request *r, const struct shard_action *a, const struct err *err)
{
    if (a->code != 0) {
        send_refusal(r->call, r->exchange, a->generation, a->version, err);
    } else {
        Gradus__V1__ExchangeResponse m;
        fill(r, a, &m);
        send_well(r, a, &m);
    }
    if (r->stream->half_closed && r->stream->waiting == NULL) {
        (void)rpc_finish(r->call);
    }
}

/* ---- messages, in the call's callbacks ---- */

static struct incoming *find_incoming(struct ps_stream *s, uint64_t exchange)
{
    for (size_t i = 0; i < s->incoming_count; i++) {
        if (s->incoming[i].exchange == exchange) {
            return &s->incoming[i];
        }
    }
    return NULL;
}

static void release_incoming(struct incoming *in)
{
    buffer_put(in->buffer);
    in->buffer = NULL;
    if (in->request != NULL) {
        ps_request_unref(in->request);
        in->request = NULL;
    }
}

static void remove_incoming(struct ps_stream *s, struct incoming *in)
{
    release_incoming(in);
    *in = s->incoming[--s->incoming_count];
}

static int find_shard(struct ps_stream *s, const Gradus__V1__ExchangeRequest *m, struct err *err)
{
    if (m->shard == NULL) {
        return err_set(err, ERR_INVALID,
                       "exchange %" PRIu64 ": its first message does not name a shard",
                       m->exchange);
    }
    struct ps_shard *shard = ps_find(s->ps, m->shard, err);
    if (shard == NULL) {
        return err->code;
    }
    if (s->shard == NULL) {
        s->shard = shard;
        return 0;
    }
    int rc = 0;
    if (s->shard != shard) {
        rc = err_set(err, ERR_INVALID, "this stream carries another shard; open one more stream");
        (void)ps_shard_wrap(shard, err);
    }
    ps_shard_unref(shard);
    return rc;
}

/* ---- windows ---- */

static void take_offer(struct ps_stream *s, const Gradus__V1__Windows *m)
{
    struct windows_offer offer = {
        .pid = m->pid,
        .fd = m->fd,
        .elements = m->elements,
        .gradients = m->gradients,
        .values = m->values,
    };
    if (s->windows == NULL && s->ps->shared_memory && m->token.len == sizeof offer.token) {
        memcpy(offer.token, m->token.data, sizeof offer.token);
        (void)windows_open(&offer, s->shard->elements, &s->windows, NULL); /* or without */
    }
}

static void give_window_back(struct buffer *b)
{
    windows_give_gradient(b->owner, b->window);
    windows_unref(b->owner);
}

static int borrow_gradient(struct ps_stream *s, struct incoming *in, uint32_t window,
                           struct err *err)
{
    if (in->type != VALUE_FP32) {
        return err_set(err, ERR_INVALID, "exchange %" PRIu64 ": %s in a gradient window",
                       in->exchange, value_type_names[in->type]);
    }
    if (s->windows == NULL || !windows_hold_gradient(s->windows, window - 1)) {
        return err_set(err, ERR_INVALID,
                       "exchange %" PRIu64 ": gradient window %" PRIu32 " is not open, or in use",
                       in->exchange, window);
    }
    in->buffer = buffer_borrow(&s->shard->gradients.pool, windows_gradient(s->windows, window - 1),
                               windows_ref(s->windows), window - 1, give_window_back);
    in->arrived = in->total;
    return ranges_add(&in->taken, 0, in->total, err);
}

static int name_values_window(struct ps_stream *s, struct ps_request *r, uint32_t window,
                              struct err *err)
{
    if (window == 0) {
        return 0;
    }
    if (s->windows == NULL || !windows_has_values(s->windows, window - 1)) {
        return err_set(err, ERR_INVALID,
                       "exchange %" PRIu64 ": value window %" PRIu32 " is not open", r->exchange,
                       window);
    }
    if (r->pulled != VALUE_FP32) {
        return err_set(err, ERR_INVALID, "exchange %" PRIu64 ": %s in a value window", r->exchange,
                       value_type_names[r->pulled]);
    }
    r->window = windows_values(s->windows, window - 1);
    return 0;
}

/* What the first message says; its values come after. */
static int read_first(struct ps_stream *s, struct incoming *in,
                      const Gradus__V1__ExchangeRequest *m, struct err *err)
{
    struct ps_request *r = in->request;
    int rc = 0;
    r->exchange = m->exchange;
    r->stream = s;
    ps_stream_ref(s);
    r->event.generation = m->shard->generation;
    r->event.has_push = m->push != NULL;
    r->event.has_pull = m->pull != NULL;
    r->event.idle = m->idle != 0;
    r->event.has_spare = m->spare != NULL;
    r->event.spare_step = m->spare == NULL ? 0 : m->spare->step;
    if (m->push != NULL) {
        rc = ps_read_push(m->push, r, err);
        in->type = r->pushed;
    }
    if (m->pull != NULL && rc == 0) {
        rc = ps_read_pull(m->pull, r, err);
    }
    if (m->decision != NULL && rc == 0) {
        rc = ps_request_decision(r, m->decision, err);
    }
    if (m->sums != NULL) {
        r->event.has_sums = true;
        r->event.sums_step = m->sums->step;
        r->event.sums_round = m->sums->round;
    }
    if (m->totals != NULL && rc == 0) {
        ps_request_totals(r, m->totals);
    }
    ps_request_name(r, m->worker);
    if (m->windows != NULL) {
        r->offers_windows = true;
        take_offer(s, m->windows);
    }
    rc = rc != 0 ? rc : name_values_window(s, r, m->values_window, err);
    if (rc != 0 || m->total == 0) {
        return rc;
    }
    if (m->push == NULL || m->total != s->shard->elements) {
        return err_set(err, ERR_INVALID,
                       "exchange %" PRIu64 ": %" PRIu64 " gradient elements; expected %" PRIu64,
                       m->exchange, m->total, m->push == NULL ? 0 : s->shard->elements);
    }
    return 0;
}

/* Memory for the gradient that begins, once. 1: there is none; the message comes again when there
 * is, and until then no other of this stream. */
static int find_room(struct ps_stream *s, struct incoming *in, const Gradus__V1__ExchangeRequest *m,
                     struct err *err)
{
    if (in->total == 0 || in->buffer != NULL) {
        return 0;
    }
    int rc = m->gradient_window != 0 ? borrow_gradient(s, in, m->gradient_window, err)
                                     : gate_get(&s->shard->gradients, &s->waiter, &in->buffer, err);
    for (size_t i = 0; rc == 1 && i < s->incoming_count; i++) {
        if (s->incoming[i].buffer != NULL) { /* whose end would be waited for behind this one */
            rc = err_set(err, ERR_EXHAUSTED,
                         "exchange %" PRIu64 ": no memory for another gradient before the one of "
                         "exchange %" PRIu64 " is complete; send one after the other",
                         in->exchange, s->incoming[i].exchange);
        }
    }
    if (rc == 1) {
        ps_stream_ref(s);
        rpc_pause_again(s->call);
        gate_wait(&s->shard->gradients, &s->waiter);
        return 1;
    }
    rc = rc != 0 ? rc : ps_read_norms(s->shard, m->push, in->buffer, err);
    return rc == 0 ? 0 : ps_shard_wrap(s->shard, err);
}

static void go_on(struct gate_waiter *w)
{
    struct ps_stream *s = (struct ps_stream *)((char *)w - offsetof(struct ps_stream, waiter));
    rpc_resume(s->call);
    ps_stream_unref(s);
}

static int begin(struct ps_stream *s, struct incoming *in, const Gradus__V1__ExchangeRequest *m,
                 struct err *err)
{
    int rc = find_shard(s, m, err);
    if (rc != 0) {
        return rc;
    }
    in->request = ps_request_new(s->shard, SHARD_EXCHANGE, s->call, NULL, answer);
    rc = read_first(s, in, m, err);
    return rc == 0 ? 0 : ps_shard_wrap(s->shard, err);
}

static int take_values(struct ps_stream *s, struct incoming *in,
                       const Gradus__V1__ExchangeRequest *m, struct rpc_spans *spans,
                       struct err *err)
{
    size_t bytes = rpc_spans_bytes(spans);
    uint64_t n = bytes / value_type_bytes(in->type);
    if (m->gradient_window != 0 && bytes == 0) {
        return 0; /* they are there */
    }
    int rc = 0;
    if (bytes % value_type_bytes(in->type) != 0 || m->offset > in->total ||
        n > in->total - m->offset) {
        rc = err_set(err, ERR_INVALID, "there are %" PRIu64 " elements", in->total);
    } else {
        rc = ranges_add(&in->taken, m->offset, n, err);
    }
    if (rc != 0) {
        (void)err_wrap(err, "exchange %" PRIu64 ": %zu bytes of values at element %" PRIu64,
                       m->exchange, bytes, m->offset);
        return ps_shard_wrap(s->shard, err);
    }
    if (n > 0) {
        (void)wire_values_read(spans, in->type, in->buffer->floats.data + m->offset, n);
        meter_add(s->ps->meters.values_received, bytes);
    }
    in->arrived += n;
    return 0;
}

/* Every chunk has come. */
static void post(struct ps_stream *s, struct incoming *in)
{
    struct ps_request *r = in->request;
    r->event.push.buffer = in->buffer;
    r->event.push.elements = in->total;
    in->request = NULL;
    in->buffer = NULL;
    remove_incoming(s, in);
    ps_request_post(r);
}

/* Of a refused exchange the client may have sent more meanwhile. */
static void skip(struct ps_stream *s, struct incoming *in, size_t bytes)
{
    in->arrived += bytes / value_type_bytes(in->type);
    if (in->arrived >= in->total) {
        remove_incoming(s, in);
    }
}

static void refuse(struct ps_stream *s, struct incoming *in, const Gradus__V1__ExchangeRequest *m,
                   size_t bytes, const struct err *err)
{
    send_refusal(s->call, m->exchange, 0, 0, err);
    release_incoming(in);
    skip(s, in, bytes);
}

static bool reads_answers(struct ps_stream *s)
{
    uint64_t most = UNSENT_BYTES_MIN;
    if (s->shard != NULL) {
        most += UNSENT_SHARDS_MAX * s->shard->elements * sizeof(float);
    }
    return rpc_queued_bytes(s->call) <= most;
}

static void fail_stream(struct ps_stream *s, const char *why)
{
    struct err err;
    (void)err_set(&err, ERR_EXHAUSTED, "%s", why);
    (void)rpc_fail(s->call, &err);
}

void ps_on_exchange(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    const Gradus__V1__ExchangeRequest *m = (const Gradus__V1__ExchangeRequest *)msg->body;
    struct ps_stream *s = rpc_data(call);
    struct err err;
    int rc = 0;
    uint64_t began_ns = trace_on(&s->ps->trace) ? chrono_now_ns() : 0;
    if (!reads_answers(s)) {
        fail_stream(s, "the answers of this stream are not read");
        return;
    }
    struct incoming *in = find_incoming(s, m->exchange);
    if (in != NULL && in->request == NULL && m->shard != NULL) {
        remove_incoming(s, in); /* refused before, and begun anew */
        in = NULL;
    }
    if (in != NULL && in->request == NULL) {
        skip(s, in, rpc_spans_bytes(msg->bulk));
        return;
    }
    if (in == NULL) {
        if (s->incoming_count == INCOMING_MAX) {
            fail_stream(s, "too many exchanges arrive at once on this stream");
            return;
        }
        in = &s->incoming[s->incoming_count++];
        *in = (struct incoming){.exchange = m->exchange, .total = m->total};
        rc = begin(s, in, m, &err);
    }
    rc = rc != 0 ? rc : find_room(s, in, m, &err);
    if (rc == 1) {
        return;
    }
    rc = rc != 0 ? rc : take_values(s, in, m, msg->bulk, &err);
    if (rc == 0 && began_ns != 0) {
        ps_trace_request(in->request, TRACE_CHUNK, began_ns, chrono_now_ns(),
                         rpc_spans_bytes(msg->bulk));
    }
    if (rc != 0) {
        refuse(s, in, m, rpc_spans_bytes(msg->bulk), &err);
    } else if (in->arrived == in->total) {
        post(s, in);
    }
}

/* ---- begin and end ---- */

void ps_stream_open(struct rpc_call *call, void *service)
{
    struct ps_stream *s = mem_new(1, sizeof *s);
    atomic_store(&s->refs, 1);
    s->ps = service;
    s->call = rpc_call_ref(call);
    s->waiter.ready = go_on;
    rpc_set_data(call, s);
}

static void run_half_close(struct strand_task *task)
{
    struct ps_stream *s =
        (struct ps_stream *)((char *)task - offsetof(struct ps_stream, half_close));
    s->half_closed = true;
    if (s->waiting == NULL) {
        (void)rpc_finish(s->call);
    }
    ps_stream_unref(s);
}

/* The client sends no more, but what it asked for is still answered. */
void ps_stream_half_close(struct rpc_call *call, void *service)
{
    (void)service;
    struct ps_stream *s = rpc_data(call);
    if (s->shard == NULL) {
        (void)rpc_finish(call);
        return;
    }
    struct ps_shard *shard = ps_shard_ref(s->shard);
    ps_stream_ref(s);
    (void)strand_post(&shard->strand, &s->half_close, run_half_close);
    ps_shard_unref(shard);
}

static void run_gone(struct strand_task *task)
{
    struct ps_stream *s = (struct ps_stream *)((char *)task - offsetof(struct ps_stream, gone));
    while (s->waiting != NULL) {
        ps_request_drop(s->waiting);
    }
    ps_stream_unref(s);
}

void ps_stream_done(struct rpc_call *call, bool cancelled, void *service)
{
    (void)cancelled;
    (void)service;
    struct ps_stream *s = rpc_data(call);
    rpc_set_data(call, NULL);
    if (gate_cancel(&s->waiter)) {
        ps_stream_unref(s);
    }
    while (s->incoming_count > 0) {
        remove_incoming(s, &s->incoming[s->incoming_count - 1]);
    }
    if (s->shard == NULL) {
        ps_stream_unref(s);
        return;
    }
    struct ps_shard *shard = ps_shard_ref(s->shard);
    (void)strand_post(&shard->strand, &s->gone, run_gone);
    ps_shard_unref(shard);
}
