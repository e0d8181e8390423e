/* SPDX-License-Identifier: Apache-2.0 */
/* Computations that begin while their parameters are still coming, and are given up when they do
 * not: as if they had not been begun. */
#include "unit/worker/script.h"

#define SPLIT_BATCHES 3

/* The computation in hand is given up. As the shell, skip what was to be pushed with it. */
static struct worker_do_compute give_up(struct script *t)
{
    struct worker_do_compute a = script_take(t, WORKER_DO_COMPUTE).compute;
    size_t kept = 0;
    for (size_t i = 0; i < t->open_count; i++) {
        const struct worker_action *x = &t->open[i];
        const struct worker_request *r = &x->exchange;
        if (x->kind != WORKER_DO_EXCHANGE || !r->ask.has_push || r->buffer != a.buffer) {
            t->open[kept++] = *x;
        }
    }
    t->open_count = kept;
    script_feed(t,
                (struct worker_event){.kind = WORKER_COMPUTED, .computed.code = ERR_UNAVAILABLE});
    return a;
}

/* With the first of the values. */
static void answer_early(struct script *t, const struct asked *a, uint64_t version)
{
    struct worker_event e = script_answer_of(a, version, PUSH_ACCEPTED);
    assert_true(a->early);
    e.exchanged.partial = true;
    script_feed(t, e);
}

/* Both shards are asked for all of their values, and answer. */
static void pull_anew(struct script *t, enum asked_pull kind, uint64_t version)
{
    assert_int_equal(script_count(t, WORKER_DO_EXCHANGE), SCRIPT_SHARDS);
    assert_int_equal(script_count(t, WORKER_DO_COMPUTE), 0);
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
        struct asked pull = script_exchange(t, s);
        assert_int_equal(pull.pull, kind);
        assert_false(pull.push || pull.progress);
        assert_false(pull.early); /* this time it waits for all of them */
        script_answer(t, &pull, version, PUSH_NONE);
    }
}

static void expect_again(struct script *t, const struct worker_do_compute *before)
{
    assert_int_equal(script_count(t, WORKER_DO_COMPUTE), 1);
    struct worker_do_compute a = script_compute(t);
    assert_int_equal(a.batch.epoch, before->batch.epoch);
    assert_int_equal(a.batch.first, before->batch.first);
    assert_int_equal(a.batch.count, before->batch.count);
    assert_int_equal(a.step, before->step);
    assert_int_equal(a.replica, before->replica);
    assert_int_equal(a.buffer, before->buffer); /* none is lost */
}

/* ---- sync ---- */

static struct worker_assignment sync_of(uint64_t generation, uint32_t replicas, uint32_t first,
                                        uint64_t step, uint64_t limit)
{
    return (struct worker_assignment){
        .generation = generation,
        .consistency = {.mode = TRAINING_SYNC, .replicas = replicas, .aggregate = replicas},
        .replica_first = first,
        .replica_end = replicas,
        .step = step,
        .step_limit = limit,
        .ledger_step = step,
    };
}

/* At step 1 of replicas [first, replicas), whose parameters came early. */
static void start_sync(struct script *t, uint32_t replicas, uint32_t first, uint64_t limit)
{
    struct worker_assignment a = sync_of(1, replicas, first, 0, limit);
    script_begin(t, SPLIT_BATCHES);
    script_assign(t, &a);
    pull_anew(t, ASKED_PULL_VERSION, 0);
    while (script_count(t, WORKER_DO_COMPUTE) > 0) {
        (void)script_compute(t);
    }
    while (script_count(t, WORKER_DO_EXCHANGE) > 0) {
        struct asked push = script_take_exchange(t);
        bool last = push.replica_end == replicas;
        assert_true(push.push && push.early == last);
        assert_int_equal(push.pull, last ? ASKED_PULL_VERSION : ASKED_PULL_NONE);
        if (last) {
            answer_early(t, &push, 1);
        } else {
            script_answer(t, &push, 0, PUSH_ACCEPTED);
        }
        if (script_count(t, WORKER_DO_COMPUTE) > 0) {
            break;
        }
    }
}

static void test_a_gradient_that_leaves_while_it_is_computed(void **state)
{
    (void)state;
    struct script t;
    start_sync(&t, 1, 0, 3);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), SCRIPT_SHARDS);
    struct worker_do_compute first = give_up(&t);
    pull_anew(&t, ASKED_PULL_VERSION, 1);
    expect_again(&t, &first);
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) { /* once each */
        struct asked push = script_exchange(&t, s);
        assert_true(push.push && push.early);
        assert_int_equal(push.step, 1);
        assert_int_equal(push.buffer, first.buffer);
        script_answer(&t, &push, 2, PUSH_ACCEPTED);
    }
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).compute.step, 2);
    script_end(&t);
}

/* The values of one shard may be late again and again. */
static void test_giving_up_at_every_step(void **state)
{
    (void)state;
    struct script t;
    start_sync(&t, 1, 0, 6);
    for (uint64_t step = 1; step < 6; step++) {
        struct worker_do_compute a = give_up(&t);
        assert_int_equal(a.step, step);
        pull_anew(&t, ASKED_PULL_VERSION, step);
        expect_again(&t, &a);
        script_answer_both(&t, step + 1, PUSH_ACCEPTED);
    }
    assert_int_equal(script_report(&t).position, 6);
    assert_int_equal(t.failures, 0);
    script_end(&t);
}

/* Two replicas that are summed here: nothing of the first one was to leave yet. */
static void test_a_gradient_that_is_summed_first(void **state)
{
    (void)state;
    struct script t;
    start_sync(&t, 2, 0, 3);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 0);
    struct worker_do_compute first = give_up(&t);
    assert_int_equal(first.replica, 0);
    pull_anew(&t, ASKED_PULL_VERSION, 1);
    size_t adds = t.adds;
    expect_again(&t, &first);
    assert_int_equal(script_compute(&t).replica, 1);
    assert_int_equal(t.adds, adds + 1);
    script_answer_both(&t, 2, PUSH_ACCEPTED);
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).compute.step, 2);
    script_end(&t);
}

/* Replica 1 of four leaves alone; 2 and 3 are summed behind it. */
static void test_a_node_that_leaves_before_others(void **state)
{
    (void)state;
    struct script t;
    start_sync(&t, 4, 1, 2);
    struct worker_do_compute first = give_up(&t);
    assert_int_equal(first.replica, 1);
    pull_anew(&t, ASKED_PULL_VERSION, 1);
    expect_again(&t, &first);
    assert_int_equal(script_compute(&t).replica, 2);
    assert_int_equal(script_compute(&t).replica, 3);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 2 * SCRIPT_SHARDS);
    script_answer_both(&t, 1, PUSH_ACCEPTED);
    script_answer_both(&t, 2, PUSH_ACCEPTED);
    assert_int_equal(script_report(&t).position, 2);
    script_end(&t);
}

/* What failed may fail again: then it is tried later, as any exchange. */
static void test_a_pull_that_fails_is_tried_later(void **state)
{
    (void)state;
    struct script t;
    start_sync(&t, 1, 0, 3);
    struct worker_do_compute first = give_up(&t);
    struct asked pull = script_exchange(&t, 0);
    script_refuse(&t, &pull, ERR_UNAVAILABLE);
    struct asked other = script_exchange(&t, 1);
    script_answer(&t, &other, 1, PUSH_NONE);
    assert_int_equal(t.open_count, 0);
    script_timer(&t);
    struct asked again = script_exchange(&t, 0);
    assert_int_equal(again.exchange, pull.exchange);
    script_answer(&t, &again, 1, PUSH_NONE);
    expect_again(&t, &first);
    script_end(&t);
}

/* The step counts as begun while it is computed, and not any more when that was in vain. */
static void test_a_hold_meets_a_computation_that_was_given_up(void **state)
{
    (void)state;
    for (int before = 0; before < 2; before++) {
        struct script t;
        struct worker_assignment hold = sync_of(1, 1, 0, 0, 3);
        hold.hold = true;
        start_sync(&t, 1, 0, 3);
        if (before) {
            script_assign(&t, &hold);
            assert_int_equal(t.reply.position, 2);
        }
        struct worker_do_compute first = give_up(&t);
        if (!before) {
            script_assign(&t, &hold);
            assert_int_equal(t.reply.position, 1);
        }
        pull_anew(&t, ASKED_PULL_VERSION, 1);
        if (before) {
            expect_again(&t, &first);
            script_answer_both(&t, 2, PUSH_ACCEPTED);
        }
        struct worker_do_report_progress report = script_report(&t);
        assert_true(report.idle);
        assert_int_equal(report.position, before ? 2 : 1);
        assert_int_equal(t.open_count, 0);
        script_end(&t);
    }
}

static void test_a_generation_ends_meanwhile(void **state)
{
    (void)state;
    struct script t;
    start_sync(&t, 1, 0, 3);
    struct worker_assignment next = sync_of(2, 1, 0, 1, 3);
    script_assign(&t, &next);
    struct worker_do_compute first = give_up(&t);
    pull_anew(&t, ASKED_PULL_VERSION, 1); /* of generation 2 at once: nothing else is open */
    assert_int_equal(worker_generation(t.worker), 2);
    struct worker_do_compute a = script_compute(&t);
    assert_int_equal(a.buffer, first.buffer);
    assert_int_equal(a.generation, 2);
    script_answer_both(&t, 2, PUSH_ACCEPTED);
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).compute.step, 2);
    script_end(&t);
}

/* The shards say first that the generation is over. */
static void test_a_worker_that_is_fenced_meanwhile(void **state)
{
    (void)state;
    struct script t;
    start_sync(&t, 4, 1, 2);
    struct worker_do_compute one = script_compute(&t);
    struct asked push = script_exchange(&t, 0);
    assert_int_equal(push.buffer, one.buffer);
    script_refuse(&t, &push, ERR_ABORTED);
    (void)script_take(&t, WORKER_DO_COMPUTE);
    script_feed(&t,
                (struct worker_event){.kind = WORKER_COMPUTED, .computed.code = ERR_UNAVAILABLE});
    push = script_exchange(&t, 1);
    script_refuse(&t, &push, ERR_ABORTED);
    assert_int_equal(t.open_count, 0); /* waits for the master's word */
    struct worker_assignment next = sync_of(2, 1, 0, 1, 3);
    script_assign(&t, &next);
    pull_anew(&t, ASKED_PULL_VERSION, 1);
    assert_int_equal(script_compute(&t).step, 1);
    script_end(&t);
}

/* Nothing was computed on them yet: the next generation does not trust them. */
static void test_early_parameters_end_with_their_generation(void **state)
{
    (void)state;
    struct script t;
    start_sync(&t, 1, 0, 1);
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0); /* at its limit */
    struct worker_assignment next = sync_of(2, 1, 0, 1, 3);
    script_assign(&t, &next);
    pull_anew(&t, ASKED_PULL_VERSION, 1);
    assert_int_equal(script_compute(&t).step, 1);
    script_end(&t);
}

/* So they do when they come before the word that what was pushed for them is computed. */
static void test_the_next_parameters_come_before_the_computation_ends(void **state)
{
    (void)state;
    for (int whole = 0; whole < 2; whole++) {
        struct script t;
        start_sync(&t, 1, 0, 9);
        struct asked push = script_exchange(&t, 0);
        script_answer(&t, &push, 2, PUSH_ACCEPTED);
        push = script_exchange(&t, 1);
        if (whole) {
            script_answer(&t, &push, 2, PUSH_ACCEPTED);
        } else {
            answer_early(&t, &push, 2);
        }
        struct worker_assignment next = sync_of(2, 1, 0, 2, 9);
        script_assign(&t, &next);
        assert_int_equal(script_compute(&t).step, 1);
        if (!whole) {
            pull_anew(&t, ASKED_PULL_VERSION, 2);
        }
        assert_int_equal(script_compute(&t).step, 2);
        script_end(&t);
    }
}

static void test_rounds_of_sums_are_not_early(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = sync_of(1, 1, 0, 0, 3);
    script_begin_rounds(&t, SPLIT_BATCHES, 1);
    script_assign(&t, &a);
    pull_anew(&t, ASKED_PULL_VERSION, 0);
    (void)script_compute(&t);
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
        assert_false(script_exchange(&t, s).early);
    }
    script_end(&t);
}

/* A step in rounds asks for sums behind its push: of one that is given up nothing may be asked. */
static void test_the_first_step_in_rounds_has_early_parameters(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = sync_of(1, 1, 0, 0, 3);
    script_begin_rounds_from(&t, SPLIT_BATCHES, 1, 1);
    script_assign(&t, &a);
    pull_anew(&t, ASKED_PULL_VERSION, 0);
    (void)script_compute(&t);
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
        struct asked push = script_exchange(&t, s);
        answer_early(&t, &push, 1);
    }
    struct worker_do_compute first = give_up(&t);
    assert_int_equal(first.step, 1);
    pull_anew(&t, ASKED_PULL_VERSION, 1);
    expect_again(&t, &first);
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
        struct asked push = script_exchange(&t, s);
        assert_true(push.push && push.step == 1);
    }
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
        struct asked ask = script_exchange(&t, s);
        assert_true(ask.ask_sums && ask.step == 1);
    }
    script_end(&t);
}

/* ---- async, bounded ---- */

static struct worker_assignment async_of(enum training_mode mode)
{
    return (struct worker_assignment){
        .generation = 1,
        .consistency = {.mode = mode,
                        .replicas = 1,
                        .aggregate = 1,
                        .staleness = 4,
                        .push_every = 1,
                        .pull_every = 1},
        .leases = {{.split = 0, .batch_end = SPLIT_BATCHES, .fresh = true}},
        .lease_count = 1,
    };
}

/* Up to the first computation. */
static void start_async(struct script *t, const struct worker_assignment *a)
{
    script_begin(t, SPLIT_BATCHES);
    script_assign(t, a);
    while (script_count(t, WORKER_DO_COMPUTE) == 0) {
        struct asked pull = script_take_exchange(t);
        struct worker_event e = script_answer_of(&pull, 0, PUSH_NONE);
        e.exchanged.answer.train.clock = pull.joins ? 10 : 0;
        script_feed(t, e);
    }
}

static void answer_pushes(struct script *t, uint32_t batch, uint32_t end, uint64_t version)
{
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
        struct asked push = script_exchange(t, s);
        assert_true(push.push && push.early);
        assert_int_equal(push.batch.batch, batch);
        assert_int_equal(push.batch_end, end);
        assert_int_equal(push.base_version, version - 1);
        script_answer(t, &push, version, PUSH_APPLIED);
    }
}

static void test_a_batch_of_a_lease(void **state)
{
    (void)state;
    for (uint32_t lost = 1; lost < SPLIT_BATCHES; lost++) { /* the last one, too */
        struct script t;
        struct worker_assignment a = async_of(TRAINING_ASYNC);
        start_async(&t, &a);
        for (uint32_t batch = 0; batch < SPLIT_BATCHES; batch++) {
            if (batch == lost) {
                struct worker_do_compute first = give_up(&t);
                pull_anew(&t, ASKED_PULL_LATEST, batch);
                expect_again(&t, &first);
            } else {
                (void)script_compute(&t);
            }
            assert_int_equal(script_count(&t, WORKER_DO_REPORT_SPLIT), 0);
            answer_pushes(&t, batch, batch + 1, batch + 1);
        }
        assert_int_equal(script_report(&t).position, SPLIT_BATCHES);
        assert_int_equal(script_take(&t, WORKER_DO_REPORT_SPLIT).report_split.batch_end,
                         SPLIT_BATCHES);
        script_end(&t);
    }
}

static void test_the_first_of_a_push_of_several(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = async_of(TRAINING_ASYNC);
    a.consistency.push_every = 2;
    start_async(&t, &a);
    (void)script_compute(&t);
    (void)script_compute(&t);
    answer_pushes(&t, 0, 2, 1);
    struct worker_do_compute first = give_up(&t);
    assert_int_equal(first.batch.batch, 2);
    pull_anew(&t, ASKED_PULL_LATEST, 1);
    expect_again(&t, &first);
    answer_pushes(&t, 2, 3, 2);
    script_end(&t);
}

/* It was said to nobody that this batch is done. */
static void test_the_clock_stands_still(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = async_of(TRAINING_BOUNDED);
    start_async(&t, &a);
    (void)script_compute(&t);
    assert_int_equal(script_asked(&t, 0).clock, 11);
    answer_pushes(&t, 0, 1, 1);
    struct worker_do_compute first = give_up(&t);
    assert_int_equal(script_asked(&t, 0).clock, 11);
    assert_false(script_asked(&t, 0).joins);
    pull_anew(&t, ASKED_PULL_LATEST, 1);
    expect_again(&t, &first);
    assert_int_equal(script_asked(&t, 0).clock, 12);
    answer_pushes(&t, 1, 2, 2);
    script_end(&t);
}

/* The lead was to be asked first. */
static void test_a_batch_that_the_lead_decides_on(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = async_of(TRAINING_BOUNDED);
    a.consistency.policy = POLICY_MAX_STALENESS;
    a.consistency.max_staleness = 2;
    start_async(&t, &a);
    for (uint32_t batch = 0; batch < 2; batch++) {
        if (batch == 1) {
            struct worker_do_compute first = give_up(&t);
            assert_int_equal(script_asked(&t, 0).clock, 11);
            pull_anew(&t, ASKED_PULL_LATEST, 1);
            expect_again(&t, &first);
        } else {
            (void)script_compute(&t);
        }
        struct asked push = script_exchange(&t, 0);
        assert_true(push.push && !push.decided);
        assert_int_equal(push.clock, 11 + batch);
        script_answer(&t, &push, batch + 1, PUSH_APPLIED);
        while (script_count(&t, WORKER_DO_EXCHANGE) > 0) {
            struct asked other = script_take_exchange(&t);
            script_answer(&t, &other, batch + 1, other.push ? PUSH_APPLIED : PUSH_NONE);
            if (script_count(&t, WORKER_DO_COMPUTE) > 0) {
                break;
            }
        }
    }
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).compute.batch.batch, 2);
    script_end(&t);
}

static void test_a_hold_in_async(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = async_of(TRAINING_ASYNC);
    start_async(&t, &a);
    (void)script_compute(&t);
    answer_pushes(&t, 0, 1, 1);
    a.hold = true;
    script_assign(&t, &a);
    (void)give_up(&t);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 0);
    assert_true(script_report(&t).idle);
    script_end(&t);
}

static void test_overlap_is_not_early(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = async_of(TRAINING_ASYNC);
    a.consistency.overlap = true;
    start_async(&t, &a);
    (void)script_compute(&t);
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
        struct asked push = script_exchange(&t, s);
        assert_true(push.push && push.pull == ASKED_PULL_LATEST && !push.early);
    }
    script_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_gradient_that_leaves_while_it_is_computed),
        cmocka_unit_test(test_giving_up_at_every_step),
        cmocka_unit_test(test_a_gradient_that_is_summed_first),
        cmocka_unit_test(test_a_node_that_leaves_before_others),
        cmocka_unit_test(test_a_pull_that_fails_is_tried_later),
        cmocka_unit_test(test_a_hold_meets_a_computation_that_was_given_up),
        cmocka_unit_test(test_a_generation_ends_meanwhile),
        cmocka_unit_test(test_a_worker_that_is_fenced_meanwhile),
        cmocka_unit_test(test_early_parameters_end_with_their_generation),
        cmocka_unit_test(test_the_next_parameters_come_before_the_computation_ends),
        cmocka_unit_test(test_rounds_of_sums_are_not_early),
        cmocka_unit_test(test_the_first_step_in_rounds_has_early_parameters),
        cmocka_unit_test(test_a_batch_of_a_lease),
        cmocka_unit_test(test_the_first_of_a_push_of_several),
        cmocka_unit_test(test_the_clock_stands_still),
        cmocka_unit_test(test_a_batch_that_the_lead_decides_on),
        cmocka_unit_test(test_a_hold_in_async),
        cmocka_unit_test(test_overlap_is_not_early),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
