/* SPDX-License-Identifier: Apache-2.0 */
/* How the client sends chunks and what it makes of answers. */
#include "exchange_rig.h"

#include "support/wait_until.h"

float gradient[GRADIENT_ROWS_MAX * COLUMNS + COLUMNS];

static void take_rows(struct answer *a, const Gradus__V1__ExchangeResponse *m,
                      struct rpc_spans *spans)
{
    const enum value_type type = (enum value_type)m->type;
    const size_t n = rpc_spans_bytes(spans) / value_type_bytes(type);
    assert_true(a->received == 0 || a->received == ps_rig_elements()); /* the values come first */
    assert_true(m->offset == a->rows_received && m->total == m->rows);
    assert_true((n > 0) != (m->in_block > 0) &&
                n <= sizeof a->of_rows / sizeof a->of_rows[0] - a->rows_received);
    assert_true(wire_values_read(spans, type, a->of_rows + a->rows_received, n));
    a->rows_in_block += m->in_block;
    a->rows_received += n + m->in_block;
    a->rows_type = m->type;
    a->complete = a->rows_received == m->rows;
}

static void on_message(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    struct client *c = ctx;
    const Gradus__V1__ExchangeResponse *m = (const Gradus__V1__ExchangeResponse *)msg->body;
    pthread_mutex_lock(&c->lock);
    assert_true(m->exchange < EXCHANGES);
    struct answer *a = &c->answers[m->exchange];
    a->rows = m->rows;
    if (m->of_rows) {
        take_rows(a, m, msg->bulk);
        pthread_cond_broadcast(&c->changed);
        pthread_mutex_unlock(&c->lock);
        return;
    }
    size_t n = rpc_spans_bytes(msg->bulk) / value_type_bytes((enum value_type)m->type);
    assert_true(m->code != 0 || m->offset == a->received);
    if (n > 0) {
        assert_true(a->received + n <= ps_rig_elements());
        assert_true(
            wire_values_read(msg->bulk, (enum value_type)m->type, a->values + a->received, n));
    }
    a->type = m->type;
    a->messages++;
    a->received += n + m->in_block;
    a->in_block += m->in_block;
    a->shared_memory_open = m->shared_memory_open;
    a->tables_memory_open = m->tables_memory_open;
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
    a->complete = m->code != 0 || (a->received == m->total && a->rows_received == m->rows);
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

static void on_done(struct rpc_stream *stream, const struct rpc_status *status, void *ctx)
{
    (void)stream;
    struct client *c = ctx;
    pthread_mutex_lock(&c->lock);
    c->over = true;
    c->code = status->err.code;
    pthread_cond_broadcast(&c->changed);
    pthread_mutex_unlock(&c->lock);
}

void exchange_open(struct client *c, struct ps_rig *rig)
{
    static const struct rpc_stream_events events = {.message = on_message, .done = on_done};
    struct err err;
    *c = (struct client){.over = false};
    pthread_mutex_init(&c->lock, NULL);
    pthread_cond_init(&c->changed, NULL);
    for (size_t i = 0; i < EXCHANGES; i++) {
        c->answers[i].values = mem_new(ps_rig_elements(), sizeof(float));
    }
    const struct rpc_header key = {.key = SHARD_KEY_HEADER, .value = rig->key};
    struct rpc_request request = {.service = &gradus__v1__parameter_server__descriptor,
                                  .method = "Exchange",
                                  .headers = &key,
                                  .header_count = rig->key != NULL ? 1 : 0,
                                  .request_bulk = VALUES,
                                  .response_bulk = VALUES,
                                  .wait_for_ready = true};
    c->stream = rpc_stream_open(rig->channel, &request, &events, c, &err);
    assert_non_null(c->stream);
}

void wait_over(struct client *c)
{
    pthread_mutex_lock(&c->lock);
    wait_until_signalled(c->over, &c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
}

void exchange_close(struct client *c)
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

struct answer *wait_answer(struct client *c, uint64_t exchange)
{
    pthread_mutex_lock(&c->lock);
    wait_until_signalled(c->answers[exchange].complete || c->over, &c->changed, &c->lock);
    pthread_mutex_unlock(&c->lock);
    return &c->answers[exchange];
}

void forget_answer(struct client *c, uint64_t exchange)
{
    struct answer *a = &c->answers[exchange];
    pthread_mutex_lock(&c->lock);
    *a = (struct answer){.values = a->values, .sums = a->sums};
    pthread_mutex_unlock(&c->lock);
}

/* A message and what it points to. */
struct request {
    Gradus__V1__ExchangeRequest m;
    Gradus__V1__ShardRef ref;
    Gradus__V1__Training training;
    Gradus__V1__Push push;
    Gradus__V1__Pull pull;
    Gradus__V1__PinnedPull pinned;
    Gradus__V1__Decision decision;
    Gradus__V1__SpareRequest spare;
    Gradus__V1__SumsRequest sums;
    Gradus__V1__Totals totals;
    Gradus__V1__SharedMemory shared_memory;
    uint8_t token[SHARED_MEMORY_TOKEN_BYTES];
    char worker[3];
};

static void fill_training(struct request *r, const struct chunk *k)
{
    gradus__v1__push__init(&r->push);
    r->push.norms = k->norms;
    r->push.n_norms = k->norm_count;
    r->push.epoch = k->epoch;
    r->push.split = k->split;
    r->push.batch = k->batch;
    r->push.batch_end = k->batch_end;
    r->push.base_version = k->base_version;
    r->push.decided = k->decided;
    r->push.spare = k->is_spare;
    r->push.step = k->step;
    r->push.examples = k->examples;
    r->push.replica_first = k->lo;
    r->push.replica_end = k->hi;
    r->push.type = k->type;
    gradus__v1__pull__init(&r->pull);
    r->pull.type = k->pull_type;
    r->pull.kind = k->kind;
    r->pull.version = k->version;
    gradus__v1__decision__init(&r->decision);
    r->decision.step = k->step;
    r->decision.replicas = (ProtobufCBinaryData){k->decision_bytes, k->decision};
    gradus__v1__training__init(&r->training);
    r->training.decision = k->has_decision ? &r->decision : NULL;
    r->training.push = k->push ? &r->push : NULL;
    r->training.pull = k->pull ? &r->pull : NULL;
}

static void fill_blocks(struct request *r, const struct shared_memory_offer *o)
{
    gradus__v1__shared_memory__init(&r->shared_memory);
    r->shared_memory.pid = o->pid;
    r->shared_memory.fd = o->fd;
    memcpy(r->token, o->token, sizeof r->token);
    r->shared_memory.token = (ProtobufCBinaryData){sizeof r->token, r->token};
    r->shared_memory.elements = o->elements;
    r->shared_memory.gradients = o->gradients;
    r->shared_memory.values = o->values;
    r->m.shared_memory = &r->shared_memory;
}

/* Of the first message: what the exchange asks for. */
static void fill_what(struct request *r, const struct chunk *k)
{
    if (k->pin_id != NULL) {
        gradus__v1__pinned_pull__init(&r->pinned);
        r->pinned.pin_id = k->pin_id;
        r->m.what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_PINNED;
        r->m.pinned = &r->pinned;
    } else if (k->has_spare) {
        gradus__v1__spare_request__init(&r->spare);
        r->spare.step = k->step;
        r->m.what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_SPARE;
        r->m.spare = &r->spare;
    } else if (k->has_sums) {
        gradus__v1__sums_request__init(&r->sums);
        r->sums.step = k->step;
        r->sums.round = k->round;
        r->m.what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_SUMS;
        r->m.sums = &r->sums;
    } else if (k->has_totals) {
        gradus__v1__totals__init(&r->totals);
        r->totals.step = k->step;
        r->totals.round = k->round;
        r->totals.data = (ProtobufCBinaryData){k->totals.len, (uint8_t *)k->totals.data};
        r->m.what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_TOTALS;
        r->m.totals = &r->totals;
    } else if (!k->nothing) {
        fill_training(r, k);
        r->m.what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_TRAINING;
        r->m.training = &r->training;
    }
}

static void fill(struct request *r, const struct chunk *k)
{
    gradus__v1__exchange_request__init(&r->m);
    r->m.exchange = k->exchange;
    r->m.offset = k->offset;
    r->m.total = k->total;
    r->m.gradient_block = k->gradient_block;
    r->m.values_block = k->values_block;
    if (k->offer != NULL) {
        fill_blocks(r, shared_memory_offer(k->offer));
    }
    if (k->first) {
        r->ref = ps_rig_ref(k->job, k->generation == 0 ? 1 : k->generation);
        r->ref.shard = k->shard;
        r->m.shard = &r->ref;
        memcpy(r->worker, "w0", sizeof r->worker);
        r->m.worker = k->worker == NULL ? r->worker : k->worker;
        fill_what(r, k);
    }
}

void send_chunk(struct client *c, const struct chunk *k)
{
    struct request request;
    fill(&request, k);
    unsigned char *coded = mem_new(k->floats + 1, sizeof(float));
    enum value_type type = (int)k->type < VALUE_TYPES ? (enum value_type)k->type : VALUE_FP32;
    /* What is not inside is refused, whatever it is. */
    bool inside = k->offset + k->floats <= ps_rig_elements();
    values_encode(type, gradient + (inside ? k->offset : 0), k->floats, coded);
    struct rpc_piece piece = {coded, k->floats * value_type_bytes(type)};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    struct err err;
    (void)rpc_stream_send(c->stream, &request.m.base, k->floats > 0 ? &blob : NULL, &err);
    free(coded);
}

void send_push(struct client *c, char *job, uint64_t exchange, uint64_t step, uint32_t lo,
               uint32_t hi, uint64_t size, bool pull)
{
    const uint64_t elements = ps_rig_elements();
    for (uint64_t at = 0; at < elements; at += size) {
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
                          .total = elements,
                          .floats = elements - at < size ? elements - at : size,
                          .kind = GRADUS__V1__PULL__KIND__VERSION,
                          .version = step + 1};
        send_chunk(c, &k);
    }
}

struct answer *exchange(struct client *c, const struct chunk *k)
{
    forget_answer(c, k->exchange);
    send_chunk(c, k);
    return wait_answer(c, k->exchange);
}

void expect_refusal(struct client *c, const struct chunk *k, int code, const char *says)
{
    struct answer *a = exchange(c, k);
    if (a->code != -code || strstr(a->message, says) == NULL) {
        fail_msg("code %d, expected %d; '%s' does not say '%s'", a->code, -code, a->message, says);
    }
}
