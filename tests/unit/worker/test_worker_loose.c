/* SPDX-License-Identifier: Apache-2.0 */
/* Sync that need not wait for every worker: partial and speculative steps. */
#include "unit/worker/script.h"

static struct worker_assignment partial(uint32_t aggregate, uint32_t first, uint32_t end)
{
    return (struct worker_assignment){
        .generation = 1,
        .consistency = {.mode = TRAINING_SYNC, .replicas = 4, .aggregate = aggregate},
        .replica_first = first,
        .replica_end = end,
        .step_limit = 100,
    };
}

static struct worker_assignment speculative(uint32_t first, uint32_t end)
{
    struct worker_assignment a = partial(4, first, end);
    a.consistency.speculate = 2;
    return a;
}

/* Pull the first version, which is @version on both shards. */
static void start(struct script *t, const struct worker_assignment *a, uint64_t version)
{
    script_begin(t, 2);
    script_assign(t, a);
    assert_int_equal(script_asked(t, 0).pull, ASKED_PULL_AT_LEAST);
    assert_int_equal(script_asked(t, 0).version, a->step);
    script_answer_both(t, version, PUSH_NONE);
}

static void answer_spare(struct script *t, const struct asked *ask, bool given, uint32_t replica,
                         uint32_t wait_ms)
{
    struct worker_event e = script_answer_of(ask, 0, PUSH_NONE);
    e.answer.kind = EXCHANGE_SPARE;
    e.answer.spare.given = given;
    e.answer.spare.replica = replica;
    e.answer.spare.wait_ms = wait_ms;
    script_feed(t, e);
}

static void test_partial_pushes_single_replicas(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = partial(3, 0, 2);
    start(&t, &a, 0);
    struct worker_action first = script_compute(&t);
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) { /* the next version goes to the other set */
        struct asked push = script_exchange(&t, s);
        assert_true(push.push && push.replica_first == 0 && push.replica_end == 1);
        assert_int_equal(push.pull, ASKED_PULL_AT_LEAST);
        assert_int_equal(push.version, 1);
        assert_int_not_equal(push.set, first.set);
    }
    struct worker_action second = script_compute(&t); /* while those wait */
    assert_int_equal(second.set, first.set);
    assert_int_not_equal(second.slot, first.slot);
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
    struct worker_assignment a = partial(2, 0, 2);
    start(&t, &a, 0);
    (void)script_compute(&t);
    struct asked lead = script_exchange(&t, 0);
    struct asked other = script_exchange(&t, 1);
    (void)script_compute(&t);
    struct asked lead_second = script_exchange(&t, 0);
    struct asked other_second = script_exchange(&t, 1);
    uint8_t bits = 0x0c;
    struct worker_event e = script_answer_of(&lead, 1, PUSH_STALE);
    e.answer.decision.replicas = &bits;
    e.answer.decision.bytes = 1;
    script_feed(&t, e);
    struct asked decision = script_exchange(&t, 1);
    assert_true(decision.has_decision && !decision.push && decision.pull == ASKED_PULL_NONE);
    assert_int_equal(decision.decision_step, 0);
    assert_int_equal(decision.decision_bytes, 1);
    assert_true(decision.decision != &bits && decision.decision[0] == bits);
    e.exchange = lead_second.exchange;
    script_feed(&t, e);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 0); /* once is enough */
    script_refuse(&t, &decision, ERR_UNAVAILABLE);
    script_timer(&t);
    struct asked ask = script_exchange(&t, 1); /* what does it lack? */
    assert_true(ask.ask_spare);
    answer_spare(&t, &ask, false, 0, 1000);
    script_timer(&t);
    decision = script_exchange(&t, 1); /* until it is heard */
    assert_true(decision.has_decision && decision.decision[0] == bits);
    script_answer(&t, &decision, 0, PUSH_NONE);
    script_answer(&t, &other, 1, PUSH_STALE);
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    script_answer(&t, &other_second, 1, PUSH_STALE);
    struct worker_action next = script_take(&t, WORKER_DO_COMPUTE);
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
    struct worker_assignment a = partial(2, 2, 4);
    start(&t, &a, 0);
    (void)script_compute(&t);
    script_answer_both(&t, 4, PUSH_STALE); /* while it computes its second replica */
    (void)script_compute(&t);
    struct worker_action next = script_take(&t, WORKER_DO_COMPUTE);
    assert_int_equal(next.step, 4);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 0); /* the second was thrown away */
    /* Both of step 0, both of step 1, none of step 2, both of step 3. */
    struct worker_action report = script_report(&t);
    assert_int_equal(report.dropped, 6);
    assert_int_equal(report.position, 4);
    script_end(&t);
}

/* A report of a generation that is over is not taken; what it counted is in the next one, unless it
 * was sent before and may have been taken then. */
static void test_what_was_dropped_is_counted_once(void **state)
{
    (void)state;
    for (int sent = 1; sent <= 2; sent++) {
        struct script t;
        struct worker_assignment a = partial(2, 2, 4);
        start(&t, &a, 0);
        (void)script_compute(&t);
        script_answer_both(&t, 4, PUSH_STALE);
        (void)script_compute(&t);
        (void)script_take(&t, WORKER_DO_COMPUTE);
        t.now_ms += WORKER_REPORT_MS;
        script_feed(&t, (struct worker_event){.kind = WORKER_TIMER});
        assert_int_equal(script_take(&t, WORKER_DO_REPORT_PROGRESS).dropped, 6);
        if (sent == 2) {
            script_feed(&t, (struct worker_event){.kind = WORKER_PROGRESS_REPORTED,
                                                  .code = ERR_UNAVAILABLE});
            script_timer(&t);
            assert_int_equal(script_take(&t, WORKER_DO_REPORT_PROGRESS).dropped, 6);
        }
        script_feed(&t,
                    (struct worker_event){.kind = WORKER_PROGRESS_REPORTED, .code = ERR_ABORTED});
        script_feed(&t, (struct worker_event){.kind = WORKER_COMPUTED});
        assert_int_equal(script_report(&t).dropped, sent == 1 ? 6 : 0);
        script_end(&t);
    }
}

static void test_partial_skips_only_what_every_shard_is_past(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = partial(3, 0, 3);
    start(&t, &a, 0);
    (void)script_compute(&t);
    struct asked lead = script_exchange(&t, 0);
    struct asked other = script_exchange(&t, 1);
    script_answer(&t, &lead, 1, PUSH_APPLIED);
    (void)script_compute(&t);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 2); /* pushed all the same */
    struct worker_action third = script_take(&t, WORKER_DO_COMPUTE);
    assert_int_equal(third.replica, 2);
    script_answer(&t, &other, 1, PUSH_APPLIED);
    script_feed(&t, (struct worker_event){.kind = WORKER_COMPUTED});
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 2); /* thrown away */
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    script_answer_both(&t, 1, PUSH_STALE);
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).step, 1);
    assert_int_equal(script_report(&t).dropped, 2);
    script_end(&t);
}

/* Any answer says how far its shard is. */
static void test_partial_hears_of_the_end_of_a_step_early(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = partial(2, 0, 3);
    start(&t, &a, 0);
    (void)script_compute(&t);
    struct asked first[2] = {script_exchange(&t, 0), script_exchange(&t, 1)};
    (void)script_compute(&t);
    struct asked second[2] = {script_exchange(&t, 0), script_exchange(&t, 1)};
    script_answer(&t, &second[1], 1, PUSH_APPLIED);
    script_answer(&t, &second[0], 1, PUSH_APPLIED);
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    script_answer(&t, &first[0], 1, PUSH_APPLIED);
    script_answer(&t, &first[1], 1, PUSH_APPLIED);
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).step, 1);
    script_end(&t);
}

static void test_versions_that_differ_are_aligned(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = partial(2, 0, 1);
    start(&t, &a, 0);
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
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).step, 5);
    assert_int_equal(t.failures, 0);
    script_end(&t);
}

/* Whoever made the lead go on has stopped before it pushed the same to the other shard. */
static void test_a_shard_that_does_not_follow_is_helped(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = partial(2, 0, 1);
    start(&t, &a, 0);
    struct worker_action first = script_compute(&t);
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
    struct worker_action second = script_take(&t, WORKER_DO_COMPUTE);
    assert_int_equal(second.step, 2);
    assert_int_equal(second.set, first.set);
    script_feed(&t, (struct worker_event){.kind = WORKER_COMPUTED});
    lead = script_exchange(&t, 0);
    other = script_exchange(&t, 1);
    assert_true(lead.push && lead.step == 2 && lead.pull == ASKED_PULL_NONE);
    script_answer(&t, &lead, 3, PUSH_STALE);
    script_answer(&t, &other, 3, PUSH_APPLIED);
    script_answer(&t, &waits, 3, PUSH_NONE);
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).step, 3);
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
    struct worker_assignment a = partial(2, 0, 1);
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
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).step, 3);
    script_end(&t);
}

/* What it holds may be of the step before. */
static void test_an_older_set_is_not_gone_on_from(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = partial(2, 0, 1);
    start(&t, &a, 0);
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
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).step, 1);
    script_end(&t);
}

/* One replica makes the step: more of them wait, unless the lead wants none of it. */
static void test_no_more_replicas_than_the_step_needs(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = partial(1, 0, 3);
    start(&t, &a, 0);
    (void)script_compute(&t);
    struct asked lead = script_exchange(&t, 0);
    (void)script_exchange(&t, 1);
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    uint8_t bits = 0x02; /* decided before this generation, with a replica that is its own now */
    struct worker_event e = script_answer_of(&lead, 1, PUSH_STALE);
    e.answer.decision.replicas = &bits;
    e.answer.decision.bytes = 1;
    script_feed(&t, e);
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).replica, 1);
    script_end(&t);
}

static void test_empty_replicas_are_pushed_and_not_counted(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = partial(2, 2, 4);
    a.step = 2;
    start(&t, &a, 2);
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 4);
    assert_int_equal(script_asked(&t, 0).examples, 0);
    assert_int_equal(script_asked(&t, 0).slot, WORKER_SLOT_NONE);
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
    struct worker_assignment a = partial(2, 0, WORKER_SINGLES_MAX + 1);
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
    struct worker_assignment a = partial(2, 0, 2);
    start(&t, &a, 0);
    struct worker_assignment hold = a;
    hold.hold = true;
    script_assign(&t, &hold);
    assert_int_equal(t.reply.position, 1); /* its first replica is being computed */
    (void)script_compute(&t);
    (void)script_compute(&t);
    script_answer_both(&t, 7, PUSH_STALE);
    script_answer_both(&t, 7, PUSH_STALE);
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    struct worker_action report = script_report(&t);
    assert_true(report.idle_report);
    assert_int_equal(report.position, 7);
    script_assign(&t, &hold);
    assert_int_equal(t.reply.position, 7);
    script_end(&t);
}

/* ---- speculation ---- */

/* Its replica of step 0 is pushed; returns its request for a spare one. */
static struct asked wait_for_spares(struct script *t, struct asked push[2])
{
    struct worker_assignment a = speculative(0, 1);
    start(t, &a, 0);
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
    answer_spare(&t, &ask, false, 0, 30);
    assert_int_equal(t.timer_ms, t.now_ms + 30);
    assert_int_equal(t.open_count, 0);
    script_timer(&t);
    ask = script_exchange(&t, 0);
    answer_spare(&t, &ask, true, 3, 0);
    struct worker_action spare = script_compute(&t);
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
    answer_spare(&t, &ask, true, 2, 0);
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
    answer_spare(&t, &ask, true, 1, 0);
    struct worker_action spare = script_take(&t, WORKER_DO_COMPUTE);
    script_answer(&t, &push[0], 1, PUSH_ACCEPTED);
    script_answer(&t, &push[1], 1, PUSH_ACCEPTED);
    assert_int_equal(t.open_count, 0); /* the set is still read */
    script_feed(&t, (struct worker_event){.kind = WORKER_COMPUTED});
    struct worker_action next = script_take(&t, WORKER_DO_COMPUTE);
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
    answer_spare(t, &ask, true, replica, 0);
    struct worker_action spare = script_compute(t);
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
    struct worker_action first = script_compute(t);
    assert_int_equal(first.replica, 0);
    assert_true(first.slot < 3);
    assert_int_equal(script_take(t, WORKER_DO_COMPUTE).replica, 1);
    script_answer_both(t, version, PUSH_NONE);
    script_feed(t, (struct worker_event){.kind = WORKER_COMPUTED});
}

static void test_a_late_worker_shares_its_replicas(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = speculative(0, 2);
    start(&t, &a, 0);
    fall_behind(&t, 1);
    struct asked push[2];
    push_alone(&t, 0, push);
    struct asked ask = script_exchange(&t, 0);
    assert_true(ask.ask_spare && t.open_count == 0); /* replica 1 is whose who asks first */
    answer_spare(&t, &ask, false, 0, 0);
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
    start(&t, &a, 0);
    for (uint64_t version = 3; version < 600; version += 3) {
        fall_behind(&t, version - 2);
        struct asked push[2];
        push_alone(&t, 0, push);
        compute_spare(&t, 1);
        struct asked ask = script_exchange(&t, 0);
        answer_spare(&t, &ask, false, 0, 0);
        answer_two(&t, push, version - 1);
        size_t adds = t.adds;
        (void)script_compute(&t);
        struct asked pull[2] = {script_exchange(&t, 0), script_exchange(&t, 1)};
        (void)script_compute(&t);
        assert_int_equal(t.adds, adds + 1); /* one sum, as ever */
        script_answer_both(&t, version - 1, PUSH_ACCEPTED);
        ask = script_exchange(&t, 0);
        answer_spare(&t, &ask, false, 0, 0);
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
    answer_spare(&t, &ask, false, 0, 1000);
    script_answer(&t, &push[0], 1, PUSH_ACCEPTED); /* the next version */
    assert_int_equal(t.open_count, 0);
    assert_int_equal(t.timer_ms, t.now_ms + 5); /* mostly the other follows at once */
    script_timer(&t);
    ask = script_exchange(&t, 1);
    assert_true(ask.ask_spare && ask.step == 0);
    answer_spare(&t, &ask, true, 3, 0);
    struct worker_action spare = script_compute(&t);
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
    answer_spare(&t, &ask, false, 0, 0);
    script_timer(&t);
    ask = script_exchange(&t, 1);
    assert_true(ask.ask_spare);
    answer_spare(&t, &ask, false, 0, 0);
    script_timer(&t);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 0); /* nobody is left */
    script_end(&t);
}

/* With its own replicas at the lead the step has enough: it computes no more of them, but what the
 * others lack. */
static void test_partial_asks_for_what_a_decision_names(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = partial(2, 0, 3);
    start(&t, &a, 0);
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
    answer_spare(&t, &ask, false, 0, 1000);
    script_answer(&t, &first[0], 1, PUSH_APPLIED);
    assert_int_equal(script_compute(&t).replica, 2); /* the decision may be of long ago */
    assert_true(script_exchange(&t, 0).push && script_exchange(&t, 1).push);
    assert_int_equal(t.timer_ms, t.now_ms + 5);
    script_timer(&t);
    ask = script_exchange(&t, 1);
    assert_true(ask.ask_spare && ask.step == 0);
    answer_spare(&t, &ask, true, 3, 0);
    assert_int_equal(script_compute(&t).replica, 3);
    struct asked spare = script_exchange(&t, 1);
    assert_true(spare.push && spare.spare && spare.replica_first == 3);
    script_end(&t);
}

static void test_speculation_stops_asking(void **state)
{
    (void)state;
    struct script t;
    struct asked push[2];
    struct asked ask = wait_for_spares(&t, push);
    answer_spare(&t, &ask, false, 0, 0); /* complete at the lead */
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
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).step, 2); /* without that answer */
    script_end(&t);
}

static void test_speculation_of_a_worker_without_replicas(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = speculative(4, 4);
    start(&t, &a, 0);
    struct asked pull = script_exchange(&t, 0);
    assert_true(!pull.push && pull.pull == ASKED_PULL_AT_LEAST && pull.version == 1);
    struct asked other = script_exchange(&t, 1);
    struct asked ask = script_exchange(&t, 0);
    answer_spare(&t, &ask, true, 0, 0);
    assert_true(script_compute(&t).spare);
    script_answer_both(&t, 0, PUSH_ACCEPTED);
    script_answer(&t, &pull, 6, PUSH_NONE);
    script_answer(&t, &other, 6, PUSH_NONE);
    ask = script_exchange(&t, 0);
    answer_spare(&t, &ask, true, 1, 0); /* on its way when the step was over */
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    struct worker_action report = script_report(&t);
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
    start(&t, &a, 0);
    struct worker_action first = script_compute(&t);
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
    answer_spare(&t, &ask, true, 4, 0);
    assert_int_equal(t.failures, 1);
    script_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_partial_pushes_single_replicas),
        cmocka_unit_test(test_partial_carries_the_decision),
        cmocka_unit_test(test_partial_goes_on_where_the_shards_are),
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
        cmocka_unit_test(test_speculation_computes_spare_replicas),
        cmocka_unit_test(test_speculation_ends_with_the_step),
        cmocka_unit_test(test_a_late_worker_shares_its_replicas),
        cmocka_unit_test(test_a_worker_that_is_fast_again_does_its_own),
        cmocka_unit_test(test_speculation_asks_the_others_after_the_lead),
        cmocka_unit_test(test_speculation_asks_every_shard_once_it_has_all),
        cmocka_unit_test(test_partial_asks_for_what_a_decision_names),
        cmocka_unit_test(test_speculation_stops_asking),
        cmocka_unit_test(test_speculation_of_a_worker_without_replicas),
        cmocka_unit_test(test_speculation_sums_along_the_tree),
        cmocka_unit_test(test_a_spare_replica_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
