/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to the shards: requests, and gradients in chunks straight from their arrays. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/recycle.h"
#include "wire/wire_exchange.h"
#include "ps_client/ps_client_state.h"

/* ---- what is being sent ---- */

struct sent {
    struct ps_client *client;
    uint32_t gradient_id;
};

static struct recycler sents = RECYCLER(sizeof(struct sent), 1024);

static void on_sent(void *ctx)
{
    struct sent *sent = ctx;
    struct ps_client *c = sent->client;
    pthread_mutex_lock(&c->sending_mutex);
    if (--c->sending[sent->gradient_id] == 0) {
        pthread_cond_broadcast(&c->sending_cond);
    }
    pthread_mutex_unlock(&c->sending_mutex);
    recycler_give(&sents, sent);
}

static struct sent *sending_begin(struct ps_client *c, uint32_t gradient_id)
{
    struct sent *sent = recycler_take(&sents);
    *sent = (struct sent){c, gradient_id};
    pthread_mutex_lock(&c->sending_mutex);
    c->sending[gradient_id]++;
    pthread_mutex_unlock(&c->sending_mutex);
    return sent;
}

void ps_client_wait_sent(struct ps_client *c, uint32_t gradient_id)
{
    pthread_mutex_lock(&c->sending_mutex);
    if (c->sending[gradient_id] > 0) {
        ps_client_stop_polling(c);
    }
    while (c->sending[gradient_id] > 0) {
        pthread_cond_wait(&c->sending_cond, &c->sending_mutex);
    }
    pthread_mutex_unlock(&c->sending_mutex);
}

void ps_client_wait_all_sent(struct ps_client *c)
{
    for (uint32_t i = 0; i < c->gradients_max; i++) {
        ps_client_wait_sent(c, i);
    }
    pthread_mutex_lock(&c->sending_mutex);
    while (c->staged_out > 0) {
        pthread_cond_wait(&c->sending_cond, &c->sending_mutex);
    }
    pthread_mutex_unlock(&c->sending_mutex);
}

/* ---- chunks in 16 bits ---- */

struct staged {
    struct staged *next;
    struct ps_client *client;
    unsigned char data[PS_CLIENT_CHUNK_BYTES];
};

static struct staged *staged_take(struct ps_client *c)
{
    pthread_mutex_lock(&c->sending_mutex);
    struct staged *chunk = c->staged;
    if (chunk != NULL) {
        c->staged = chunk->next;
    }
    c->staged_out++;
    pthread_mutex_unlock(&c->sending_mutex);
    if (chunk == NULL) {
        chunk = mem_new(1, sizeof *chunk);
        chunk->client = c;
    }
    return chunk;
}

static void staged_give(void *ctx)
{
    struct staged *chunk = ctx;
    struct ps_client *c = chunk->client;
    pthread_mutex_lock(&c->sending_mutex);
    chunk->next = c->staged;
    c->staged = chunk;
    if (--c->staged_out == 0) {
        pthread_cond_broadcast(&c->sending_cond);
    }
    pthread_mutex_unlock(&c->sending_mutex);
}

void ps_client_staged_release(struct ps_client *c)
{
    while (c->staged != NULL) {
        struct staged *chunk = c->staged;
        c->staged = chunk->next;
        free(chunk);
    }
}

/* Sends a message without values. Unless @waits: ERR_EXHAUSTED, and nothing happened, when there is
 * no room. */
static int send_plain(struct shard_link *link, const Gradus__V1__ExchangeRequest *message,
                      size_t piece_count, uint32_t gradient_id, bool waits, struct err *err)
{
    struct rpc_blob blob = {
        .pieces = link->pieces,
        .piece_count = piece_count,
        .release = on_sent,
        .ctx = sending_begin(link->client, gradient_id),
    };
    int rc = rpc_stream_send(link->stream, &message->base, &blob, err);
    if (rc == ERR_EXHAUSTED && waits) {
        /* The blob was released; once the queue has room it goes as a copy. */
        blob.release = NULL;
        rc = ps_client_wait_writable(link, err);
        if (rc == 0) {
            rc = ps_client_send_one(link, message, &blob, err);
        }
    }
    return rc;
}

static int send_coded(struct shard_link *link, const Gradus__V1__ExchangeRequest *message,
                      size_t piece_count, enum value_type type, struct err *err)
{
    for (;;) {
        struct staged *chunk = staged_take(link->client);
        struct rpc_piece piece = {chunk->data, 0};
        for (size_t i = 0; i < piece_count; i++) {
            size_t n = link->pieces[i].bytes / sizeof(float);
            values_encode(type, link->pieces[i].data, n, chunk->data + piece.bytes);
            piece.bytes += n * value_type_bytes(type);
        }
        const struct rpc_blob blob = {
            .pieces = &piece, .piece_count = 1, .release = staged_give, .ctx = chunk};
        int rc = rpc_stream_send(link->stream, &message->base, &blob, err);
        if (rc != ERR_EXHAUSTED) {
            return rc;
        }
        rc = ps_client_wait_writable(link, err);
        if (rc != 0) {
            return rc;
        }
    }
}

/* A gradient of one message's size goes in two: the server takes in the first while the second is
 * on its way. */
static uint64_t chunk_bytes(uint64_t bytes)
{
    if (bytes / 2 >= PS_CLIENT_CHUNK_BYTES) {
        return PS_CLIENT_CHUNK_BYTES;
    }
    return bytes / 2 > PS_CLIENT_PART_BYTES_MIN ? (bytes / 2 + 63) / 64 * 64
                                                : PS_CLIENT_PART_BYTES_MIN;
}

static int send_chunks(struct shard_link *link, Gradus__V1__ExchangeRequest *message,
                       const struct ps_client_request *r, enum value_type type, struct err *err)
{
    const size_t each = value_type_bytes(type);
    const uint64_t chunk = chunk_bytes(link->elements * each) / each;
    int rc = 0;
    message->total = link->elements;
    for (uint64_t at = 0; at < link->elements && rc == 0; at += chunk) {
        uint64_t n = link->elements - at < chunk ? link->elements - at : chunk;
        size_t pieces = ps_client_gather(link, at, n, r->gradient, link->pieces);
        message->offset = at;
        rc = type == VALUE_FP32 ? send_plain(link, message, pieces, r->gradient_id, true, err)
                                : send_coded(link, message, pieces, type, err);
        ps_client_strip(message);
    }
    return rc;
}

/* Puts the whole gradient into a block of memory. False: there is no block; it goes in messages. */
static bool fill_block(struct shard_link *link, Gradus__V1__ExchangeRequest *message,
                       const float *gradient, uint32_t *block)
{
    pthread_mutex_lock(&link->mutex);
    bool open = link->shared_memory_open;
    pthread_mutex_unlock(&link->mutex);
    *block = open ? shared_memory_take_gradient(link->shared_memory) : SHARED_MEMORY_NONE;
    if (*block == SHARED_MEMORY_NONE) {
        return false;
    }
    const struct ps_client *c = link->client;
    float *to = shared_memory_gradient(link->shared_memory, *block);
    for (size_t i = 0; i < link->partition_count; i++) {
        const struct partition *p = &link->partitions[i];
        shared_memory_copy(link->elements, to + p->offset,
                           gradient + c->variable_offsets[p->variable] + p->first, p->count);
    }
    message->total = link->elements;
    message->gradient_block = *block + 1;
    return true;
}

static int send_gradient(struct shard_link *link, Gradus__V1__ExchangeRequest *message,
                         const struct ps_client_request *r, enum value_type type, struct err *err)
{
    uint32_t block;
    if (!fill_block(link, message, r->gradient, &block)) {
        return send_chunks(link, message, r, type, err);
    }
    int rc = ps_client_send_one(link, message, NULL, err);
    if (rc != 0) {
        shared_memory_return_gradient(link->shared_memory, block);
    }
    return rc;
}

/* ---- requests ---- */

/* Messages have pointers to data that are not const; messages that are sent borrow, and are only
 * read. */
static uint8_t *borrow_bytes(const void *bytes)
{
    uint8_t *out;
    memcpy(&out, &bytes, sizeof out);
    return out;
}

static double *borrow_norms(const double *norms)
{
    double *out;
    memcpy(&out, &norms, sizeof out);
    return out;
}

static uint32_t *borrow_counts(const uint32_t *counts)
{
    uint32_t *out;
    memcpy(&out, &counts, sizeof out);
    return out;
}

static void fill_offer(Gradus__V1__SharedMemory *m, const struct shared_memory_offer *offer)
{
    gradus__v1__shared_memory__init(m);
    m->pid = offer->pid;
    m->fd = offer->fd;
    m->token = (ProtobufCBinaryData){sizeof offer->token, borrow_bytes(offer->token)};
    m->elements = offer->elements;
    m->gradients = offer->gradients;
    m->values = offer->values;
}

struct offers {
    Gradus__V1__SharedMemory values, tables;
};

/* Names the blocks for the answer, and offers memory that the server has not heard of. */
static void fill_blocks(struct shard_link *link, const struct ps_client_blocks *blocks,
                        struct offers *offers, Gradus__V1__ExchangeRequest *m)
{
    m->values_block = blocks->values == SHARED_MEMORY_NONE ? 0 : blocks->values + 1;
    m->rows_block = blocks->rows == SHARED_MEMORY_NONE ? 0 : blocks->rows + 1;
    if (link->shared_memory != NULL && !link->shared_memory_offered) {
        fill_offer(&offers->values, shared_memory_offer(link->shared_memory));
        m->shared_memory = &offers->values;
        link->shared_memory_offered = true;
    }
    if (link->tables_memory != NULL && !link->tables_memory_offered) {
        fill_offer(&offers->tables, shared_memory_offer(link->tables_memory));
        m->tables_memory = &offers->tables;
        link->tables_memory_offered = true;
    }
}

/* Fills in what is asked, and how values travel. */
static void fill_ask(Gradus__V1__ExchangeRequest *m, struct wire_request_room *room,
                     const struct ps_client *c, const struct ps_client_request *r)
{
    wire_request_to_proto(&r->ask, room, m);
    if (r->ask.has_push) {
        room->push.norms = borrow_norms(r->norms);
        room->push.n_norms = r->norm_count;
        room->push.type = (Gradus__V1__WireType)ps_client_push_type(c, &r->ask.push);
    }
    if (r->ask.kind == EXCHANGE_ROWS) {
        room->rows.counts = borrow_counts(r->rows.counts);
        room->rows.n_counts = c->tables;
        room->rows.type = (Gradus__V1__WireType)ps_client_pull_type(c, &r->ask);
        m->total = r->rows.count;
    }
    if (r->ask.has_pull) {
        room->pull.type = (Gradus__V1__WireType)ps_client_pull_type(c, &r->ask);
    }
    if (r->ask.has_pull && r->rows.count > 0) {
        gradus__v1__rows_request__init(&room->rows);
        room->rows.counts = borrow_counts(r->rows.counts);
        room->rows.n_counts = c->tables;
        room->training.rows = &room->rows;
    }
}

struct part {
    uint64_t first, end;
    bool begins, waits;
};

/* Sends a request with a gradient's @part, or all of it (NULL). */
static int send_request(struct shard_link *link, const struct ps_client_request *r,
                        const struct ps_client_blocks *blocks, const struct part *part,
                        struct err *err)
{
    struct ps_client *c = link->client;
    const struct exchange_request *ask = &r->ask;
    Gradus__V1__ShardRef shard = GRADUS__V1__SHARD_REF__INIT;
    shard.job = c->job;
    shard.shard = link->shard;
    shard.generation = r->generation;
    shard.opening = link->opening;
    struct wire_request_room room;
    Gradus__V1__ExchangeRequest message = GRADUS__V1__EXCHANGE_REQUEST__INIT;
    message.exchange = r->exchange;
    message.shard = &shard;
    message.worker = c->worker;
    fill_ask(&message, &room, c, r);
    struct offers offers;
    fill_blocks(link, blocks, &offers, &message);
    if (part != NULL && !part->begins) {
        ps_client_strip(&message);
    }
    if (part != NULL) {
        size_t pieces =
            ps_client_gather(link, part->first, part->end - part->first, r->gradient, link->pieces);
        message.total = link->elements;
        message.offset = part->first;
        return send_plain(link, &message, pieces, r->gradient_id, part->waits, err);
    }
    if (ask->kind == EXCHANGE_ROWS) {
        return ps_client_send_keys(link, &message, r, err);
    }
    message.tables_bytes = ask->has_push ? r->tables_bytes : 0;
    const bool there = ps_client_fill_tables(link, r, &message);
    bool dense = ask->has_push && r->gradient != NULL && link->elements > 0;
    int rc = dense ? send_gradient(link, &message, r, ps_client_push_type(c, &ask->push), err)
                   : ps_client_send_one(link, &message, NULL, err);
    return rc == 0 && !there ? ps_client_send_tables(link, &message, r, err) : rc;
}

int ps_client_send(struct shard_link *link, const struct ps_client_request *r,
                   const struct ps_client_blocks *blocks, struct err *err)
{
    return send_request(link, r, blocks, NULL, err);
}

int ps_client_send_part(struct shard_link *link, uint64_t first, uint64_t end, bool waits,
                        struct err *err)
{
    const struct parts *p = &link->parts;
    const struct part part = {first, end, !p->begun, waits};
    const struct ps_client_blocks blocks = {p->pending->block, p->pending->rows_block};
    return send_request(link, &p->request, &blocks, &part, err);
}
