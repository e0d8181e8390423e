/* SPDX-License-Identifier: Apache-2.0 */
/* Messages to the shards: requests, and gradients in chunks straight from their arrays. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/recycle.h"
#include "worker/ps_client/ps_client_state.h"

/* A server that has no room for gradients reads no further until it has; one that is gone ends the
 * stream. */
#define SEND_WAIT_MS 0

/* ---- what is being sent ---- */

struct sent {
    struct ps_client *client;
    uint32_t slot;
};

static struct recycler sents = RECYCLER(sizeof(struct sent), 1024);

static void on_sent(void *ctx)
{
    struct sent *sent = ctx;
    struct ps_client *c = sent->client;
    pthread_mutex_lock(&c->sending_mutex);
    if (--c->sending[sent->slot] == 0) {
        pthread_cond_broadcast(&c->sending_cond);
    }
    pthread_mutex_unlock(&c->sending_mutex);
    recycler_give(&sents, sent);
}

static struct sent *sending_begin(struct ps_client *c, uint32_t slot)
{
    struct sent *sent = recycler_take(&sents);
    *sent = (struct sent){c, slot};
    pthread_mutex_lock(&c->sending_mutex);
    c->sending[slot]++;
    pthread_mutex_unlock(&c->sending_mutex);
    return sent;
}

void ps_client_wait_sent(struct ps_client *c, uint32_t slot)
{
    pthread_mutex_lock(&c->sending_mutex);
    while (c->sending[slot] > 0) {
        pthread_cond_wait(&c->sending_cond, &c->sending_mutex);
    }
    pthread_mutex_unlock(&c->sending_mutex);
}

void ps_client_wait_all_sent(struct ps_client *c)
{
    for (uint32_t slot = 0; slot < WORKER_SLOTS_MAX; slot++) {
        ps_client_wait_sent(c, slot);
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

/* ---- values ---- */

/* The pieces of the gradient that make up elements [first, first + count) of the shard. */
static size_t gather(const struct shard_link *link, uint64_t first, uint64_t count,
                     const float *gradient, struct rpc_piece *pieces)
{
    const struct ps_client *c = link->client;
    size_t n = 0;
    for (size_t i = 0; i < link->partition_count && count > 0; i++) {
        const struct partition *p = &link->partitions[i];
        if (first >= p->offset + p->count) {
            continue;
        }
        uint64_t skip = first - p->offset;
        uint64_t k = p->count - skip < count ? p->count - skip : count;
        pieces[n].data = gradient + c->variable_offsets[p->variable] + p->first + skip;
        pieces[n].bytes = k * sizeof(float);
        n++;
        first += k;
        count -= k;
    }
    return n;
}

static int send_one(struct shard_link *link, const Gradus__V1__ExchangeRequest *message,
                    const struct rpc_blob *blob, struct err *err)
{
    int rc = rpc_stream_send(link->stream, &message->base, blob, err);
    while (rc == ERR_EXHAUSTED) {
        rc = rpc_stream_wait_writable(link->stream, SEND_WAIT_MS, err);
        if (rc == 0) {
            rc = rpc_stream_send(link->stream, &message->base, blob, err);
        }
    }
    return rc;
}

/* What only the first message of an exchange says. */
static void strip(Gradus__V1__ExchangeRequest *message)
{
    message->shard = NULL;
    message->push = NULL;
    message->pull = NULL;
    message->decision = NULL;
    message->spare = NULL;
    message->sums = NULL;
    message->totals = NULL;
    message->windows = NULL;
    message->values_window = 0;
}

/* Unless @waits it is ERR_EXHAUSTED, and nothing happened, when there is no room. */
static int send_plain(struct shard_link *link, const Gradus__V1__ExchangeRequest *message,
                      size_t piece_count, uint32_t slot, bool waits, struct err *err)
{
    struct rpc_blob blob = {
        .pieces = link->pieces,
        .piece_count = piece_count,
        .release = on_sent,
        .ctx = sending_begin(link->client, slot),
    };
    int rc = rpc_stream_send(link->stream, &message->base, &blob, err);
    if (rc == ERR_EXHAUSTED && waits) {
        /* The blob was released; once the queue has room it goes as a copy. */
        blob.release = NULL;
        rc = rpc_stream_wait_writable(link->stream, SEND_WAIT_MS, err);
        if (rc == 0) {
            rc = send_one(link, message, &blob, err);
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
        rc = rpc_stream_wait_writable(link->stream, SEND_WAIT_MS, err);
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

static int send_chunks(struct shard_link *link, Gradus__V1__ExchangeRequest *message, uint32_t slot,
                       const float *gradient, enum value_type type, struct err *err)
{
    const size_t each = value_type_bytes(type);
    const uint64_t chunk = chunk_bytes(link->elements * each) / each;
    int rc = 0;
    message->total = link->elements;
    for (uint64_t at = 0; at < link->elements && rc == 0; at += chunk) {
        uint64_t n = link->elements - at < chunk ? link->elements - at : chunk;
        size_t pieces = gather(link, at, n, gradient, link->pieces);
        message->offset = at;
        rc = type == VALUE_FP32 ? send_plain(link, message, pieces, slot, true, err)
                                : send_coded(link, message, pieces, type, err);
        strip(message);
    }
    return rc;
}

/* The whole of it into a window of the server's. False: there is none; it goes in messages. */
static bool fill_window(struct shard_link *link, Gradus__V1__ExchangeRequest *message,
                        const float *gradient, uint32_t *window)
{
    pthread_mutex_lock(&link->mutex);
    bool open = link->windows_open;
    pthread_mutex_unlock(&link->mutex);
    *window = open ? windows_take_gradient(link->windows) : WINDOWS_NONE;
    if (*window == WINDOWS_NONE) {
        return false;
    }
    const struct ps_client *c = link->client;
    float *to = windows_gradient(link->windows, *window);
    for (size_t i = 0; i < link->partition_count; i++) {
        const struct partition *p = &link->partitions[i];
        windows_copy(link->elements, to + p->offset,
                     gradient + c->variable_offsets[p->variable] + p->first, p->count);
    }
    message->total = link->elements;
    message->gradient_window = *window + 1;
    return true;
}

static int send_gradient(struct shard_link *link, Gradus__V1__ExchangeRequest *message,
                         uint32_t slot, const float *gradient, enum value_type type,
                         struct err *err)
{
    uint32_t window;
    if (!fill_window(link, message, gradient, &window)) {
        return send_chunks(link, message, slot, gradient, type, err);
    }
    int rc = send_one(link, message, NULL, err);
    if (rc != 0) {
        windows_return_gradient(link->windows, window);
    }
    return rc;
}

/* ---- requests ---- */

/* Messages have pointers to what is not const; those that are sent borrow and are only read. */
static char *borrow_text(const char *text)
{
    char *out;
    memcpy(&out, &text, sizeof out);
    return out;
}

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

/* Every replica is rounded when it is computed; sums of them have more bits. */
static enum value_type push_type(const struct ps_client *c, const struct worker_action *a)
{
    return a->replica_end > a->replica_first + 1 ? VALUE_FP32 : c->gradients;
}

/* Evaluations are of the exact parameters. */
enum value_type ps_client_pull_type(const struct ps_client *c, const struct worker_action *a)
{
    return a->pull == WORKER_PULL_PINNED ? VALUE_FP32 : c->parameters;
}

static void fill_push(Gradus__V1__Push *push, const struct ps_client *c,
                      const struct worker_action *a, const struct ps_payload *payload)
{
    gradus__v1__push__init(push);
    push->step = a->step;
    push->replica_first = a->replica_first;
    push->replica_end = a->replica_end;
    push->epoch = a->batch.epoch;
    push->split = a->batch.split;
    push->batch = a->batch.batch;
    push->batch_end = a->batch_end;
    push->examples = a->examples;
    push->base_version = a->base_version;
    push->decided = a->decided;
    push->spare = a->spare;
    push->norms = borrow_norms(payload->norms);
    push->n_norms = payload->norm_count;
    push->clock = a->clock;
    push->type = (Gradus__V1__WireType)push_type(c, a);
}

static void fill_pull(Gradus__V1__Pull *pull, const struct ps_client *c,
                      const struct worker_action *a)
{
    static const Gradus__V1__Pull__Kind kinds[] = {
        [WORKER_PULL_LATEST] = GRADUS__V1__PULL__KIND__LATEST,
        [WORKER_PULL_VERSION] = GRADUS__V1__PULL__KIND__VERSION,
        [WORKER_PULL_PINNED] = GRADUS__V1__PULL__KIND__PINNED,
        [WORKER_PULL_AT_LEAST] = GRADUS__V1__PULL__KIND__AT_LEAST,
    };
    gradus__v1__pull__init(pull);
    pull->kind = kinds[a->pull];
    pull->version = a->version;
    pull->pin_id = borrow_text(a->pin_id);
    pull->progress = a->progress;
    pull->clock = a->clock;
    pull->joins = a->joins;
    pull->epoch = a->batch.epoch;
    pull->split = a->batch.split;
    pull->type = (Gradus__V1__WireType)ps_client_pull_type(c, a);
}

static void fill_offer(Gradus__V1__Windows *m, const struct windows_offer *offer)
{
    gradus__v1__windows__init(m);
    m->pid = offer->pid;
    m->fd = offer->fd;
    m->token = (ProtobufCBinaryData){sizeof offer->token, borrow_bytes(offer->token)};
    m->elements = offer->elements;
    m->gradients = offer->gradients;
    m->values = offer->values;
}

struct part {
    uint64_t first, end;
    bool begins, waits;
};

/* Of a request with a gradient @part, or all of it (NULL). */
static int send_request(struct shard_link *link, const struct worker_action *a,
                        const struct ps_payload *payload, uint32_t window, const struct part *part,
                        struct err *err)
{
    struct ps_client *c = link->client;
    Gradus__V1__ShardRef shard = GRADUS__V1__SHARD_REF__INIT;
    shard.job = c->job;
    shard.shard = link->shard;
    shard.generation = a->generation;
    shard.opening = c->opening;
    Gradus__V1__Push push;
    Gradus__V1__Pull pull;
    Gradus__V1__Decision decision = GRADUS__V1__DECISION__INIT;
    Gradus__V1__SpareRequest spare = GRADUS__V1__SPARE_REQUEST__INIT;
    Gradus__V1__SumsRequest sums = GRADUS__V1__SUMS_REQUEST__INIT;
    Gradus__V1__Totals totals = GRADUS__V1__TOTALS__INIT;
    Gradus__V1__ExchangeRequest message = GRADUS__V1__EXCHANGE_REQUEST__INIT;
    message.exchange = a->exchange;
    message.shard = &shard;
    message.worker = c->worker;
    message.idle = a->idle;
    if (a->push) {
        fill_push(&push, c, a, payload);
        message.push = &push;
    }
    if (a->pull != WORKER_PULL_NONE) {
        fill_pull(&pull, c, a);
        message.pull = &pull;
    }
    if (a->has_decision) {
        decision.step = a->decision_step;
        decision.replicas.data = borrow_bytes(a->decision);
        decision.replicas.len = a->decision_bytes;
        message.decision = &decision;
    }
    if (a->ask_spare) {
        spare.step = a->step;
        message.spare = &spare;
    }
    if (a->ask_sums) {
        sums.step = a->step;
        sums.round = a->round;
        message.sums = &sums;
    }
    if (a->totals) {
        totals.step = a->step;
        totals.round = a->round;
        totals.data = (ProtobufCBinaryData){payload->totals_bytes, borrow_bytes(payload->totals)};
        message.totals = &totals;
    }
    if (window != WINDOWS_NONE) {
        message.values_window = window + 1;
    }
    Gradus__V1__Windows windows;
    if (link->windows != NULL && !link->windows_offered) {
        fill_offer(&windows, windows_offer(link->windows));
        message.windows = &windows;
        link->windows_offered = true;
    }
    if (part != NULL && !part->begins) {
        strip(&message);
    }
    if (part != NULL) {
        size_t pieces =
            gather(link, part->first, part->end - part->first, payload->gradient, link->pieces);
        message.total = link->elements;
        message.offset = part->first;
        return send_plain(link, &message, pieces, a->slot, part->waits, err);
    }
    if (a->push && payload->gradient != NULL && link->elements > 0) {
        return send_gradient(link, &message, a->slot, payload->gradient, push_type(c, a), err);
    }
    return send_one(link, &message, NULL, err);
}

int ps_client_send(struct shard_link *link, const struct worker_action *a,
                   const struct ps_payload *payload, uint32_t window, struct err *err)
{
    return send_request(link, a, payload, window, NULL, err);
}

int ps_client_send_part(struct shard_link *link, uint64_t first, uint64_t end, bool waits,
                        struct err *err)
{
    const struct parts *p = &link->parts;
    const struct part part = {first, end, !p->begun, waits};
    return send_request(link, &p->request, &p->payload, p->pending->window, &part, err);
}
