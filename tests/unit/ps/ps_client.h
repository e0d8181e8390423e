/* SPDX-License-Identifier: Apache-2.0 */
/* A client of the exchange stream. */
#ifndef GRADUS_TESTS_PS_CLIENT_H
#define GRADUS_TESTS_PS_CLIENT_H

#include "ps_rig.h"
#include "host/windows.h"
#include "wire/wire_values.h"

static float gradient[ELEMENTS]; /* of every push */

/* A client of one stream: what came back, by number of exchange. */
#define EXCHANGES 16
struct answer {
    unsigned messages;
    int code;
    char message[512];
    Gradus__V1__PushResult push;
    Gradus__V1__WireType type;
    uint64_t version, total, received;
    uint64_t generation, staleness;
    bool has_decision;
    uint64_t decision_step;
    unsigned decision; /* of the first 8 replicas */
    uint32_t waited_us, applied_us;
    bool has_spare, spare_given;
    uint32_t spare_replica, spare_wait_ms;
    bool has_sums, sums_known;
    uint64_t sums_step;
    uint32_t sums_round;
    struct buf sums;
    bool windows_open;
    uint64_t in_window;
    bool complete;
    float *values;
};

struct client {
    struct rpc_stream *stream;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct answer answers[EXCHANGES];
    bool over;
    int code;
};

static inline void on_message(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    struct client *c = ctx;
    const Gradus__V1__ExchangeResponse *m = (const Gradus__V1__ExchangeResponse *)msg->body;
    pthread_mutex_lock(&c->lock);
    assert_true(m->exchange < EXCHANGES);
    struct answer *a = &c->answers[m->exchange];
    size_t n = rpc_spans_bytes(msg->bulk) / value_type_bytes((enum value_type)m->type);
    assert_int_equal(m->offset, a->received);
    if (n > 0) {
        assert_true(a->received + n <= ELEMENTS);
        assert_true(
            wire_values_read(msg->bulk, (enum value_type)m->type, a->values + a->received, n));
    }
    a->type = m->type;
    a->messages++;
    a->received += n + m->in_window;
    a->in_window += m->in_window;
    a->windows_open = m->windows_open;
    a->code = m->code;
    if (m->answer_case == GRADUS__V1__EXCHANGE_RESPONSE__ANSWER_TRAINED) {
        a->push = m->trained->push;
        a->staleness = m->trained->staleness;
    }
    a->version = m->version;
    a->generation = m->generation;
    a->total = m->total;
    a->waited_us = m->waited_us;
    a->applied_us = m->applied_us;
    a->has_decision = m->decision != NULL;
    if (m->decision != NULL) {
        a->decision_step = m->decision->step;
        assert_true(m->decision->replicas.len > 0);
        a->decision = m->decision->replicas.data[0];
    }
    a->has_spare = m->answer_case == GRADUS__V1__EXCHANGE_RESPONSE__ANSWER_SPARE;
    if (a->has_spare) {
        a->spare_given = m->spare->given != 0;
        a->spare_replica = m->spare->replica;
        a->spare_wait_ms = m->spare->wait_ms;
    }
    a->has_sums = m->answer_case == GRADUS__V1__EXCHANGE_RESPONSE__ANSWER_SUMS;
    if (a->has_sums) {
        a->sums_known = m->sums->known != 0;
        a->sums_step = m->sums->step;
        a->sums_round = m->sums->round;
        buf_reset(&a->sums);
        buf_add(&a->sums, m->sums->data.data, m->sums->data.len);
    }
    (void)snprintf(a->message, sizeof a->message, "%s", m->message);
    a->complete = a->received == m->total;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static inline void on_done(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    struct client *c = ctx;
    pthread_mutex_lock(&c->lock);
    c->over = true;
    c->code = status->err.code;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static inline void client_open(struct client *c, struct ps_rig *rig)
{
    static const struct rpc_stream_events events = {.message = on_message, .done = on_done};
    struct err err;
    *c = (struct client){.over = false};
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    for (size_t i = 0; i < EXCHANGES; i++) {
        c->answers[i].values = mem_new(ELEMENTS, sizeof(float));
    }
    struct rpc_request request = {.service = &gradus__v1__parameter_server__descriptor,
                                  .method = "Exchange",
                                  .request_bulk = VALUES,
                                  .response_bulk = VALUES,
                                  .wait_for_ready = true};
    c->stream = rpc_stream_open(rig->channel, &request, &events, c, &err);
    assert_non_null(c->stream);
}

static inline void wait_over(struct client *c)
{
    pthread_mutex_lock(&c->lock);
    while (!c->over) {
        pthread_cond_wait(&c->changed, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
}

static inline void client_close(struct client *c)
{
    rpc_stream_cancel(c->stream);
    wait_over(c);
    rpc_stream_free(c->stream);
    for (size_t i = 0; i < EXCHANGES; i++) {
        free(c->answers[i].values);
        buf_release(&c->answers[i].sums);
    }
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
}

static inline struct answer *wait_answer(struct client *c, uint64_t exchange)
{
    pthread_mutex_lock(&c->lock);
    while (!c->answers[exchange].complete && !c->over) {
        pthread_cond_wait(&c->changed, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return &c->answers[exchange];
}

/* The number of an exchange may be used again when its answer is there. */
static inline void forget_answer(struct client *c, uint64_t exchange)
{
    struct answer *a = &c->answers[exchange];
    pthread_mutex_lock(&c->lock);
    *a = (struct answer){.values = a->values, .sums = a->sums};
    pthread_mutex_unlock(&c->lock);
}

/* One message. @first: with the shard and what is asked for. */
struct chunk {
    uint64_t exchange;
    char *job;
    uint32_t shard;
    uint64_t generation; /* 0: 1 */
    char *worker;        /* NULL: "w0" */
    bool first;
    bool push, pull;
    bool nothing; /* it does not say what it is */
    uint64_t step, examples;
    uint32_t lo, hi;
    uint32_t split, batch, batch_end;
    uint64_t epoch, base_version;
    bool decided, is_spare;
    uint64_t offset, total, floats;
    Gradus__V1__WireType type, pull_type;
    Gradus__V1__Pull__Kind kind;
    uint64_t version;
    char *pin_id; /* the exchange is a pull of this pin */
    bool has_decision, has_spare;
    uint8_t *decision; /* of `step`, as `spare` is */
    size_t decision_bytes;
    bool has_sums, has_totals; /* of `step` and `round` */
    uint32_t round;
    struct buf totals;
    double *norms;
    size_t norm_count;
    const struct windows *offer; /* NULL: none */
    uint32_t gradient_window, values_window;
};

static inline void send_chunk(struct client *c, const struct chunk *k)
{
    Gradus__V1__ExchangeRequest m = GRADUS__V1__EXCHANGE_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(k->job, k->generation == 0 ? 1 : k->generation);
    Gradus__V1__Training training = GRADUS__V1__TRAINING__INIT;
    Gradus__V1__Push push = GRADUS__V1__PUSH__INIT;
    Gradus__V1__Pull pull = GRADUS__V1__PULL__INIT;
    Gradus__V1__Decision decision = GRADUS__V1__DECISION__INIT;
    Gradus__V1__SpareRequest spare = GRADUS__V1__SPARE_REQUEST__INIT;
    Gradus__V1__SumsRequest sums = GRADUS__V1__SUMS_REQUEST__INIT;
    Gradus__V1__Totals totals = GRADUS__V1__TOTALS__INIT;
    char worker[] = "w0";
    ref.shard = k->shard;
    sums.step = totals.step = k->step;
    sums.round = totals.round = k->round;
    totals.data = (ProtobufCBinaryData){k->totals.len, (uint8_t *)k->totals.data};
    push.norms = k->norms;
    push.n_norms = k->norm_count;
    push.epoch = k->epoch;
    push.split = k->split;
    push.batch = k->batch;
    push.batch_end = k->batch_end;
    push.base_version = k->base_version;
    push.decided = k->decided;
    push.spare = k->is_spare;
    decision.step = k->step;
    decision.replicas = (ProtobufCBinaryData){k->decision_bytes, k->decision};
    spare.step = k->step;
    push.step = k->step;
    push.examples = k->examples;
    push.replica_first = k->lo;
    push.replica_end = k->hi;
    push.type = k->type;
    pull.type = k->pull_type;
    pull.kind = k->kind;
    pull.version = k->version;
    m.exchange = k->exchange;
    m.offset = k->offset;
    m.total = k->total;
    m.gradient_window = k->gradient_window;
    m.values_window = k->values_window;
    Gradus__V1__Windows windows = GRADUS__V1__WINDOWS__INIT;
    uint8_t token[WINDOWS_TOKEN_BYTES];
    if (k->offer != NULL) {
        const struct windows_offer *o = windows_offer(k->offer);
        windows.pid = o->pid;
        windows.fd = o->fd;
        memcpy(token, o->token, sizeof token);
        windows.token = (ProtobufCBinaryData){sizeof token, token};
        windows.elements = o->elements;
        windows.gradients = o->gradients;
        windows.values = o->values;
        m.windows = &windows;
    }
    if (k->first) {
        m.shard = &ref;
        m.worker = k->worker == NULL ? worker : k->worker;
        training.decision = k->has_decision ? &decision : NULL;
        training.push = k->push ? &push : NULL;
        training.pull = k->pull ? &pull : NULL;
    }
    Gradus__V1__PinnedPull pinned = GRADUS__V1__PINNED_PULL__INIT;
    if (k->first && k->pin_id != NULL) {
        pinned.pin_id = k->pin_id;
        m.what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_PINNED;
        m.pinned = &pinned;
    } else if (k->first && k->has_spare) {
        m.what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_SPARE;
        m.spare = &spare;
    } else if (k->first && k->has_sums) {
        m.what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_SUMS;
        m.sums = &sums;
    } else if (k->first && k->has_totals) {
        m.what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_TOTALS;
        m.totals = &totals;
    } else if (k->first && !k->nothing) {
        m.what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_TRAINING;
        m.training = &training;
    }
    unsigned char *coded = mem_new(k->floats + 1, sizeof(float));
    enum value_type type = (int)k->type < VALUE_TYPES ? (enum value_type)k->type : VALUE_FP32;
    bool inside = k->offset + k->floats <= ELEMENTS; /* what is not is refused, whatever it is */
    values_encode(type, gradient + (inside ? k->offset : 0), k->floats, coded);
    struct rpc_piece piece = {coded, k->floats * value_type_bytes(type)};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    struct err err;
    (void)rpc_stream_send(c->stream, &m.base, k->floats > 0 ? &blob : NULL, &err);
    free(coded);
}

/* A push of a node in chunks of @size floats, with a pull of the next version when @pull. */
static inline void send_push(struct client *c, char *job, uint64_t exchange, uint64_t step,
                             uint32_t lo, uint32_t hi, uint64_t size, bool pull)
{
    for (uint64_t at = 0; at < ELEMENTS; at += size) {
        struct chunk k = {.exchange = exchange,
                          .job = job,
                          .first = at == 0,
                          .push = true,
                          .pull = pull,
                          .step = step,
                          .examples = 10,
                          .lo = lo,
                          .hi = hi,
                          .offset = at,
                          .total = ELEMENTS,
                          .floats = ELEMENTS - at < size ? ELEMENTS - at : size,
                          .kind = GRADUS__V1__PULL__KIND__VERSION,
                          .version = step + 1};
        send_chunk(c, &k);
    }
}

static inline struct answer *exchange(struct client *c, const struct chunk *k)
{
    forget_answer(c, k->exchange);
    send_chunk(c, k);
    return wait_answer(c, k->exchange);
}

static inline void expect_refusal(struct client *c, const struct chunk *k, int code,
                                  const char *says)
{
    struct answer *a = exchange(c, k);
    if (a->code != -code || strstr(a->message, says) == NULL) {
        fail_msg("code %d, expected %d; '%s' does not say '%s'", a->code, -code, a->message, says);
    }
}

#endif
