/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of a stream of exchanges, on the strand: parameters in chunks or in a block of the
 * client's, what the shard decided, and refusals. */

#include "os/chrono.h"
#include "ps/rpc/ps_rows.h"
#include "ps/rpc/ps_stream.h"

/* Sends a message with elements [at, at + n) of @values, which takes a reference along. */
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

/* The client's block gets what is new of the first @end elements. */
static void fill_block(struct ps_request *r, const float *values, uint64_t end)
{
    if (end > r->filled) {
        ps_shared_memory_fill(r->stream->shared_memory, r->values_block, values, r->filled, end);
        r->filled = end;
    }
}

/* Says that elements [at, at + n) lie in the client's memory. */
static int send_filled(struct ps_request *r, Gradus__V1__ExchangeResponse *m, uint64_t at,
                       uint64_t n)
{
    m->total = r->shard->elements;
    m->offset = at;
    m->in_block = n;
    return rpc_send(r->call, &m->base, NULL);
}

static void give_up(struct ps_request *r)
{
    struct err err;
    (void)err_set(&err, ERR_EXHAUSTED, "the answers of this stream are not read");
    (void)rpc_fail(r->call, &err);
}

/* Piece by piece, so that the client takes one while the next is copied. */
static void send_in_block(struct ps_request *r, const struct shard_action *a,
                          Gradus__V1__ExchangeResponse *m)
{
    uint64_t elements = r->shard->elements;
    uint64_t chunk = r->shard->ps->chunk_bytes / sizeof(float);
    struct ps_source values = ps_values_answer(r->shard, a, 1);
    int rc = 0;
    while (r->sent < elements && rc == 0) {
        uint64_t n = elements - r->sent < chunk ? elements - r->sent : chunk;
        fill_block(r, values.data, r->sent + n);
        rc = send_filled(r, m, r->sent, n);
        r->sent += n;
    }
    values.release(values.ctx);
    if (rc == ERR_EXHAUSTED) {
        give_up(r);
    }
}

/* Sends the values that were not sent while they were computed. */
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
    const bool values = a->values && r->shard->elements > 0;
    if (a->rows) {
        ps_rows_answer(r, a, m);
    } else if (values && r->values_block != 0) {
        send_in_block(r, a, m);
    } else if (values) {
        send_values(r, a, m);
    } else {
        (void)rpc_send(r->call, &m->base, NULL);
    }
    if (m->rows > 0) {
        ps_rows_answer(r, a, m);
    }
}

static uint32_t microseconds(uint64_t ns)
{
    uint64_t us = ns / 1000;
    return us < UINT32_MAX ? (uint32_t)us : UINT32_MAX;
}

static void fill(const struct ps_request *r, const struct shard_action *a,
                 struct wire_answer_room *room, Gradus__V1__ExchangeResponse *m)
{
    struct exchange_answer answer = a->answer;
    gradus__v1__exchange_response__init(m);
    m->exchange = r->exchange;
    m->version = a->version;
    m->generation = a->generation;
    struct ps_request_time t = ps_request_time(r);
    m->waited_us = microseconds(t.waited_ns);
    m->applied_us = microseconds(t.applied_ns);
    if (answer.kind == EXCHANGE_SUMS) {
        const struct buf *data = ps_sums_of(r->shard, &answer.sums);
        answer.sums.data = data->data;
        answer.sums.bytes = data->len;
    }
    wire_answer_to_proto(&answer, room, m);
    m->rows = a->values && r->rows != NULL ? r->rows->floats : 0;
    m->shared_memory_open = r->offers_shared_memory && r->stream->shared_memory != NULL;
    m->tables_memory_open = r->offers_tables_memory && r->stream->tables_memory != NULL;
}

void ps_exchange_begin_answer(struct ps_request *r, const struct shard_action *a,
                              struct snapshot *next, uint64_t done)
{
    uint64_t chunk = r->shard->ps->chunk_bytes / value_type_bytes(r->pulled);
    struct wire_answer_room room;
    Gradus__V1__ExchangeResponse m;
    if (r->stream == NULL || a->answer.decision.bytes > 0) {
        return;
    }
    fill(r, a, &room, &m);
    const struct ps_source values = {next->values.data, ps_values_release, next};
    bool traced = done - r->sent >= chunk && trace_on(&r->shard->ps->trace);
    uint64_t began_ns = traced ? chrono_now_ns() : 0;
    if (r->values_block != 0) {
        fill_block(r, next->values.data, done); /* the piece is in the cache yet */
    }
    while (done - r->sent >= chunk) {
        if (r->values_block == 0) {
            ps_values_ref(r->shard, next, 1);
        }
        int rc = r->values_block != 0 ? send_filled(r, &m, r->sent, chunk)
                                      : send_blob(r, &m, &values, r->sent, chunk);
        if (rc != 0) {
            return; /* an error shows when the rest is sent */
        }
        r->sent += chunk;
    }
    if (traced) {
        ps_trace_request(r, TRACE_ANSWER, began_ns, chrono_now_ns(), 0);
    }
}

void ps_answer(struct ps_request *r, const struct shard_action *a, const struct err *err)
{
    if (a->code != 0) {
        ps_answer_refuse(r->call, r->exchange, a->generation, a->version, err);
    } else {
        struct wire_answer_room room;
        Gradus__V1__ExchangeResponse m;
        fill(r, a, &room, &m);
        send_well(r, a, &m);
    }
    if (r->stream->half_closed && r->stream->waiting == NULL) {
        (void)rpc_finish(r->call);
    }
}
