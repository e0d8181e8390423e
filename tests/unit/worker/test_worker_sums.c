/* SPDX-License-Identifier: Apache-2.0 */
/* Rounds of sums over whole variables, as one worker plays them (test_worker_random.c has many). */
#include "unit/worker/script.h"

#define REPLICAS 2

/* Replica 0 of two is this worker's. */
static void begin(struct script *t, uint32_t rounds, uint32_t aggregate)
{
    script_begin_rounds(t, 10, rounds);
    struct worker_assignment a = {
        .generation = 1,
        .consistency = {.mode = TRAINING_SYNC,
                        .replicas = REPLICAS,
                        .aggregate = aggregate,
                        .push_every = 1,
                        .pull_every = 1},
        .replica_first = 0,
        .replica_end = 1,
        .step_limit = 10,
    };
    script_assign(t, &a);
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
        struct asked pull = script_exchange(t, s);
        assert_true(pull.pull != ASKED_PULL_NONE && !pull.ask_sums);
        struct worker_event e = {.kind = WORKER_EXCHANGED, .exchanged.exchange = pull.exchange};
        script_feed(t, e);
    }
    (void)script_take(t, WORKER_DO_COMPUTE);
    script_feed(t, (struct worker_event){.kind = WORKER_COMPUTED});
}

/* The oldest open exchange with @shard, which is a push that also pulls. */
static struct asked take_push(struct script *t, uint32_t shard)
{
    struct asked a = script_exchange(t, shard);
    assert_true(a.push && a.pull != ASKED_PULL_NONE && !a.ask_sums && !a.totals);
    return a;
}

static struct asked take_ask(struct script *t, uint32_t shard, uint64_t step, uint32_t round)
{
    struct asked a = script_exchange(t, shard);
    assert_true(a.ask_sums && !a.push && !a.totals && a.pull == ASKED_PULL_NONE);
    assert_int_equal(a.step, step);
    assert_int_equal(a.round, round);
    return a;
}

static struct asked take_totals(struct script *t, uint32_t shard, uint32_t round)
{
    struct asked a = script_exchange(t, shard);
    assert_true(a.totals && !a.push && !a.ask_sums && a.pull == ASKED_PULL_NONE);
    assert_int_equal(a.round, round);
    return a;
}

static struct worker_event sums(const struct asked *of, uint64_t version, bool known)
{
    return (struct worker_event){
        .kind = WORKER_EXCHANGED,
        .exchanged = {.exchange = of->exchange,
                      .version = version,
                      .answer = {.kind = EXCHANGE_SUMS, .sums = {.known = known}}}};
}

static void answer_sums(struct script *t, const struct asked *of, uint64_t version, bool known)
{
    script_feed(t, sums(of, version, known));
}

static void answer(struct script *t, const struct asked *of, uint64_t version)
{
    script_feed(
        t, (struct worker_event){
               .kind = WORKER_EXCHANGED,
               .exchanged = {.exchange = of->exchange,
                             .version = version,
                             .answer = {.train = {.push = of->push ? PUSH_ACCEPTED : PUSH_NONE}}}});
}

static size_t open_of(const struct script *t, enum worker_action_kind kind)
{
    size_t n = 0;
    for (size_t i = 0; i < t->open_count; i++) {
        n += t->open[i].kind == kind;
    }
    return n;
}

static void test_two_rounds(void **state)
{
    (void)state;
    struct script t;
    begin(&t, 2, REPLICAS);
    struct asked push[SCRIPT_SHARDS];
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
        push[s] = take_push(&t, s);
    }
    for (uint32_t round = 0; round < 2; round++) {
        struct asked ask[SCRIPT_SHARDS];
        for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
            ask[s] = take_ask(&t, s, 0, round);
        }
        answer_sums(&t, &ask[0], 0, false);
        assert_int_equal(open_of(&t, WORKER_DO_JOIN), 0);
        answer_sums(&t, &ask[1], 0, false);
        struct worker_do_join join = script_take(&t, WORKER_DO_JOIN).join;
        assert_false(join.known);
        assert_int_equal(join.round, round);
        for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
            struct asked totals = take_totals(&t, s, round);
            answer(&t, &totals, 0);
        }
    }
    assert_int_equal(open_of(&t, WORKER_DO_EXCHANGE), 0);
    answer(&t, &push[0], 1);
    assert_int_equal(open_of(&t, WORKER_DO_COMPUTE), 0);
    answer(&t, &push[1], 1);
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).compute.step, 1);
    assert_int_equal(t.failures, 0);
    script_end(&t);
}

/* A shard is a step ahead: what it knows goes to the other one. */
static void test_known_totals_are_forwarded(void **state)
{
    (void)state;
    struct script t;
    begin(&t, 1, REPLICAS);
    struct asked push = take_push(&t, 0);
    (void)take_push(&t, 1);
    struct asked a = take_ask(&t, 0, 0, 0);
    struct asked b = take_ask(&t, 1, 0, 0);
    answer_sums(&t, &a, 0, false);
    answer_sums(&t, &b, 1, true);
    struct worker_do_join join = script_take(&t, WORKER_DO_JOIN).join;
    assert_true(join.known);
    assert_int_equal(join.shard, 1);
    struct asked totals = take_totals(&t, 0, 0);
    assert_int_equal(open_of(&t, WORKER_DO_EXCHANGE), 0);
    script_feed(
        &t, (struct worker_event){.kind = WORKER_EXCHANGED,
                                  .exchanged = {.exchange = totals.exchange, .code = ERR_TIMEOUT}});
    script_timer(&t); /* like every exchange */
    totals = take_totals(&t, 0, 0);
    answer(&t, &totals, 1);
    answer(&t, &push, 1);
    script_end(&t);
}

/* Others were faster. */
static void test_nobody_needs_totals(void **state)
{
    (void)state;
    for (int way = 0; way < 2; way++) {
        struct script t;
        begin(&t, 2, REPLICAS);
        (void)take_push(&t, 0);
        (void)take_push(&t, 1);
        struct asked a = take_ask(&t, 0, 0, 0);
        struct asked b = take_ask(&t, 1, 0, 0);
        struct worker_event e = sums(&a, 1, true);
        if (way == 1) {
            e.exchanged.version = 2;
            e.exchanged.answer.sums.over = true;
        }
        script_feed(&t, e);
        answer_sums(&t, &b, 1, true);
        assert_int_equal(open_of(&t, WORKER_DO_JOIN), 0);
        assert_int_equal(open_of(&t, WORKER_DO_EXCHANGE), 0);
        script_end(&t);
    }
}

/* All shards are in the next round already, but not over it. */
static void test_joined_by_others(void **state)
{
    (void)state;
    struct script t;
    begin(&t, 2, REPLICAS);
    (void)take_push(&t, 0);
    (void)take_push(&t, 1);
    struct asked a = take_ask(&t, 0, 0, 0);
    struct asked b = take_ask(&t, 1, 0, 0);
    answer_sums(&t, &a, 0, true);
    answer_sums(&t, &b, 0, true);
    assert_int_equal(open_of(&t, WORKER_DO_JOIN), 0);
    (void)take_ask(&t, 0, 0, 1);
    (void)take_ask(&t, 1, 0, 1);
    script_end(&t);
}

/* Fewer than all: the lead tells its decision with its sums, and the worker carries it on. */
static void test_decision_with_sums(void **state)
{
    (void)state;
    struct script t;
    begin(&t, 1, 1);
    (void)take_push(&t, 0);
    (void)take_push(&t, 1);
    struct asked a = take_ask(&t, 0, 0, 0);
    struct asked b = take_ask(&t, 1, 0, 0);
    const uint8_t set = 1;
    struct worker_event e = sums(&a, 0, false);
    e.exchanged.answer.decision.replicas = &set;
    e.exchanged.answer.decision.bytes = 1;
    script_feed(&t, e);
    struct asked carried = script_exchange(&t, 1);
    assert_true(carried.has_decision && carried.decision[0] == 1 && !carried.totals);
    answer(&t, &carried, 0);
    answer_sums(&t, &b, 0, false);
    (void)script_take(&t, WORKER_DO_JOIN);
    (void)take_totals(&t, 0, 0);
    (void)take_totals(&t, 1, 0);
    script_end(&t);
}

static void test_an_answer_without_sums(void **state)
{
    (void)state;
    struct script t;
    begin(&t, 1, REPLICAS);
    (void)take_push(&t, 0);
    struct asked a = take_ask(&t, 0, 0, 0);
    answer(&t, &a, 0);
    assert_int_equal(t.failures, 1);
    assert_non_null(strstr(t.failure, "shard 0 did not answer with sums of step 0"));
    script_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_rounds),
        cmocka_unit_test(test_known_totals_are_forwarded),
        cmocka_unit_test(test_nobody_needs_totals),
        cmocka_unit_test(test_joined_by_others),
        cmocka_unit_test(test_decision_with_sums),
        cmocka_unit_test(test_an_answer_without_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
