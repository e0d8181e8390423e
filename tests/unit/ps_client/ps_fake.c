/* SPDX-License-Identifier: Apache-2.0 */
/* How the parameter server does what it is told. */
#include "ps_fake.h"

static void send_in_block(struct fake *f, struct rpc_call *call, Gradus__V1__ExchangeResponse *m,
                          uint32_t shard, uint32_t block)
{
    uint64_t elements = f->plan.shard_elements[shard];
    float *to = shared_memory_values(f->shared_memory[shard], block - 1);
    f->values_blocks++;
    m->total = elements;
    for (uint64_t at = 0; at < elements; at += ANSWER_CHUNK) {
        m->offset = at;
        m->in_block = elements - at < ANSWER_CHUNK ? elements - at : ANSWER_CHUNK;
        memcpy(to + at, f->shards[shard] + at, m->in_block * sizeof(float));
        assert_int_equal(rpc_send(call, &m->base, NULL), 0);
    }
}

static void send_values(struct fake *f, struct rpc_call *call, Gradus__V1__ExchangeResponse *m,
                        uint32_t shard)
{
    uint64_t elements = f->plan.shard_elements[shard];
    m->total = f->script == SCRIPT_TOTAL ? elements - 1 : elements;
    for (uint64_t at = 0; at < elements; at += ANSWER_CHUNK) {
        uint64_t n = elements - at < ANSWER_CHUNK ? elements - at : ANSWER_CHUNK;
        struct rpc_piece piece = {f->shards[shard] + at, n * sizeof(float)};
        struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
        static unsigned char coded[ANSWER_CHUNK * sizeof(float)];
        if (f->heard_pull.type != GRADUS__V1__WIRE_TYPE__FP32 && f->script != SCRIPT_OTHER_TYPE) {
            enum value_type type = (enum value_type)f->heard_pull.type;
            values_encode(type, f->shards[shard] + at, n, coded);
            piece = (struct rpc_piece){coded, n * value_type_bytes(type)};
            m->type = f->heard_pull.type;
        }
        if (f->script == SCRIPT_GAP && at == ANSWER_CHUNK) {
            continue;
        }
        if (f->script == SCRIPT_RAGGED) {
            piece.bytes -= 2;
        }
        m->offset = at;
        m->version += f->script == SCRIPT_TORN && at > 0 ? 1 : 0;
        assert_int_equal(rpc_send(call, &m->base, &blob), 0);
    }
}

/* What an answer may say; it points into this. */
struct parts {
    Gradus__V1__Trained trained;
    Gradus__V1__Decision decision;
    Gradus__V1__SpareResponse spare;
    Gradus__V1__Sums sums;
};

static void make_parts(const struct fake *f, struct parts *p)
{
    gradus__v1__trained__init(&p->trained);
    p->trained.progress = 3;
    p->trained.staleness = 6;
    if (f->heard_training.push != NULL) {
        p->trained.push = (Gradus__V1__PushResult)f->result;
    }
    static uint8_t replicas[EXCHANGE_DECISION_BYTES_MAX + 1];
    gradus__v1__decision__init(&p->decision);
    p->decision.step = VERSION - 1;
    p->decision.replicas.data = replicas;
    p->decision.replicas.len = f->script == SCRIPT_LONG    ? sizeof replicas
                               : f->script == SCRIPT_EMPTY ? 0
                                                           : sizeof replicas - 1;
    replicas[0] = 0xA5;
    replicas[EXCHANGE_DECISION_BYTES_MAX - 1] = 0x5A;
    gradus__v1__spare_response__init(&p->spare);
    p->spare.given = true;
    p->spare.replica = 11;
    p->spare.wait_ms = 12;
    gradus__v1__sums__init(&p->sums);
    static uint8_t sums[] = "parts";
    p->sums.step = f->heard_step;
    p->sums.round = f->heard_round + (f->script == SCRIPT_OTHER_SUMS ? 1 : 0);
    p->sums.known = f->script == SCRIPT_OVER;
    p->sums.data = (ProtobufCBinaryData){
        f->script == SCRIPT_EMPTY || f->script == SCRIPT_OVER ? 0 : sizeof sums, sums};
}

static void put_parts(const struct fake *f, struct parts *p, Gradus__V1__ExchangeResponse *m)
{
    m->decision = &p->decision; /* asked for or not */
    if (f->heard.what_case == GRADUS__V1__EXCHANGE_REQUEST__WHAT_TRAINING &&
        f->script != SCRIPT_OTHER_ANSWER) {
        m->answer_case = GRADUS__V1__EXCHANGE_RESPONSE__ANSWER_TRAINED;
        m->trained = &p->trained;
    } else if (f->heard.what_case == GRADUS__V1__EXCHANGE_REQUEST__WHAT_SUMS &&
               f->script != SCRIPT_NO_SUMS) {
        m->answer_case = GRADUS__V1__EXCHANGE_RESPONSE__ANSWER_SUMS;
        m->sums = &p->sums;
    } else if (f->script != SCRIPT_NO_SPARE) {
        m->answer_case = GRADUS__V1__EXCHANGE_RESPONSE__ANSWER_SPARE;
        m->spare = &p->spare;
    }
}

static void send_too_many(struct fake *f, struct rpc_call *call, Gradus__V1__ExchangeResponse *m,
                          uint32_t shard)
{
    struct rpc_piece piece = {f->shards[shard], sizeof(float)};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    m->total = f->plan.shard_elements[shard];
    m->offset = 0;
    piece.bytes = (m->total + 1) * sizeof(float);
    (void)rpc_send(call, &m->base, &blob);
}

/* Do what is wrong before the answer, or instead of it; true: instead. */
static bool misbehave(struct fake *f, struct rpc_call *call, Gradus__V1__ExchangeResponse *m,
                      uint32_t shard)
{
    static char message[] = "told to refuse";
    struct err err;
    switch (f->script) {
    case SCRIPT_REFUSE:
        m->code = f->code;
        m->message = message;
        (void)rpc_send(call, &m->base, NULL);
        return true;
    case SCRIPT_BREAK:
        (void)err_set(&err, ERR_UNAVAILABLE, "told to break");
        (void)rpc_fail(call, &err);
        return true;
    case SCRIPT_UNREAD:
        rpc_pause(call);
        return true;
    case SCRIPT_NO_VALUES:
        (void)rpc_send(call, &m->base, NULL);
        return true;
    case SCRIPT_OTHER_FIRST:
        m->exchange += 1000;
        (void)rpc_send(call, &m->base, NULL);
        m->exchange -= 1000;
        return false;
    case SCRIPT_TOO_MANY:
        send_too_many(f, call, m, shard);
        return true;
    default:
        return false;
    }
}

/* Into the client's memory. */
static void send_rows_in_block(struct fake *f, struct rpc_call *call,
                               Gradus__V1__ExchangeResponse *m, uint32_t shard, const float *values,
                               size_t floats)
{
    const bool lies = f->script == SCRIPT_ROWS_BLOCK;
    if (f->rows_block != 0) {
        memcpy(shared_memory_values(f->tables_memory[shard], f->rows_block - 1), values,
               floats * sizeof *values);
        f->rows_blocks++;
    }
    m->offset = 0;
    m->in_block = floats + (lies && f->rows_block != 0 ? 1 : 0);
    (void)rpc_send(call, &m->base, NULL);
    m->in_block = 0;
}

static void send_rows(struct fake *f, struct rpc_call *call, Gradus__V1__ExchangeResponse *m,
                      uint32_t shard)
{
    size_t floats = f->counts[0] * ROW_DIMS[0] + f->counts[1] * ROW_DIMS[1];
    float *values = mem_new(floats + 1, sizeof *values);
    size_t at = 0;
    for (size_t i = 0; i < f->key_count; i++) {
        const size_t dim = ROW_DIMS[i < f->counts[0] ? 0 : 1];
        for (size_t k = 0; k < dim; k++) {
            values[at++] = (float)(f->keys[i] + k);
        }
    }
    assert_int_equal(at, floats);
    const enum value_type type = (enum value_type)f->rows_type;
    const size_t each = value_type_bytes(type);
    unsigned char *coded = mem_new(floats + 1, sizeof *values);
    values_encode(type, values, floats, coded);
    m->type = (Gradus__V1__WireType)(f->script == SCRIPT_OTHER_TYPE ? VALUE_FP32 : type);
    m->total = floats + (f->script == SCRIPT_TOTAL ? 1 : 0);
    if (f->rows_block != 0 || f->script == SCRIPT_ROWS_BLOCK) {
        send_rows_in_block(f, call, m, shard, values, floats);
        floats = 0;
    }
    for (at = 0; at < floats; at += ANSWER_CHUNK) {
        const size_t n = floats - at < ANSWER_CHUNK ? floats - at : ANSWER_CHUNK;
        const struct rpc_piece piece = {coded + at * each,
                                        n * each - (f->script == SCRIPT_RAGGED ? each / 2 : 0)};
        const struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
        m->offset = at;
        (void)rpc_send(call, &m->base, &blob);
    }
    free(coded);
    free(values);
}

/* Those whose keys came behind what the push brought of tables. */
static void send_rows_along(struct fake *f, struct rpc_call *call, Gradus__V1__ExchangeResponse *m,
                            uint32_t shard)
{
    m->of_rows = true;
    m->in_block = 0;
    send_rows(f, call, m, shard);
}

static void read_keys_along(struct fake *f, Gradus__V1__ExchangeResponse *m)
{
    const size_t bytes = f->key_count * sizeof f->keys[0];
    if (f->key_count > 0 && !f->no_rows) {
        memcpy(f->keys, f->tables + f->tables_bytes - bytes, bytes);
        m->rows = f->counts[0] * ROW_DIMS[0] + f->counts[1] * ROW_DIMS[1];
        m->rows += f->script == SCRIPT_OTHER_ROWS ? 1 : 0;
    }
}

/* The answer to an exchange that has come in whole. */
static void serve(struct fake *f, struct rpc_call *call, const Gradus__V1__ExchangeRequest *q,
                  uint32_t shard, bool pull, uint32_t block)
{
    Gradus__V1__ExchangeResponse m = GRADUS__V1__EXCHANGE_RESPONSE__INIT;
    struct parts parts;
    m.exchange = q->exchange;
    m.shared_memory_open = f->shared_memory[shard] != NULL;
    m.tables_memory_open = f->tables_memory[shard] != NULL;
    m.version = VERSION + shard - (f->script == SCRIPT_OLD ? 1 : 0);
    make_parts(f, &parts);
    put_parts(f, &parts, &m);
    read_keys_along(f, &m);
    if (block != 0 && f->before_answer != NULL) {
        f->before_answer(f, shard, block);
    }
    if (misbehave(f, call, &m, shard)) {
        return;
    }
    if (pull && block != 0) {
        send_in_block(f, call, &m, shard, block);
    } else if (pull && f->script == SCRIPT_BLOCK) {
        m.total = m.in_block = f->plan.shard_elements[shard];
        (void)rpc_send(call, &m.base, NULL);
    } else if (pull) {
        send_values(f, call, &m, shard);
    } else {
        (void)rpc_send(call, &m.base, NULL);
    }
    if (m.rows > 0) {
        send_rows_along(f, call, &m, shard);
    }
}

static void hear_training(struct fake *f, const Gradus__V1__Training *q)
{
    f->heard_training = *q;
    f->key_count = 0;
    if (q->rows != NULL) {
        assert_int_equal(q->rows->n_counts, ROW_TABLES);
        assert_int_equal(q->rows->of_case, GRADUS__V1__ROWS_REQUEST__OF__NOT_SET);
        f->rows_type = q->pull->type;
        memcpy(f->counts, q->rows->counts, sizeof f->counts);
        f->key_count = f->counts[0] + f->counts[1];
    }
    if (q->push != NULL) {
        f->heard_push = *q->push;
        f->heard_norm = q->push->n_norms > 0 ? q->push->norms[q->push->n_norms - 1] : -1;
    }
    if (q->pull != NULL) {
        f->heard_pull = *q->pull;
    }
    if (q->decision != NULL) {
        f->heard_step = q->decision->step;
        f->heard_bytes = q->decision->replicas.len;
        assert_true(f->heard_bytes <= sizeof f->heard_replicas);
        memcpy(f->heard_replicas, q->decision->replicas.data, f->heard_bytes);
    }
}

static void hear(struct fake *f, const Gradus__V1__ExchangeRequest *q)
{
    f->heard = *q;
    memset(&f->heard_training, 0, sizeof f->heard_training);
    switch (q->what_case) {
    case GRADUS__V1__EXCHANGE_REQUEST__WHAT_TRAINING:
        hear_training(f, q->training);
        break;
    case GRADUS__V1__EXCHANGE_REQUEST__WHAT_PINNED:
        gradus__v1__pull__init(&f->heard_pull); /* values that are exact */
        break;
    case GRADUS__V1__EXCHANGE_REQUEST__WHAT_SPARE:
        f->heard_step = q->spare->step;
        break;
    case GRADUS__V1__EXCHANGE_REQUEST__WHAT_SUMS:
        f->heard_step = q->sums->step;
        f->heard_round = q->sums->round;
        break;
    case GRADUS__V1__EXCHANGE_REQUEST__WHAT_TOTALS:
        f->heard_step = q->totals->step;
        f->heard_round = q->totals->round;
        f->heard_bytes = q->totals->data.len;
        memcpy(f->heard_replicas, q->totals->data.data, f->heard_bytes);
        break;
    case GRADUS__V1__EXCHANGE_REQUEST__WHAT_ROWS:
        f->key_count = 0;
        f->rows_version = q->rows->version;
        f->rows_type = q->rows->type;
        assert_int_equal(q->rows->n_counts, ROW_TABLES);
        memcpy(f->counts, q->rows->counts, sizeof f->counts);
        break;
    default:
        fail_msg("a request that is nothing");
    }
}

static void open_shared_memory(struct shared_memory **w, const Gradus__V1__SharedMemory *m,
                               uint64_t elements)
{
    struct err err;
    struct shared_memory_offer offer = {.pid = m->pid,
                                        .fd = m->fd,
                                        .elements = m->elements,
                                        .gradients = m->gradients,
                                        .values = m->values};
    assert_int_equal(m->token.len, sizeof offer.token);
    memcpy(offer.token, m->token.data, sizeof offer.token);
    shared_memory_unref(*w);
    assert_int_equal(shared_memory_open(&offer, elements, w, &err), 0);
}

/* The whole push is in a block. */
static void take_block(struct fake *f, uint32_t shard, uint32_t block)
{
    uint64_t elements = f->plan.shard_elements[shard];
    struct shared_memory *w = f->shared_memory[shard];
    assert_non_null(w);
    assert_true(shared_memory_hold_gradient(w, block - 1));
    memcpy(f->shards[shard], shared_memory_gradient(w, block - 1), elements * sizeof(float));
    shared_memory_give_gradient(w, block - 1);
    f->pushed[shard] = elements;
    f->gradient_blocks++;
}

/* The client sends one exchange after the other, so the first message of one says what the rest
 * belongs to: the shard, and whether it pulls, are kept at the call. */
struct incoming {
    uint32_t shard;
    bool pull, rows;
    uint32_t block;
    uint64_t tables_bytes;
};

static void take_keys(struct fake *f, struct rpc_call *call, const struct incoming *in,
                      const Gradus__V1__ExchangeRequest *q, struct rpc_spans *spans)
{
    Gradus__V1__ExchangeResponse m = GRADUS__V1__EXCHANGE_RESPONSE__INIT;
    const size_t n = rpc_spans_bytes(spans) / sizeof f->keys[0];
    assert_true(q->offset == f->key_count && n <= ROW_KEYS_MAX - f->key_count);
    assert_true(rpc_spans_read(spans, f->keys + f->key_count, n * sizeof f->keys[0]));
    f->key_count += n;
    if (f->key_count < f->heard.total) {
        return;
    }
    m.exchange = q->exchange;
    m.version = f->rows_version - (f->script == SCRIPT_OLD ? 1 : 0);
    if (!misbehave(f, call, &m, in->shard)) {
        send_rows(f, call, &m, in->shard);
    }
}

static void take_tables(struct fake *f, const Gradus__V1__ExchangeRequest *q,
                        struct rpc_spans *spans)
{
    const size_t n = rpc_spans_bytes(spans);
    assert_true(q->offset == f->tables_bytes && n <= sizeof f->tables - f->tables_bytes);
    assert_true(rpc_spans_read(spans, f->tables + f->tables_bytes, n));
    f->tables_bytes += n;
}

/* All that belongs to tables. */
static void take_tables_block(struct fake *f, const struct incoming *in, uint32_t block)
{
    struct shared_memory *w = f->tables_memory[in->shard];
    assert_non_null(w);
    assert_true(shared_memory_hold_gradient(w, block - 1));
    assert_true(in->tables_bytes > 0 && in->tables_bytes <= sizeof f->tables);
    memcpy(f->tables, shared_memory_gradient(w, block - 1), in->tables_bytes);
    shared_memory_give_gradient(w, block - 1);
    f->tables_bytes = in->tables_bytes;
    f->tables_blocks++;
}

static void on_exchange(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct fake *f = service;
    const Gradus__V1__ExchangeRequest *q = (const Gradus__V1__ExchangeRequest *)msg->body;
    struct incoming *in = rpc_data(call);
    pthread_mutex_lock(&f->lock);
    if (q->shard != NULL) {
        in->shard = q->shard->shard;
        f->opening = q->shard->opening;
        in->block = q->values_block;
        f->pushed[in->shard] = 0;
        f->messages[in->shard] = 0;
        hear(f, q);
        in->rows = q->what_case == GRADUS__V1__EXCHANGE_REQUEST__WHAT_ROWS;
        in->tables_bytes = q->tables_bytes;
        if (f->heard_training.rows != NULL) {
            in->tables_bytes += f->key_count * sizeof f->keys[0];
        }
        f->tables_bytes = 0;
        in->pull = f->heard_training.pull != NULL ||
                   q->what_case == GRADUS__V1__EXCHANGE_REQUEST__WHAT_PINNED;
        if (q->shared_memory != NULL && f->script != SCRIPT_NO_SHARED_MEMORY) {
            open_shared_memory(&f->shared_memory[in->shard], q->shared_memory,
                               f->plan.shard_elements[in->shard]);
        }
        if (q->tables_memory != NULL && f->script != SCRIPT_NO_SHARED_MEMORY) {
            open_shared_memory(&f->tables_memory[in->shard], q->tables_memory,
                               q->tables_memory->elements);
        }
        f->rows_block = q->rows_block;
    } else {
        assert_int_equal(q->what_case, GRADUS__V1__EXCHANGE_REQUEST__WHAT__NOT_SET);
        assert_null(q->shared_memory);
        assert_int_equal(q->values_block, 0);
        assert_null(q->tables_memory);
        assert_int_equal(q->tables_block, 0);
        assert_int_equal(q->rows_block, 0);
    }
    if (in->rows || q->of_tables) {
        if (in->rows) {
            take_keys(f, call, in, q, msg->bulk);
        } else {
            take_tables(f, q, msg->bulk);
        }
        if (q->of_tables && f->tables_bytes == in->tables_bytes) {
            serve(f, call, q, in->shard, in->pull, in->block);
        }
        pthread_mutex_unlock(&f->lock);
        return;
    }
    enum value_type type = (enum value_type)f->heard_push.type;
    uint64_t n = rpc_spans_bytes(msg->bulk) / value_type_bytes(type);
    assert_true(q->offset <= f->plan.shard_elements[in->shard]);
    assert_true(n <= f->plan.shard_elements[in->shard] - q->offset);
    assert_true(wire_values_read(msg->bulk, type, f->shards[in->shard] + q->offset, n));
    f->pushed[in->shard] += n;
    if (q->gradient_block != 0) {
        assert_int_equal(n, 0);
        take_block(f, in->shard, q->gradient_block);
    }
    if (q->tables_block != 0) {
        take_tables_block(f, in, q->tables_block);
    }
    f->messages[in->shard]++;
    f->offset[in->shard] = q->offset;
    pthread_cond_broadcast(&f->changed);
    if (f->script == SCRIPT_BREAK_EARLY) {
        struct err err;
        (void)err_set(&err, ERR_UNAVAILABLE, "told to break");
        (void)rpc_fail(call, &err);
    } else if ((f->pushed[in->shard] == q->total && in->tables_bytes == f->tables_bytes) ||
               f->script == SCRIPT_UNREAD) {
        serve(f, call, q, in->shard, in->pull, in->block);
    }
    pthread_mutex_unlock(&f->lock);
}

static void on_open(struct rpc_call *call, void *service)
{
    struct fake *f = service;
    rpc_set_data(call, mem_new(1, sizeof(struct incoming)));
    pthread_mutex_lock(&f->lock);
    f->streams++;
    text_copy(f->peer, sizeof f->peer, rpc_peer(call));
    pthread_mutex_unlock(&f->lock);
}

static void on_over(struct rpc_call *call, bool cancelled, void *service)
{
    (void)cancelled;
    (void)service;
    free(rpc_data(call));
}

static void on_fill(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct fake *f = service;
    const Gradus__V1__FillRequest *q = (const Gradus__V1__FillRequest *)msg->body;
    const uint32_t shard = q->shard->shard;
    const uint64_t n = rpc_spans_bytes(msg->bulk) / sizeof(float);
    Gradus__V1__FillResponse m = GRADUS__V1__FILL_RESPONSE__INIT;
    struct err err;
    pthread_mutex_lock(&f->lock);
    assert_string_equal(q->shard->job, "job-1");
    assert_string_equal(q->worker, "worker-1");
    f->opening = q->shard->opening;
    f->generation = q->shard->generation;
    f->fills[shard]++;
    if (f->script == SCRIPT_REFUSE) {
        (void)err_set(&err, f->code, "told to refuse");
        (void)rpc_fail(call, &err);
    } else {
        assert_true(q->first + n <= f->plan.shard_elements[shard]);
        assert_true(wire_values_read(msg->bulk, VALUE_FP32, f->shards[shard] + q->first, n));
        m.filled = q->first + n;
        (void)rpc_reply(call, &m.base, NULL);
    }
    pthread_mutex_unlock(&f->lock);
}

const struct rpc_method ps_fake_methods[] =
    PS_METHODS_FILL(on_fill, .open = on_open, .request = on_exchange, .done = on_over);
const size_t ps_fake_method_count = sizeof ps_fake_methods / sizeof ps_fake_methods[0];
