/* SPDX-License-Identifier: Apache-2.0 */
/* The parameter server of the tests of early answers. */
#include "ps_client_early_rig.h"

#include "support/wait_until.h"

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

void early_start(struct fake *f)
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
    const struct ps_client_place place = {.address = rpc_server_address(f->server, 0)};
    struct ps_client_options client = {
        .exchanges_max = 64,
        .gradients_max = 1,
        .job = "job-1",
        .worker = "worker-1",
        .plan = &f->plan,
        .variable_offsets = f->offsets,
        .loop = f->loop,
        .answered = on_answer,
        .ctx = f,
    };
    assert_int_equal(ps_client_new(&client, &f->client, &err), 0);
    for (uint32_t s = 0; s < SHARDS; s++) {
        assert_int_equal(ps_client_place(f->client, s, &place, &err), 0);
    }
}

/* The order of worker_job_free(). */
void early_finish(struct fake *f)
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

static void run_ask(void *ctx)
{
    struct ask *a = ctx;
    a->request.values = a->request.ask.has_pull ? a->f->values : NULL;
    ps_client_exchange(a->f->client, &a->request);
}

/* And the server has heard of it. */
void early_ask(struct fake *f, uint64_t number, uint32_t shard, bool pull, bool early)
{
    struct ask a = {f,
                    {.exchange = number,
                     .shard = shard,
                     .generation = 1,
                     .ask = {.kind = EXCHANGE_TRAIN, .idle = !pull, .has_pull = pull},
                     .early = early}};
    assert_int_equal(loop_call(f->loop, run_ask, &a, NULL), 0);
    pthread_mutex_lock(&f->lock);
    wait_until_signalled(f->asked[shard] == number, &f->changed, &f->lock);
    pthread_mutex_unlock(&f->lock);
}

static void run_has(void *ctx)
{
    struct query *q = ctx;
    q->answer = ps_client_has_values(q->f->client, q->f->values, q->variable);
}

bool early_has(struct fake *f, size_t variable)
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
void early_wait_begin(struct fake *f, size_t variable)
{
    struct query *q = mem_new(1, sizeof *q);
    *q = (struct query){f, variable, false};
    f->waited = false;
    assert_int_equal(loop_post(f->loop, run_wait, q, NULL), 0);
}

int early_wait_end(struct fake *f)
{
    pthread_mutex_lock(&f->lock);
    wait_until_signalled(f->waited, &f->changed, &f->lock);
    int code = f->code;
    pthread_mutex_unlock(&f->lock);
    return code;
}

int early_wait_for(struct fake *f, size_t variable)
{
    early_wait_begin(f, variable);
    return early_wait_end(f);
}

static float value_of(uint32_t shard, uint64_t i, float mark)
{
    return mark + (float)(shard * 1000000 + i);
}

void early_respond(struct fake *f, const Gradus__V1__ExchangeResponse *m, uint32_t shard,
                   const struct rpc_blob *blob)
{
    pthread_mutex_lock(&f->lock);
    struct rpc_call *call = f->calls[shard];
    pthread_mutex_unlock(&f->lock);
    assert_int_equal(rpc_send(call, &m->base, blob), 0);
}

void early_send_version(struct fake *f, uint64_t number, uint32_t shard, uint64_t first,
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
    early_respond(f, &m, shard, &blob);
}

void early_send_part(struct fake *f, uint64_t number, uint32_t shard, uint64_t first,
                     uint64_t count, float mark)
{
    early_send_version(f, number, shard, first, count, mark, VERSION);
}

void early_wait_answered(struct fake *f, size_t count)
{
    pthread_mutex_lock(&f->lock);
    wait_until_signalled(f->answered >= count, &f->changed, &f->lock);
    assert_int_equal(f->answered, count);
    pthread_mutex_unlock(&f->lock);
}

/* What the shard sent before has been taken when this is answered: nothing else was. */
void early_after_all_that(struct fake *f, uint64_t number, uint32_t shard)
{
    size_t before = f->answered;
    early_ask(f, number, shard, false, false);
    Gradus__V1__ExchangeResponse m = GRADUS__V1__EXCHANGE_RESPONSE__INIT;
    Gradus__V1__Trained trained = GRADUS__V1__TRAINED__INIT;
    m.answer_case = GRADUS__V1__EXCHANGE_RESPONSE__ANSWER_TRAINED;
    m.trained = &trained;
    m.exchange = number;
    early_respond(f, &m, shard, NULL);
    early_wait_answered(f, before + 1);
    assert_int_equal(f->answers[before].exchange, number);
}

/* Elements [first, first + count) of @shard in the flat array are those that were sent, or all of
 * them are @mark when it is 0. */
void early_check_landed(const struct fake *f, uint32_t shard, uint64_t first, uint64_t count,
                        float mark)
{
    for (uint64_t i = first; i < first + count; i++) {
        float expected = mark == 0 ? 0 : value_of(shard, i, mark);
        assert_true(f->values[i / PART * COUNT + shard * PART + i % PART] == expected);
    }
}

void early_begin(struct fake *f, uint64_t number, uint32_t shard)
{
    size_t before = f->answered;
    early_ask(f, number, shard, true, true);
    early_send_part(f, number, shard, 0, FIRST, 1);
    early_wait_answered(f, before + 1);
    assert_int_equal(f->answers[before].exchange, number);
    assert_int_equal(f->answers[before].code, 0);
    assert_int_equal(f->answers[before].version, VERSION);
    assert_int_equal(f->answers[before].answer.train.progress, 3);
    assert_true(f->answers[before].partial);
}

void early_send_rest(struct fake *f, uint64_t number, uint32_t shard, float mark)
{
    early_send_part(f, number, shard, FIRST, VARIABLES * PART - FIRST, mark);
}
