/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of tables and their gradients in 16 bits, as a server takes and sends them. */
#define ROWS 1200
#include "rows_rig.h"

#define FP32 GRADUS__V1__WIRE_TYPE__FP32
#define FP16 GRADUS__V1__WIRE_TYPE__FP16
#define BF16 GRADUS__V1__WIRE_TYPE__BF16

#define MANY 30000 /* keys of one request, at most */

static char job[] = "wire-1";
static const size_t DIMS[TABLES] = {2, 3};

/* Between two numbers of fp16, and of bf16. */
#define BEGINS 1.0001F

/* Gradients travel as bf16, rows as fp16. */
static void start(struct ps_rig *rig, struct client *c, uint32_t replicas)
{
    struct err err;
    struct ps_rig_opening o = {
        .job = job,
        .rule = "sgd, learning_rate: 1",
        .training = ", wire: {gradients: bf16, parameters: fp16}",
        .tables = "[{name: a, dim: 2, init: constant, init_mean: 1.0001, memory_bytes: 1 MiB}, "
                  "{name: b, dim: 3, init: zeros, memory_bytes: 1 MiB}]",
        .generation = 1,
        .consistency = ps_rig_consistency("sync", replicas)};
    ps_rig_start(rig, 0);
    ps_rig_expect(ps_rig_open_as(rig, &o, NULL, &err), 0, &err, "");
    exchange_open(c, rig);
}

static void stop(struct ps_rig *rig, struct client *c)
{
    exchange_close(c);
    ps_rig_stop(rig);
}

static float rounded(enum value_type type, float x)
{
    values_round(type, &x, 1);
    return x;
}

/* A push of the replicas [lo, hi) of a step: its dense part as @type, its rows as @rows; key 9 of
 * the first table, key 7 of the second, all floats @value. It pulls nothing, or the next version
 * with rows of keys 5 and 9, and 7. */
struct step {
    uint64_t exchange, step;
    uint32_t lo, hi;
    enum value_type type, rows;
    float value;
    bool pulls;
};

static size_t encode(const struct step *s, unsigned char out[256])
{
    static const uint64_t keys[TABLES] = {9, 7};
    size_t at = 0;
    for (size_t i = 0; i < TABLES; i++) {
        const uint32_t once = 1;
        const float values[3] = {s->value, s->value, s->value};
        const struct table_gradient_view g = {
            .dim = DIMS[i], .n = 1, .keys = &keys[i], .sightings = &once, .values = values};
        table_gradient_encode(s->rows, &g, out + at);
        at += table_gradient_bytes(s->rows, 1, DIMS[i]);
    }
    return at;
}

static void send(struct client *c, const Gradus__V1__ExchangeRequest *m, const void *bytes,
                 size_t n)
{
    struct err err;
    const struct rpc_piece piece = {bytes, n};
    const struct rpc_blob blob = {.pieces = &piece, .piece_count = 1};
    assert_int_equal(rpc_stream_send(c->stream, &m->base, &blob, &err), 0);
}

static struct answer *take_step(struct client *c, const struct step *s)
{
    static const uint64_t wanted[] = {5, 9, 7};
    uint32_t counts[TABLES] = {2, 1};
    Gradus__V1__ExchangeRequest m = GRADUS__V1__EXCHANGE_REQUEST__INIT;
    Gradus__V1__ExchangeRequest more = GRADUS__V1__EXCHANGE_REQUEST__INIT;
    Gradus__V1__Training training = GRADUS__V1__TRAINING__INIT;
    Gradus__V1__Push push = GRADUS__V1__PUSH__INIT;
    Gradus__V1__Pull pull = GRADUS__V1__PULL__INIT;
    Gradus__V1__RowsRequest rows = GRADUS__V1__ROWS_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    char worker[] = "w0";
    static unsigned char dense[ELEMENTS * sizeof(float)];
    unsigned char bytes[256];
    size_t n = encode(s, bytes);
    forget_answer(c, s->exchange);
    push.step = s->step;
    push.replica_first = s->lo;
    push.replica_end = s->hi;
    push.examples = 1;
    push.type = (Gradus__V1__WireType)s->type;
    pull.kind = GRADUS__V1__PULL__KIND__VERSION;
    pull.version = s->step + 1;
    pull.type = FP16;
    rows.n_counts = TABLES;
    rows.counts = counts;
    training.push = &push;
    training.pull = s->pulls ? &pull : NULL;
    training.rows = s->pulls ? &rows : NULL;
    m.exchange = more.exchange = s->exchange;
    m.shard = &ref;
    m.worker = worker;
    m.what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_TRAINING;
    m.training = &training;
    m.total = ps_rig_elements();
    m.tables_bytes = n;
    values_encode(s->type, gradient, m.total, dense);
    send(c, &m, dense, m.total * value_type_bytes(s->type));
    if (s->pulls) {
        memcpy(bytes + n, wanted, sizeof wanted);
        n += sizeof wanted;
    }
    more.of_tables = true;
    send(c, &more, bytes, n);
    return wait_answer(c, s->exchange);
}

/* Rows alone, of keys 0, 1, 2 .. of the first table: of the newest version, or of a pin. */
static struct answer *read_rows(struct client *c, uint64_t exchange, char *pin,
                                Gradus__V1__WireType type, uint32_t count)
{
    static uint64_t keys[MANY];
    uint32_t counts[TABLES] = {count, 0};
    Gradus__V1__ExchangeRequest m = GRADUS__V1__EXCHANGE_REQUEST__INIT;
    Gradus__V1__RowsRequest rows = GRADUS__V1__ROWS_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    char worker[] = "w0";
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = i;
    }
    forget_answer(c, exchange);
    rows.n_counts = TABLES;
    rows.counts = counts;
    rows.type = type;
    rows.of_case =
        pin == NULL ? GRADUS__V1__ROWS_REQUEST__OF__NOT_SET : GRADUS__V1__ROWS_REQUEST__OF_PIN_ID;
    rows.pin_id = pin;
    m.exchange = exchange;
    m.shard = &ref;
    m.worker = worker;
    m.what_case = GRADUS__V1__EXCHANGE_REQUEST__WHAT_ROWS;
    m.rows = &rows;
    m.total = count;
    send(c, &m, keys, count * sizeof *keys);
    return wait_answer(c, exchange);
}

static void expect_refused(const struct answer *a, int code, const char *says)
{
    if (a->code != -code || strstr(a->message, says) == NULL) {
        fail_msg("code %d, expected %d; '%s' does not say '%s'", a->code, -code, a->message, says);
    }
}

static void expect_all(const struct answer *a, Gradus__V1__WireType type, uint64_t floats,
                       float value)
{
    assert_int_equal(a->code, 0);
    assert_int_equal(a->type, type);
    assert_int_equal(a->received, floats);
    for (uint64_t i = 0; i < floats; i++) {
        assert_true(a->values[i] == value);
    }
}

/* The servers keep floats: what comes is added as it came, and only what leaves is rounded. */
static void test_there_and_back(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    start(&rig, &c, 1);
    const float g = 0.37F, came = rounded(VALUE_BF16, g);
    assert_true(came != g && rounded(VALUE_FP16, BEGINS) != BEGINS);
    float a = BEGINS, b = 0;
    for (uint64_t step = 0; step < 3; step++) {
        const struct step s = {.exchange = step + 1,
                               .step = step,
                               .hi = 1,
                               .type = VALUE_BF16,
                               .rows = VALUE_BF16,
                               .value = g,
                               .pulls = true};
        const struct answer *got = take_step(&c, &s);
        if (got->code != 0) {
            fail_msg("code %d: %s", got->code, got->message);
        }
        a -= came;
        b -= came;
        const float x = rounded(VALUE_FP16, BEGINS), y = rounded(VALUE_FP16, a),
                    z = rounded(VALUE_FP16, b), want[] = {x, x, y, y, z, z, z};
        assert_int_equal(got->rows_received, 7);
        assert_int_equal(got->rows_type, FP16);
        assert_memory_equal(got->of_rows, want, sizeof want);
    }
    expect_all(read_rows(&c, 5, NULL, FP16, 7), FP16, 14, rounded(VALUE_FP16, BEGINS));
    expect_all(read_rows(&c, 6, NULL, FP32, 7), FP32, 14, BEGINS);
    stop(&rig, &c);
}

/* More than are encoded at once, and more than a message of this server holds. */
static void test_many_rows(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    start(&rig, &c, 1);
    for (uint64_t exchange = 1; exchange < 4; exchange++) {
        const uint64_t floats = exchange * ps_rig_elements() / 4 / 2 * 2; /* as the rig has room */
        const struct answer *a = read_rows(&c, exchange, NULL, FP16, (uint32_t)(floats / 2));
        expect_all(a, FP16, floats, rounded(VALUE_FP16, BEGINS));
    }
    stop(&rig, &c);
}

static void test_a_pin_is_exact(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    char id[] = "p";
    start(&rig, &c, 1);
    rows_pin(&rig, job, "Pin", id);
    expect_all(read_rows(&c, 1, id, FP32, 3), FP32, 6, BEGINS);
    expect_refused(read_rows(&c, 2, id, FP16, 3), ERR_INVALID,
                   "rows of a pinned version as fp16; they are exact");
    stop(&rig, &c);
}

/* A sum of replicas has more bits than 16: it comes as floats, its rows, too. */
static void test_sums_of_replicas_are_floats(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    start(&rig, &c, 4);
    struct step s = {.exchange = 1,
                     .hi = 2,
                     .type = VALUE_FP32,
                     .rows = VALUE_FP32,
                     .value = rounded(VALUE_BF16, 0.37F) * 2};
    assert_int_equal(take_step(&c, &s)->code, 0);
    s = (struct step){
        .exchange = 2, .lo = 2, .hi = 4, .type = VALUE_BF16, .rows = VALUE_BF16, .value = 0.5F};
    expect_refused(take_step(&c, &s), ERR_INVALID, "several replicas in one push travel as fp32");
    stop(&rig, &c);
}

static void test_types_that_are_wrong(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    start(&rig, &c, 1);
    struct step s = {.exchange = 1, .hi = 1, .type = VALUE_BF16, .rows = VALUE_FP32, .value = 0.5F};
    expect_refused(take_step(&c, &s), ERR_INVALID, "values as fp32; the push says bf16");
    s.rows = VALUE_FP16;
    s.exchange = 2;
    expect_refused(take_step(&c, &s), ERR_INVALID, "values as fp16; the push says bf16");
    s.type = s.rows = VALUE_FP32;
    s.exchange = 3;
    expect_refused(take_step(&c, &s), ERR_INVALID, "those of this job travel as bf16");
    expect_refused(read_rows(&c, 4, NULL, BF16, 3), ERR_INVALID,
                   "rows as bf16; those of this job travel as fp16");
    expect_refused(read_rows(&c, 5, NULL, (Gradus__V1__WireType)7, 3), ERR_INVALID,
                   "unknown type 7");
    s.type = s.rows = VALUE_BF16; /* after all that */
    s.exchange = 6;
    assert_int_equal(take_step(&c, &s)->code, 0);
    stop(&rig, &c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_many_rows),
        cmocka_unit_test(test_a_pin_is_exact),
        cmocka_unit_test(test_sums_of_replicas_are_floats),
        cmocka_unit_test(test_types_that_are_wrong),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
