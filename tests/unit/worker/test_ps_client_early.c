/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that are delivered with the first of their values: a test that sends the rest, or does
 * not. */
#include "support/test.h"

#include "ps_methods.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "gradus/v1/ps.pb-c.h"
#include "rpc/rpc.h"
#include "wire/wire_values.h"
#include "worker/ps_client/ps_client_state.h"

#define SHARDS 2
#define VARIABLES 3
#define ROWS 40 /* of each variable; half of them on each shard */
#define COLUMNS 4000
#define COUNT (ROWS * COLUMNS)
#define FLAT_COUNT (VARIABLES * COUNT)
#define PART (COUNT / 2) /* of a variable on a shard */
#define VERSION 7
#define ANSWERS_MAX 16

struct fake {
    struct rpc_server *server;
    struct plan plan;
    struct ps_client *client;
    struct loop *loop;
    uint64_t offsets[VARIABLES];
    float *values;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    struct rpc_call *calls[SHARDS]; /* the last stream of each */
    uint64_t asked[SHARDS];         /* the last exchange */
    struct ps_answer answers[ANSWERS_MAX];
    size_t answered;
    bool waited;
    int code; /* of the wait */
    struct err err;
};

/* ---- the server: it keeps what is asked ---- */

static void on_exchange(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct fake *f = service;
    const Gradus__V1__ExchangeRequest *q = (const Gradus__V1__ExchangeRequest *)msg->body;
    uint32_t shard = q->shard->shard;
    pthread_mutex_lock(&f->lock);
    if (f->calls[shard] != call) {
        if (f->calls[shard] != NULL) {
            rpc_call_unref(f->calls[shard]);
        }
        f->calls[shard] = rpc_call_ref(call);
    }
    f->asked[shard] = q->exchange;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

static const struct rpc_method methods[] = PS_METHODS(.request = on_exchange);

static void on_answer(void *ctx, const struct ps_answer *answer)
{
    struct fake *f = ctx;
    pthread_mutex_lock(&f->lock);
    assert_true(f->answered < ANSWERS_MAX);
    f->answers[f->answered++] = *answer;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->lock);
}

/* ---- set-up ---- */

static void make_plan(struct fake *f)
{
    struct variable_spec variables[VARIABLES] = {0};
    static const char *const names[VARIABLES] = {"first", "second", "third"};
    for (size_t i = 0; i < VARIABLES; i++) {
        text_copy(variables[i].name, sizeof variables[i].name, names[i]);
        variables[i].shape = (struct shape){.rank = 2, .dims = {ROWS, COLUMNS}};
        f->offsets[i] = i * COUNT;
    }
    struct cluster_spec cluster = {
        .ps = SHARDS, .workers = {1, 1}, .partitioner = PARTITIONER_FIXED, .partitions = SHARDS};
    assert_int_equal(plan_make(variables, VARIABLES, &cluster, &f->plan, NULL), 0);
    for (uint32_t s = 0; s < SHARDS; s++) {
        assert_int_equal(f->plan.shard_elements[s], VARIABLES * PART);
    }
}

static void start(struct fake *f)
{
    struct err err = {0};
    *f = (struct fake){0};
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    make_plan(f);
    f->values = mem_new(FLAT_COUNT, sizeof(float));
    const char *listen = "127.0.0.1:0";
    struct rpc_server_options server = {.addresses = &listen, .address_count = 1};
    f->server = rpc_server_new(&server, &err);
    assert_non_null(f->server);
    assert_int_equal(rpc_server_add(f->server, &gradus__v1__parameter_server__descriptor, methods,
                                    sizeof methods / sizeof methods[0], f, &err),
                     0);
    assert_int_equal(rpc_server_bind(f->server, &err), 0);
    assert_int_equal(rpc_server_start(f->server, &err), 0);
    f->loop = loop_new(0);
    assert_int_equal(loop_start(f->loop, "job", &err), 0);
    const char *addresses[SHARDS] = {rpc_server_address(f->server, 0),
                                     rpc_server_address(f->server, 0)};
    struct ps_client_options client = {
        .exchanges_max = 64,
        .gradients_max = 1,
        .job = "job-1",
        .worker = "worker-1",
        .plan = &f->plan,
        .variable_offsets = f->offsets,
        .addresses = addresses,
        .loop = f->loop,
        .answered = on_answer,
        .ctx = f,
    };
    assert_int_equal(ps_client_new(&client, &f->client, &err), 0);
}

/* The order of worker_job_free(). */
static void finish(struct fake *f)
{
    loop_stop(f->loop);
    ps_client_cancel(f->client);
    loop_join(f->loop);
    ps_client_close(f->client);
    loop_free(f->loop);
    ps_client_free(f->client);
    for (uint32_t s = 0; s < SHARDS; s++) {
        if (f->calls[s] != NULL) {
            rpc_call_unref(f->calls[s]);
        }
    }
    rpc_server_free(f->server);
    plan_release(&f->plan);
    free(f->values);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
}

/* ---- the job's thread ---- */

struct ask {
    struct fake *f;
    struct ps_client_request request;
};

static void run_ask(void *ctx)
{
    struct ask *a = ctx;
    a->request.values = a->request.ask.has_pull ? a->f->values : NULL;
    ps_client_exchange(a->f->client, &a->request);
}

/* And the server has heard of it. */
static void ask(struct fake *f, uint64_t number, uint32_t shard, bool pull, bool early)
{
    struct ask a = {f,
                    {.exchange = number,
                     .shard = shard,
                     .generation = 1,
                     .ask = {.kind = EXCHANGE_TRAIN, .idle = !pull, .has_pull = pull},
                     .early = early}};
    assert_int_equal(loop_call(f->loop, run_ask, &a, NULL), 0);
    pthread_mutex_lock(&f->lock);
    while (f->asked[shard] != number) {
        pthread_cond_wait(&f->changed, &f->lock);
    }
    pthread_mutex_unlock(&f->lock);
}

struct query {
    struct fake *f;
    size_t variable;
    bool answer;
};

static void run_has(void *ctx)
{
    struct query *q = ctx;
    q->answer = ps_client_has_values(q->f->client, q->f->values, q->variable);
}

static bool has(struct fake *f, size_t variable)
{
    struct query q = {f, variable, false};
    assert_int_equal(loop_call(f->loop, run_has, &q, NULL), 0);
    return q.answer;
}

static void run_wait(void *ctx)
{
    struct query *q = ctx;
    struct err err = {0};
    int code = ps_client_wait_values(q->f->client, q->f->values, q->variable, &err);
    pthread_mutex_lock(&q->f->lock);
    q->f->waited = true;
    q->f->code = code;
    q->f->err = err;
    pthread_cond_broadcast(&q->f->changed);
    pthread_mutex_unlock(&q->f->lock);
    free(q);
}

/* Have the job's thread wait for it, beside what the test does next. */
static void wait_begin(struct fake *f, size_t variable)
{
    struct query *q = mem_new(1, sizeof *q);
    *q = (struct query){f, variable, false};
    f->waited = false;
    assert_int_equal(loop_post(f->loop, run_wait, q, NULL), 0);
}

static int wait_end(struct fake *f)
{
    pthread_mutex_lock(&f->lock);
    while (!f->waited) {
        pthread_cond_wait(&f->changed, &f->lock);
    }
    int code = f->code;
    pthread_mutex_unlock(&f->lock);
    return code;
}

static int wait_for(struct fake *f, size_t variable)
{
    wait_begin(f, variable);
    return wait_end(f);
}

/* ---- answers ---- */

static float value_of(uint32_t shard, uint64_t i, float mark)
{
    return mark + (float)(shard * 1000000 + i);
}

static void respond(struct fake *f, const Gradus__V1__ExchangeResponse *m, uint32_t shard,
                    const struct rpc_blob *blob)
{
    pthread_mutex_lock(&f->lock);
    struct rpc_call *call = f->calls[shard];
    pthread_mutex_unlock(&f->lock);
    assert_int_equal(rpc_send(call, &m->base, blob), 0);
}

static void send_version(struct fake *f, uint64_t number, uint32_t shard, uint64_t first,
                         uint64_t count, float mark, uint64_t version)
{
    static float part[VARIABLES * PART];
    for (uint64_t i = 0; i < count; i++) {
        part[i] = value_of(shard, first + i, mark);
    }
    struct rpc_piece piece = {part, count * sizeof(float)};
    struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    Gradus__V1__ExchangeResponse m = GRADUS__V1__EXCHANGE_RESPONSE__INIT;
    Gradus__V1__Trained trained = GRADUS__V1__TRAINED__INIT;
    m.answer_case = GRADUS__V1__EXCHANGE_RESPONSE__ANSWER_TRAINED;
    m.trained = &trained;
    m.exchange = number;
    m.version = version;
    trained.progress = 3;
    m.total = VARIABLES * PART;
    m.offset = first;
    respond(f, &m, shard, &blob);
}

static void send_part(struct fake *f, uint64_t number, uint32_t shard, uint64_t first,
                      uint64_t count, float mark)
{
    send_version(f, number, shard, first, count, mark, VERSION);
}

static void wait_answered(struct fake *f, size_t count)
{
    pthread_mutex_lock(&f->lock);
    while (f->answered < count) {
        pthread_cond_wait(&f->changed, &f->lock);
    }
    assert_int_equal(f->answered, count);
    pthread_mutex_unlock(&f->lock);
}

/* What the shard sent before has been taken when this is answered: nothing else was. */
static void after_all_that(struct fake *f, uint64_t number, uint32_t shard)
{
    size_t before = f->answered;
    ask(f, number, shard, false, false);
    Gradus__V1__ExchangeResponse m = GRADUS__V1__EXCHANGE_RESPONSE__INIT;
    Gradus__V1__Trained trained = GRADUS__V1__TRAINED__INIT;
    m.answer_case = GRADUS__V1__EXCHANGE_RESPONSE__ANSWER_TRAINED;
    m.trained = &trained;
    m.exchange = number;
    respond(f, &m, shard, NULL);
    wait_answered(f, before + 1);
    assert_int_equal(f->answers[before].exchange, number);
}

/* Elements [first, first + count) of @shard in the flat array are those that were sent, or all of
 * them are @mark when it is 0. */
static void check_landed(const struct fake *f, uint32_t shard, uint64_t first, uint64_t count,
                         float mark)
{
    for (uint64_t i = first; i < first + count; i++) {
        float expected = mark == 0 ? 0 : value_of(shard, i, mark);
        assert_true(f->values[i / PART * COUNT + shard * PART + i % PART] == expected);
    }
}

/* An early pull of @shard whose first message, with one variable and a bit, was answered. */
#define FIRST (PART + 5)
static void begin(struct fake *f, uint64_t number, uint32_t shard)
{
    size_t before = f->answered;
    ask(f, number, shard, true, true);
    send_part(f, number, shard, 0, FIRST, 1);
    wait_answered(f, before + 1);
    assert_int_equal(f->answers[before].exchange, number);
    assert_int_equal(f->answers[before].code, 0);
    assert_int_equal(f->answers[before].version, VERSION);
    assert_int_equal(f->answers[before].answer.train.progress, 3);
    assert_true(f->answers[before].partial);
}

static void send_rest(struct fake *f, uint64_t number, uint32_t shard, float mark)
{
    send_part(f, number, shard, FIRST, VARIABLES * PART - FIRST, mark);
}

/* ---- tests ---- */

static void test_the_first_variable_does_not_wait_for_the_last(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    begin(&f, 1, 0);
    assert_true(has(&f, 0));
    assert_false(has(&f, 1));
    assert_int_equal(wait_for(&f, 0), 0);
    check_landed(&f, 0, 0, PART, 1);
    wait_begin(&f, 1);
    send_part(&f, 1, 0, FIRST, PART, 1);
    assert_int_equal(wait_end(&f), 0);
    assert_false(has(&f, 2));
    check_landed(&f, 0, 0, 2 * PART, 1);
    wait_begin(&f, 2);
    send_part(&f, 1, 0, FIRST + PART, VARIABLES * PART - FIRST - PART, 1);
    assert_int_equal(wait_end(&f), 0);
    check_landed(&f, 0, 0, VARIABLES * PART, 1);
    after_all_that(&f, 2, 0); /* and the tail brought no answer of its own */
    finish(&f);
}

static void test_who_does_not_ask_for_it_waits_for_all(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    ask(&f, 1, 0, true, false);
    send_part(&f, 1, 0, 0, FIRST, 1);
    after_all_that(&f, 2, 0);
    send_rest(&f, 1, 0, 1);
    wait_answered(&f, 2);
    assert_int_equal(f.answers[1].exchange, 1);
    assert_true(has(&f, 2));
    check_landed(&f, 0, 0, VARIABLES * PART, 1);
    finish(&f);
}

static void test_an_answer_in_one_message_is_there(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    ask(&f, 1, 0, true, true);
    send_part(&f, 1, 0, 0, VARIABLES * PART, 1);
    wait_answered(&f, 1);
    assert_false(f.answers[0].partial);
    assert_true(has(&f, 2));
    assert_int_equal(wait_for(&f, 2), 0);
    finish(&f);
}

/* Nothing could begin with a part of the first variable; and a few last values are soon there. */
static void test_too_little_is_no_reason(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    ask(&f, 1, 0, true, true);
    send_part(&f, 1, 0, 0, PART - 1, 1);
    after_all_that(&f, 2, 0);
    send_part(&f, 1, 0, PART - 1, VARIABLES * PART - 10 - (PART - 1), 1);
    after_all_that(&f, 3, 0);
    send_part(&f, 1, 0, VARIABLES * PART - 10, 10, 1);
    wait_answered(&f, 3);
    assert_int_equal(f.answers[2].exchange, 1);
    assert_false(f.answers[2].partial);
    check_landed(&f, 0, 0, VARIABLES * PART, 1);
    finish(&f);
}

static void test_every_shard_is_waited_for(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    begin(&f, 1, 0);
    begin(&f, 2, 1);
    send_rest(&f, 1, 0, 1);
    after_all_that(&f, 3, 0);
    assert_true(has(&f, 0));
    assert_false(has(&f, 1));
    wait_begin(&f, 2);
    send_rest(&f, 2, 1, 1);
    assert_int_equal(wait_end(&f), 0);
    for (uint32_t s = 0; s < SHARDS; s++) {
        check_landed(&f, s, 0, VARIABLES * PART, 1);
    }
    finish(&f);
}

static void break_stream(struct fake *f)
{
    struct err err;
    (void)err_set(&err, ERR_UNAVAILABLE, "told to break");
    (void)rpc_fail(f->calls[0], &err);
}

static void refuse(struct fake *f)
{
    Gradus__V1__ExchangeResponse m = GRADUS__V1__EXCHANGE_RESPONSE__INIT;
    char message[] = "told to refuse";
    m.exchange = 1;
    m.code = -ERR_INVALID;
    m.message = message;
    respond(f, &m, 0, NULL);
}

static void leave_a_gap(struct fake *f)
{
    send_part(f, 1, 0, FIRST + 1, 10, 1);
}

static void mix_versions(struct fake *f)
{
    send_version(f, 1, 0, FIRST, 10, 1, VERSION + 1);
}

static void cancel(struct fake *f)
{
    ps_client_cancel(f->client);
}

static void send_nothing(struct fake *f)
{
    (void)f;
}

/* Whatever befalls the tail: no second answer, and the wait ends. */
static void test_a_tail_that_fails_ends_the_wait(void **state)
{
    (void)state;
    static const struct {
        void (*what)(struct fake *f);
        const char *says;
    } cases[] = {
        {break_stream, "told to break"},
        {refuse, "told to refuse"},
        {leave_a_gap, "expected"},
        {mix_versions, "mixed versions"},
        {cancel, ""},
        {send_nothing, "and then nothing"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fake f;
        start(&f);
        begin(&f, 1, 0);
        wait_begin(&f, 1);
        cases[i].what(&f);
        assert_int_equal(wait_end(&f), ERR_UNAVAILABLE);
        assert_non_null(strstr(f.err.msg, "shard 0"));
        assert_non_null(strstr(f.err.msg, cases[i].says));
        assert_int_equal(f.answered, 1);
        assert_true(has(&f, 0)); /* which came */
        assert_int_equal(wait_for(&f, 2), ERR_UNAVAILABLE);
        finish(&f);
    }
}

static void test_what_was_lost_is_pulled_anew(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    begin(&f, 1, 0);
    break_stream(&f);
    assert_int_equal(wait_for(&f, 1), ERR_UNAVAILABLE);
    ask(&f, 2, 0, true, false);
    assert_true(
        has(&f, 1)); /* nothing is known to be missing: the answer will say when it is there */
    send_part(&f, 2, 0, 0, FIRST, 2);
    send_rest(&f, 2, 0, 2);
    wait_answered(&f, 2);
    check_landed(&f, 0, 0, VARIABLES * PART, 2);
    begin(&f, 3, 0); /* and the next one is early again */
    assert_false(has(&f, 1));
    send_rest(&f, 3, 0, 1);
    assert_int_equal(wait_for(&f, 2), 0);
    check_landed(&f, 0, 0, VARIABLES * PART, 1);
    finish(&f);
}

/* The rest of an answer that nobody wants any more touches nothing. */
static void test_a_new_pull_detaches_the_tail(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    begin(&f, 1, 0);
    ask(&f, 2, 0, true, true);
    send_rest(&f, 1, 0, 1);
    after_all_that(&f, 3, 0);
    check_landed(&f, 0, FIRST, VARIABLES * PART - FIRST, 0);
    send_part(&f, 2, 0, 0, FIRST, 2);
    wait_answered(&f, 3);
    assert_int_equal(f.answers[2].exchange, 2);
    assert_false(has(&f, 1));
    send_rest(&f, 2, 0, 2);
    assert_int_equal(wait_for(&f, 2), 0);
    check_landed(&f, 0, 0, VARIABLES * PART, 2);
    finish(&f);
}

/* It may be going wrong, too. */
static void test_a_detached_tail_fails_alone(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    begin(&f, 1, 0);
    ask(&f, 2, 0, true, true);
    leave_a_gap(&f);
    send_part(&f, 2, 0, 0, FIRST, 2);
    wait_answered(&f, 2);
    assert_int_equal(f.answers[1].exchange, 2);
    assert_int_equal(f.answers[1].code, 0);
    send_rest(&f, 2, 0, 2);
    assert_int_equal(wait_for(&f, 2), 0);
    check_landed(&f, 0, 0, VARIABLES * PART, 2);
    finish(&f);
}

/* Tails that are detached while they land: the array is never written to behind the next pull. */
static void test_detaching_waits_for_what_is_landing(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    begin(&f, 1, 0);
    for (uint64_t n = 1; n < 200; n++) {
        send_rest(&f, n, 0, 1);
        ask(&f, n + 1, 0, true, true);
        if (n % 2 == 0) {
            memset(f.values, 0, FLAT_COUNT * sizeof(float)); /* it is the job's thread's alone */
        }
        size_t before = f.answered;
        send_part(&f, n + 1, 0, 0, FIRST, 1);
        wait_answered(&f, before + 1);
        if (before + 1 == ANSWERS_MAX) {
            f.answered = 0;
        }
    }
    send_rest(&f, 200, 0, 1);
    assert_int_equal(wait_for(&f, 2), 0);
    check_landed(&f, 0, 0, VARIABLES * PART, 1);
    finish(&f);
}

static void test_closing_with_a_tail_on_its_way(void **state)
{
    (void)state;
    struct fake f;
    start(&f);
    begin(&f, 1, 0);
    begin(&f, 2, 1);
    finish(&f);
}

/* 1 s; four times as long as for the message before; 10 s. */
static void test_the_patience_follows_the_network(void **state)
{
    (void)state;
    const uint64_t ms = 1000000;
    assert_int_equal(ps_client_patience_ns(0), 1000 * ms);
    assert_int_equal(ps_client_patience_ns(250 * ms), 1000 * ms);
    assert_int_equal(ps_client_patience_ns(300 * ms), 1200 * ms);
    assert_int_equal(ps_client_patience_ns(2500 * ms), 10000 * ms);
    assert_int_equal(ps_client_patience_ns(3600000 * ms), 10000 * ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_variable_does_not_wait_for_the_last),
        cmocka_unit_test(test_who_does_not_ask_for_it_waits_for_all),
        cmocka_unit_test(test_an_answer_in_one_message_is_there),
        cmocka_unit_test(test_too_little_is_no_reason),
        cmocka_unit_test(test_every_shard_is_waited_for),
        cmocka_unit_test(test_a_tail_that_fails_ends_the_wait),
        cmocka_unit_test(test_what_was_lost_is_pulled_anew),
        cmocka_unit_test(test_a_new_pull_detaches_the_tail),
        cmocka_unit_test(test_a_detached_tail_fails_alone),
        cmocka_unit_test(test_detaching_waits_for_what_is_landing),
        cmocka_unit_test(test_closing_with_a_tail_on_its_way),
        cmocka_unit_test(test_the_patience_follows_the_network),
    };
    rpc_init();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return failed;
}
