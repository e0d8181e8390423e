/* The exchange stream, over real gRPC. */
#include "ps_rig.h"

static float initial[ELEMENTS];
static float gradient[ELEMENTS];

/* A client of one stream: what came back, by number of exchange. */
#define EXCHANGES 16
struct answer {
    unsigned messages;
    int code;
    char message[512];
    Gradus__V1__PushResult push;
    uint64_t version, total, received;
    uint64_t generation;
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

static void on_message(struct rpc_stream *stream, struct rpc_msg *msg, void *ctx)
{
    (void)stream;
    struct client *c = ctx;
    const Gradus__V1__ExchangeResponse *m = (const Gradus__V1__ExchangeResponse *)msg->body;
    pthread_mutex_lock(&c->lock);
    assert_true(m->exchange < EXCHANGES);
    struct answer *a = &c->answers[m->exchange];
    size_t n = rpc_spans_bytes(msg->bulk) / sizeof(float);
    assert_int_equal(m->offset, a->received);
    if (n > 0) {
        assert_true(a->received + n <= ELEMENTS);
        assert_true(rpc_spans_read_floats(msg->bulk, a->values + a->received, n));
    }
    a->messages++;
    a->received += n;
    a->code = m->code;
    a->push = m->push;
    a->version = m->version;
    a->generation = m->generation;
    a->total = m->total;
    (void)snprintf(a->message, sizeof a->message, "%s", m->message);
    a->complete = a->received == m->total;
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

static void client_open(struct client *c, struct ps_rig *rig)
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

static void wait_over(struct client *c)
{
    pthread_mutex_lock(&c->lock);
    while (!c->over) {
        pthread_cond_wait(&c->changed, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
}

static void client_close(struct client *c)
{
    rpc_stream_cancel(c->stream);
    wait_over(c);
    rpc_stream_free(c->stream);
    for (size_t i = 0; i < EXCHANGES; i++) {
        free(c->answers[i].values);
    }
    pthread_cond_destroy(&c->changed);
    pthread_mutex_destroy(&c->lock);
}

static struct answer *wait_answer(struct client *c, uint64_t exchange)
{
    pthread_mutex_lock(&c->lock);
    while (!c->answers[exchange].complete && !c->over) {
        pthread_cond_wait(&c->changed, &c->lock);
    }
    pthread_mutex_unlock(&c->lock);
    return &c->answers[exchange];
}

/* One message. @first: with the shard and what is asked for. */
struct chunk {
    uint64_t exchange;
    char *job;
    bool first;
    bool push, pull;
    uint64_t step, examples;
    uint32_t lo, hi;
    uint64_t offset, total, floats;
    Gradus__V1__Pull__Kind kind;
    uint64_t version;
};

static void send_chunk(struct client *c, const struct chunk *k)
{
    Gradus__V1__ExchangeRequest m = GRADUS__V1__EXCHANGE_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(k->job, 1);
    Gradus__V1__Push push = GRADUS__V1__PUSH__INIT;
    Gradus__V1__Pull pull = GRADUS__V1__PULL__INIT;
    char worker[] = "w0";
    push.step = k->step;
    push.examples = k->examples;
    push.replica_first = k->lo;
    push.replica_end = k->hi;
    pull.kind = k->kind;
    pull.version = k->version;
    m.exchange = k->exchange;
    m.offset = k->offset;
    m.total = k->total;
    if (k->first) {
        m.shard = &ref;
        m.worker = worker;
        m.push = k->push ? &push : NULL;
        m.pull = k->pull ? &pull : NULL;
    }
    struct rpc_piece piece = {gradient + (k->offset < ELEMENTS ? k->offset : 0),
                              k->floats * sizeof(float)};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    struct err err;
    (void)rpc_stream_send(c->stream, &m.base, k->floats > 0 ? &blob : NULL, &err);
}

/* A push of a node in chunks of @size floats, with a pull of the next version when @pull. */
static void send_push(struct client *c, char *job, uint64_t exchange, uint64_t step, uint32_t lo,
                      uint32_t hi, uint64_t size, bool pull)
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

static void start(struct ps_rig *rig, char *job, const char *mode, uint32_t replicas)
{
    struct err err;
    uint64_t version;
    for (size_t i = 0; i < ELEMENTS; i++) {
        gradient[i] = (float)(i % 31);
    }
    ps_rig_start(rig, 0);
    ps_rig_expect(ps_rig_open(rig, job, mode, "sgd", 1, replicas, &err), 0, &err, "");
    (void)ps_rig_pull(rig, job, GRADUS__V1__PULL__KIND__LATEST, 0, NULL, initial, &version, &err);
}

static void check_step(const float *values, float sum, float examples)
{
    for (size_t i = 0; i < ELEMENTS; i++) {
        float want = initial[i] - 0.01F * (sum * (float)(i % 31) * (1.0F / examples));
        assert_memory_equal(&values[i], &want, sizeof want);
    }
}

static void test_chunks_out_and_back(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    char job[] = "a-1";
    const uint64_t sizes[] = {ELEMENTS, 1 << 14, 1001};
    for (size_t i = 0; i < 3; i++) {
        start(&rig, job, "sync", 1);
        client_open(&c, &rig);
        send_push(&c, job, 3, 0, 0, 1, sizes[i], true);
        struct answer *a = wait_answer(&c, 3);
        assert_int_equal(a->code, 0);
        assert_int_equal(a->push, GRADUS__V1__PUSH_RESULT__APPLIED);
        assert_int_equal(a->version, 1);
        assert_int_equal(a->generation, 1);
        assert_int_equal(a->messages, (ELEMENTS * sizeof(float) + (64 << 10) - 1) / (64 << 10));
        check_step(a->values, 1, 10);
        client_close(&c);
        ps_rig_stop(&rig);
    }
}

static void test_two_clients_make_a_step(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c[2];
    char job[] = "a-1";
    start(&rig, job, "sync", 2);
    client_open(&c[0], &rig);
    client_open(&c[1], &rig);
    for (uint64_t step = 0; step < 5; step++) {
        for (uint32_t w = 0; w < 2; w++) {
            send_push(&c[w], job, step, step, w, w + 1, 1 << 14, true);
        }
        struct answer *a = wait_answer(&c[0], step);
        struct answer *b = wait_answer(&c[1], step);
        assert_int_equal(a->code, 0);
        assert_int_equal(b->code, 0);
        assert_int_equal(a->version, step + 1);
        assert_memory_equal(a->values, b->values, ELEMENTS * sizeof(float));
    }
    check_step(c[0].answers[0].values, 2, 20);
    send_push(&c[1], job, 9, 2, 1, 2, ELEMENTS, false); /* an answer that got lost */
    assert_int_equal(wait_answer(&c[1], 9)->push, GRADUS__V1__PUSH_RESULT__DUPLICATE);
    client_close(&c[0]);
    client_close(&c[1]);
    ps_rig_stop(&rig);
}

static void test_exchanges_interleave(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    char job[] = "a-1";
    start(&rig, job, "sync", 2);
    client_open(&c, &rig);
    const uint64_t half = ELEMENTS / 2;
    for (uint64_t part = 0; part < 2; part++) {
        for (uint32_t r = 0; r < 2; r++) {
            struct chunk k = {.exchange = r,
                              .job = job,
                              .first = part == 0,
                              .push = true,
                              .examples = 10,
                              .lo = r,
                              .hi = r + 1,
                              .offset = part * half,
                              .total = ELEMENTS,
                              .floats = half};
            send_chunk(&c, &k);
        }
    }
    assert_int_equal(wait_answer(&c, 0)->push, GRADUS__V1__PUSH_RESULT__ACCEPTED);
    assert_int_equal(wait_answer(&c, 1)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    struct chunk pull = {.exchange = 2, .job = job, .first = true, .pull = true};
    send_chunk(&c, &pull);
    check_step(wait_answer(&c, 2)->values, 2, 20);
    struct chunk empty = {
        .exchange = 4, .job = job, .first = true, .push = true, .step = 1, .hi = 2};
    send_chunk(&c, &empty);
    assert_int_equal(wait_answer(&c, 4)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    assert_int_equal(c.answers[4].total, 0);
    client_close(&c);
    ps_rig_stop(&rig);
}

static void expect_refusal(struct client *c, const struct chunk *k, int code, const char *says)
{
    send_chunk(c, k);
    struct answer *a = wait_answer(c, k->exchange);
    assert_int_equal(a->code, -code);
    if (strstr(a->message, says) == NULL) {
        fail_msg("'%s' does not say '%s'", a->message, says);
    }
}

/* An error ends its exchange, and nothing else. */
static void test_garbage_is_refused(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    char job[] = "a-1";
    char other[] = "b-2";
    struct err err;
    start(&rig, job, "sync", 1);
    ps_rig_expect(ps_rig_open(&rig, other, "sync", "sgd", 1, 1, &err), 0, &err, "");
    client_open(&c, &rig);
    struct chunk k = {.exchange = 0, .job = job, .total = 8};
    expect_refusal(&c, &k, ERR_INVALID, "exchange 0: its first message does not name a shard");
    char nowhere[] = "z-9";
    k = (struct chunk){.exchange = 1, .job = nowhere, .first = true, .pull = true};
    expect_refusal(&c, &k, ERR_NOT_FOUND, "job z-9 shard 0: not on this server");
    k = (struct chunk){
        .exchange = 2, .job = job, .first = true, .push = true, .total = 7, .floats = 7};
    expect_refusal(&c, &k, ERR_INVALID,
                   "job a-1 shard 0: exchange 2: 7 gradient elements; expected 60060");
    k = (struct chunk){.exchange = 3, .job = job, .first = true, .pull = true, .total = ELEMENTS};
    expect_refusal(&c, &k, ERR_INVALID, "expected 0");
    k = (struct chunk){.exchange = 4,
                       .job = job,
                       .first = true,
                       .push = true,
                       .hi = 1,
                       .examples = 1,
                       .offset = 5,
                       .total = ELEMENTS,
                       .floats = 10};
    expect_refusal(&c, &k, ERR_INVALID, "40 bytes of values at element 5; expected element 0");
    k.first = false;
    k.offset = 15;
    k.floats = ELEMENTS - 15;
    send_chunk(&c, &k); /* what the client had sent meanwhile is skipped */
    k = (struct chunk){.exchange = 5, .job = other, .first = true, .pull = true};
    expect_refusal(&c, &k, ERR_INVALID, "job b-2 shard 0: this stream carries another shard");
    k = (struct chunk){.exchange = 6, .job = job, .first = true};
    expect_refusal(&c, &k, ERR_INVALID, "neither a push nor a pull");
    k = (struct chunk){
        .exchange = 7, .job = job, .first = true, .pull = true, .kind = (Gradus__V1__Pull__Kind)77};
    expect_refusal(&c, &k, ERR_INVALID, "kind of pull 77");
    assert_int_equal(c.answers[4].messages, 1);
    send_push(&c, job, 4, 0, 0, 1, ELEMENTS, false); /* the number may be used again */
    pthread_mutex_lock(&c.lock);
    while (c.answers[4].messages < 2) {
        pthread_cond_wait(&c.changed, &c.lock);
    }
    pthread_mutex_unlock(&c.lock);
    assert_int_equal(c.answers[4].push, GRADUS__V1__PUSH_RESULT__APPLIED);
    client_close(&c);
    ps_rig_stop(&rig);
}

static void test_too_many_exchanges_end_the_stream(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    char job[] = "a-1";
    start(&rig, job, "sync", 1);
    client_open(&c, &rig);
    for (uint64_t i = 0; i < 70; i++) {
        struct chunk k = {.exchange = 100 + i,
                          .job = job,
                          .first = true,
                          .push = true,
                          .total = ELEMENTS,
                          .floats = 1};
        send_chunk(&c, &k);
    }
    wait_over(&c);
    assert_int_equal(c.code, ERR_EXHAUSTED);
    client_close(&c);
    /* Its buffers are free again. */
    client_open(&c, &rig);
    send_push(&c, job, 1, 0, 0, 1, ELEMENTS, true);
    assert_int_equal(wait_answer(&c, 1)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    client_close(&c);
    ps_rig_stop(&rig);
}

static uint64_t parked(struct ps_rig *rig)
{
    Gradus__V1__StatsRequest r = GRADUS__V1__STATS_REQUEST__INIT;
    struct rpc_msg *reply;
    struct err err;
    assert_int_equal(ps_rig_call(rig, "Stats", &r.base, NULL, 0, &reply, &err), 0);
    uint64_t n = ((const Gradus__V1__StatsResponse *)reply->body)->shards[0]->requests_parked;
    rpc_msg_unref(reply);
    return n;
}

static void test_a_broken_stream_leaves_nothing_waiting(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    char job[] = "a-1";
    start(&rig, job, "sync", 2);
    client_open(&c, &rig);
    send_push(&c, job, 1, 0, 0, 1, ELEMENTS, true);
    struct chunk pull = {.exchange = 2,
                         .job = job,
                         .first = true,
                         .pull = true,
                         .kind = GRADUS__V1__PULL__KIND__VERSION,
                         .version = 2};
    send_chunk(&c, &pull);
    struct chunk torso = {
        .exchange = 3, .job = job, .first = true, .push = true, .total = ELEMENTS, .floats = 100};
    send_chunk(&c, &torso); /* half of a push */
    while (parked(&rig) != 2) {
    }
    client_close(&c);
    while (parked(&rig) != 0) {
    }
    /* The push is in; sent again it is a duplicate, and the step goes on. */
    client_open(&c, &rig);
    send_push(&c, job, 1, 0, 0, 1, ELEMENTS, true);
    send_push(&c, job, 2, 0, 1, 2, ELEMENTS, true);
    assert_int_equal(wait_answer(&c, 1)->push, GRADUS__V1__PUSH_RESULT__DUPLICATE);
    assert_int_equal(wait_answer(&c, 2)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    check_step(c.answers[1].values, 2, 20);
    client_close(&c);
    ps_rig_stop(&rig);
}

static void test_half_close_waits_for_the_answers(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    struct err err;
    char job[] = "a-1";
    start(&rig, job, "sync", 1);
    client_open(&c, &rig);
    struct chunk pull = {.exchange = 2,
                         .job = job,
                         .first = true,
                         .pull = true,
                         .kind = GRADUS__V1__PULL__KIND__VERSION,
                         .version = 1};
    send_chunk(&c, &pull);
    assert_int_equal(rpc_stream_half_close(c.stream), 0);
    while (parked(&rig) != 1) {
    }
    ps_rig_expect(ps_rig_push(&rig, job, 0, 0, 1, gradient, ELEMENTS, 10, NULL, &err), 0, &err, "");
    wait_over(&c);
    assert_int_equal(c.code, 0);
    assert_true(c.answers[2].complete);
    check_step(c.answers[2].values, 1, 10);
    client_close(&c);
    client_open(&c, &rig); /* without a word */
    assert_int_equal(rpc_stream_half_close(c.stream), 0);
    wait_over(&c);
    assert_int_equal(c.code, 0);
    client_close(&c);
    ps_rig_stop(&rig);
}

/* Whatever version a slow reader gets, it is whole. */
static void test_a_slow_reader_holds_nobody_up(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client slow;
    struct client fast;
    char job[] = "a-1";
    start(&rig, job, "sync", 1);
    client_open(&slow, &rig);
    client_open(&fast, &rig);
    rpc_stream_pause(slow.stream);
    for (uint64_t step = 0; step < EXCHANGES; step++) {
        if (step == 4) {
            rpc_stream_resume(slow.stream);
        }
        struct chunk pull = {.exchange = step, .job = job, .first = true, .pull = true};
        send_chunk(&slow, &pull);
        send_push(&fast, job, step, step, 0, 1, ELEMENTS, true);
        struct answer *a = wait_answer(&fast, step);
        assert_int_equal(a->code, 0);
        assert_int_equal(a->version, step + 1);
    }
    for (uint64_t step = 0; step < EXCHANGES; step++) {
        struct answer *a = wait_answer(&slow, step);
        assert_int_equal(a->code, 0);
        assert_memory_equal(a->values,
                            a->version == 0 ? initial : fast.answers[a->version - 1].values,
                            ELEMENTS * sizeof(float));
    }
    client_close(&slow);
    client_close(&fast);
    ps_rig_stop(&rig);
}

static void test_the_server_stops_with_open_streams(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    char job[] = "a-1";
    start(&rig, job, "sync", 2);
    client_open(&c, &rig);
    send_push(&c, job, 1, 0, 0, 1, ELEMENTS, true);
    while (parked(&rig) != 1) {
    }
    ps_drain(rig.ps);
    assert_int_equal(wait_answer(&c, 1)->code, -ERR_NOT_FOUND);
    rpc_server_stop(rig.server);
    wait_over(&c);
    assert_int_equal(c.code, ERR_UNAVAILABLE);
    client_close(&c);
    ps_rig_stop(&rig);
}

static int setup(void **state)
{
    (void)state;
    rpc_init();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    rpc_shutdown();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_chunks_out_and_back),
        cmocka_unit_test(test_two_clients_make_a_step),
        cmocka_unit_test(test_exchanges_interleave),
        cmocka_unit_test(test_garbage_is_refused),
        cmocka_unit_test(test_too_many_exchanges_end_the_stream),
        cmocka_unit_test(test_a_broken_stream_leaves_nothing_waiting),
        cmocka_unit_test(test_half_close_waits_for_the_answers),
        cmocka_unit_test(test_a_slow_reader_holds_nobody_up),
        cmocka_unit_test(test_the_server_stops_with_open_streams),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
