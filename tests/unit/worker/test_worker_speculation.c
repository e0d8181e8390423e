/* SPDX-License-Identifier: Apache-2.0 */
/* Sync that need not wait for every worker: spare replicas of those that are late. */
#include "nonblocking_rig.h"

static struct worker_assignment speculative(uint32_t first, uint32_t end)
{
    struct worker_assignment a = nonblocking_partial(4, first, end);
    a.consistency.speculate = 2;
    return a;
}

/* Its replica of step 0 is pushed; returns its request for a spare one. */
static struct asked wait_for_spares(struct script *t, struct asked push[2])
{
    struct worker_assignment a = speculative(0, 1);
    nonblocking_start(t, &a, 0);
    (void)script_compute(t);
    push[0] = script_exchange(t, 0);
    push[1] = script_exchange(t, 1);
    assert_int_equal(push[0].pull, ASKED_PULL_AT_LEAST);
    struct asked ask = script_exchange(t, 0);
    assert_true(ask.ask_spare && !ask.push && ask.pull == ASKED_PULL_NONE);
    assert_int_equal(ask.step, 0);
    assert_int_equal(t->open_count, 0);
    return ask;
}

static void test_speculation_computes_spare_replicas(void **state)
{
    (void)state;
    struct script t;
    struct asked push[2];
    struct asked ask = wait_for_spares(&t, push);
    nonblocking_answer_spare(&t, &ask, false, 0, 30);
    assert_int_equal(t.timer_ms, t.now_ms + 30);
    assert_int_equal(t.open_count, 0);
    script_timer(&t);
    ask = script_exchange(&t, 0);
    nonblocking_answer_spare(&t, &ask, true, 3, 0);
    struct worker_do_compute spare = script_compute(&t);
    assert_true(spare.spare && spare.replica == 3 && spare.step == 0);
    assert_int_not_equal(spare.set, push[0].set);
    struct asked lead = script_exchange(&t, 0);
    struct asked other = script_exchange(&t, 1);
    assert_true(lead.push && lead.spare && other.spare && lead.replica_first == 3 &&
                lead.replica_end == 4 && lead.pull == ASKED_PULL_NONE && lead.examples == 10);
    assert_int_equal(t.open_count, 0);
    script_answer(&t, &lead, 0, PUSH_ACCEPTED);
    script_answer(&t, &other, 0, PUSH_ACCEPTED);
    ask = script_exchange(&t, 0); /* at once */
    nonblocking_answer_spare(&t, &ask, true, 2, 0);
    (void)script_compute(&t);
    script_answer_both(&t, 0, PUSH_DUPLICATE);
    assert_int_equal(script_report(&t).speculated, 1); /* the second did not come first */
    script_end(&t);
}

static void test_speculation_ends_with_the_step(void **state)
{
    (void)state;
    struct script t;
    struct asked push[2];
    struct asked ask = wait_for_spares(&t, push);
    nonblocking_answer_spare(&t, &ask, true, 1, 0);
    struct worker_do_compute spare = script_take(&t, WORKER_DO_COMPUTE).compute;
    script_answer(&t, &push[0], 1, PUSH_ACCEPTED);
    script_answer(&t, &push[1], 1, PUSH_ACCEPTED);
    assert_int_equal(t.open_count, 0); /* the set is still read */
    script_feed(&t, (struct worker_event){.kind = WORKER_COMPUTED});
    struct worker_do_compute next = script_take(&t, WORKER_DO_COMPUTE).compute;
    assert_true(next.step == 1 && !next.spare && next.replica == 0);
    assert_int_not_equal(next.set, spare.set);
    assert_int_equal(t.open_count, 0); /* thrown away */
    script_end(&t);
}

/* Compute the next replica, which has to be @replica, and push it alone. */
static void push_alone(struct script *t, uint32_t replica, struct asked push[2])
{
    assert_int_equal(script_compute(t).replica, replica);
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
        push[s] = script_exchange(t, s);
        assert_true(push[s].push && !push[s].spare);
        assert_int_equal(push[s].replica_first, replica);
        assert_int_equal(push[s].replica_end, replica + 1);
    }
}

/* It is given @replica, and is the first to push it. */
static void compute_spare(struct script *t, uint32_t replica)
{
    struct asked ask = script_exchange(t, 0);
    assert_true(ask.ask_spare);
    nonblocking_answer_spare(t, &ask, true, replica, 0);
    struct worker_do_compute spare = script_compute(t);
    assert_true(spare.spare && spare.replica == replica);
    script_answer_both(t, 0, PUSH_ACCEPTED);
}

static void answer_two(struct script *t, const struct asked exchange[2], uint64_t version)
{
    script_answer(t, &exchange[0], version, PUSH_ACCEPTED);
    script_answer(t, &exchange[1], version, PUSH_ACCEPTED);
}

/* A worker with replicas 0 and 1 is in the midst of their sum when others have done all of the step
 * before @version. */
static void fall_behind(struct script *t, uint64_t version)
{
    struct worker_do_compute first = script_compute(t);
    assert_int_equal(first.replica, 0);
    assert_true(first.buffer < 3);
    assert_int_equal(script_take(t, WORKER_DO_COMPUTE).compute.replica, 1);
    script_answer_both(t, version, PUSH_NONE);
    script_feed(t, (struct worker_event){.kind = WORKER_COMPUTED});
}

static void test_a_late_worker_shares_its_replicas(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = speculative(0, 2);
    nonblocking_start(&t, &a, 0);
    fall_behind(&t, 1);
    struct asked push[2];
    push_alone(&t, 0, push);
    struct asked ask = script_exchange(&t, 0);
    assert_true(ask.ask_spare && t.open_count == 0); /* replica 1 is whose who asks first */
    nonblocking_answer_spare(&t, &ask, false, 0, 0);
    answer_two(&t, push, 2);
    push_alone(&t, 0, push);
    compute_spare(&t, 1);
    assert_int_equal(script_report(&t).speculated, 0); /* it was its own */
    script_end(&t);
}

/* Again and again: nothing is kept of sums that nobody needs any more. */
static void test_a_worker_that_is_fast_again_does_its_own(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = speculative(0, 2);
    a.step_limit = 1000;
    nonblocking_start(&t, &a, 0);
    for (uint64_t version = 3; version < 600; version += 3) {
        fall_behind(&t, version - 2);
        struct asked push[2];
        push_alone(&t, 0, push);
        compute_spare(&t, 1);
        struct asked ask = script_exchange(&t, 0);
        nonblocking_answer_spare(&t, &ask, false, 0, 0);
        answer_two(&t, push, version - 1);
        size_t adds = t.adds;
        (void)script_compute(&t);
        struct asked pull[2] = {script_exchange(&t, 0), script_exchange(&t, 1)};
        (void)script_compute(&t);
        assert_int_equal(t.adds, adds + 1); /* one sum, as ever */
        script_answer_both(&t, version - 1, PUSH_ACCEPTED);
        ask = script_exchange(&t, 0);
        nonblocking_answer_spare(&t, &ask, false, 0, 0);
        answer_two(&t, pull, version);
    }
    assert_int_equal(t.failures, 0);
    script_end(&t);
}

/* A worker stopped between its pushes to the lead, who goes on, and to the other. */
static void test_speculation_asks_the_others_after_the_lead(void **state)
{
    (void)state;
    struct script t;
    struct asked push[2];
    struct asked ask = wait_for_spares(&t, push);
    nonblocking_answer_spare(&t, &ask, false, 0, 1000);
    script_answer(&t, &push[0], 1, PUSH_ACCEPTED); /* the next version */
    assert_int_equal(t.open_count, 0);
    assert_int_equal(t.timer_ms, t.now_ms + 5); /* mostly the other follows at once */
    script_timer(&t);
    ask = script_exchange(&t, 1);
    assert_true(ask.ask_spare && ask.step == 0);
    nonblocking_answer_spare(&t, &ask, true, 3, 0);
    struct worker_do_compute spare = script_compute(&t);
    assert_true(spare.spare && spare.replica == 3 && spare.step == 0 && spare.set != push[0].set);
    struct asked other = script_exchange(&t, 1);
    assert_true(other.push && other.spare && other.replica_first == 3);
    assert_int_equal(t.open_count, 0); /* the lead has it */
    script_answer(&t, &other, 1, PUSH_APPLIED);
    script_answer(&t, &push[1], 1, PUSH_ACCEPTED);
    assert_int_equal(script_compute(&t).step, 1);
    assert_int_equal(script_report(&t).speculated, 1);
    script_end(&t);
}

/* The lead has all of the step, and what it waits for (sums, a free snapshot) others may need. */
static void test_speculation_asks_every_shard_once_it_has_all(void **state)
{
    (void)state;
    struct script t;
    struct asked push[2];
    struct asked ask = wait_for_spares(&t, push);
    nonblocking_answer_spare(&t, &ask, false, 0, 0);
    script_timer(&t);
    ask = script_exchange(&t, 1);
    assert_true(ask.ask_spare);
    nonblocking_answer_spare(&t, &ask, false, 0, 0);
    script_timer(&t);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 0); /* nobody is left */
    script_end(&t);
}

static void test_speculation_stops_asking(void **state)
{
    (void)state;
    struct script t;
    struct asked push[2];
    struct asked ask = wait_for_spares(&t, push);
    nonblocking_answer_spare(&t, &ask, false, 0, 0); /* complete at the lead */
    assert_int_equal(t.open_count, 0);
    script_answer(&t, &push[0], 1, PUSH_ACCEPTED);
    script_answer(&t, &push[1], 1, PUSH_ACCEPTED);
    assert_int_equal(script_compute(&t).step, 1);
    push[0] = script_exchange(&t, 0);
    push[1] = script_exchange(&t, 1);
    ask = script_exchange(&t, 0);
    script_refuse(&t, &ask, ERR_UNAVAILABLE);
    script_answer(&t, &push[0], 2, PUSH_ACCEPTED);
    script_answer(&t, &push[1], 2, PUSH_ACCEPTED);
    script_feed(&t, (struct worker_event){.kind = WORKER_TIMER});
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).compute.step, 2); /* without that answer */
    script_end(&t);
}

static void test_speculation_of_a_worker_without_replicas(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = speculative(4, 4);
    nonblocking_start(&t, &a, 0);
    struct asked pull = script_exchange(&t, 0);
    assert_true(!pull.push && pull.pull == ASKED_PULL_AT_LEAST && pull.version == 1);
    struct asked other = script_exchange(&t, 1);
    struct asked ask = script_exchange(&t, 0);
    nonblocking_answer_spare(&t, &ask, true, 0, 0);
    assert_true(script_compute(&t).spare);
    script_answer_both(&t, 0, PUSH_ACCEPTED);
    script_answer(&t, &pull, 6, PUSH_NONE);
    script_answer(&t, &other, 6, PUSH_NONE);
    ask = script_exchange(&t, 0);
    nonblocking_answer_spare(&t, &ask, true, 1, 0); /* on its way when the step was over */
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    struct worker_do_report_progress report = script_report(&t);
    assert_int_equal(report.position, 6);
    assert_int_equal(report.dropped, 0); /* nothing is ever dropped */
    script_end(&t);
}

/* With two replicas the sum is pushed, and the next version is asked for before that. */
static void test_speculation_sums_along_the_tree(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = speculative(0, 2);
    nonblocking_start(&t, &a, 0);
    struct worker_do_compute first = script_compute(&t);
    struct asked pull = script_exchange(&t, 0);
    assert_true(!pull.push && pull.pull == ASKED_PULL_AT_LEAST && pull.set != first.set);
    (void)script_exchange(&t, 1);
    (void)script_compute(&t);
    struct asked push = script_exchange(&t, 0);
    assert_true(push.push && push.replica_first == 0 && push.replica_end == 2);
    assert_int_equal(push.pull, ASKED_PULL_NONE);
    assert_int_equal(t.adds, 1);
    script_end(&t);
}

static void test_a_spare_replica_that_is_not_there(void **state)
{
    (void)state;
    struct script t;
    struct asked push[2];
    struct asked ask = wait_for_spares(&t, push);
    nonblocking_answer_spare(&t, &ask, true, 4, 0);
    assert_int_equal(t.failures, 1);
    script_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_speculation_computes_spare_replicas),
        cmocka_unit_test(test_speculation_ends_with_the_step),
        cmocka_unit_test(test_a_late_worker_shares_its_replicas),
        cmocka_unit_test(test_a_worker_that_is_fast_again_does_its_own),
        cmocka_unit_test(test_speculation_asks_the_others_after_the_lead),
        cmocka_unit_test(test_speculation_asks_every_shard_once_it_has_all),
        cmocka_unit_test(test_speculation_stops_asking),
        cmocka_unit_test(test_speculation_of_a_worker_without_replicas),
        cmocka_unit_test(test_speculation_sums_along_the_tree),
        cmocka_unit_test(test_a_spare_replica_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
