/* The worker's side of the data plane against a server that does what it is told, right or wrong.
 */
#include "support/test.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "gradus/v1/ps.pb-c.h"
#include "rpc/rpc.h"
#include "service/local_socket.h"
#include "service/windows.h"
#include "tensor/shape.h"
#include "wire/wire_values.h"
#include "worker/ps_client.h"

#define SHARDS 2
#define VALUES_FIELD 15
#define ANSWERS_MAX 64
#define ANSWER_CHUNK 100001 /* elements; no divisor of anything here */
#define ROWS 701
#define COLUMNS 1000
#define VERSION 40 /* of shard 0; shard 1 is one ahead */
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
    SCRIPT_TORN,        /* the second chunk is of another version */
    SCRIPT_OLD,         /* of the version before */
    SCRIPT_NO_SPARE,    /* no word of a spare replica */
    SCRIPT_LONG,        /* a decision that is too long */
    SCRIPT_EMPTY,       /* a decision about nobody, sums of nothing */
    SCRIPT_NO_SUMS,     /* no word of sums */
    SCRIPT_OTHER_SUMS,  /* those of another round */
    SCRIPT_OTHER_TYPE,  /* floats, whatever was asked for */
    SCRIPT_OVER,        /* of a step that is long over */
    SCRIPT_NO_WINDOWS,  /* none are opened */
    SCRIPT_WINDOW,      /* the values are in a window that was not named */
    SCRIPT_BREAK_EARLY, /* the stream ends with the first message of a push */
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
    float *shards[SHARDS];   /* pushed last, pulled next */
    uint64_t pushed[SHARDS]; /* elements of the last push */
    unsigned messages[SHARDS];
    uint64_t offset[SHARDS];           /* of the last message */
    Gradus__V1__ExchangeRequest heard; /* the last first message; its parts follow */
    Gradus__V1__Push heard_push;
    Gradus__V1__Pull heard_pull;
    uint64_t heard_step; /* of the decision, the request for a spare replica, sums or totals */
    uint32_t heard_round;
    double heard_norm; /* the last one */
    size_t heard_bytes;
    uint8_t heard_replicas[WORKER_DECISION_BYTES_MAX];
    int32_t result; /* of pushes */
    unsigned streams;
    char peer[128]; /* of the last one */
    struct ps_answer answers[ANSWERS_MAX];
    uint8_t decision[WORKER_DECISION_BYTES_MAX]; /* of the last answer */
    char sums[16];
    size_t answered;
    struct windows *windows[SHARDS];
    unsigned gradient_windows, values_windows; /* named by requests */
};

/* ---- the server ---- */

static void send_in_window(struct fake *f, struct rpc_call *call, Gradus__V1__ExchangeResponse *m,
                           uint32_t shard, uint32_t window)
{
    uint64_t elements = f->plan.shard_elements[shard];
    float *to = windows_values(f->windows[shard], window - 1);
    f->values_windows++;
    m->total = elements;
    for (uint64_t at = 0; at < elements; at += ANSWER_CHUNK) {
        m->offset = at;
        m->in_window = elements - at < ANSWER_CHUNK ? elements - at : ANSWER_CHUNK;
        memcpy(to + at, f->shards[shard] + at, m->in_window * sizeof(float));
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

/* The answer to an exchange that has come in whole. */
static void serve(struct fake *f, struct rpc_call *call, const Gradus__V1__ExchangeRequest *q,
                  uint32_t shard, bool pull, uint32_t window)
{
    Gradus__V1__ExchangeResponse m = GRADUS__V1__EXCHANGE_RESPONSE__INIT;
    char message[] = "told to refuse";
    m.exchange = q->exchange;
    m.windows_open = f->windows[shard] != NULL;
    m.version = VERSION + shard - (f->script == SCRIPT_OLD ? 1 : 0);
    m.progress = 3;
    m.staleness = 6;
    if (f->heard.push != NULL) {
        m.push = (Gradus__V1__PushResult)f->result;
    }
    static uint8_t replicas[WORKER_DECISION_BYTES_MAX + 1];
    Gradus__V1__Decision decision = GRADUS__V1__DECISION__INIT;
    Gradus__V1__SpareResponse spare = GRADUS__V1__SPARE_RESPONSE__INIT;
    decision.step = VERSION - 1;
    decision.replicas.data = replicas;
    decision.replicas.len = f->script == SCRIPT_LONG    ? sizeof replicas
                            : f->script == SCRIPT_EMPTY ? 0
                                                        : sizeof replicas - 1;
    replicas[0] = 0xA5;
    replicas[WORKER_DECISION_BYTES_MAX - 1] = 0x5A;
    m.decision = &decision; /* asked for or not */
    spare.given = true;
    spare.replica = 11;
    spare.wait_ms = 12;
    m.spare = f->script == SCRIPT_NO_SPARE ? NULL : &spare;
    Gradus__V1__Sums sums = GRADUS__V1__SUMS__INIT;
    static uint8_t parts[] = "parts";
    sums.step = f->heard_step;
    sums.round = f->heard_round + (f->script == SCRIPT_OTHER_SUMS ? 1 : 0);
    sums.known = f->script == SCRIPT_OVER;
    sums.data = (ProtobufCBinaryData){
        f->script == SCRIPT_EMPTY || f->script == SCRIPT_OVER ? 0 : sizeof parts, parts};
    m.sums = f->script == SCRIPT_NO_SUMS ? NULL : &sums;
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
    if (pull && window != 0) {
        send_in_window(f, call, &m, shard, window);
    } else if (pull && f->script == SCRIPT_WINDOW) {
        m.total = m.in_window = f->plan.shard_elements[shard];
        (void)rpc_send(call, &m.base, NULL);
    } else if (pull) {
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
    uint32_t window;
};

static void hear(struct fake *f, const Gradus__V1__ExchangeRequest *q)
{
    f->heard = *q;
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
    if (q->spare != NULL) {
        f->heard_step = q->spare->step;
    }
    if (q->sums != NULL) {
        f->heard_step = q->sums->step;
        f->heard_round = q->sums->round;
    }
    if (q->totals != NULL) {
        f->heard_step = q->totals->step;
        f->heard_round = q->totals->round;
        f->heard_bytes = q->totals->data.len;
        memcpy(f->heard_replicas, q->totals->data.data, f->heard_bytes);
    }
}

static void open_windows(struct fake *f, uint32_t shard, const Gradus__V1__Windows *m)
{
    struct err err;
    struct windows_offer offer = {.pid = m->pid,
                                  .fd = m->fd,
                                  .elements = m->elements,
                                  .gradients = m->gradients,
                                  .values = m->values};
    assert_int_equal(m->token.len, sizeof offer.token);
    memcpy(offer.token, m->token.data, sizeof offer.token);
    windows_unref(f->windows[shard]);
    assert_int_equal(windows_open(&offer, f->plan.shard_elements[shard], &f->windows[shard], &err),
                     0);
}

/* The whole push is in a window. */
static void take_window(struct fake *f, uint32_t shard, uint32_t window)
{
    uint64_t elements = f->plan.shard_elements[shard];
    struct windows *w = f->windows[shard];
    assert_non_null(w);
    assert_true(windows_hold_gradient(w, window - 1));
    memcpy(f->shards[shard], windows_gradient(w, window - 1), elements * sizeof(float));
    windows_give_gradient(w, window - 1);
    f->pushed[shard] = elements;
    f->gradient_windows++;
}

static void on_exchange(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    struct fake *f = service;
    const Gradus__V1__ExchangeRequest *q = (const Gradus__V1__ExchangeRequest *)msg->body;
    struct incoming *in = rpc_data(call);
    pthread_mutex_lock(&f->lock);
    if (q->shard != NULL) {
        in->shard = q->shard->shard;
        in->pull = q->pull != NULL;
        in->window = q->values_window;
        f->pushed[in->shard] = 0;
        f->messages[in->shard] = 0;
        hear(f, q);
        if (q->windows != NULL && f->script != SCRIPT_NO_WINDOWS) {
            open_windows(f, in->shard, q->windows);
        }
    } else {
        assert_true(q->push == NULL && q->pull == NULL && q->decision == NULL && q->spare == NULL);
        assert_true(q->sums == NULL && q->totals == NULL);
    }
    enum value_type type = (enum value_type)f->heard_push.type;
    uint64_t n = rpc_spans_bytes(msg->bulk) / value_type_bytes(type);
    assert_true(q->offset <= f->plan.shard_elements[in->shard]);
    assert_true(n <= f->plan.shard_elements[in->shard] - q->offset);
    assert_true(wire_values_read(msg->bulk, type, f->shards[in->shard] + q->offset, n));
    f->pushed[in->shard] += n;
    if (q->gradient_window != 0) {
        assert_int_equal(n, 0);
        take_window(f, in->shard, q->gradient_window);
    }
    f->messages[in->shard]++;
    f->offset[in->shard] = q->offset;
    pthread_cond_broadcast(&f->changed);
    if (f->script == SCRIPT_BREAK_EARLY) {
        struct err err;
        (void)err_set(&err, ERR_UNAVAILABLE, "told to break");
        (void)rpc_fail(call, &err);
    } else if (f->pushed[in->shard] == q->total || f->script == SCRIPT_UNREAD) {
        serve(f, call, q, in->shard, in->pull, in->window);
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
    {.name = "Trace", .request = not_served},
};

/* ---- set-up ---- */

static void on_answer(void *ctx, const struct ps_answer *answer)
{
    struct fake *f = ctx;
    pthread_mutex_lock(&f->lock);
    assert_true(f->answered < ANSWERS_MAX);
    f->answers[f->answered] = *answer;
    if (answer->has_decision) {
        assert_true(answer->decision_bytes <= WORKER_DECISION_BYTES_MAX);
        memcpy(f->decision, answer->decision, answer->decision_bytes);
        f->answers[f->answered].decision = f->decision;
    }
    if (answer->has_sums) {
        assert_true(answer->sums_bytes <= sizeof f->sums);
        memcpy(f->sums, answer->sums, answer->sums_bytes);
    }
    f->answered++;
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

/* With @local also at a socket there, whose path is put into @path. */
static void start_server(struct fake *f, const char *local, char path[LOCAL_SOCKET_BYTES])
{
    struct err err = {0};
    const char *listen = "127.0.0.1:0";
    struct rpc_server_options options = {.addresses = &listen, .address_count = 1};
    f->server = rpc_server_new(&options, &err);
    assert_non_null(f->server);
    assert_int_equal(rpc_server_add(f->server, &gradus__v1__parameter_server__descriptor, methods,
                                    sizeof methods / sizeof methods[0], f, &err),
                     0);
    assert_int_equal(rpc_server_bind(f->server, &err), 0);
    if (local != NULL) {
        assert_int_equal(local_socket_path(local, rpc_server_address(f->server, 0), path, &err), 0);
        assert_int_equal(local_socket_prepare(path, &err), 0);
        char *address = mem_printf("unix:%s", path);
        assert_int_equal(rpc_server_bind_also(f->server, address, &err), 0);
        assert_string_equal(rpc_server_address(f->server, 1), address);
        free(address);
    }
    assert_int_equal(rpc_server_start(f->server, &err), 0);
    assert_int_equal(rpc_server_bind_also(f->server, listen, &err), ERR_STATE);
}

static enum value_type gradients, parameters; /* how they travel, of the clients started next */

static void start_with(struct fake *f, size_t message_bytes_max, const char *local,
                       char path[LOCAL_SOCKET_BYTES])
{
    struct err err = {0};
    memset(f, 0, sizeof *f);
    f->result = GRADUS__V1__PUSH_RESULT__APPLIED;
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
    start_server(f, local, path);
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
        .gradients = gradients,
        .parameters = parameters,
        .local_sockets = local,
        .shared_memory = true,
        .loop = f->loop,
        .answered = on_answer,
        .ctx = f,
    };
    assert_int_equal(ps_client_new(&client, &f->client, &err), 0);
}

static void start(struct fake *f, size_t message_bytes_max)
{
    start_with(f, message_bytes_max, NULL, NULL);
}

/* The order of worker_job_free(). */
static void finish(struct fake *f)
{
    loop_stop(f->loop);
    ps_client_cancel(f->client);
    loop_join(f->loop);
    ps_client_close(f->client);
    ps_client_wait_sent(f->client, 0);
    free(f->gradient); /* nobody reads it any more */
    loop_free(f->loop);
    ps_client_free(f->client);
    rpc_server_free(f->server);
    free(f->values);
    for (uint32_t s = 0; s < SHARDS; s++) {
        free(f->shards[s]);
        windows_unref(f->windows[s]);
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
    static const double norms[] = {1.5, 2.5};
    const struct ps_payload payload = {.values =
                                           a->action.pull != WORKER_PULL_NONE ? f->values : NULL,
                                       .gradient = a->action.push ? f->gradient : NULL,
                                       .norms = norms,
                                       .norm_count = a->action.decided ? 2 : 0,
                                       .totals = "totals",
                                       .totals_bytes = a->action.totals ? 6 : 0};
    ps_client_exchange(f->client, &a->action, &payload);
}

static void carry_out(struct fake *f, const struct worker_action *action)
{
    struct ask ask = {.f = f, .action = *action};
    /* What the test read of the last exchange it read before the server writes to it again. */
    pthread_mutex_lock(&f->lock);
    pthread_mutex_unlock(&f->lock);
    ask.action.kind = WORKER_DO_EXCHANGE;
    assert_int_equal(loop_call(f->loop, run_ask, &ask, NULL), 0);
}

static void exchange(struct fake *f, uint64_t number, uint32_t shard, bool push, bool pull)
{
    const struct worker_action action = {
        .exchange = number,
        .shard = shard,
        .generation = 1,
        .push = push,
        .pull = pull ? WORKER_PULL_LATEST : WORKER_PULL_NONE,
        .examples = push ? 1 : 0,
    };
    carry_out(f, &action);
}

static void set_script(struct fake *f, enum script script)
{
    pthread_mutex_lock(&f->lock);
    f->script = script;
    pthread_mutex_unlock(&f->lock);
}

static void set_result(struct fake *f, int32_t result)
{
    pthread_mutex_lock(&f->lock);
    f->result = result;
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
    assert_true(!answer.has_decision || f->answered == 0);
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
        assert_int_equal(a.version, VERSION + s);
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

static void expect_values(struct fake *f, enum value_type type)
{
    float *expected = mem_new(FLAT_COUNT, sizeof *expected);
    memcpy(expected, f->gradient, FLAT_COUNT * sizeof *expected);
    values_round(VALUE_BF16, expected, FLAT_COUNT);
    values_round(type, expected, FLAT_COUNT);
    assert_memory_equal(f->values, expected, (size_t)ROWS * COLUMNS * sizeof(float));
    assert_memory_equal(f->values + BIAS_AT, expected + BIAS_AT, BIASES * sizeof(float));
    free(expected);
}

static void test_values_in_16_bits(void **state)
{
    (void)state;
    struct fake f;
    gradients = VALUE_BF16;
    parameters = VALUE_FP16;
    start(&f, 0);
    for (uint64_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < FLAT_COUNT; i++) {
            f.gradient[i] = (float)(i % 30011 + round) * 1.7F;
        }
        for (uint32_t s = 0; s < SHARDS; s++) {
            exchange(&f, 10 + s, s, true, true);
            assert_int_equal(next_answer(&f, 10 + s).code, 0);
            assert_int_equal(f.heard_push.type, GRADUS__V1__WIRE_TYPE__BF16);
            assert_int_equal(f.heard_pull.type, GRADUS__V1__WIRE_TYPE__FP16);
        }
        expect_values(&f, VALUE_FP16);
    }
    struct worker_action pinned = {
        .exchange = 20, .generation = 1, .pull = WORKER_PULL_PINNED, .pin_id = "p"};
    carry_out(&f, &pinned);
    assert_int_equal(next_answer(&f, 20).code, 0);
    assert_int_equal(f.heard_pull.type, GRADUS__V1__WIRE_TYPE__FP32);
    struct worker_action sum = {
        .exchange = 21, .generation = 1, .push = true, .replica_end = 2, .examples = 1};
    carry_out(&f, &sum);
    assert_int_equal(next_answer(&f, 21).code, 0);
    assert_int_equal(f.heard_push.type, GRADUS__V1__WIRE_TYPE__FP32);
    set_script(&f, SCRIPT_OTHER_TYPE);
    exchange(&f, 22, 0, false, true);
    struct ps_answer a = next_answer(&f, 22);
    assert_int_equal(a.code, ERR_INTERNAL);
    finish(&f);
    gradients = parameters = VALUE_FP32;
}

/* ---- gradients in the making ---- */

struct make {
    struct fake *f;
    size_t variable;
    uint64_t first, count;
    bool begun;
};

static void run_begin(void *ctx)
{
    struct make *m = ctx;
    struct fake *f = m->f;
    for (uint32_t s = 0; s < SHARDS; s++) {
        const struct worker_action action = {
            .kind = WORKER_DO_EXCHANGE,
            .exchange = 30 + s,
            .shard = s,
            .generation = 1,
            .push = true,
            .pull = WORKER_PULL_LATEST,
            .examples = 1,
        };
        const struct ps_payload payload = {.values = f->values, .gradient = f->gradient};
        assert_true(ps_client_begin(f->client, &action, &payload));
        assert_false(ps_client_begin(f->client, &action, &payload)); /* one at a time */
        const struct ps_payload empty = {.values = f->values};
        assert_false(ps_client_begin(f->client, &action, &empty));
    }
}

static void run_made(void *ctx)
{
    struct make *m = ctx;
    ps_client_made(m->f->client, m->variable, m->first, m->count);
}

static void run_made_all(void *ctx)
{
    struct make *m = ctx;
    ps_client_made_all(m->f->client);
}

static void begin(struct fake *f)
{
    struct make m = {.f = f};
    assert_int_equal(loop_call(f->loop, run_begin, &m, NULL), 0);
}

static void make(struct fake *f, size_t variable, uint64_t first, uint64_t count)
{
    struct make m = {.f = f, .variable = variable, .first = first, .count = count};
    assert_int_equal(loop_call(f->loop, run_made, &m, NULL), 0);
}

static void make_all(struct fake *f)
{
    struct make m = {.f = f};
    assert_int_equal(loop_call(f->loop, run_made_all, &m, NULL), 0);
}

static void wait_pushed(struct fake *f, uint32_t shard, uint64_t elements)
{
    pthread_mutex_lock(&f->lock);
    while (f->pushed[shard] < elements) {
        pthread_cond_wait(&f->changed, &f->lock);
    }
    assert_int_equal(f->pushed[shard], elements);
    pthread_mutex_unlock(&f->lock);
}

/* Both shards answer, in any order. */
static void both_answers(struct fake *f, const int codes[SHARDS])
{
    bool came[SHARDS] = {false};
    for (uint32_t i = 0; i < SHARDS; i++) {
        pthread_mutex_lock(&f->lock);
        while (f->answered == 0) {
            pthread_cond_wait(&f->changed, &f->lock);
        }
        struct ps_answer a = f->answers[0];
        f->answered--;
        memmove(f->answers, f->answers + 1, f->answered * sizeof a);
        uint64_t number = a.exchange;
        pthread_mutex_unlock(&f->lock);
        assert_true(number >= 30 && number < 30 + SHARDS && !came[number - 30]);
        came[number - 30] = true;
        assert_int_equal(a.code, codes[number - 30]);
    }
}

/* Elements of @shard that lie in rows [row, ROWS) of the kernel, or in the bias. */
static uint64_t elements_from(const struct fake *f, uint32_t shard, uint64_t row)
{
    size_t count;
    const struct partition *parts = plan_shard(&f->plan, shard, &count);
    uint64_t n = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t end = parts[i].row_first + parts[i].row_count;
        uint64_t first = parts[i].row_first > row ? parts[i].row_first : row;
        if (parts[i].variable == 1) {
            n += parts[i].count;
        } else if (first < end) {
            n += (end - first) * COLUMNS;
        }
    }
    return n;
}

/* From the end on, as far as it is worth a message; the rest when all is made. */
static void test_a_gradient_leaves_while_it_is_made(void **state)
{
    (void)state;
    static const int fine[SHARDS] = {0};
    struct fake f;
    start(&f, 0);
    begin(&f);
    make(&f, 1, 0, BIASES);
    uint64_t sent[SHARDS] = {0};
    for (uint64_t row = ROWS; row > 1; row -= 100) {
        make(&f, 0, (row - 100) * COLUMNS, 100 * COLUMNS);
        for (uint32_t s = 0; s < SHARDS; s++) {
            uint64_t made = elements_from(&f, s, row - 100);
            sent[s] = (made - sent[s]) * sizeof(float) >= PS_CLIENT_PART_BYTES_MIN ? made : sent[s];
            wait_pushed(&f, s, sent[s]);
        }
    }
    unsigned before[SHARDS];
    for (uint32_t s = 0; s < SHARDS; s++) {
        assert_true(sent[s] > 0);
        before[s] = f.messages[s];
    }
    assert_true(sent[0] + sent[1] < f.plan.shard_elements[0] + f.plan.shard_elements[1]);
    make_all(&f);
    both_answers(&f, fine);
    for (uint32_t s = 0; s < SHARDS; s++) {
        bool rest = sent[s] < f.plan.shard_elements[s];
        assert_int_equal(f.messages[s], before[s] + (rest ? 1 : 0));
        assert_int_equal(f.offset[s], 0);
        assert_int_equal(f.pushed[s], f.plan.shard_elements[s]);
    }
    assert_memory_equal(f.values, f.gradient, (size_t)ROWS * COLUMNS * sizeof(float));
    assert_memory_equal(f.values + BIAS_AT, f.gradient + BIAS_AT, BIASES * sizeof(float));
    make_all(&f); /* nothing is begun */
    exchange(&f, 40, 0, true, true);
    assert_int_equal(next_answer(&f, 40).code, 0);
    finish(&f);
}

/* What is made from its beginning on, or not at all, goes when all is said to be there. */
static void test_a_gradient_that_is_made_in_another_order(void **state)
{
    (void)state;
    static const int fine[SHARDS] = {0};
    struct fake f;
    start(&f, 0);
    begin(&f);
    make(&f, 0, 0, 10 * COLUMNS);
    make(&f, 7, 0, 10);
    make(&f, 0, 10 * COLUMNS, 300 * COLUMNS);
    make_all(&f);
    both_answers(&f, fine);
    for (uint32_t s = 0; s < SHARDS; s++) {
        assert_int_equal(f.messages[s], 1);
    }
    assert_memory_equal(f.values, f.gradient, (size_t)ROWS * COLUMNS * sizeof(float));
    finish(&f);
}

/* Half a push is as good as none. */
static void test_the_stream_breaks_while_a_gradient_is_made(void **state)
{
    (void)state;
    static const int broken[SHARDS] = {ERR_UNAVAILABLE, ERR_UNAVAILABLE};
    static const int fine[SHARDS] = {0};
    struct fake f;
    start(&f, 0);
    set_script(&f, SCRIPT_BREAK_EARLY);
    begin(&f);
    make(&f, 1, 0, BIASES);
    make(&f, 0, 1 * COLUMNS, (ROWS - 1) * COLUMNS);
    both_answers(&f, broken);
    make_all(&f);
    set_script(&f, SCRIPT_RIGHT);
    begin(&f);
    make_all(&f);
    both_answers(&f, fine);
    assert_memory_equal(f.values, f.gradient, (size_t)ROWS * COLUMNS * sizeof(float));
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

static void exchange_well(struct fake *f, uint64_t number, const char *peer)
{
    set_script(f, SCRIPT_RIGHT);
    exchange(f, number, 0, true, true);
    assert_int_equal(next_answer(f, number).code, 0);
    assert_memory_equal(f->peer, peer, strlen(peer));
}

static void break_stream(struct fake *f, uint64_t number)
{
    set_script(f, SCRIPT_BREAK);
    exchange(f, number, 0, true, true);
    assert_int_equal(next_answer(f, number).code, ERR_UNAVAILABLE);
}

static void test_a_server_on_this_host_is_reached_by_its_socket(void **state)
{
    (void)state;
    struct fake f;
    struct err err;
    char root[] = "/tmp/gradus-test-XXXXXX";
    char path[LOCAL_SOCKET_BYTES], moved[LOCAL_SOCKET_BYTES + 8];
    assert_non_null(mkdtemp(root));
    char *dir = file_join(root, "sockets");
    start_with(&f, 0, dir, path);
    exchange_well(&f, 1, "unix:");
    break_stream(&f, 2);
    exchange_well(&f, 3, "unix:");
    /* Its socket is gone, the server is not. */
    (void)snprintf(moved, sizeof moved, "%s.away", path);
    assert_int_equal(rename(path, moved), 0);
    break_stream(&f, 4);
    exchange_well(&f, 5, "ipv4:");
    assert_int_equal(rename(moved, path), 0);
    break_stream(&f, 6);
    exchange_well(&f, 7, "unix:");
    finish(&f);
    assert_int_equal(file_remove_tree(root, &err), 0);
    free(dir);
}

/* As sent and as received, however they went. */
static void check_values(struct fake *f, uint64_t number)
{
    memset(f->values, 0, FLAT_COUNT * sizeof(float));
    for (uint32_t s = 0; s < SHARDS; s++) {
        exchange(f, number + s, s, true, true);
        struct ps_answer a = next_answer(f, number + s);
        if (a.code != 0) {
            fail_msg("%s", a.message);
        }
    }
    assert_memory_equal(f->values, f->gradient, (size_t)ROWS * COLUMNS * sizeof(float));
    assert_memory_equal(f->values + BIAS_AT, f->gradient + BIAS_AT, BIASES * sizeof(float));
}

static void test_values_pass_in_memory(void **state)
{
    (void)state;
    struct fake f;
    struct err err;
    char root[] = "/tmp/gradus-test-XXXXXX";
    char path[LOCAL_SOCKET_BYTES];
    assert_non_null(mkdtemp(root));
    char *dir = file_join(root, "sockets");
    start_with(&f, 0, dir, path);
    check_values(&f, 10); /* the offers go with these */
    assert_int_equal(f.gradient_windows, 0);
    assert_int_equal(f.values_windows, 0);
    for (uint64_t i = 2; i < 8; i++) {
        check_values(&f, 10 * i);
    }
    assert_int_equal(f.gradient_windows, 6 * SHARDS);
    assert_int_equal(f.values_windows, 6 * SHARDS);
    /* Another stream begins with nothing; the other shard goes on. */
    break_stream(&f, 100);
    set_script(&f, SCRIPT_RIGHT);
    check_values(&f, 110);
    assert_int_equal(f.gradient_windows, 7 * SHARDS);
    check_values(&f, 120);
    assert_int_equal(f.gradient_windows, 8 * SHARDS);
    /* A server that cannot open them: as if there were none. */
    break_stream(&f, 200);
    pthread_mutex_lock(&f.lock);
    windows_unref(f.windows[0]);
    f.windows[0] = NULL;
    pthread_mutex_unlock(&f.lock);
    set_script(&f, SCRIPT_NO_WINDOWS);
    unsigned before = f.gradient_windows;
    for (uint64_t i = 21; i < 24; i++) {
        exchange(&f, 10 * i, 0, true, true);
        assert_int_equal(next_answer(&f, 10 * i).code, 0);
    }
    assert_int_equal(f.gradient_windows, before);
    set_script(&f, SCRIPT_WINDOW);
    exchange(&f, 300, 0, false, true);
    struct ps_answer a = next_answer(&f, 300);
    assert_int_equal(a.code, ERR_INTERNAL);
    assert_non_null(strstr(a.message, "shard 0 answered in a window it was not given"));
    finish(&f);
    assert_int_equal(file_remove_tree(root, &err), 0);
    free(dir);
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

static void test_what_a_push_says(void **state)
{
    (void)state;
    struct fake f;
    start(&f, 0);
    uint8_t replicas[WORKER_DECISION_BYTES_MAX] = {1, [WORKER_DECISION_BYTES_MAX - 1] = 2};
    struct worker_action a = {
        .exchange = 1,
        .shard = 1,
        .generation = 5,
        .push = true,
        .step = 8,
        .examples = 9,
        .base_version = 10,
        .batch = {.epoch = 11, .split = 12, .batch = 13},
        .batch_end = 14,
        .decided = true,
        .pull = WORKER_PULL_AT_LEAST,
        .version = VERSION,
        .has_decision = true,
        .decision_step = 15,
        .decision = replicas,
        .decision_bytes = sizeof replicas,
    };
    carry_out(&f, &a);
    struct ps_answer r = next_answer(&f, 1);
    assert_int_equal(r.code, 0);
    assert_int_equal(r.shard, 1);
    assert_int_equal(f.heard_push.step, 8);
    assert_int_equal(f.heard_push.examples, 9);
    assert_int_equal(f.heard_push.base_version, 10);
    assert_int_equal(f.heard_push.epoch, 11);
    assert_int_equal(f.heard_push.split, 12);
    assert_int_equal(f.heard_push.batch, 13);
    assert_int_equal(f.heard_push.batch_end, 14);
    assert_true(f.heard_push.decided && !f.heard_push.spare);
    assert_true(f.heard_push.n_norms == 2 && f.heard_norm == 2.5);
    assert_int_equal(f.heard_pull.kind, GRADUS__V1__PULL__KIND__AT_LEAST);
    assert_int_equal(f.heard_pull.version, VERSION);
    assert_int_equal(f.heard_step, 15);
    assert_int_equal(f.heard_bytes, sizeof replicas);
    assert_memory_equal(f.heard_replicas, replicas, sizeof replicas);

    a = (struct worker_action){.exchange = 2, .push = true, .replica_first = 3, .replica_end = 4};
    a.spare = true;
    carry_out(&f, &a);
    assert_int_equal(next_answer(&f, 2).code, 0);
    assert_true(f.heard_push.spare && !f.heard_push.decided);
    assert_int_equal(f.heard_push.replica_first, 3);
    assert_int_equal(f.heard_push.replica_end, 4);
    assert_null(f.heard.decision);
    assert_null(f.heard.pull);

    a = (struct worker_action){.exchange = 3, .has_decision = true, .decision_step = 16};
    a.decision = replicas;
    a.decision_bytes = 1;
    carry_out(&f, &a); /* alone */
    r = next_answer(&f, 3);
    assert_int_equal(r.code, 0);
    assert_int_equal(r.push, WORKER_PUSH_NONE);
    assert_null(f.heard.push);
    assert_int_equal(f.heard_step, 16);
    assert_int_equal(f.heard_bytes, 1);

    a = (struct worker_action){.exchange = 4, .totals = true, .step = 17, .round = 1};
    carry_out(&f, &a);
    r = next_answer(&f, 4);
    assert_true(r.code == 0 && !r.has_sums);
    assert_true(f.heard_step == 17 && f.heard_round == 1 && f.heard_bytes == 6);
    assert_memory_equal(f.heard_replicas, "totals", 6);
    finish(&f);
}

static void test_what_an_answer_says(void **state)
{
    (void)state;
    struct fake f;
    start(&f, 0);
    for (int32_t result = 1; result <= WORKER_PUSH_DROPPED; result++) {
        set_result(&f, result);
        exchange(&f, (uint64_t)result, 0, true, false); /* of batches */
        struct ps_answer r = next_answer(&f, (uint64_t)result);
        assert_int_equal(r.code, 0);
        assert_int_equal((int)r.push, result);
        assert_int_equal(r.has_staleness, result == WORKER_PUSH_APPLIED);
        assert_true(!r.has_staleness || r.staleness == 6);
        assert_true(r.has_decision && !r.has_spare);
        assert_int_equal(r.decision_step, VERSION - 1);
        assert_int_equal(r.decision_bytes, WORKER_DECISION_BYTES_MAX);
        assert_int_equal(r.decision[0], 0xA5);
        assert_int_equal(r.decision[WORKER_DECISION_BYTES_MAX - 1], 0x5A);
    }
    set_result(&f, GRADUS__V1__PUSH_RESULT__APPLIED);
    struct worker_action a = {.exchange = 20, .push = true, .replica_end = 1};
    carry_out(&f, &a); /* of replicas */
    assert_false(next_answer(&f, 20).has_staleness);

    exchange(&f, 21, 0, false, true); /* what was not asked for is not looked at */
    struct ps_answer r = next_answer(&f, 21);
    assert_true(r.code == 0 && r.push == WORKER_PUSH_NONE && !r.has_decision && !r.has_spare);

    a = (struct worker_action){.exchange = 22, .ask_spare = true, .step = 17};
    carry_out(&f, &a);
    r = next_answer(&f, 22);
    assert_int_equal(f.heard_step, 17);
    assert_true(r.code == 0 && r.has_spare && r.spare_given);
    assert_int_equal(r.spare_replica, 11);
    assert_int_equal(r.spare_wait_ms, 12);

    a = (struct worker_action){.exchange = 23, .ask_sums = true, .step = 18, .round = 2};
    carry_out(&f, &a);
    r = next_answer(&f, 23);
    assert_true(f.heard_step == 18 && f.heard_round == 2);
    assert_true(r.code == 0 && r.has_sums && !r.sums_known && r.has_decision);
    assert_int_equal(r.sums_bytes, sizeof "parts");
    assert_string_equal(f.sums, "parts");
    set_script(&f, SCRIPT_OVER);
    a.exchange = 24;
    carry_out(&f, &a);
    r = next_answer(&f, 24);
    assert_true(r.code == 0 && r.has_sums && r.sums_known && r.sums_bytes == 0);
    finish(&f);
}

static void refused(struct fake *f, const struct worker_action *a, const char *part)
{
    carry_out(f, a);
    struct ps_answer r = next_answer(f, a->exchange);
    assert_int_equal(r.code, ERR_INTERNAL);
    if (strstr(r.message, part) == NULL) {
        fail_msg("expected \"%s\", got \"%s\"", part, r.message);
    }
}

static void test_answers_to_other_questions(void **state)
{
    (void)state;
    struct fake f;
    start(&f, 0);
    struct worker_action push = {.exchange = 1, .push = true};
    static const int32_t results[] = {0, 6, -1, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        set_result(&f, results[i]);
        refused(&f, &push, "answered a push with result");
    }
    set_result(&f, GRADUS__V1__PUSH_RESULT__STALE);
    set_script(&f, SCRIPT_LONG);
    refused(&f, &push, "a decision of 8193 bytes");
    set_script(&f, SCRIPT_EMPTY);
    refused(&f, &push, "a decision of 0 bytes");
    set_script(&f, SCRIPT_NO_SPARE);
    refused(&f, &(struct worker_action){.exchange = 2, .ask_spare = true}, "did not say whether");

    static const enum script wrong[] = {SCRIPT_NO_SUMS, SCRIPT_OTHER_SUMS};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        set_script(&f, wrong[i]);
        struct worker_action ask = {.exchange = 10 + i, .ask_sums = true, .step = 3, .round = 1};
        refused(&f, &ask, "did not answer sums of round 1 of step 3");
    }
    set_script(&f, SCRIPT_EMPTY);
    refused(&f, &(struct worker_action){.exchange = 12, .ask_sums = true}, "of 0 bytes");

    /* Numbers of their own: more of an answer may come after it was refused. */
    struct worker_action pull = {.exchange = 3, .pull = WORKER_PULL_VERSION, .version = VERSION};
    set_script(&f, SCRIPT_TORN);
    refused(&f, &pull, "mixed versions 40 and 41");
    set_script(&f, SCRIPT_OLD);
    pull.exchange = 4;
    refused(&f, &pull, "answered version 39, asked for 40");
    pull.exchange = 5;
    pull.pull = WORKER_PULL_AT_LEAST;
    refused(&f, &pull, "answered version 39, asked for 40");
    set_script(&f, SCRIPT_RIGHT);
    pull.exchange = 6;
    pull.version = VERSION - 1; /* a later one will do */
    carry_out(&f, &pull);
    assert_int_equal(next_answer(&f, 6).code, 0);
    pull.exchange = 7;
    pull.pull = WORKER_PULL_VERSION; /* or not */
    refused(&f, &pull, "answered version 40, asked for 39");
    finish(&f);
}

static void test_more_exchanges_than_there_is_room_for(void **state)
{
    (void)state;
    struct fake f;
    start(&f, 0);
    set_script(&f, SCRIPT_UNREAD);
    for (uint64_t i = 0; i < WORKER_EXCHANGES_MAX; i++) {
        exchange(&f, i, 0, false, true);
    }
    exchange(&f, 1000, 0, false, true);
    assert_int_equal(next_answer(&f, 1000).code, ERR_EXHAUSTED);
    finish(&f);
}

/* The job's thread waits in ps_client_exchange() for a server that reads no more; the close of
 * the job ends that, and the gradient is free afterwards. */
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
        cmocka_unit_test(test_values_in_16_bits),
        cmocka_unit_test(test_a_gradient_leaves_while_it_is_made),
        cmocka_unit_test(test_a_gradient_that_is_made_in_another_order),
        cmocka_unit_test(test_the_stream_breaks_while_a_gradient_is_made),
        cmocka_unit_test(test_a_refusal_ends_one_exchange),
        cmocka_unit_test(test_a_broken_stream_is_opened_again),
        cmocka_unit_test(test_a_server_on_this_host_is_reached_by_its_socket),
        cmocka_unit_test(test_values_pass_in_memory),
        cmocka_unit_test(test_a_server_that_is_gone),
        cmocka_unit_test(test_answers_that_cannot_be_right),
        cmocka_unit_test(test_what_a_push_says),
        cmocka_unit_test(test_what_an_answer_says),
        cmocka_unit_test(test_answers_to_other_questions),
        cmocka_unit_test(test_more_exchanges_than_there_is_room_for),
        cmocka_unit_test(test_close_while_nothing_is_read),
    };
    rpc_init();
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rpc_shutdown();
    return failed;
}
