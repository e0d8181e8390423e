/* The worker's side of the data plane against a server that does what it is told, right or wrong.
 */
#include "support/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "gradus/v1/ps.pb-c.h"
#include "rpc/rpc.h"
#include "tensor/shape.h"
#include "worker/ps_client.h"

#define SHARDS 2
#define VALUES_FIELD 15
#define ANSWERS_MAX 64
#define ANSWER_CHUNK 100001 /* elements; no divisor of anything here */
#define ROWS 701
#define COLUMNS 1000
#define BIASES 7
#define BIAS_AT (ROWS * COLUMNS + 13) /* in the flat arrays, behind padding */
#define FLAT_COUNT (BIAS_AT + BIASES)

enum script {
    SCRIPT_RIGHT,
    SCRIPT_REFUSE,      /* with `code` */
    SCRIPT_BREAK,       /* the stream ends instead of an answer */
    SCRIPT_NO_VALUES,   /* well, but nothing comes */
    SCRIPT_TOTAL,       /* of another shard */
    SCRIPT_GAP,         /* a chunk is left out */
    SCRIPT_TOO_MANY,    /* more than the total */
    SCRIPT_RAGGED,      /* half a float */
    SCRIPT_OTHER_FIRST, /* an answer that nobody asked for comes first */
    SCRIPT_UNREAD,      /* the stream is not read any more */
};

struct fake {
    struct rpc_server *server;
    struct plan plan;
    struct ps_client *client;
    struct loop *loop;
    uint64_t offsets[2];
    float *gradient, *values; /* flat */

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    enum script script;
    int32_t code;
    float *shards[SHARDS]; /* pushed last, pulled next */
    uint64_t pushed[SHARDS];
    unsigned streams;
    struct ps_answer answers[ANSWERS_MAX];
    size_t answered;
};

/* ---- the server ---- */

static void send_values(struct fake *f, struct rpc_call *call, Gradus__V1__ExchangeResponse *m,
                        uint32_t shard)
{
    uint64_t elements = f->plan.shard_elements[shard];
    m->total = f->script == SCRIPT_TOTAL ? elements - 1 : elements;
    for (uint64_t at = 0; at < elements; at += ANSWER_CHUNK) {
        uint64_t n = elements - at < ANSWER_CHUNK ? elements - at : ANSWER_CHUNK;
        struct rpc_piece piece = {f->shards[shard] + at, n * sizeof(float)};
        struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
        if (f->script == SCRIPT_GAP && at == ANSWER_CHUNK) {
            continue;
        }
        if (f->script == SCRIPT_RAGGED) {
            piece.bytes -= 2;
        }
        m->offset = at;
        assert_int_equal(rpc_send(call, &m->base, &blob), 0);
    }
}

/* The answer to an exchange that has come in whole. */
static void serve(struct fake *f, struct rpc_call *call, const Gradus__V1__ExchangeRequest *q,
                  uint32_t shard, bool pull)
{
    Gradus__V1__ExchangeResponse m = GRADUS__V1__EXCHANGE_RESPONSE__INIT;
    char message[] = "told to refuse";
    m.exchange = q->exchange;
    m.version = 40 + shard;
    m.progress = 3;
    switch (f->script) {
    case SCRIPT_REFUSE:
        m.code = f->code;
        m.message = message;
        (void)rpc_send(call, &m.base, NULL);
        return;
    case SCRIPT_BREAK: {
        struct err err;
        (void)err_set(&err, ERR_UNAVAILABLE, "told to break");
        (void)rpc_fail(call, &err);
        return;
    }
    case SCRIPT_UNREAD:
        rpc_pause(call);
        return;
    case SCRIPT_NO_VALUES:
        (void)rpc_send(call, &m.base, NULL);
        return;
    case SCRIPT_OTHER_FIRST:
        m.exchange = q->exchange + 1000;
        (void)rpc_send(call, &m.base, NULL);
        m.exchange = q->exchange;
        break;
    case SCRIPT_TOO_MANY: {
        struct rpc_piece piece = {f->shards[shard], sizeof(float)};
        struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
        m.total = f->plan.shard_elements[shard];
        m.offset = 0;
        piece.bytes = (m.total + 1) * sizeof(float);
        (void)rpc_send(call, &m.base, &blob);
        return;
    }
    default:
        break;
    }
    if (pull) {
        send_values(f, call, &m, shard);
    } else {
        (void)rpc_send(call, &m.base, NULL);
    }
}

/* The client sends one exchange after the other, so the first message of one says what the rest
 * belongs to: the shard, and whether it pulls, are kept at the call. */
struct incoming {
    uint32_t shard;
    bool pull;
};

static void on_exchange(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct fake *f = service;
    const Gradus__V1__ExchangeRequest *q = (const Gradus__V1__ExchangeRequest *)msg->body;
    struct incoming *in = rpc_data(call);
    pthread_mutex_lock(&f->lock);
    if (q->shard != NULL) {
        in->shard = q->shard->shard;
        in->pull = q->pull != NULL;
        f->pushed[in->shard] = 0;
    }
    uint64_t n = rpc_spans_bytes(msg->bulk) / sizeof(float);
    assert_int_equal(q->offset, f->pushed[in->shard]);
    assert_true(n <= f->plan.shard_elements[in->shard] - q->offset);
    assert_true(rpc_spans_read_floats(msg->bulk, f->shards[in->shard] + q->offset, n));
    f->pushed[in->shard] += n;
    if (f->pushed[in->shard] == q->total || f->script == SCRIPT_UNREAD) {
        serve(f, call, q, in->shard, in->pull);
    }
    pthread_mutex_unlock(&f->lock);
}

static void on_open(struct rpc_call *call, void *service)
{
    struct fake *f = service;
    rpc_set_data(call, mem_new(1, sizeof(struct incoming)));
    pthread_mutex_lock(&f->lock);
    f->streams++;
    pthread_mutex_unlock(&f->lock);
}

static void on_over(struct rpc_call *call, bool cancelled, void *service)
{
    (void)cancelled;
    (void)service;
    free(rpc_data(call));
}

static void not_served(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    (void)msg;
    (void)service;
    struct err err;
    (void)err_set(&err, ERR_UNSUPPORTED, "not served");
    (void)rpc_fail(call, &err);
}

static const struct rpc_method methods[] = {
    {.name = "OpenShard", .request = not_served},
    {.name = "SetMembership", .request = not_served},
    {.name = "Pull", .request = not_served},
    {.name = "Push", .request = not_served},
    {.name = "PushPull", .request = not_served},
    {.name = "Exchange",
     .open = on_open,
     .request = on_exchange,
     .done = on_over,
     .request_bulk = VALUES_FIELD,
     .response_bulk = VALUES_FIELD},
    {.name = "Pin", .request = not_served},
    {.name = "Unpin", .request = not_served},
    {.name = "Checkpoint", .request = not_served},
    {.name = "CloseShard", .request = not_served},
    {.name = "Stats", .request = not_served},
};

/* ---- set-up ---- */

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
    struct variable_spec variables[2] = {0};
    text_copy(variables[0].name, sizeof variables[0].name, "kernel");
    variables[0].shape = (struct shape){.rank = 2, .dims = {ROWS, COLUMNS}};
    text_copy(variables[1].name, sizeof variables[1].name, "bias");
    variables[1].shape = (struct shape){.rank = 1, .dims = {BIASES}};
    struct cluster_spec cluster = {
        .ps = SHARDS, .workers = {1, 1}, .partitioner = PARTITIONER_FIXED, .partitions = 3};
    assert_int_equal(plan_make(variables, 2, &cluster, &f->plan, NULL), 0);
    f->offsets[0] = 0;
    f->offsets[1] = BIAS_AT;
}

static void start(struct fake *f, size_t message_bytes_max)
{
    struct err err = {0};
    *f = (struct fake){.script = SCRIPT_RIGHT};
    pthread_mutex_init(&f->lock, NULL);
    pthread_cond_init(&f->changed, NULL);
    make_plan(f);
    for (uint32_t s = 0; s < SHARDS; s++) {
        f->shards[s] = mem_new(f->plan.shard_elements[s] + 1, sizeof(float));
    }
    f->gradient = mem_new(FLAT_COUNT, sizeof(float));
    f->values = mem_new(FLAT_COUNT, sizeof(float));
    for (size_t i = 0; i < FLAT_COUNT; i++) {
        f->gradient[i] = (float)i;
    }
    const char *listen = "127.0.0.1:0";
    struct rpc_server_options options = {.addresses = &listen, .address_count = 1};
    f->server = rpc_server_new(&options, &err);
    assert_non_null(f->server);
    assert_int_equal(rpc_server_add(f->server, &gradus__v1__parameter_server__descriptor, methods,
                                    sizeof methods / sizeof methods[0], f, &err),
                     0);
    assert_int_equal(rpc_server_start(f->server, &err), 0);
    f->loop = loop_new(0);
    assert_int_equal(loop_start(f->loop, "job", &err), 0);
    const char *addresses[SHARDS] = {rpc_server_address(f->server, 0),
                                     rpc_server_address(f->server, 0)};
    struct ps_client_options client = {
        .job = "job-1",
        .worker = "worker-1",
        .plan = &f->plan,
        .variable_offsets = f->offsets,
        .addresses = addresses,
        .message_bytes_max = message_bytes_max,
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
    ps_client_wait_sent(f->client, f->gradient);
    free(f->gradient); /* nobody reads it any more */
    loop_free(f->loop);
    ps_client_free(f->client);
    rpc_server_free(f->server);
    free(f->values);
    for (uint32_t s = 0; s < SHARDS; s++) {
        free(f->shards[s]);
    }
    plan_release(&f->plan);
    pthread_cond_destroy(&f->changed);
    pthread_mutex_destroy(&f->lock);
}

/* ---- exchanges ---- */

struct ask {
    struct fake *f;
    struct worker_action action;
};

static void run_ask(void *ctx)
{
    struct ask *a = ctx;
    struct fake *f = a->f;
    ps_client_exchange(f->client, &a->action, a->action.pull != WORKER_PULL_NONE ? f->values : NULL,
                       a->action.push ? f->gradient : NULL);
}

static void exchange(struct fake *f, uint64_t number, uint32_t shard, bool push, bool pull)
{
    struct ask ask = {
        .f = f,
        .action = {.kind = WORKER_DO_EXCHANGE,
                   .exchange = number,
                   .shard = shard,
                   .generation = 1,
                   .push = push,
                   .pull = pull ? WORKER_PULL_LATEST : WORKER_PULL_NONE,
                   .examples = push ? 1 : 0},
    };
    assert_int_equal(loop_call(f->loop, run_ask, &ask, NULL), 0);
}

static void set_script(struct fake *f, enum script script)
{
    pthread_mutex_lock(&f->lock);
    f->script = script;
    pthread_mutex_unlock(&f->lock);
}

/* The answer to exchange @number, which must be the next one. */
static struct ps_answer next_answer(struct fake *f, uint64_t number)
{
    pthread_mutex_lock(&f->lock);
    while (f->answered == 0) {
        pthread_cond_wait(&f->changed, &f->lock);
    }
    struct ps_answer answer = f->answers[0];
    f->answered--;
    memmove(f->answers, f->answers + 1, f->answered * sizeof answer);
    pthread_mutex_unlock(&f->lock);
    assert_int_equal(answer.exchange, number);
    return answer;
}

static void test_values_go_and_come(void **state)
{
    (void)state;
    struct fake f;
    start(&f, 0);
    f.values[BIAS_AT - 1] = -1; /* padding */
    for (uint32_t s = 0; s < SHARDS; s++) {
        exchange(&f, 10 + s, s, true, true);
        struct ps_answer a = next_answer(&f, 10 + s);
        assert_int_equal(a.code, 0);
        assert_int_equal(a.version, 40 + s);
        assert_int_equal(a.progress, 3);
    }
    for (uint32_t s = 0; s < SHARDS; s++) {
        size_t count;
        const struct partition *parts = plan_shard(&f.plan, s, &count);
        for (size_t i = 0; i < count; i++) {
            uint64_t flat = f.offsets[parts[i].variable] + parts[i].first;
            assert_memory_equal(f.shards[s] + parts[i].offset, f.gradient + flat,
                                parts[i].count * sizeof(float));
        }
    }
    assert_memory_equal(f.values, f.gradient, (size_t)ROWS * COLUMNS * sizeof(float));
    assert_memory_equal(f.values + BIAS_AT, f.gradient + BIAS_AT, BIASES * sizeof(float));
    assert_true(f.values[BIAS_AT - 1] == -1);
    exchange(&f, 20, 0, false, true); /* a pull alone, and a push alone */
    assert_int_equal(next_answer(&f, 20).code, 0);
    exchange(&f, 21, 1, true, false);
    assert_int_equal(next_answer(&f, 21).code, 0);
    assert_int_equal(f.streams, SHARDS);
    finish(&f);
}

static void test_a_refusal_ends_one_exchange(void **state)
{
    (void)state;
    static const struct {
        int32_t sent;
        int code;
    } cases[] = {{10, ERR_ABORTED}, {9, ERR_STATE},           {16, ERR_UNAUTHENTICATED},
                 {99, ERR_UNKNOWN}, {INT32_MIN, ERR_UNKNOWN}, {-5, ERR_UNKNOWN}};
    struct fake f;
    start(&f, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pthread_mutex_lock(&f.lock);
        f.script = SCRIPT_REFUSE;
        f.code = cases[i].sent;
        pthread_mutex_unlock(&f.lock);
        exchange(&f, i, 0, true, true);
        struct ps_answer a = next_answer(&f, i);
        assert_int_equal(a.code, cases[i].code);
        assert_string_equal(a.message, "shard 0: told to refuse");
    }
    set_script(&f, SCRIPT_RIGHT);
    exchange(&f, 100, 0, true, true);
    assert_int_equal(next_answer(&f, 100).code, 0);
    assert_int_equal(f.streams, 1);
    finish(&f);
}

static void test_a_broken_stream_is_opened_again(void **state)
{
    (void)state;
    struct fake f;
    start(&f, 0);
    for (uint64_t i = 0; i < 5; i++) {
        set_script(&f, SCRIPT_BREAK);
        exchange(&f, 2 * i, 1, i % 2 == 0, true);
        assert_int_equal(next_answer(&f, 2 * i).code, ERR_UNAVAILABLE);
        set_script(&f, SCRIPT_RIGHT);
        exchange(&f, 2 * i + 1, 1, true, true);
        assert_int_equal(next_answer(&f, 2 * i + 1).code, 0);
    }
    assert_int_equal(f.streams, 6);
    finish(&f);
}

static void test_a_server_that_is_gone(void **state)
{
    (void)state;
    struct fake f;
    start(&f, 0);
    rpc_server_stop(f.server);
    exchange(&f, 1, 0, true, true);
    assert_int_equal(next_answer(&f, 1).code, ERR_UNAVAILABLE);
    exchange(&f, 2, 0, false, true);
    assert_int_equal(next_answer(&f, 2).code, ERR_UNAVAILABLE);
    finish(&f);
}

static void test_answers_that_cannot_be_right(void **state)
{
    (void)state;
    static const enum script scripts[] = {SCRIPT_NO_VALUES, SCRIPT_TOTAL, SCRIPT_GAP,
                                          SCRIPT_TOO_MANY, SCRIPT_RAGGED};
    struct fake f;
    start(&f, 0);
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        set_script(&f, scripts[i]);
        exchange(&f, i, 0, false, true);
        struct ps_answer a = next_answer(&f, i);
        assert_int_equal(a.code, ERR_INTERNAL);
        assert_non_null(strstr(a.message, "shard 0 answered elements"));
    }
    set_script(&f, SCRIPT_OTHER_FIRST);
    exchange(&f, 50, 0, false, true);
    assert_int_equal(next_answer(&f, 50).code, 0);
    finish(&f);
}

static void test_more_exchanges_than_there_is_room_for(void **state)
{
    (void)state;
    struct fake f;
    start(&f, 0);
    set_script(&f, SCRIPT_UNREAD);
    for (uint64_t i = 0; i < PS_CLIENT_EXCHANGES_MAX; i++) {
        exchange(&f, i, 0, false, true);
    }
    exchange(&f, 1000, 0, false, true);
    assert_int_equal(next_answer(&f, 1000).code, ERR_EXHAUSTED);
    finish(&f);
}

/* The job's thread waits in ps_client_exchange() for a server that reads no more; the close of the
 * job ends that, and the gradient is free afterwards. */
static void post_pushes(void *ctx)
{
    struct fake *f = ctx;
    for (uint64_t i = 0; i < 32; i++) {
        struct ask ask = {
            .f = f,
            .action = {.exchange = i, .shard = 0, .generation = 1, .push = true, .examples = 1},
        };
        run_ask(&ask);
    }
}

static void test_close_while_nothing_is_read(void **state)
{
    (void)state;
    struct fake f;
    start(&f, 2U << 20);
    set_script(&f, SCRIPT_UNREAD);
    assert_int_equal(loop_post(f.loop, post_pushes, &f, NULL), 0);
    pthread_mutex_lock(&f.lock);
    while (f.pushed[0] == 0) { /* the first chunk is there; the others go nowhere */
        pthread_mutex_unlock(&f.lock);
        sched_yield();
        pthread_mutex_lock(&f.lock);
    }
    pthread_mutex_unlock(&f.lock);
    finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_go_and_come),
        cmocka_unit_test(test_a_refusal_ends_one_exchange),
        cmocka_unit_test(test_a_broken_stream_is_opened_again),
        cmocka_unit_test(test_a_server_that_is_gone),
        cmocka_unit_test(test_answers_that_cannot_be_right),
        cmocka_unit_test(test_more_exchanges_than_there_is_room_for),
        cmocka_unit_test(test_close_while_nothing_is_read),
    };
    rpc_init();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return failed;
}
