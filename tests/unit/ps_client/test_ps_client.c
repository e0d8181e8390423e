/* SPDX-License-Identifier: Apache-2.0 */
/* The client of the data plane against a server that does what it is told, right or wrong. */
#include "ps_client_rig.h"

#include "support/wait_until.h"

static void test_values_go_and_come(void **state)
{
    (void)state;
    struct fake f;
    client_start(&f, 0);
    f.values[BIAS_AT - 1] = -1; /* padding */
    for (uint32_t s = 0; s < SHARDS; s++) {
        client_exchange(&f, 10 + s, s, true, true);
        struct ps_answer a = client_next_answer(&f, 10 + s);
        assert_int_equal(a.code, 0);
        assert_int_equal(a.version, VERSION + s);
        assert_int_equal(a.answer.train.progress, 3);
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
    client_exchange(&f, 20, 0, false, true); /* a pull alone, and a push alone */
    assert_int_equal(client_next_answer(&f, 20).code, 0);
    client_exchange(&f, 21, 1, true, false);
    assert_int_equal(client_next_answer(&f, 21).code, 0);
    assert_int_equal(f.streams, SHARDS);
    client_finish(&f);
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
    client_gradients = VALUE_BF16;
    client_parameters = VALUE_FP16;
    client_start(&f, 0);
    for (uint64_t round = 0; round < 3; round++) {
        for (size_t i = 0; i < FLAT_COUNT; i++) {
            f.gradient[i] = (float)(i % 30011 + round) * 1.7F;
        }
        for (uint32_t s = 0; s < SHARDS; s++) {
            client_exchange(&f, 10 + s, s, true, true);
            assert_int_equal(client_next_answer(&f, 10 + s).code, 0);
            assert_int_equal(f.heard_push.type, GRADUS__V1__WIRE_TYPE__BF16);
            assert_int_equal(f.heard_pull.type, GRADUS__V1__WIRE_TYPE__FP16);
        }
        expect_values(&f, VALUE_FP16);
    }
    struct ps_client_request pinned = {
        .exchange = 20, .generation = 1, .ask = {.kind = EXCHANGE_PINNED, .pin_id = "p"}};
    client_carry_out(&f, &pinned);
    assert_int_equal(client_next_answer(&f, 20).code, 0);
    assert_int_equal(f.heard_pull.type, GRADUS__V1__WIRE_TYPE__FP32);
    struct ps_client_request sum = {.exchange = 21,
                                    .generation = 1,
                                    .ask = {.kind = EXCHANGE_TRAIN,
                                            .has_push = true,
                                            .push = {.replica_end = 2, .examples = 1}}};
    client_carry_out(&f, &sum);
    assert_int_equal(client_next_answer(&f, 21).code, 0);
    assert_int_equal(f.heard_push.type, GRADUS__V1__WIRE_TYPE__FP32);
    client_set_script(&f, SCRIPT_OTHER_TYPE);
    client_exchange(&f, 22, 0, false, true);
    struct ps_answer a = client_next_answer(&f, 22);
    assert_int_equal(a.code, ERR_INTERNAL);
    client_finish(&f);
    client_gradients = client_parameters = VALUE_FP32;
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
    client_start(&f, 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pthread_mutex_lock(&f.lock);
        f.script = SCRIPT_REFUSE;
        f.code = cases[i].sent;
        pthread_mutex_unlock(&f.lock);
        client_exchange(&f, i, 0, true, true);
        struct ps_answer a = client_next_answer(&f, i);
        assert_int_equal(a.code, cases[i].code);
        assert_string_equal(a.message, "shard 0: told to refuse");
    }
    client_set_script(&f, SCRIPT_RIGHT);
    client_exchange(&f, 100, 0, true, true);
    assert_int_equal(client_next_answer(&f, 100).code, 0);
    assert_int_equal(f.streams, 1);
    client_finish(&f);
}

static void test_a_broken_stream_is_opened_again(void **state)
{
    (void)state;
    struct fake f;
    client_start(&f, 0);
    for (uint64_t i = 0; i < 5; i++) {
        client_set_script(&f, SCRIPT_BREAK);
        client_exchange(&f, 2 * i, 1, i % 2 == 0, true);
        assert_int_equal(client_next_answer(&f, 2 * i).code, ERR_UNAVAILABLE);
        client_set_script(&f, SCRIPT_RIGHT);
        client_exchange(&f, 2 * i + 1, 1, true, true);
        assert_int_equal(client_next_answer(&f, 2 * i + 1).code, 0);
    }
    assert_int_equal(f.streams, 6);
    client_finish(&f);
}

static void test_a_server_that_is_gone(void **state)
{
    (void)state;
    struct fake f;
    client_start(&f, 0);
    rpc_server_stop(f.server);
    client_exchange(&f, 1, 0, true, true);
    assert_int_equal(client_next_answer(&f, 1).code, ERR_UNAVAILABLE);
    client_exchange(&f, 2, 0, false, true);
    assert_int_equal(client_next_answer(&f, 2).code, ERR_UNAVAILABLE);
    client_finish(&f);
}

static void wait_streams(struct fake *f, unsigned streams)
{
    wait_until_locked(f->streams >= streams, &f->lock);
}

/* Only what is open with the shard that moves is over. */
static void test_a_shard_that_moves(void **state)
{
    (void)state;
    struct fake f;
    client_start(&f, 0);
    struct rpc_server *first = f.server;
    client_start_server(&f, NULL, NULL);
    client_exchange(&f, 1, 0, true, true);
    assert_int_equal(client_next_answer(&f, 1).code, 0);
    client_set_script(&f, SCRIPT_UNREAD);
    client_exchange(&f, 2, 1, true, true);
    client_exchange(&f, 3, 1, false, true);
    wait_streams(&f, 2);
    client_place(&f, 0, first, OPENING); /* where it was */
    client_place(&f, 1, f.server, OPENING + 1);
    assert_int_equal(client_next_answer(&f, 2).code, ERR_UNAVAILABLE);
    assert_int_equal(client_next_answer(&f, 3).code, ERR_UNAVAILABLE);
    client_set_script(&f, SCRIPT_RIGHT);
    client_exchange(&f, 4, 0, true, true);
    assert_int_equal(client_next_answer(&f, 4).code, 0);
    assert_int_equal(f.opening, OPENING);
    assert_int_equal(f.streams, 2);
    client_exchange(&f, 5, 1, true, true);
    assert_int_equal(client_next_answer(&f, 5).code, 0);
    assert_int_equal(f.opening, OPENING + 1);
    assert_int_equal(f.streams, 3);
    client_place(&f, 1, f.server, OPENING + 2); /* made anew on the same server */
    client_exchange(&f, 6, 1, true, true);
    assert_int_equal(client_next_answer(&f, 6).code, 0);
    assert_int_equal(f.opening, OPENING + 2);
    assert_int_equal(f.streams, 4);
    rpc_server_stop(first); /* nobody is there any more but shard 0 */
    client_exchange(&f, 7, 1, true, true);
    assert_int_equal(client_next_answer(&f, 7).code, 0);
    client_exchange(&f, 8, 0, true, true);
    assert_int_equal(client_next_answer(&f, 8).code, ERR_UNAVAILABLE);
    client_finish(&f);
    rpc_server_free(first);
}

static void place_nowhere(void *ctx)
{
    struct fake *f = ctx;
    struct err err = {0};
    const struct ps_client_place nowhere = {.address = "nowhere"};
    assert_int_equal(ps_client_place(f->client, 1, &nowhere, &err), ERR_INVALID);
    assert_non_null(strstr(err.msg, "nowhere"));
}

static void test_a_shard_without_a_place(void **state)
{
    (void)state;
    struct fake f;
    client_start(&f, 0);
    assert_int_equal(loop_call(f.loop, place_nowhere, &f, NULL), 0);
    client_exchange(&f, 1, 1, true, true);
    struct ps_answer a = client_next_answer(&f, 1);
    assert_int_equal(a.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(a.message, "shard 1: nobody has said where it is"));
    client_place(&f, 1, f.server, OPENING);
    client_exchange(&f, 2, 1, true, true);
    assert_int_equal(client_next_answer(&f, 2).code, 0);
    client_finish(&f);
}

static void test_answers_that_cannot_be_right(void **state)
{
    (void)state;
    static const enum script scripts[] = {SCRIPT_NO_VALUES, SCRIPT_TOTAL, SCRIPT_GAP,
                                          SCRIPT_TOO_MANY, SCRIPT_RAGGED};
    struct fake f;
    client_start(&f, 0);
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        client_set_script(&f, scripts[i]);
        client_exchange(&f, i, 0, false, true);
        struct ps_answer a = client_next_answer(&f, i);
        assert_int_equal(a.code, ERR_INTERNAL);
        assert_non_null(strstr(a.message, "shard 0 answered elements"));
    }
    client_set_script(&f, SCRIPT_OTHER_FIRST);
    client_exchange(&f, 50, 0, false, true);
    assert_int_equal(client_next_answer(&f, 50).code, 0);
    client_finish(&f);
}

static void test_more_exchanges_than_there_is_room_for(void **state)
{
    (void)state;
    struct fake f;
    client_start(&f, 0);
    client_set_script(&f, SCRIPT_UNREAD);
    for (uint64_t i = 0; i < EXCHANGES_MAX; i++) {
        client_exchange(&f, i, 0, false, true);
    }
    client_exchange(&f, 1000, 0, false, true);
    assert_int_equal(client_next_answer(&f, 1000).code, ERR_EXHAUSTED);
    client_finish(&f);
}

/* The job's thread waits in ps_client_exchange() for a server that reads no more; the close of
 * the job ends that, and the gradient is free afterwards. */
static void post_pushes(void *ctx)
{
    struct fake *f = ctx;
    for (uint64_t i = 0; i < 32; i++) {
        struct ask ask = {
            .f = f,
            .request = {.exchange = i,
                        .generation = 1,
                        .ask = {.kind = EXCHANGE_TRAIN, .has_push = true, .push = {.examples = 1}}},
        };
        client_run_ask(&ask);
    }
}

static void test_close_while_nothing_is_read(void **state)
{
    (void)state;
    struct fake f;
    client_start(&f, 2U << 20);
    client_set_script(&f, SCRIPT_UNREAD);
    assert_int_equal(loop_post(f.loop, post_pushes, &f, NULL), 0);
    /* the first chunk is there; the others go nowhere */
    wait_until_locked(f.pushed[0] != 0, &f.lock);
    client_finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_go_and_come),
        cmocka_unit_test(test_values_in_16_bits),
        cmocka_unit_test(test_a_refusal_ends_one_exchange),
        cmocka_unit_test(test_a_broken_stream_is_opened_again),
        cmocka_unit_test(test_a_server_that_is_gone),
        cmocka_unit_test(test_a_shard_that_moves),
        cmocka_unit_test(test_a_shard_without_a_place),
        cmocka_unit_test(test_answers_that_cannot_be_right),
        cmocka_unit_test(test_more_exchanges_than_there_is_room_for),
        cmocka_unit_test(test_close_while_nothing_is_read),
    };
    return cmocka_run_group_tests(tests, client_rig_setup, client_rig_teardown);
}
