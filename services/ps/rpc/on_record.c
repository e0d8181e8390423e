/* SPDX-License-Identifier: Apache-2.0 */
/* Record: what a primary says to its backup. This reads the stream, in the call's callbacks: a
 * record goes to the strand when all of it has come. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ps/rpc/ps_standby.h"

static void fail(struct ps_record_stream *s, struct err *err)
{
    s->failed = true;
    if (s->shard != NULL) {
        (void)ps_shard_wrap(s->shard, err);
    }
    (void)rpc_fail(s->call, err);
}

/* The receipt, or why there is none: nothing that follows could be taken either. */
static void answer(struct ps_request *r, const struct shard_action *a, const struct err *err)
{
    if (a->code != 0) {
        (void)rpc_fail(r->call, err);
        return;
    }
    Gradus__V1__RecordResponse m = GRADUS__V1__RECORD_RESPONSE__INIT;
    m.received = a->received;
    m.shared_memory_open = r->offers_shared_memory;
    (void)rpc_send(r->call, &m.base, NULL);
}

/* ---- the stream ---- */

/* There is memory for the gradient whose message waits: the stream reads on. */
static void go_on(struct gradient_wait *w)
{
    struct ps_record_stream *s =
        (struct ps_record_stream *)((char *)w - offsetof(struct ps_record_stream, waiter));
    rpc_resume(s->call);
    ps_record_stream_unref(s);
}

void ps_record_open(struct rpc_call *call, void *service)
{
    struct ps_record_stream *s = mem_new(1, sizeof *s);
    atomic_store(&s->refs, 1);
    s->ps = service;
    s->call = rpc_call_ref(call);
    s->waiter.ready = go_on;
    rpc_set_data(call, s);
}

void ps_record_half_close(struct rpc_call *call, void *service)
{
    (void)service;
    (void)rpc_finish(call);
}

static void run_begun(struct strand_task *task)
{
    struct ps_record_stream *s =
        (struct ps_record_stream *)((char *)task - offsetof(struct ps_record_stream, begun));
    ps_record_stream_begin(s);
    ps_record_stream_unref(s);
}

static void run_gone(struct strand_task *task)
{
    struct ps_record_stream *s =
        (struct ps_record_stream *)((char *)task - offsetof(struct ps_record_stream, gone));
    ps_record_stream_unlink(s);
    ps_record_stream_unref(s);
}

static void release_record(struct ps_record_stream *s)
{
    buffer_put(s->buffer);
    s->buffer = NULL;
    tables_gradient_free(s->rows);
    s->rows = NULL;
    if (s->request != NULL) {
        buffer_put(s->request->event.slots_buffer);
        ps_request_unref(s->request);
        s->request = NULL;
    }
}

void ps_record_done(struct rpc_call *call, bool cancelled, void *service)
{
    (void)cancelled;
    (void)service;
    struct ps_record_stream *s = rpc_data(call);
    rpc_set_data(call, NULL);
    if (gradient_wait_cancel(&s->waiter)) {
        ps_record_stream_unref(s);
    }
    ps_hear_end(s);
    release_record(s);
    if (s->shard == NULL) {
        ps_record_stream_unref(s);
        return;
    }
    struct ps_shard *shard = ps_shard_ref(s->shard);
    (void)strand_post(&shard->strand, &s->gone, run_gone);
    ps_shard_unref(shard);
}

/* ---- messages ---- */

/* Errors: ERR_INVALID, ERR_NOT_FOUND; ERR_ABORTED another opening; ERR_UNAUTHENTICATED. */
static int find_shard(struct ps_record_stream *s, const Gradus__V1__RecordRequest *m,
                      struct err *err)
{
    struct ps_shard *shard = ps_find(s->ps, m->shard, err);
    if (shard == NULL) {
        return err->code;
    }
    struct shard_event e = {.kind = SHARD_RECORD, .fence = ps_fence(m->shard)};
    if (shard_check_fence(shard->core, &e, err) != 0) { /* before memory is given to it */
        (void)ps_shard_wrap(shard, err);
        ps_shard_unref(shard);
        return err->code;
    }
    s->shard = shard;
    s->fence = e.fence;
    atomic_fetch_add(&s->refs, 1);
    struct ps_shard *strand = ps_shard_ref(shard);
    (void)strand_post(&strand->strand, &s->begun, run_begun);
    ps_shard_unref(strand);
    return 0;
}

/* What the first message offers, or nothing. */
static void open_memory(struct ps_record_stream *s, const Gradus__V1__SharedMemory *offer)
{
    if (offer != NULL && s->memory == NULL && ps_shared_memory_may_open(s->ps, s->call)) {
        s->memory = ps_shared_memory_open(s->shard, false, offer);
        if (s->memory != NULL && ps_hear_begin(s, NULL) != 0) {
            ps_shared_memory_unref(s->memory);
            s->memory = NULL;
        }
        s->request->offers_shared_memory = s->memory != NULL; /* the answer says so */
    }
}

/* True if a record of @kind may have so many values, of which @rows are of tables. */
static bool fits(const struct ps_shard *s, enum shard_record_kind kind, uint64_t total,
                 uint64_t rows)
{
    switch (kind) {
    case SHARD_RECORD_UPDATE:
        return total >= rows && (total - rows == s->elements || total == 0);
    case SHARD_RECORD_FILL:
        return total <= s->elements;
    case SHARD_RECORD_STATE:
        return total == s->elements + s->slot_copies.floats;
    default:
        return total == 0;
    }
}

static int begin(struct ps_record_stream *s, struct rpc_msg *msg, struct err *err)
{
    const Gradus__V1__RecordRequest *m = (const Gradus__V1__RecordRequest *)msg->body;
    s->request = ps_request_new(s->shard, SHARD_RECORD, s->call, msg, answer);
    s->request->event.fence = s->fence;
    open_memory(s, m->shared_memory);
    s->number = m->number;
    s->total = m->total;
    s->arrived = 0;
    s->parts = false;
    int rc = ps_record_read(s->request, m, err);
    const enum shard_record_kind kind = s->request->event.record.kind;
    const bool update = rc == 0 && m->number > 0 && kind == SHARD_RECORD_UPDATE;
    const uint64_t rows = update ? m->update->rows_bytes / sizeof(float) : 0;
    if (rc == 0 && !(m->number > 0 ? fits(s->shard, kind, m->total, rows) : m->total == 0)) {
        rc = err_set(err, ERR_INVALID,
                     "record %" PRIu64 " has %" PRIu64 " elements; the shard has %" PRIu64,
                     m->number, m->total, s->shard->elements);
    }
    return rc != 0 || !update ? rc : ps_heard_rows(s->shard, m->update, &s->rows, err);
}

static int take_norms(struct ps_record_stream *s, const Gradus__V1__RecordRequest *m,
                      struct err *err)
{
    return m->update->push == NULL ? 0 : ps_read_norms(s->shard, m->update->push, s->buffer, err);
}

/* The record is a state, and behind its values come tables. */
static bool brings_tables(const struct ps_record_stream *s)
{
    return s->number > 0 && s->request->event.record.kind == SHARD_RECORD_STATE &&
           s->shard->tables != NULL;
}

/* A shard with tables alone has gradients without a single value. */
static bool has_gradient(const struct ps_record_stream *s)
{
    const struct shard_record *r = &s->request->event.record;
    return s->number > 0 && r->kind == SHARD_RECORD_UPDATE && r->examples > 0 &&
           s->shard->tables != NULL && (s->shard->elements == 0 || s->total > 0);
}

/* Memory for the values of a record that begins. 1: there is none; the message is read again when
 * there is. */
static int find_room(struct ps_record_stream *s, const Gradus__V1__RecordRequest *m,
                     struct err *err)
{
    struct ps_request *r = s->request;
    const bool has = s->total > 0 || has_gradient(s);
    if (!has || s->buffer != NULL || r->event.given != NULL) {
        return 0;
    }
    if (r->event.record.kind == SHARD_RECORD_FILL) {
        r->kept = mem_try_aligned(s->total, sizeof(float), "initial values", err);
        r->event.given = r->kept;
        r->event.elements = s->total;
        return r->kept == NULL ? ERR_EXHAUSTED : 0;
    }
    int rc =
        m->gradient_block != 0
            ? ps_shared_memory_gradient(s->memory, m->gradient_block, &s->waiter, &s->buffer, err)
            : gradient_pool_get(&s->shard->gradients, &s->waiter, &s->buffer, err);
    if (rc == 1) {
        atomic_fetch_add(&s->refs, 1);
        rpc_pause_again(s->call);
        gradient_pool_wait(&s->shard->gradients, &s->waiter);
    }
    if (rc == 0 && r->event.record.kind == SHARD_RECORD_STATE && s->total > s->shard->elements) {
        r->event.slots_buffer = buffer_get(&s->shard->slot_copies, err);
        return r->event.slots_buffer == NULL ? ERR_EXHAUSTED : 0;
    }
    return rc == 0 && r->event.record.kind == SHARD_RECORD_UPDATE ? take_norms(s, m, err) : rc;
}

/* The next @n floats to where they belong: of a state the slots lie behind the values, of an update
 * the rows of tables. */
static void read_values(struct ps_record_stream *s, struct rpc_spans *spans, uint64_t n)
{
    const struct buffer *slots = s->request->event.slots_buffer;
    const bool more = slots != NULL || s->rows != NULL;
    const uint64_t elements = more ? s->shard->elements : s->total;
    float *to = s->buffer != NULL ? s->buffer->floats.data : s->request->kept;
    const uint64_t left = s->arrived < elements ? elements - s->arrived : 0;
    const uint64_t first = n < left ? n : left;
    if (first > 0) {
        (void)wire_values_read(spans, VALUE_FP32, to + s->arrived, first);
    }
    const uint64_t behind = s->arrived + first - elements;
    if (n > first && slots != NULL) {
        (void)wire_values_read(spans, VALUE_FP32, slots->floats.data + behind, n - first);
    } else if (n > first) {
        (void)rpc_spans_read(spans, s->rows->encoded + behind * sizeof(float),
                             (n - first) * sizeof(float));
    }
}

static int take_values(struct ps_record_stream *s, const Gradus__V1__RecordRequest *m,
                       struct rpc_spans *spans, struct err *err)
{
    const size_t bytes = rpc_spans_bytes(spans);
    const uint64_t n = bytes / sizeof(float);
    if (m->gradient_block != 0) {
        const bool whole = s->request->event.record.kind == SHARD_RECORD_UPDATE &&
                           s->buffer != NULL && s->rows == NULL && s->arrived == 0 && bytes == 0;
        s->arrived = s->total;
        return whole ? 0
                     : err_set(err, ERR_INVALID,
                               "record %" PRIu64 " names a block, but is no update whose gradient "
                               "is there",
                               m->number);
    }
    if (bytes % sizeof(float) != 0 || m->offset != s->arrived || n > s->total - s->arrived ||
        (n == 0 && s->total > 0)) {
        return err_set(err, ERR_INVALID,
                       "record %" PRIu64 ": %zu bytes of values at element %" PRIu64 " of %" PRIu64
                       "; the next one is %" PRIu64,
                       m->number, bytes, m->offset, s->total, s->arrived);
    }
    if (n > 0) {
        read_values(s, spans, n);
        meter_add(s->ps->meters.values_received, bytes);
    }
    s->arrived += n;
    return 0;
}

/* All of the record has come. Errors: ERR_INVALID its rows are none. */
static int post(struct ps_record_stream *s, struct err *err)
{
    struct ps_request *r = s->request;
    if (s->rows != NULL) {
        int rc = tables_gradient_decode(s->rows, NULL, err);
        if (rc != 0) {
            return rc;
        }
        s->buffer->tables = s->rows;
        s->rows = NULL;
    }
    if (s->buffer != NULL) {
        r->event.gradient = s->buffer;
        r->event.elements = s->shard->elements;
    }
    s->request = NULL;
    s->buffer = NULL;
    ps_request_post(r);
    return 0;
}

/* A part of the state's tables, or the word that all have come. */
static int take_part(struct ps_record_stream *s, const Gradus__V1__RecordRequest *m,
                     struct rpc_spans *spans, struct err *err)
{
    if (!brings_tables(s) || s->arrived < s->total) {
        return err_set(err, ERR_INVALID, "record %" PRIu64 ": a part of tables, which it has not",
                       m->number);
    }
    const bool first = !s->parts, last = rpc_spans_bytes(spans) == 0;
    int rc = 0;
    s->parts = true;
    if (first || !last) { /* also of tables without rows */
        rc = ps_heard_part(s, spans, first, s->request->event.record.version, err);
    }
    return rc == 0 && last ? post(s, err) : rc;
}

static int take(struct ps_record_stream *s, struct rpc_msg *msg, struct err *err)
{
    const Gradus__V1__RecordRequest *m = (const Gradus__V1__RecordRequest *)msg->body;
    int rc = s->shard == NULL ? find_shard(s, m, err) : 0;
    if (rc == 0 && s->request == NULL) {
        rc = begin(s, msg, err);
    } else if (rc == 0 && m->number != s->number) {
        rc = err_set(err, ERR_INVALID, "record %" PRIu64 " before the end of record %" PRIu64,
                     m->number, s->number);
    }
    if (rc == 0 && m->of_tables) {
        return take_part(s, m, msg->bulk, err);
    }
    rc = rc != 0 ? rc : find_room(s, m, err);
    rc = rc != 0 ? rc : take_values(s, m, msg->bulk, err);
    return rc == 0 && s->arrived == s->total && !brings_tables(s) ? post(s, err) : rc;
}

void ps_on_record(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)service;
    struct ps_record_stream *s = rpc_data(call);
    struct err err;
    if (s->failed) {
        return;
    }
    const int rc = take(s, msg, &err);
    if (rc != 0 && rc != 1) {
        release_record(s);
        fail(s, &err);
    }
}
