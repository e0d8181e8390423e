/* SPDX-License-Identifier: Apache-2.0 */
/* What requests say, and which answers are right. */
#include "ps_client_rig.h"

static void test_what_a_push_says(void **state)
{
    (void)state;
    struct fake f;
    client_start(&f, 0);
    uint8_t replicas[EXCHANGE_DECISION_BYTES_MAX] = {1, [EXCHANGE_DECISION_BYTES_MAX - 1] = 2};
    struct ps_client_request a = {
        .exchange = 1,
        .shard = 1,
        .generation = 5,
        .ask = {.kind = EXCHANGE_TRAIN,
                .has_push = true,
                .push = {.step = 8,
                         .examples = 9,
                         .base_version = 10,
                         .epoch = 11,
                         .split = 12,
                         .batch = 13,
                         .batch_end = 14,
                         .decided = true},
                .has_pull = true,
                .pull = {.kind = PULL_AT_LEAST, .version = VERSION},
                .has_decision = true,
                .decision = {15, replicas, sizeof replicas}},
    };
    client_carry_out(&f, &a);
    struct ps_answer r = client_next_answer(&f, 1);
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

    a = (struct ps_client_request){
        .exchange = 2,
        .ask = {.kind = EXCHANGE_TRAIN,
                .has_push = true,
                .push = {.replica_first = 3, .replica_end = 4, .spare = true}}};
    client_carry_out(&f, &a);
    assert_int_equal(client_next_answer(&f, 2).code, 0);
    assert_true(f.heard_push.spare && !f.heard_push.decided);
    assert_int_equal(f.heard_push.replica_first, 3);
    assert_int_equal(f.heard_push.replica_end, 4);
    assert_null(f.heard_training.decision);
    assert_null(f.heard_training.pull);

    a = (struct ps_client_request){
        .exchange = 3,
        .ask = {.kind = EXCHANGE_TRAIN, .has_decision = true, .decision = {16, replicas, 1}}};
    client_carry_out(&f, &a); /* alone */
    r = client_next_answer(&f, 3);
    assert_int_equal(r.code, 0);
    assert_int_equal(r.answer.train.push, PUSH_NONE);
    assert_null(f.heard_training.push);
    assert_int_equal(f.heard_step, 16);
    assert_int_equal(f.heard_bytes, 1);

    a = (struct ps_client_request){
        .exchange = 4, .ask = {.kind = EXCHANGE_TOTALS, .totals = {{17, 1}, "totals", 6}}};
    client_carry_out(&f, &a);
    r = client_next_answer(&f, 4);
    assert_true(r.code == 0 && r.answer.kind == EXCHANGE_TOTALS);
    assert_true(f.heard_step == 17 && f.heard_round == 1 && f.heard_bytes == 6);
    assert_memory_equal(f.heard_replicas, "totals", 6);
    client_finish(&f);
}

static void test_what_an_answer_says(void **state)
{
    (void)state;
    struct fake f;
    client_start(&f, 0);
    for (int32_t result = 1; result <= PUSH_DROPPED; result++) {
        client_set_result(&f, result);
        client_exchange(&f, (uint64_t)result, 0, true, false); /* of batches */
        struct ps_answer r = client_next_answer(&f, (uint64_t)result);
        assert_int_equal(r.code, 0);
        assert_int_equal((int)r.answer.train.push, result);
        assert_true(r.batches && r.answer.train.staleness == 6);
        assert_int_equal(r.answer.kind, EXCHANGE_TRAIN);
        assert_int_equal(r.answer.decision.step, VERSION - 1);
        assert_int_equal(r.answer.decision.bytes, EXCHANGE_DECISION_BYTES_MAX);
        assert_int_equal(r.answer.decision.replicas[0], 0xA5);
        assert_int_equal(r.answer.decision.replicas[EXCHANGE_DECISION_BYTES_MAX - 1], 0x5A);
    }
    client_set_result(&f, GRADUS__V1__PUSH_RESULT__APPLIED);
    struct ps_client_request a = {
        .exchange = 20,
        .ask = {.kind = EXCHANGE_TRAIN, .has_push = true, .push = {.replica_end = 1}}};
    client_carry_out(&f, &a); /* of replicas */
    assert_false(client_next_answer(&f, 20).batches);

    client_exchange(&f, 21, 0, false, true); /* what was not asked for is not looked at */
    struct ps_answer r = client_next_answer(&f, 21);
    assert_true(r.code == 0 && r.answer.train.push == PUSH_NONE);
    assert_true(r.answer.decision.bytes == 0 && !r.answer.spare.given);

    a = (struct ps_client_request){.exchange = 22,
                                   .ask = {.kind = EXCHANGE_SPARE, .spare_step = 17}};
    client_carry_out(&f, &a);
    r = client_next_answer(&f, 22);
    assert_int_equal(f.heard_step, 17);
    assert_true(r.code == 0 && r.answer.kind == EXCHANGE_SPARE && r.answer.spare.given);
    assert_int_equal(r.answer.spare.replica, 11);
    assert_int_equal(r.answer.spare.wait_ms, 12);

    a = (struct ps_client_request){.exchange = 23, .ask = {.kind = EXCHANGE_SUMS, .sums = {18, 2}}};
    client_carry_out(&f, &a);
    r = client_next_answer(&f, 23);
    assert_true(f.heard_step == 18 && f.heard_round == 2);
    assert_true(r.code == 0 && r.answer.kind == EXCHANGE_SUMS && !r.answer.sums.known);
    assert_true(r.answer.decision.bytes > 0);
    assert_int_equal(r.answer.sums.bytes, sizeof "parts");
    assert_string_equal(f.sums, "parts");
    client_set_script(&f, SCRIPT_OVER);
    a.exchange = 24;
    client_carry_out(&f, &a);
    r = client_next_answer(&f, 24);
    assert_true(r.code == 0 && r.answer.sums.known && r.answer.sums.over);
    assert_int_equal(r.answer.sums.bytes, 0);
    client_finish(&f);
}

static void refused(struct fake *f, const struct ps_client_request *a, const char *part)
{
    client_carry_out(f, a);
    struct ps_answer r = client_next_answer(f, a->exchange);
    assert_int_equal(r.code, ERR_INTERNAL);
    if (strstr(r.message, part) == NULL) {
        fail_msg("expected \"%s\", got \"%s\"", part, r.message);
    }
}

static void test_answers_to_other_questions(void **state)
{
    (void)state;
    struct fake f;
    client_start(&f, 0);
    struct ps_client_request push = {.exchange = 1,
                                     .ask = {.kind = EXCHANGE_TRAIN, .has_push = true}};
    static const int32_t results[] = {0, 6, -1, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++) {
        client_set_result(&f, results[i]);
        refused(&f, &push, "answered a push with result");
    }
    client_set_result(&f, GRADUS__V1__PUSH_RESULT__STALE);
    client_set_script(&f, SCRIPT_OTHER_ANSWER);
    refused(&f, &push, "shard 0: answered something else than was asked");
    client_set_script(&f, SCRIPT_LONG);
    refused(&f, &push, "a decision of 8193 bytes");
    client_set_script(&f, SCRIPT_EMPTY);
    refused(&f, &push, "a decision of 0 bytes");
    client_set_script(&f, SCRIPT_NO_SPARE);
    struct ps_client_request spare = {.exchange = 2, .ask = {.kind = EXCHANGE_SPARE}};
    refused(&f, &spare, "did not say whether");

    static const enum script wrong[] = {SCRIPT_NO_SUMS, SCRIPT_OTHER_SUMS};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        client_set_script(&f, wrong[i]);
        struct ps_client_request ask = {.exchange = 10 + i,
                                        .ask = {.kind = EXCHANGE_SUMS, .sums = {3, 1}}};
        refused(&f, &ask, "did not answer sums of round 1 of step 3");
    }
    client_set_script(&f, SCRIPT_EMPTY);
    struct ps_client_request sums = {.exchange = 12, .ask = {.kind = EXCHANGE_SUMS}};
    refused(&f, &sums, "did not answer sums of round 0 of step 0");

    /* Numbers of their own: more of an answer may come after it was refused. */
    struct ps_client_request pull = {.exchange = 3,
                                     .ask = {.kind = EXCHANGE_TRAIN,
                                             .has_pull = true,
                                             .pull = {.kind = PULL_VERSION, .version = VERSION}}};
    client_set_script(&f, SCRIPT_TORN);
    refused(&f, &pull, "mixed versions 40 and 41");
    client_set_script(&f, SCRIPT_OLD);
    pull.exchange = 4;
    refused(&f, &pull, "answered version 39, asked for 40");
    pull.exchange = 5;
    pull.ask.pull.kind = PULL_AT_LEAST;
    refused(&f, &pull, "answered version 39, asked for 40");
    client_set_script(&f, SCRIPT_RIGHT);
    pull.exchange = 6;
    pull.ask.pull.version = VERSION - 1; /* a later one will do */
    client_carry_out(&f, &pull);
    assert_int_equal(client_next_answer(&f, 6).code, 0);
    pull.exchange = 7;
    pull.ask.pull.kind = PULL_VERSION; /* or not */
    refused(&f, &pull, "answered version 40, asked for 39");
    client_finish(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_push_says),
        cmocka_unit_test(test_what_an_answer_says),
        cmocka_unit_test(test_answers_to_other_questions),
    };
    return cmocka_run_group_tests(tests, client_rig_setup, client_rig_teardown);
}
