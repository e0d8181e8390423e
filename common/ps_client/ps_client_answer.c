/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the shards, as their streams bring them: checked against what was asked, values put
 * where they belong. */
#include <inttypes.h>
#include <string.h>

#include "os/chrono.h"
#include "base/mem.h"
#include "wire/wire_exchange.h"
#include "wire/wire_values.h"
#include "ps_client/ps_client_state.h"

/* Puts rows in their place: @count floats from @first on of those expected, or that come along. */
static bool put_rows(const struct pending *p, uint64_t first, uint64_t count,
                     struct rpc_spans *spans, const float *block, float *to)
{
    if (block == NULL) {
        return wire_values_read(spans, p->type, to + first, count);
    }
    mem_copy(to + first, block + first, count * sizeof *to);
    return true;
}

static bool put(const struct shard_link *link, const struct pending *p, uint64_t first,
                uint64_t count, struct rpc_spans *spans, const float *block)
{
    if (block != NULL && !p->rows && p->copied > first) { /* a part of it was copied before */
        const uint64_t there = p->copied - first;
        first += there < count ? there : count;
        count -= there < count ? there : count;
    }
    return p->rows ? put_rows(p, first, count, spans, block, p->values)
                   : ps_client_scatter(link, first, count, spans, p->type, block, p->values);
}

/* The block that a message says it filled, whose number is @number; NULL: it does not say so.
 * Errors: ERR_INTERNAL the server was given none, or sent values, too. */
static int block_of(const struct shard_link *link, const struct shared_memory *memory,
                    uint32_t number, const Gradus__V1__ExchangeResponse *r,
                    const struct rpc_spans *spans, const float **out, struct err *err)
{
    *out = NULL;
    if (r->in_block == 0) {
        return 0;
    }
    if (number == SHARED_MEMORY_NONE || rpc_spans_bytes(spans) > 0) {
        return err_set(err, ERR_INTERNAL, "shard %" PRIu32 " answered in a block it was not given",
                       link->shard);
    }
    *out = shared_memory_values(memory, number);
    return 0;
}

/* Takes rows that come behind the values of a pull. */
static int take_along(const struct shard_link *link, struct pending *p,
                      const Gradus__V1__ExchangeResponse *r, struct rpc_spans *spans,
                      struct err *err)
{
    const size_t each = value_type_bytes(p->type);
    const uint64_t n = r->in_block > 0 ? r->in_block : rpc_spans_bytes(spans) / each;
    const float *block;
    int rc = block_of(link, link->tables_memory, p->rows_block, r, spans, &block, err);
    if (rc != 0) {
        return rc;
    }
    const uint64_t left = p->along_expected - p->along_received;
    if (p->along == NULL || r->rows != p->along_expected || r->total != r->rows ||
        r->offset != p->along_received || n == 0 || n > left ||
        rpc_spans_bytes(spans) % each != 0 || (int)r->type != (int)p->type ||
        !put_rows(p, p->along_received, n, spans, block, p->along)) {
        return err_set(err, ERR_INTERNAL,
                       "shard %" PRIu32 " answered rows %" PRIu64 "+%" PRIu64 " of %" PRIu64
                       ", expected %" PRIu64 " on of %" PRIu64,
                       link->shard, r->offset, n, r->rows, p->along_received,
                       p->along == NULL ? 0 : p->along_expected);
    }
    p->along_received += n;
    return 0;
}

static int take_values(struct shard_link *link, struct pending *p,
                       const Gradus__V1__ExchangeResponse *r, struct rpc_spans *spans,
                       struct err *err)
{
    size_t each = value_type_bytes(p->type);
    uint64_t n = r->in_block > 0 ? r->in_block : rpc_spans_bytes(spans) / each;
    const float *block;
    int rc = p->rows ? block_of(link, link->tables_memory, p->rows_block, r, spans, &block, err)
                     : block_of(link, link->shared_memory, p->block, r, spans, &block, err);
    if (rc != 0) {
        return rc;
    }
    if (r->total == 0 && n == 0 && (p->values == NULL || p->expected == 0)) {
        return 0;
    }
    if (p->values == NULL || r->total != p->expected || r->offset != p->received || n == 0 ||
        n > p->expected - p->received || rpc_spans_bytes(spans) % each != 0) {
        return err_set(err, ERR_INTERNAL,
                       "shard %" PRIu32 " answered elements %" PRIu64 "+%" PRIu64 " of %" PRIu64
                       ", expected %" PRIu64 " on of %" PRIu64,
                       link->shard, r->offset, n, r->total, p->received, p->expected);
    }
    if ((int)r->type != (int)p->type) {
        return err_set(err, ERR_INTERNAL,
                       "shard %" PRIu32 " answered values of type %d, asked for %s", link->shard,
                       (int)r->type, value_type_names[p->type]);
    }
    if (!p->detached && !put(link, p, r->offset, n, spans, block)) {
        return err_set(err, ERR_INTERNAL, "shard %" PRIu32 ": the values end early", link->shard);
    }
    p->received += n;
    return 0;
}

/* Checks the version: all messages of an answer have the same one, the one that was asked for. */
static int take_version(const struct shard_link *link, struct pending *p,
                        const Gradus__V1__ExchangeResponse *r, struct err *err)
{
    if (p->begun && r->version != p->answer.version) {
        return err_set(err, ERR_INTERNAL,
                       "shard %" PRIu32 " mixed versions %" PRIu64 " and %" PRIu64 " in one answer",
                       link->shard, p->answer.version, r->version);
    }
    const struct exchange_pull *pull = &p->ask.pull;
    bool other = pull->kind == PULL_VERSION && r->version != pull->version;
    bool older = pull->kind == PULL_AT_LEAST && r->version < pull->version;
    const bool rows = p->ask.kind == EXCHANGE_ROWS && p->ask.rows.of == ROWS_OF_VERSION;
    if (rows && r->version != p->ask.rows.version) {
        return err_set(err, ERR_INTERNAL,
                       "shard %" PRIu32 " answered rows of version %" PRIu64 ", asked for %" PRIu64,
                       link->shard, r->version, p->ask.rows.version);
    }
    if (p->ask.has_pull && (other || older)) {
        return err_set(err, ERR_INTERNAL,
                       "shard %" PRIu32 " answered version %" PRIu64 ", asked for %" PRIu64,
                       link->shard, r->version, pull->version);
    }
    p->answer.version = r->version;
    return 0;
}

/* Takes all of an answer but values. The bytes that the message lends are copied. */
static int take_answer(const struct shard_link *link, struct pending *p,
                       const Gradus__V1__ExchangeResponse *r, struct err *err)
{
    struct exchange_answer a;
    if (wire_answer_from_proto(r, &p->ask, &a, err) != 0) {
        return err_wrap(err, "shard %" PRIu32, link->shard);
    }
    if (a.decision.bytes > 0) {
        p->decision = mem_grow(p->decision, &p->decision_capacity, a.decision.bytes, 1);
        memcpy(p->decision, a.decision.replicas, a.decision.bytes);
        a.decision.replicas = p->decision;
    }
    if (a.kind == EXCHANGE_SUMS) {
        buf_reset(&p->sums);
        buf_add(&p->sums, a.sums.data, a.sums.bytes);
        a.sums.data = p->sums.data;
    }
    p->answer.answer = a;
    return 0;
}

/* What the shard says, without "job digits-1 shard 0: ". */
static const char *without_subject(const char *message)
{
    const char *rest = strstr(message, ": ");
    return strncmp(message, "job ", 4) == 0 && rest != NULL ? rest + 2 : message;
}

/* An error of the shard's. Its number comes from the wire: only those of gRPC mean something. */
static int take_refusal(const struct shard_link *link, const Gradus__V1__ExchangeResponse *r,
                        struct err *err)
{
    bool known = r->code > 0 && r->code <= -ERR_UNAUTHENTICATED;
    return err_set(err, known ? -r->code : ERR_UNKNOWN, "shard %" PRIu32 ": %s", link->shard,
                   without_subject(r->message));
}

/* One message of an answer; ERR_* and a message when it is a refusal or cannot be right. */
static int take_message(struct shard_link *link, struct pending *p,
                        const Gradus__V1__ExchangeResponse *r, struct rpc_spans *spans,
                        struct err *err)
{
    if (r->code != 0) {
        return take_refusal(link, r, err);
    }
    int rc = take_version(link, p, r, err);
    if (rc == 0) {
        rc = take_answer(link, p, r, err);
    }
    if (rc == 0) {
        rc = r->of_rows ? take_along(link, p, r, spans, err) : take_values(link, p, r, spans, err);
    }
    p->answer.waited_us = r->waited_us;
    p->answer.applied_us = r->applied_us;
    p->begun = true;
    return rc;
}

static void trace_receive(const struct shard_link *link, const struct pending *p, uint64_t began_ns,
                          uint64_t bytes)
{
    const struct trace_span span = {.kind = TRACE_RECEIVE,
                                    .shard = link->shard,
                                    .begin_ns = began_ns,
                                    .end_ns = chrono_now_ns(),
                                    .exchange = p->answer.exchange,
                                    .bytes = bytes};
    trace_add(link->client->trace, link->client->job, &span, NULL);
}

/* Under the link's mutex: a message was taken. True: ps_client_deliver() is due. */
static bool taken(struct shard_link *link, struct pending *p, const Gradus__V1__ExchangeResponse *r)
{
    const bool values = p->received >= (r->of_rows ? p->expected : r->total);
    const bool along = r->rows == 0 || p->along_received == p->along_expected;
    uint64_t now_ns = chrono_now_ns();
    if (p->message_ns != 0) {
        link->gap_ns = now_ns - p->message_ns;
    }
    p->message_ns = now_ns;
    if (values && along) {
        p->answer.rows = r->rows > 0;
        return ps_client_answer(link, p);
    }
    if (p->tail) {
        ps_client_tail_landed(link, p);
        return false;
    }
    if (p->rows) {
        ps_client_rows_came(link->client);
        return false;
    }
    return ps_client_tail_begin(link, p);
}

static void on_message(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    struct shard_link *link = ctx;
    const Gradus__V1__ExchangeResponse *r = (const Gradus__V1__ExchangeResponse *)msg->body;
    pthread_mutex_lock(&link->mutex);
    struct pending *p = ps_client_pending_find(link, r->exchange);
    link->shared_memory_open |= r->shared_memory_open && link->shared_memory != NULL;
    link->tables_memory_open |= r->tables_memory_open && link->tables_memory != NULL;
    link->landing = p != NULL && (p->tail || p->rows);
    if (p != NULL) {
        p->arriving = true;
    }
    pthread_mutex_unlock(&link->mutex);
    if (p == NULL) {
        return;
    }
    struct err err = {0};
    struct trace *trace = link->client->trace;
    bool traced = trace != NULL && trace_on(trace);
    uint64_t began_ns = traced ? chrono_now_ns() : 0;
    int rc = take_message(link, p, r, msg->bulk, &err);
    if (traced) {
        trace_receive(link, p, began_ns, rpc_spans_bytes(msg->bulk));
    }
    if (rc != 0 && r->code == 0) {
        p->block = p->rows_block = SHARED_MEMORY_NONE; /* the server may still write there */
    }
    pthread_mutex_lock(&link->mutex);
    link->landing = p->arriving = false;
    if (p->rows) {
        pthread_cond_broadcast(&link->landed);
    }
    bool due = rc != 0 ? ps_client_answer_error(link, p, rc, err.msg) : taken(link, p, r);
    pthread_mutex_unlock(&link->mutex);
    if (due) {
        ps_client_deliver(link);
    }
}

static void on_done(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    struct shard_link *link = ctx;
    pthread_mutex_lock(&link->mutex);
    bool due = false;
    link->broken = true;
    while (link->open != NULL) {
        due |= ps_client_answer_error(link, link->open, ERR_UNAVAILABLE,
                                      status->err.code != 0 ? status->err.msg
                                                            : "the stream was closed");
    }
    pthread_mutex_unlock(&link->mutex);
    if (due) {
        ps_client_deliver(link);
    }
}

const struct rpc_stream_events ps_client_events = {.message = on_message, .done = on_done};
