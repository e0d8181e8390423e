/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients and parameters in 16 bits, as a server takes and sends them. */
#include "exchange_rig.h"

static char job[] = "a-1";
static float initial[ELEMENTS], expected[ELEMENTS];

#define FP32 GRADUS__V1__WIRE_TYPE__FP32
#define FP16 GRADUS__V1__WIRE_TYPE__FP16
#define BF16 GRADUS__V1__WIRE_TYPE__BF16

/* Gradients travel as bf16, parameters as fp16. */
static void start(struct ps_rig *rig, const char *mode, uint32_t replicas)
{
    struct err err;
    uint64_t version;
    for (size_t i = 0; i < ELEMENTS; i++) {
        gradient[i] = (float)(i % 1013) * 0.37F; /* most are between two bf16 */
    }
    struct ps_rig_opening o = {.job = job,
                               .rule = "sgd",
                               .training = ", wire: {gradients: bf16, parameters: fp16}",
                               .generation = 1,
                               .consistency = ps_rig_consistency(mode, replicas)};
    ps_rig_start(rig, 0);
    ps_rig_expect(ps_rig_open_as(rig, &o, NULL, &err), 0, &err, "");
    (void)ps_rig_pull(rig, job, GRADUS__V1__PULL__KIND__LATEST, 0, NULL, initial, &version, &err);
}

static struct chunk push_of(uint64_t exchange, uint64_t step, uint32_t lo, uint32_t hi)
{
    return (struct chunk){.exchange = exchange,
                          .job = job,
                          .first = true,
                          .push = true,
                          .step = step,
                          .lo = lo,
                          .hi = hi,
                          .examples = 10,
                          .total = ELEMENTS,
                          .floats = ELEMENTS,
                          .type = BF16};
}

/* @expected becomes `initial` after a step with the sum @factor x gradient as it travels. */
static void expect_step(float factor, float examples)
{
    for (size_t i = 0; i < ELEMENTS; i++) {
        float g = gradient[i];
        values_round(VALUE_BF16, &g, 1);
        expected[i] = initial[i] - 0.01F * (factor * g * (1.0F / examples));
    }
}

static void test_there_and_back(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    const uint64_t sizes[] = {ELEMENTS, 1 << 14, 1001};
    for (size_t s = 0; s < 3; s++) {
        start(&rig, "sync", 1);
        exchange_open(&c, &rig);
        for (uint64_t at = 0; at < ELEMENTS; at += sizes[s]) {
            struct chunk k = push_of(1, 0, 0, 1);
            k.first = at == 0;
            k.offset = at;
            k.floats = ELEMENTS - at < sizes[s] ? ELEMENTS - at : sizes[s];
            k.pull = true;
            k.pull_type = FP16;
            k.kind = GRADUS__V1__PULL__KIND__VERSION;
            k.version = 1;
            send_chunk(&c, &k);
        }
        struct answer *a = wait_answer(&c, 1);
        assert_int_equal(a->code, 0);
        assert_int_equal(a->type, FP16);
        assert_int_equal(a->messages, (ELEMENTS * 2 + (64 << 10) - 1) / (64 << 10));
        struct chunk exact = {.exchange = 2, .job = job, .first = true, .pull = true};
        struct answer *b = exchange(&c, &exact);
        assert_int_equal(b->type, FP32);
        expect_step(1, 10);
        assert_memory_equal(b->values, expected, sizeof expected);
        values_round(VALUE_FP16, expected, ELEMENTS);
        assert_memory_equal(a->values, expected, sizeof expected);
        exchange_close(&c);
        ps_rig_stop(&rig);
    }
}

/* Each version is encoded anew, and for late readers too. */
static void test_versions_and_readers(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c[2];
    start(&rig, "sync", 2);
    exchange_open(&c[0], &rig);
    exchange_open(&c[1], &rig);
    for (uint64_t step = 0; step < 6; step++) {
        for (uint32_t w = 0; w < 2; w++) {
            struct chunk k = push_of(step, step, w, w + 1);
            k.pull = w == 0;
            k.pull_type = FP16;
            k.kind = GRADUS__V1__PULL__KIND__VERSION;
            k.version = step + 1;
            send_chunk(&c[w], &k);
        }
        struct answer *a = wait_answer(&c[0], step);
        assert_int_equal(a->code, 0);
        (void)wait_answer(&c[1], step);
        struct chunk late = {.exchange = 8,
                             .job = job,
                             .first = true,
                             .pull = true,
                             .pull_type = FP16,
                             .kind = GRADUS__V1__PULL__KIND__VERSION,
                             .version = step + 1};
        assert_memory_equal(exchange(&c[1], &late)->values, a->values, sizeof expected);
        late.pull_type = FP32;
        struct answer *exact = exchange(&c[1], &late);
        memcpy(expected, exact->values, sizeof expected);
        values_round(VALUE_FP16, expected, ELEMENTS);
        assert_memory_equal(a->values, expected, sizeof expected);
        expect_step(2, 20);
        assert_true(step > 0 || memcmp(exact->values, expected, sizeof expected) == 0);
    }
    exchange_close(&c[0]);
    exchange_close(&c[1]);
    ps_rig_stop(&rig);
}

/* A sum of replicas has more bits than 16; a single one must not have. */
static void test_what_is_refused(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    struct err err;
    char pin_id[] = "p";
    start(&rig, "sync", 2);
    exchange_open(&c, &rig);
    struct chunk k = push_of(0, 0, 0, 1);
    k.type = FP32;
    expect_refusal(&c, &k, ERR_INVALID,
                   "job a-1 shard 0: gradients as fp32; those of this job travel as bf16");
    k.type = FP16;
    expect_refusal(&c, &k, ERR_INVALID,
                   "job a-1 shard 0: gradients as fp16; those of this job travel as bf16");
    k.type = (Gradus__V1__WireType)7;
    k.exchange = 1;
    expect_refusal(&c, &k, ERR_INVALID, "values of the unknown type 7");
    k = push_of(2, 0, 0, 2);
    expect_refusal(&c, &k, ERR_INVALID,
                   "gradients as bf16; those of several replicas in one push travel as fp32");
    struct chunk pull = {.exchange = 3, .job = job, .first = true, .pull = true, .pull_type = BF16};
    expect_refusal(&c, &pull, ERR_INVALID, "parameters as bf16; those of this job travel as fp16");
    Gradus__V1__PinRequest pin = GRADUS__V1__PIN_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    pin.shard = &ref;
    pin.pin_id = pin_id;
    ps_rig_expect(ps_rig_call(&rig, "Pin", &pin.base, NULL, 0, NULL, &err), 0, &err, "");
    pull.pin_id = pin_id; /* exact, whatever the job's type is */
    assert_memory_equal(exchange(&c, &pull)->values, initial, sizeof initial);
    k = push_of(4, 0, 0, 2);
    k.type = FP32;
    assert_int_equal(exchange(&c, &k)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    k = push_of(5, 1, 0, 1);
    k.floats = ELEMENTS - 1;
    send_chunk(&c, &k);
    k.first = false;
    k.offset = ELEMENTS; /* behind the last one */
    k.floats = 1;
    expect_refusal(&c, &k, ERR_INVALID, "there are 60060 elements");
    exchange_close(&c);
    ps_rig_stop(&rig);
}

/* Blocks hold floats, whatever the job's values travel as: read as floats, 16 bits are others. */
static void test_shared_memory_take_floats_alone(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct client c;
    struct shared_memory *w;
    struct err err;
    start(&rig, "sync", 2);
    ps_rig_go_local(&rig);
    exchange_open(&c, &rig);
    assert_int_equal(shared_memory_new(ELEMENTS, &w, &err), 0);
    struct chunk pull = {.exchange = 1, .job = job, .first = true, .pull = true, .offer = w};
    assert_true(exchange(&c, &pull)->shared_memory_open);
    struct chunk k = push_of(2, 0, 0, 1);
    k.floats = 0;
    k.gradient_block = shared_memory_take_gradient(w) + 1;
    expect_refusal(&c, &k, ERR_INVALID, "exchange 2: bf16 in a gradient block");
    assert_int_equal(shared_memory_take_gradient(w) + 1, k.gradient_block); /* it came back */
    pull = (struct chunk){.exchange = 3, .job = job, .first = true, .pull = true};
    pull.pull_type = FP16;
    pull.values_block = shared_memory_take_values(w) + 1;
    expect_refusal(&c, &pull, ERR_INVALID, "exchange 3: fp16 in a value block");
    pull.pull_type = FP32;
    assert_int_equal(exchange(&c, &pull)->in_block, ELEMENTS);
    exchange_close(&c);
    ps_rig_stop(&rig);
    shared_memory_unref(w);
}

/* A reader's Pull has the type that it asks for, if that is the job's. */
static void test_a_pull_in_one_message(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    start(&rig, "async", 1);
    Gradus__V1__PullRequest r = GRADUS__V1__PULL_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(job, 1);
    Gradus__V1__Pull pull = GRADUS__V1__PULL__INIT;
    struct rpc_msg *reply = NULL;
    pull.type = FP16;
    r.shard = &ref;
    r.what_case = GRADUS__V1__PULL_REQUEST__WHAT_PULL;
    r.pull = &pull;
    ps_rig_expect(ps_rig_call(&rig, "Pull", &r.base, NULL, 0, &reply, &err), 0, &err, "");
    const Gradus__V1__PullResponse *m = (const Gradus__V1__PullResponse *)reply->body;
    assert_int_equal(m->type, FP16);
    assert_int_equal(rpc_spans_bytes(reply->bulk), ELEMENTS * 2);
    float *values = mem_new(ELEMENTS, sizeof *values);
    assert_false(wire_values_read(reply->bulk, VALUE_FP16, values, ELEMENTS + 1));
    assert_true(wire_values_read(reply->bulk, VALUE_FP16, values, ELEMENTS));
    memcpy(expected, initial, sizeof expected);
    values_round(VALUE_FP16, expected, ELEMENTS);
    assert_memory_equal(values, expected, sizeof expected);
    rpc_msg_unref(reply);
    pull.type = BF16;
    ps_rig_expect(ps_rig_call(&rig, "Pull", &r.base, NULL, 0, NULL, &err), ERR_INVALID, &err,
                  "job a-1 shard 0: parameters as bf16; those of this job travel as fp16");
    free(values);
    ps_rig_stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_versions_and_readers),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_shared_memory_take_floats_alone),
        cmocka_unit_test(test_a_pull_in_one_message),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
