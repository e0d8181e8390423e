/* SPDX-License-Identifier: Apache-2.0 */
/* Sync that need not wait for every worker: partial steps. */
#include "nonblocking_rig.h"

static void test_partial_pushes_single_replicas(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = nonblocking_partial(3, 0, 2);
    nonblocking_start(&t, &a, 0);
    struct worker_do_compute first = script_compute(&t);
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) { /* the next version goes to the other set */
        struct asked push = script_exchange(&t, s);
        assert_true(push.push && push.replica_first == 0 && push.replica_end == 1);
        assert_int_equal(push.pull, ASKED_PULL_AT_LEAST);
        assert_int_equal(push.version, 1);
        assert_int_not_equal(push.set, first.set);
    }
    struct worker_do_compute second = script_compute(&t); /* while those wait */
    assert_int_equal(second.set, first.set);
    assert_int_not_equal(second.buffer, first.buffer);
    struct asked push = script_exchange(&t, 0);
    assert_true(push.push && push.replica_first == 1 && push.replica_end == 2);
    assert_int_equal(push.pull, ASKED_PULL_NONE);
    assert_int_equal(t.adds, 0);
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    script_end(&t);
}

static void test_partial_carries_the_decision(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = nonblocking_partial(2, 0, 2);
    nonblocking_start(&t, &a, 0);
    (void)script_compute(&t);
    struct asked lead = script_exchange(&t, 0);
    struct asked other = script_exchange(&t, 1);
    (void)script_compute(&t);
    struct asked lead_second = script_exchange(&t, 0);
    struct asked other_second = script_exchange(&t, 1);
    uint8_t bits = 0x0c;
    struct worker_event e = script_answer_of(&lead, 1, PUSH_STALE);
    e.exchanged.answer.decision.replicas = &bits;
    e.exchanged.answer.decision.bytes = 1;
    script_feed(&t, e);
    struct asked decision = script_exchange(&t, 1);
    assert_true(decision.has_decision && !decision.push && decision.pull == ASKED_PULL_NONE);
    assert_int_equal(decision.decision_step, 0);
    assert_int_equal(decision.decision_bytes, 1);
    assert_true(decision.decision != &bits && decision.decision[0] == bits);
    e.exchanged.exchange = lead_second.exchange;
    script_feed(&t, e);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 0); /* once is enough */
    script_refuse(&t, &decision, ERR_UNAVAILABLE);
    script_timer(&t);
    struct asked ask = script_exchange(&t, 1); /* what does it lack? */
    assert_true(ask.ask_spare);
    nonblocking_answer_spare(&t, &ask, false, 0, 1000);
    script_timer(&t);
    decision = script_exchange(&t, 1); /* until it is heard */
    assert_true(decision.has_decision && decision.decision[0] == bits);
    script_answer(&t, &decision, 0, PUSH_NONE);
    script_answer(&t, &other, 1, PUSH_STALE);
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    script_answer(&t, &other_second, 1, PUSH_STALE);
    struct worker_do_compute next = script_take(&t, WORKER_DO_COMPUTE).compute;
    assert_int_equal(next.step, 1);
    assert_int_equal(next.set, other.set);
    assert_int_equal(script_report(&t).dropped, 2); /* counted once each, at the lead */
    script_end(&t);
}

/* Batches 0..9 in steps of four: steps 0 and 1 are full, step 2 has two, then the next epoch. */
static void test_partial_goes_on_where_the_shards_are(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = nonblocking_partial(2, 2, 4);
    nonblocking_start(&t, &a, 0);
    (void)script_compute(&t);
    script_answer_both(&t, 4, PUSH_STALE); /* while it computes its second replica */
    (void)script_compute(&t);
    struct worker_do_compute next = script_take(&t, WORKER_DO_COMPUTE).compute;
    assert_int_equal(next.step, 4);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 0); /* the second was thrown away */
    /* Both of step 0, both of step 1, none of step 2, both of step 3. */
    struct worker_do_report_progress report = script_report(&t);
    assert_int_equal(report.dropped, 6);
    assert_int_equal(report.position, 4);
    script_end(&t);
}

/* A shard that lies spoils the count, and keeps nobody counting. */
static void test_a_claim_of_any_version_is_counted_at_once(void **state)
{
    (void)state;
    const uint64_t claimed = UINT64_C(3) << 58; /* an epoch has three steps */
    struct script t;
    struct worker_assignment a = nonblocking_partial(2, 2, 4);
    a.step_limit = UINT64_MAX;
    nonblocking_start(&t, &a, 0);
    (void)script_compute(&t);
    script_answer_both(&t, claimed, PUSH_STALE);
    (void)script_compute(&t);
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).compute.step, claimed);
    struct worker_do_report_progress report = script_report(&t);
    assert_int_equal(report.position, claimed);
    assert_int_equal(report.dropped, UINT64_C(4) << 58);
    script_end(&t);
}

/* Of the step that it is in, it counts what it has not pushed. */
static void test_what_was_pushed_is_not_counted_as_skipped(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = nonblocking_partial(3, 0, 3);
    nonblocking_start(&t, &a, 0);
    (void)script_compute(&t);
    struct asked lead = script_exchange(&t, 0);
    struct asked other = script_exchange(&t, 1);
    (void)script_take(&t, WORKER_DO_COMPUTE);
    script_answer(&t, &lead, 2, PUSH_APPLIED);
    script_answer(&t, &other, 2, PUSH_APPLIED);
    script_feed(&t, (struct worker_event){.kind = WORKER_COMPUTED});
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).compute.step, 2);
    /* Two replicas of step 0, and three of step 1. */
    assert_int_equal(script_report(&t).dropped, 5);
    script_end(&t);
}

/* A report of a generation that is over is not taken; what it counted is in the next one, unless it
 * was sent before and may have been taken then. */
static void test_what_was_dropped_is_counted_once(void **state)
{
    (void)state;
    for (int sent = 1; sent <= 2; sent++) {
        struct script t;
        struct worker_assignment a = nonblocking_partial(2, 2, 4);
        nonblocking_start(&t, &a, 0);
        (void)script_compute(&t);
        script_answer_both(&t, 4, PUSH_STALE);
        (void)script_compute(&t);
        (void)script_take(&t, WORKER_DO_COMPUTE);
        t.now_ms += WORKER_REPORT_MS;
        script_feed(&t, (struct worker_event){.kind = WORKER_TIMER});
        assert_int_equal(script_take(&t, WORKER_DO_REPORT_PROGRESS).report_progress.dropped, 6);
        if (sent == 2) {
            script_feed(&t, (struct worker_event){.kind = WORKER_PROGRESS_REPORTED,
                                                  .reported.code = ERR_UNAVAILABLE});
            script_timer(&t);
            assert_int_equal(script_take(&t, WORKER_DO_REPORT_PROGRESS).report_progress.dropped, 6);
        }
        script_feed(&t, (struct worker_event){.kind = WORKER_PROGRESS_REPORTED,
                                              .reported.code = ERR_ABORTED});
        script_feed(&t, (struct worker_event){.kind = WORKER_COMPUTED});
        assert_int_equal(script_report(&t).dropped, sent == 1 ? 6 : 0);
        script_end(&t);
    }
}

static void test_partial_skips_only_what_every_shard_is_past(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = nonblocking_partial(3, 0, 3);
    nonblocking_start(&t, &a, 0);
    (void)script_compute(&t);
    struct asked lead = script_exchange(&t, 0);
    struct asked other = script_exchange(&t, 1);
    script_answer(&t, &lead, 1, PUSH_APPLIED);
    (void)script_compute(&t);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 2); /* pushed all the same */
    struct worker_do_compute third = script_take(&t, WORKER_DO_COMPUTE).compute;
    assert_int_equal(third.replica, 2);
    script_answer(&t, &other, 1, PUSH_APPLIED);
    script_feed(&t, (struct worker_event){.kind = WORKER_COMPUTED});
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 2); /* thrown away */
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    script_answer_both(&t, 1, PUSH_STALE);
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).compute.step, 1);
    assert_int_equal(script_report(&t).dropped, 2);
    script_end(&t);
}

/* Any answer says how far its shard is. */
static void test_partial_hears_of_the_end_of_a_step_early(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = nonblocking_partial(2, 0, 3);
    nonblocking_start(&t, &a, 0);
    (void)script_compute(&t);
    struct asked first[2] = {script_exchange(&t, 0), script_exchange(&t, 1)};
    (void)script_compute(&t);
    struct asked second[2] = {script_exchange(&t, 0), script_exchange(&t, 1)};
    script_answer(&t, &second[1], 1, PUSH_APPLIED);
    script_answer(&t, &second[0], 1, PUSH_APPLIED);
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    script_answer(&t, &first[0], 1, PUSH_APPLIED);
    script_answer(&t, &first[1], 1, PUSH_APPLIED);
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).compute.step, 1);
    script_end(&t);
}

static void test_versions_that_differ_are_aligned(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = nonblocking_partial(2, 0, 1);
    nonblocking_start(&t, &a, 0);
    (void)script_compute(&t);
    struct asked lead = script_exchange(&t, 0);
    struct asked other = script_exchange(&t, 1);
    script_answer(&t, &lead, 3, PUSH_STALE);
    script_answer(&t, &other, 2, PUSH_STALE);
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    struct asked pull = script_exchange(&t, 1);
    assert_int_equal(pull.pull, ASKED_PULL_VERSION);
    assert_int_equal(pull.version, 3);
    assert_int_equal(pull.set, other.set);
    script_refuse(&t, &pull, ERR_RANGE); /* it went on, and so all did */
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 2);
    assert_int_equal(script_asked(&t, 0).pull, ASKED_PULL_AT_LEAST);
    script_answer_both(&t, 5, PUSH_NONE);
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).compute.step, 5);
    assert_int_equal(t.failures, 0);
    script_end(&t);
}

/* Whoever made the lead go on has stopped before it pushed the same to the other shard. */
static void test_a_shard_that_does_not_follow_is_helped(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = nonblocking_partial(2, 0, 1);
    nonblocking_start(&t, &a, 0);
    struct worker_do_compute first = script_compute(&t);
    struct asked lead = script_exchange(&t, 0);
    struct asked other = script_exchange(&t, 1);
    script_answer(&t, &lead, 3, PUSH_STALE);
    script_answer(&t, &other, 2, PUSH_STALE);
    struct asked waits = script_exchange(&t, 1);
    assert_int_equal(waits.version, 3);
    uint64_t until = t.now_ms + 100;
    while (t.now_ms < until) {
        assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 0);
        script_timer(&t);
    }
    assert_int_equal(t.now_ms, until);
    struct asked back[2] = {script_exchange(&t, 0), script_exchange(&t, 1)};
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
        assert_int_equal(back[s].pull, ASKED_PULL_VERSION);
        assert_int_equal(back[s].version, 2);
        assert_int_equal(back[s].set, first.set);
        script_answer(&t, &back[s], 2, PUSH_NONE);
    }
    struct worker_do_compute second = script_take(&t, WORKER_DO_COMPUTE).compute;
    assert_int_equal(second.step, 2);
    assert_int_equal(second.set, first.set);
    script_feed(&t, (struct worker_event){.kind = WORKER_COMPUTED});
    lead = script_exchange(&t, 0);
    other = script_exchange(&t, 1);
    assert_true(lead.push && lead.step == 2 && lead.pull == ASKED_PULL_NONE);
    script_answer(&t, &lead, 3, PUSH_STALE);
    script_answer(&t, &other, 3, PUSH_APPLIED);
    script_answer(&t, &waits, 3, PUSH_NONE);
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).compute.step, 3);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 0);
    script_end(&t);
}

/* The lead was one step ahead when the generation began: the other shard may wait for this worker.
 */
static void test_a_step_that_was_open_is_not_skipped(void **state)
{
    (void)state;
    struct script t;
    script_begin(&t, 2);
    struct worker_assignment a = nonblocking_partial(2, 0, 1);
    a.step = 3;
    script_assign(&t, &a);
    struct asked lead = script_exchange(&t, 0);
    struct asked other = script_exchange(&t, 1);
    script_answer(&t, &lead, 4, PUSH_NONE);
    script_answer(&t, &other, 3, PUSH_NONE);
    struct asked pull = script_exchange(&t, 0);
    assert_int_equal(pull.pull, ASKED_PULL_VERSION);
    assert_int_equal(pull.version, 3);
    script_answer(&t, &pull, 3, PUSH_NONE);
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).compute.step, 3);
    script_end(&t);
}

/* What it holds may be of the step before. */
static void test_an_older_set_is_not_gone_on_from(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = nonblocking_partial(2, 0, 1);
    nonblocking_start(&t, &a, 0);
    (void)script_compute(&t);
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
        struct asked x = script_exchange(&t, s);
        script_refuse(&t, &x, ERR_ABORTED);
    }
    a.generation = 2;
    a.step = 1;
    script_assign(&t, &a);
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    script_answer_both(&t, 1, PUSH_NONE);
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).compute.step, 1);
    script_end(&t);
}

/* One replica makes the step: more of them wait, unless the lead wants none of it. */
static void test_no_more_replicas_than_the_step_needs(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = nonblocking_partial(1, 0, 3);
    nonblocking_start(&t, &a, 0);
    (void)script_compute(&t);
    struct asked lead = script_exchange(&t, 0);
    (void)script_exchange(&t, 1);
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    uint8_t bits = 0x02; /* decided before this generation, with a replica that is its own now */
    struct worker_event e = script_answer_of(&lead, 1, PUSH_STALE);
    e.exchanged.answer.decision.replicas = &bits;
    e.exchanged.answer.decision.bytes = 1;
    script_feed(&t, e);
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).compute.replica, 1);
    script_end(&t);
}

static void test_empty_replicas_are_pushed_and_not_counted(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = nonblocking_partial(2, 2, 4);
    a.step = 2;
    nonblocking_start(&t, &a, 2);
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 4);
    assert_int_equal(script_asked(&t, 0).examples, 0);
    assert_int_equal(script_asked(&t, 0).buffer, WORKER_BUFFER_NONE);
    assert_int_equal(script_asked(&t, 0).pull, ASKED_PULL_AT_LEAST);
    script_answer_both(&t, 3, PUSH_STALE);
    script_answer_both(&t, 3, PUSH_STALE);
    (void)script_compute(&t);
    assert_int_equal(script_report(&t).dropped, 0);
    script_end(&t);
}

static void test_too_many_single_replicas_fail_the_job(void **state)
{
    (void)state;
    struct script t;
    script_begin(&t, 2);
    struct worker_assignment a = nonblocking_partial(2, 0, WORKER_SINGLES_MAX + 1);
    a.consistency.replicas = WORKER_SINGLES_MAX + 1;
    script_assign(&t, &a);
    assert_int_equal(t.failures, 1);
    assert_non_null(strstr(t.failure, "1025 replicas on one worker; with replicas_to_aggregate"));
    assert_int_equal(t.open_count, 0);
    script_end(&t);
    script_begin(&t, 2);
    a.consistency.aggregate = a.consistency.replicas;
    a.consistency.speculate = 3; /* it may be late, and then it pushes each alone */
    script_assign(&t, &a);
    assert_int_equal(t.failures, 1);
    assert_non_null(strstr(t.failure, "1025 replicas on one worker; with speculate"));
    script_end(&t);
}

static void test_hold_names_the_first_step_not_begun(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = nonblocking_partial(2, 0, 2);
    nonblocking_start(&t, &a, 0);
    struct worker_assignment hold = a;
    hold.hold = true;
    script_assign(&t, &hold);
    assert_int_equal(t.reply.position, 1); /* its first replica is being computed */
    (void)script_compute(&t);
    (void)script_compute(&t);
    script_answer_both(&t, 7, PUSH_STALE);
    script_answer_both(&t, 7, PUSH_STALE);
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    struct worker_do_report_progress report = script_report(&t);
    assert_true(report.idle);
    assert_int_equal(report.position, 7);
    script_assign(&t, &hold);
    assert_int_equal(t.reply.position, 7);
    script_end(&t);
}

/* With its own replicas at the lead the step has enough: it computes no more of them, but what the
 * others lack. */
static void test_partial_asks_for_what_a_decision_names(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = nonblocking_partial(2, 0, 3);
    nonblocking_start(&t, &a, 0);
    (void)script_compute(&t);
    struct asked first[2] = {script_exchange(&t, 0), script_exchange(&t, 1)};
    (void)script_compute(&t);
    struct asked second[2] = {script_exchange(&t, 0), script_exchange(&t, 1)};
    assert_true(second[1].push);
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    assert_int_equal(t.timer_ms, t.now_ms + 20);
    script_timer(&t);
    struct asked ask = script_exchange(&t, 0);
    assert_true(ask.ask_spare);
    nonblocking_answer_spare(&t, &ask, false, 0, 1000);
    script_answer(&t, &first[0], 1, PUSH_APPLIED);
    assert_int_equal(script_compute(&t).replica, 2); /* the decision may be of long ago */
    assert_true(script_exchange(&t, 0).push && script_exchange(&t, 1).push);
    assert_int_equal(t.timer_ms, t.now_ms + 5);
    script_timer(&t);
    ask = script_exchange(&t, 1);
    assert_true(ask.ask_spare && ask.step == 0);
    nonblocking_answer_spare(&t, &ask, true, 3, 0);
    assert_int_equal(script_compute(&t).replica, 3);
    struct asked spare = script_exchange(&t, 1);
    assert_true(spare.push && spare.spare && spare.replica_first == 3);
    script_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partial_pushes_single_replicas),
        cmocka_unit_test(test_partial_carries_the_decision),
        cmocka_unit_test(test_partial_goes_on_where_the_shards_are),
        cmocka_unit_test(test_a_claim_of_any_version_is_counted_at_once),
        cmocka_unit_test(test_what_was_pushed_is_not_counted_as_skipped),
        cmocka_unit_test(test_what_was_dropped_is_counted_once),
        cmocka_unit_test(test_partial_skips_only_what_every_shard_is_past),
        cmocka_unit_test(test_partial_hears_of_the_end_of_a_step_early),
        cmocka_unit_test(test_versions_that_differ_are_aligned),
        cmocka_unit_test(test_a_shard_that_does_not_follow_is_helped),
        cmocka_unit_test(test_a_step_that_was_open_is_not_skipped),
        cmocka_unit_test(test_an_older_set_is_not_gone_on_from),
        cmocka_unit_test(test_no_more_replicas_than_the_step_needs),
        cmocka_unit_test(test_empty_replicas_are_pushed_and_not_counted),
        cmocka_unit_test(test_too_many_single_replicas_fail_the_job),
        cmocka_unit_test(test_hold_names_the_first_step_not_begun),
        cmocka_unit_test(test_partial_asks_for_what_a_decision_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
