/* SPDX-License-Identifier: Apache-2.0 */
/* Exchange: one stream per worker and shard, pushes in and parameters out in chunks. This reads it,
 * in the call's callbacks. */
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "os/chrono.h"
#include "ps/rpc/ps_rows.h"
#include "ps/rpc/ps_stream.h"

#define UNSENT_BYTES_MIN (64U << 20) /* answers that a client may leave unread, */
#define UNSENT_SHARDS_MAX 4          /* and as many shards of values besides */

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
    tables_gradient_free(in->tables);
    in->tables = NULL;
    if (in->request != NULL) {
        ps_request_unref(in->request);
        in->request = NULL;
    }
}

void ps_stream_remove(struct ps_stream *s, struct incoming *in)
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
    if (s->shard == NULL && ps_check_key(shard, m->shard, m->worker, false, s->call, err) != 0) {
        ps_shard_unref(shard);
        return err->code;
    }
    if (s->shard == NULL) {
        s->shard = shard;
        memcpy(s->worker, m->worker, strnlen(m->worker, sizeof s->worker - 1));
        ps_stream_begin(s);
        return 0;
    }
    int rc = 0;
    if (s->shard != shard) {
        rc = err_set(err, ERR_INVALID, "this stream carries another shard; open one more stream");
        (void)ps_shard_wrap(shard, err);
    } else if (ps_has_secret(shard) && strncmp(s->worker, m->worker, sizeof s->worker - 1) != 0) {
        char other[SHARD_WORKER_BYTES + 1];
        (void)err_set(err, ERR_PERMISSION, "this stream is of worker %s, and not of %s", s->worker,
                      text_shown(m->worker, other, sizeof other));
        rc = ps_refuse(shard, s->call, err);
    }
    ps_shard_unref(shard);
    return rc;
}

static int borrow_gradient(struct ps_stream *s, struct incoming *in, uint32_t block,
                           struct err *err)
{
    if (in->type != VALUE_FP32) {
        return err_set(err, ERR_INVALID, "exchange %" PRIu64 ": %s in a gradient block",
                       in->exchange, value_type_names[in->type]);
    }
    int rc = ps_shared_memory_gradient(s->shared_memory, block, &s->waiter, &in->buffer, err);
    if (rc == ERR_INVALID) {
        return err_wrap(err, "exchange %" PRIu64, in->exchange);
    }
    if (rc == 0) {
        in->arrived = in->total;
        rc = ranges_add(&in->taken, 0, in->total, err);
    }
    return rc;
}

static int name_values_block(struct ps_stream *s, struct ps_request *r, uint32_t block,
                             struct err *err)
{
    if (block == 0) {
        return 0;
    }
    if (!ps_shared_memory_has_values(s->shared_memory, block)) {
        return err_set(err, ERR_INVALID,
                       "exchange %" PRIu64 ": value block %" PRIu32 " is not open", r->exchange,
                       block);
    }
    if (r->pulled != VALUE_FP32) {
        return err_set(err, ERR_INVALID, "exchange %" PRIu64 ": %s in a value block", r->exchange,
                       value_type_names[r->pulled]);
    }
    r->values_block = block;
    return 0;
}

static void take_offers(struct ps_stream *s, struct ps_request *r,
                        const Gradus__V1__ExchangeRequest *m)
{
    const bool opens = ps_shared_memory_may_open(s->ps, s->call);
    r->offers_shared_memory = m->shared_memory != NULL;
    r->offers_tables_memory = m->tables_memory != NULL;
    if (r->offers_shared_memory && opens && s->shared_memory == NULL) {
        s->shared_memory =
            ps_shared_memory_open(s->shard, false, m->shared_memory); /* or without */
    }
    if (r->offers_tables_memory && opens && s->tables_memory == NULL && s->shard->tables != NULL) {
        s->tables_memory = ps_shared_memory_open(s->shard, true, m->tables_memory);
    }
}

static const Gradus__V1__Push *push_of(const Gradus__V1__ExchangeRequest *m)
{
    bool trains = m->what_case == GRADUS__V1__EXCHANGE_REQUEST__WHAT_TRAINING;
    return trains ? m->training->push : NULL;
}

static const Gradus__V1__Pull *pull_of(const Gradus__V1__ExchangeRequest *m)
{
    bool trains = m->what_case == GRADUS__V1__EXCHANGE_REQUEST__WHAT_TRAINING;
    return trains ? m->training->pull : NULL;
}

static int read_ask(struct incoming *in, const Gradus__V1__ExchangeRequest *m, struct err *err)
{
    struct ps_request *r = in->request;
    int rc = wire_request_from_proto(m, &r->event.ask, err);
    rc = rc != 0 ? rc : ps_read_types(push_of(m), pull_of(m), r, err);
    if (rc != 0) {
        r->event.ask = (struct exchange_request){.kind = EXCHANGE_NONE}; /* borrows from @m */
        return rc;
    }
    ps_request_keep(r);
    in->type = r->pushed;
    return 0;
}

/* Begins the rows that come along with what is pulled. They are a courtesy: without memory they do
 * not come. */
static int begin_rows_along(struct ps_request *r, const Gradus__V1__RowsRequest *m, uint64_t keys,
                            struct err *err)
{
    if (!r->event.ask.has_pull) {
        return err_set(err, ERR_INVALID, "exchange %" PRIu64 ": rows with a pull, but without one",
                       r->exchange);
    }
    int rc = ps_rows_begin(r, m, keys, r->pulled, err);
    if (rc == ERR_EXHAUSTED) {
        ps_rows_free(r->rows);
        r->rows = NULL;
        rc = 0;
    }
    return rc;
}

/* The keys of a request for rows, or what a push brings of tables. */
static int begin_tables(struct ps_stream *s, struct incoming *in,
                        const Gradus__V1__ExchangeRequest *m, struct err *err)
{
    struct ps_request *r = in->request;
    if (r->event.ask.kind == EXCHANGE_ROWS) {
        in->keys = true;
        int rc = ps_read_rows_type(m->rows, r, err);
        return rc != 0 ? rc : ps_rows_begin(r, m->rows, m->total, r->pulled, err);
    }
    if (in->tables_total > m->tables_bytes) {
        const uint64_t keys = (in->tables_total - m->tables_bytes) / sizeof(uint64_t);
        int rc = begin_rows_along(r, m->training->rows, keys, err);
        if (rc != 0) {
            return rc;
        }
    }
    if (m->tables_bytes == 0) {
        return 0;
    }
    if (!in->gradient || s->shard->tables == NULL) {
        return err_set(err, ERR_INVALID,
                       "exchange %" PRIu64 ": %" PRIu64 " bytes of tables, but %s", m->exchange,
                       m->tables_bytes,
                       s->shard->tables == NULL ? "the job has none" : "there is no gradient");
    }
    in->tables = tables_gradient_new(s->shard->tables->dims, s->shard->tables->count, in->type,
                                     m->tables_bytes, &s->ps->budget, err);
    return in->tables == NULL ? ERR_EXHAUSTED : 0;
}

/* A shard with tables alone has gradients without a single value. */
static bool brings_gradient(const struct ps_request *r, const Gradus__V1__ExchangeRequest *m)
{
    const struct exchange_request *ask = &r->event.ask;
    const bool none = r->shard->elements == 0 && ask->push.examples > 0;
    return ask->has_push && (m->total > 0 || none);
}

/* Reads what the first message says; its values follow. */
static int read_first(struct ps_stream *s, struct incoming *in,
                      const Gradus__V1__ExchangeRequest *m, struct err *err)
{
    struct ps_request *r = in->request;
    r->exchange = m->exchange;
    r->stream = s;
    ps_stream_ref(s);
    r->event.generation = m->shard->generation;
    r->event.fence = ps_fence(m->shard);
    int rc = read_ask(in, m, err);
    ps_request_name(r, m->worker);
    take_offers(s, r, m);
    rc = rc != 0 ? rc : name_values_block(s, r, m->values_block, err);
    in->gradient = rc == 0 && brings_gradient(r, m);
    rc = rc != 0 ? rc : begin_tables(s, in, m, err);
    rc = rc != 0 ? rc : ps_rows_name_block(s, r, m->rows_block, err);
    if (rc != 0 || in->keys || m->total == 0) {
        return rc;
    }
    if (!r->event.ask.has_push || m->total != s->shard->elements) {
        return err_set(err, ERR_INVALID,
                       "exchange %" PRIu64 ": %" PRIu64 " gradient elements; expected %" PRIu64,
                       m->exchange, m->total, r->event.ask.has_push ? s->shard->elements : 0);
    }
    return 0;
}

/* Takes memory for a gradient when it begins. 1: there is none; the message is read again when
 * there is, and until then no other message of this stream. */
static int find_room(struct ps_stream *s, struct incoming *in, const Gradus__V1__ExchangeRequest *m,
                     struct err *err)
{
    if ((in->total == 0 && !in->gradient) || in->buffer != NULL || in->keys) {
        return 0;
    }
    if (push_of(m) == NULL) { /* only a push has memory */
        return err_set(err, ERR_INVALID, "exchange %" PRIu64 ": values of no push", m->exchange);
    }
    int rc = m->gradient_block != 0
                 ? borrow_gradient(s, in, m->gradient_block, err)
                 : gradient_pool_get(&s->shard->gradients, &s->waiter, &in->buffer, err);
    for (size_t i = 0; rc == 1 && i < s->incoming_count; i++) {
        if (s->incoming[i].buffer != NULL) { /* its end would be waited for behind this message */
            rc = err_set(err, ERR_EXHAUSTED,
                         "exchange %" PRIu64 ": no memory for another gradient before the one of "
                         "exchange %" PRIu64 " is complete; send one after the other",
                         in->exchange, s->incoming[i].exchange);
        }
    }
    if (rc == 1) {
        ps_stream_ref(s);
        rpc_pause_again(s->call);
        gradient_pool_wait(&s->shard->gradients, &s->waiter);
        return 1;
    }
    rc = rc != 0 ? rc : ps_read_norms(s->shard, push_of(m), in->buffer, err);
    return rc == 0 ? 0 : ps_shard_wrap(s->shard, err);
}

static int begin(struct ps_stream *s, struct incoming *in, const Gradus__V1__ExchangeRequest *m,
                 struct err *err)
{
    int rc = find_shard(s, m, err);
    if (rc != 0) {
        return rc;
    }
    in->request = ps_request_new(s->shard, SHARD_EXCHANGE, s->call, NULL, ps_answer);
    rc = read_first(s, in, m, err);
    return rc == 0 ? 0 : ps_shard_wrap(s->shard, err);
}

/* Keys, or what belongs to tables. */
static int take_other(struct ps_stream *s, struct incoming *in,
                      const Gradus__V1__ExchangeRequest *m, struct rpc_spans *spans,
                      struct err *err)
{
    struct ps_rows *rows = in->request->rows;
    meter_add(s->ps->meters.values_received, rpc_spans_bytes(spans));
    int rc = in->keys               ? ps_rows_take(rows, m->offset, spans, err)
             : in->tables_total > 0 ? ps_tables_take(in->tables, rows, &in->tables_arrived,
                                                     in->tables_total, m->offset, spans, err)
                                    : err_set(err, ERR_INVALID, "bytes of tables without a number");
    if (rc != 0) {
        (void)err_wrap(err, "exchange %" PRIu64, m->exchange);
        return ps_shard_wrap(s->shard, err);
    }
    in->arrived = in->keys ? rows->arrived : in->arrived;
    return 0;
}

static int take_values(struct ps_stream *s, struct incoming *in,
                       const Gradus__V1__ExchangeRequest *m, struct rpc_spans *spans,
                       struct err *err)
{
    if (in->keys || m->of_tables) {
        return take_other(s, in, m, spans, err);
    }
    size_t bytes = rpc_spans_bytes(spans);
    uint64_t n = bytes / value_type_bytes(in->type);
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

/* Takes what the message has of tables out of a block of the client's. */
static int take_block(struct ps_stream *s, struct incoming *in,
                      const Gradus__V1__ExchangeRequest *m, struct err *err)
{
    const uint64_t bytes = in->tables_total - in->tables_arrived;
    int rc =
        in->keys || in->tables_arrived > 0 || bytes == 0
            ? err_set(err, ERR_INVALID, "a block with nothing of tables")
            : ps_tables_take_block(s, in->tables, in->request->rows, m->tables_block, bytes, err);
    if (rc != 0) {
        (void)err_wrap(err, "exchange %" PRIu64, m->exchange);
        return ps_shard_wrap(s->shard, err);
    }
    in->tables_arrived += bytes;
    meter_add(s->ps->meters.values_received, bytes);
    return 0;
}

static bool is_whole(const struct incoming *in)
{
    return in->arrived == in->total && in->tables_arrived == in->tables_total;
}

/* Ends what is to be read of tables; what came in a block of the client's was read already. */
static int finish_tables(struct ps_stream *s, struct incoming *in, struct err *err)
{
    if (!in->tables->decoded && tables_gradient_decode(in->tables, NULL, err) != 0) {
        (void)err_wrap(err, "exchange %" PRIu64, in->exchange);
        return ps_shard_wrap(s->shard, err);
    }
    in->buffer->tables = in->tables;
    in->tables = NULL;
    return 0;
}

/* Posts a request whose chunks have all come. Errors: ERR_INVALID what it brings of tables cannot
 * be read. */
static int post(struct ps_stream *s, struct incoming *in, struct err *err)
{
    struct ps_request *r = in->request;
    int rc = in->tables == NULL ? 0 : finish_tables(s, in, err);
    if (rc != 0) {
        return rc;
    }
    r->event.gradient = in->buffer;
    r->event.elements = in->keys ? 0 : in->total;
    in->request = NULL;
    in->buffer = NULL;
    ps_stream_remove(s, in);
    ps_request_post(r);
    return 0;
}

/* Of a refused exchange the client may have sent more meanwhile. */
static void skip(struct ps_stream *s, struct incoming *in, const Gradus__V1__ExchangeRequest *m,
                 size_t bytes)
{
    if (m->of_tables) {
        in->tables_arrived += bytes;
    } else if (m->gradient_block != 0) {
        in->arrived = in->total;
    } else {
        in->arrived += bytes / (in->keys ? sizeof(uint64_t) : value_type_bytes(in->type));
    }
    in->tables_arrived = m->tables_block != 0 ? in->tables_total : in->tables_arrived;
    if (in->arrived >= in->total && in->tables_arrived >= in->tables_total) {
        ps_stream_remove(s, in);
    }
}

static void refuse(struct ps_stream *s, struct incoming *in, const Gradus__V1__ExchangeRequest *m,
                   size_t bytes, const struct err *err)
{
    if (in->buffer == NULL && s->shared_memory != NULL && m->gradient_block != 0) {
        ps_shared_memory_decline(s->shared_memory, m->gradient_block);
    }
    if (s->tables_memory != NULL && m->tables_block != 0) {
        ps_shared_memory_decline(s->tables_memory, m->tables_block);
    }
    release_incoming(in); /* before the client hears of it */
    ps_answer_refuse(s->call, m->exchange, 0, 0, err);
    skip(s, in, m, bytes);
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
        ps_stream_remove(s, in); /* it was refused, and begins anew */
        in = NULL;
    }
    if (in != NULL && in->request == NULL) {
        skip(s, in, m, rpc_spans_bytes(msg->bulk));
        return;
    }
    if (in == NULL) {
        if (s->incoming_count == INCOMING_MAX) {
            fail_stream(s, "too many exchanges arrive at once on this stream");
            return;
        }
        in = &s->incoming[s->incoming_count++];
        *in = (struct incoming){.exchange = m->exchange,
                                .total = m->total,
                                .tables_total =
                                    m->tables_bytes + ps_rows_along(m) * sizeof(uint64_t)};
        rc = begin(s, in, m, &err);
    }
    rc = rc != 0 ? rc : find_room(s, in, m, &err);
    if (rc == 1) {
        return;
    }
    rc = rc != 0 ? rc : take_values(s, in, m, msg->bulk, &err);
    rc = rc == 0 && m->tables_block != 0 ? take_block(s, in, m, &err) : rc;
    if (rc == 0 && began_ns != 0) {
        ps_trace_request(in->request, TRACE_CHUNK, began_ns, chrono_now_ns(),
                         rpc_spans_bytes(msg->bulk));
    }
    rc = rc == 0 && is_whole(in) ? post(s, in, &err) : rc;
    if (rc != 0) {
        refuse(s, in, m, rpc_spans_bytes(msg->bulk), &err);
    }
}
