/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's core of a job with tables: of which version rows are read, and what it does when they
 * do not come. */
#include "unit/worker/script.h"

#define SPLIT_BATCHES 3

static struct worker_assignment sync_of(uint32_t aggregate, uint64_t limit)
{
    return (struct worker_assignment){
        .generation = 1,
        .consistency = {.mode = TRAINING_SYNC, .replicas = 2, .aggregate = aggregate},
        .replica_end = 2,
        .step_limit = limit,
    };
}

static struct worker_do_compute take_compute(struct script *t)
{
    struct worker_do_compute a = script_take(t, WORKER_DO_COMPUTE).compute;
    assert_int_equal(a.request.ask.kind, EXCHANGE_ROWS);
    assert_int_equal(a.request.generation, 1);
    assert_int_equal(a.push_count, 0); /* nothing leaves before its rows are there */
    return a;
}

static void lose_rows(struct script *t, int code)
{
    script_feed(t, (struct worker_event){.kind = WORKER_COMPUTED, .computed = {code, true}});
}

static void computed(struct script *t)
{
    script_feed(t, (struct worker_event){.kind = WORKER_COMPUTED});
}

static void start(struct script *t, const struct worker_assignment *a)
{
    script_begin_tables(t, SPLIT_BATCHES);
    script_assign(t, a);
    script_answer_both(t, 0, PUSH_NONE);
}

static void test_sync_reads_the_version_of_its_step(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment sync = sync_of(2, 3);
    start(&t, &sync);
    uint64_t last = 0;
    for (uint64_t step = 0; step < 3; step++) {
        for (uint32_t replica = 0; replica < 2; replica++) {
            struct worker_do_compute a = take_compute(&t);
            assert_int_equal(a.request.ask.rows.of, ROWS_OF_VERSION);
            assert_int_equal(a.request.ask.rows.version, step);
            assert_true(a.request.exchange > last); /* a number of its own */
            last = a.request.exchange;
            computed(&t);
        }
        script_answer_both(&t, step + 1, PUSH_APPLIED);
    }
    assert_int_equal(t.failures, 0);
    script_end(&t);
}

/* The parameters are there: only the rows are asked for again, after a pause that grows. */
static void test_rows_that_do_not_come(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment sync = sync_of(2, 3);
    start(&t, &sync);
    uint64_t pause = 0;
    for (int attempt = 0; attempt < 3; attempt++) {
        struct worker_do_compute a = take_compute(&t);
        assert_true(a.step == 0 && a.replica == 0);
        lose_rows(&t, ERR_UNAVAILABLE);
        assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
        assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 0);
        assert_true(t.timer_ms > t.now_ms && t.timer_ms - t.now_ms >= pause);
        pause = t.timer_ms - t.now_ms;
        script_timer(&t);
    }
    assert_true(pause > WORKER_BACKOFF_MS_MIN);
    (void)take_compute(&t);
    computed(&t);
    struct worker_do_compute a = take_compute(&t);
    assert_int_equal(a.replica, 1);
    lose_rows(&t, ERR_UNAVAILABLE); /* the pauses begin anew */
    assert_true(t.timer_ms - t.now_ms <= WORKER_BACKOFF_MS_MIN * 2);
    script_end(&t);
}

/* Everybody else went on: the version is gone, and a newer one is pulled. */
static void test_a_late_worker_takes_the_newer_version(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment partial = sync_of(1, 30);
    start(&t, &partial);
    (void)take_compute(&t);
    lose_rows(&t, ERR_RANGE);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), SCRIPT_SHARDS);
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
        struct asked pull = script_exchange(&t, s);
        assert_int_equal(pull.pull, ASKED_PULL_AT_LEAST);
        script_answer(&t, &pull, 5, PUSH_NONE);
    }
    assert_int_equal(take_compute(&t).step, 5);
    script_end(&t);
}

static void test_async_reads_the_newest(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment async = {
        .generation = 1,
        .consistency = {.mode = TRAINING_ASYNC, .push_every = 1, .pull_every = 1},
        .leases = {{.epoch = 0, .split = 0, .batch_end = SPLIT_BATCHES, .fresh = true}},
        .lease_count = 1,
    };
    start(&t, &async);
    struct worker_do_compute a = take_compute(&t);
    assert_int_equal(a.request.ask.rows.of, ROWS_OF_LATEST);
    lose_rows(&t, ERR_UNAVAILABLE);
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    script_timer(&t);
    struct worker_do_compute again = take_compute(&t);
    assert_int_equal(again.batch.batch, a.batch.batch);
    computed(&t);
    script_answer_both(&t, 1, PUSH_APPLIED);
    assert_int_equal(take_compute(&t).batch.batch, a.batch.batch + 1);
    script_end(&t);
}

/* Which batch the pull of @a brings rows for; UINT32_MAX: none. */
static uint32_t brought(const struct asked *a)
{
    return a->brings_rows ? a->rows_of.batch : UINT32_MAX;
}

static void answer_with_rows(struct script *t, uint64_t version, bool first, bool second)
{
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
        const struct asked a = script_exchange(t, s);
        struct worker_event e = script_answer_of(&a, version, PUSH_APPLIED);
        e.exchanged.rows = s == 0 ? first : second;
        script_feed(t, e);
    }
}

static struct worker_assignment async_of(uint32_t batches)
{
    return (struct worker_assignment){
        .generation = 1,
        .consistency = {.mode = TRAINING_ASYNC, .push_every = 1, .pull_every = 1},
        .leases = {{.epoch = 0, .split = 0, .batch_end = batches, .fresh = true}},
        .lease_count = 1,
    };
}

/* A computation whose rows came with its parameters has nothing to ask for. */
static void test_rows_come_with_the_parameters(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment async = async_of(SPLIT_BATCHES);
    start(&t, &async);
    assert_false(take_compute(&t).has_rows); /* the first one asks */
    computed(&t);
    struct asked push = script_asked(&t, 0);
    assert_int_equal(brought(&push), 1);
    answer_with_rows(&t, 1, true, true);
    struct worker_do_compute a = script_take(&t, WORKER_DO_COMPUTE).compute;
    assert_true(a.has_rows && a.request.ask.kind == EXCHANGE_NONE && a.batch.batch == 1);
    computed(&t);
    answer_with_rows(&t, 2, true, false); /* one has no memory for them */
    assert_false(take_compute(&t).has_rows);
    computed(&t);
    for (size_t i = 0; i < t.open_count; i++) { /* the lease is over: nobody knows what is next */
        if (t.open[i].kind == WORKER_DO_EXCHANGE) {
            assert_false(t.open[i].exchange.brings_rows);
        }
    }
    script_end(&t);
}

/* The gradient is lost with its generation, or the replica is another one's: what came is of the
 * version that is there, but for another batch. */
static void test_rows_of_another_batch_are_not_used(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment sync = sync_of(2, 9);
    sync.replica_end = 1;
    start(&t, &sync);
    (void)take_compute(&t);
    computed(&t);
    answer_with_rows(&t, 1, true, true);
    struct worker_do_compute a = script_take(&t, WORKER_DO_COMPUTE).compute;
    assert_true(a.has_rows && a.step == 1);
    computed(&t);
    answer_with_rows(&t, 2, true, true);
    struct worker_assignment other = sync;
    other.generation = 2;
    other.replica_first = 1;
    other.replica_end = 2;
    other.step = 2;
    other.ledger_step = 0;
    a = script_take(&t, WORKER_DO_COMPUTE).compute;
    script_assign(&t, &other);
    computed(&t); /* of a generation that is over */
    a = script_take(&t, WORKER_DO_COMPUTE).compute;
    assert_true(a.replica == 1 && a.step == 2 && !a.has_rows);
    assert_int_equal(a.request.ask.kind, EXCHANGE_ROWS);
    script_end(&t);
}

/* Behind the step limit it is not known when, and of what, the next step is. */
static void test_no_rows_come_for_a_step_that_may_not_be(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment sync = sync_of(2, 1);
    start(&t, &sync);
    (void)take_compute(&t);
    computed(&t);
    (void)take_compute(&t);
    computed(&t);
    assert_true(script_asked(&t, 0).push);
    assert_int_equal(brought(&(struct asked){0}), UINT32_MAX);
    assert_false(script_asked(&t, 0).brings_rows);
    script_end(&t);
}

static void test_evaluations_read_the_pinned_version(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment sync = sync_of(2, 0);
    start(&t, &sync);
    script_feed(&t, (struct worker_event){
                        .kind = WORKER_EVALUATE,
                        .evaluate = {.tag = 7, .generation = 1, .pin_id = "pin-3", .count = 10}});
    script_answer_both(&t, 3, PUSH_NONE);
    struct worker_do_evaluate a = script_take(&t, WORKER_DO_EVALUATE).evaluate;
    assert_int_equal(a.request.ask.kind, EXCHANGE_ROWS);
    assert_int_equal(a.request.ask.rows.of, ROWS_OF_PIN);
    assert_string_equal(a.request.ask.pin_id, "pin-3");
    script_end(&t);
}

static void test_no_tables_no_rows(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment sync = sync_of(2, 3);
    script_begin(&t, SPLIT_BATCHES);
    script_assign(&t, &sync);
    script_answer_both(&t, 0, PUSH_NONE);
    struct worker_do_compute a = script_take(&t, WORKER_DO_COMPUTE).compute;
    assert_int_equal(a.request.ask.kind, EXCHANGE_NONE);
    script_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sync_reads_the_version_of_its_step),
        cmocka_unit_test(test_rows_that_do_not_come),
        cmocka_unit_test(test_a_late_worker_takes_the_newer_version),
        cmocka_unit_test(test_async_reads_the_newest),
        cmocka_unit_test(test_evaluations_read_the_pinned_version),
        cmocka_unit_test(test_rows_come_with_the_parameters),
        cmocka_unit_test(test_rows_of_another_batch_are_not_used),
        cmocka_unit_test(test_no_rows_come_for_a_step_that_may_not_be),
        cmocka_unit_test(test_no_tables_no_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
