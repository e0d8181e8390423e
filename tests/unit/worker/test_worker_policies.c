/* SPDX-License-Identifier: Apache-2.0 */
/* Async and bounded: leases of a generation, policies, pushes and pulls that cover several batches,
 * and changes of mode. */
#include "unit/worker/script.h"

#define SPLIT_BATCHES 5

static struct worker_assignment async_of(uint64_t generation)
{
    return (struct worker_assignment){
        .generation = generation,
        .consistency = {.mode = TRAINING_ASYNC,
                        .replicas = 1,
                        .aggregate = 1,
                        .push_every = 1,
                        .pull_every = 1},
        .leases = {{.split = 0, .batch_end = SPLIT_BATCHES, .fresh = true}},
        .lease_count = 1,
    };
}

/* Assigned, and the parameters of version @version pulled. */
static void start(struct script *t, const struct worker_assignment *a, uint64_t version)
{
    script_begin(t, SPLIT_BATCHES);
    script_assign(t, a);
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
        struct asked pull = script_exchange(t, s);
        assert_int_equal(pull.pull, ASKED_PULL_LATEST);
        assert_false(pull.progress); /* nobody worked on its split before */
        script_answer(t, &pull, version, PUSH_NONE);
    }
}

/* Both shards get the same push; they have not answered it. */
static struct asked expect_push(struct script *t, uint32_t batch, uint32_t end, struct asked *other)
{
    struct asked push = script_exchange(t, 0);
    *other = script_exchange(t, 1);
    assert_true(push.push && other->push);
    assert_int_equal(push.batch.batch, batch);
    assert_int_equal(push.batch_end, end);
    assert_int_equal(push.examples, (end - batch) * 10);
    assert_int_equal(other->batch_end, end);
    assert_int_equal(other->buffer, push.buffer);
    return push;
}

static void answer_push(struct script *t, uint32_t batch, uint32_t end, uint64_t version)
{
    struct asked other;
    struct asked push = expect_push(t, batch, end, &other);
    script_answer(t, &push, version, PUSH_APPLIED);
    script_answer(t, &other, version, PUSH_APPLIED);
}

static void test_push_every_sums_batches(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = async_of(1);
    a.consistency.push_every = 3;
    start(&t, &a, 0);
    struct worker_do_compute first = script_compute(&t);
    struct worker_do_compute second = script_compute(&t);
    assert_int_not_equal(second.buffer, first.buffer);
    assert_true(t.adds == 1 && t.add.buffer == first.buffer && t.add.buffer_from == second.buffer);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 0);
    (void)script_compute(&t);
    assert_int_equal(t.adds, 2);
    assert_int_equal(script_asked(&t, t.open_count - 1).buffer, first.buffer);
    answer_push(&t, 0, 3, 1);
    (void)script_compute(&t);
    (void)script_compute(&t);
    answer_push(&t, 3, 5, 2); /* up to the end of the lease */
    struct worker_do_report_progress report = script_report(&t);
    assert_int_equal(report.position, 5);
    assert_int_equal(script_take(&t, WORKER_DO_REPORT_SPLIT).report_split.batch_end, 5);
    script_end(&t);
}

/* Pushes are cut in the same places by whoever takes a split over. */
static void test_push_every_after_a_takeover(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = async_of(1);
    a.consistency.push_every = 3;
    a.leases[0].fresh = false;
    a.leases[0].batch_end = 4;
    script_begin(&t, SPLIT_BATCHES);
    script_assign(&t, &a);
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
        struct asked pull = script_exchange(&t, s);
        assert_true(pull.progress);
        struct worker_event e = script_answer_of(&pull, 0, PUSH_NONE);
        e.exchanged.answer.train.progress = s == 0 ? 3 : 1;
        script_feed(&t, e);
    }
    (void)script_compute(&t);
    (void)script_compute(&t);
    answer_push(&t, 1, 3, 1);
    (void)script_compute(&t);
    answer_push(&t, 3, 4, 2); /* the lease ends before its split */
    (void)script_report(&t);
    struct worker_do_report_split report = script_take(&t, WORKER_DO_REPORT_SPLIT).report_split;
    assert_int_equal(report.batch_end, 4);
    script_end(&t);
}

static void test_hold_makes_a_push_whole(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = async_of(1);
    a.consistency.push_every = 2;
    start(&t, &a, 0);
    (void)script_compute(&t);
    a.hold = true;
    script_assign(&t, &a);
    (void)script_compute(&t);
    answer_push(&t, 0, 2, 1);
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    assert_true(script_report(&t).idle);
    a.hold = false;
    script_assign(&t, &a); /* it has given its lease back */
    assert_int_equal(script_take(&t, WORKER_DO_LEASE).lease.held_count, 0);
    script_end(&t);
}

static void test_pull_every(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = async_of(1);
    a.consistency.pull_every = 3;
    start(&t, &a, 7);
    for (uint32_t batch = 0; batch < 5; batch++) {
        (void)script_compute(&t);
        struct asked other;
        struct asked push = expect_push(&t, batch, batch + 1, &other);
        assert_int_equal(push.pull, batch == 2 ? ASKED_PULL_LATEST : ASKED_PULL_NONE);
        assert_int_equal(push.base_version, batch <= 2 ? 7 : 20);
        script_answer(&t, &push, 20, PUSH_APPLIED);
        script_answer(&t, &other, 20, PUSH_APPLIED);
    }
    script_end(&t);
}

static struct worker_assignment max_staleness(enum training_mode mode)
{
    struct worker_assignment a = async_of(1);
    a.consistency.mode = mode;
    a.consistency.policy = POLICY_MAX_STALENESS;
    a.consistency.max_staleness = 1;
    return a;
}

static void test_the_lead_decides_what_is_too_stale(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = max_staleness(TRAINING_ASYNC);
    start(&t, &a, 0);
    struct worker_do_compute first = script_compute(&t);
    struct asked lead = script_exchange(&t, 0);
    assert_true(lead.push && !lead.decided && lead.pull == ASKED_PULL_LATEST);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 0); /* the others hear nothing yet */
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    script_answer(&t, &lead, 9, PUSH_DROPPED);
    struct asked pull = script_exchange(&t, 1);
    assert_true(!pull.push && pull.pull == ASKED_PULL_LATEST);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 0); /* the lead's came with the answer */
    script_answer(&t, &pull, 8, PUSH_NONE);
    struct worker_do_compute again = script_compute(&t);
    assert_int_equal(again.step, first.step);
    assert_int_equal(again.batch.batch, 0);
    lead = script_exchange(&t, 0);
    assert_true(lead.push && lead.base_version == 9 && lead.batch.batch == 0);
    script_answer(&t, &lead, 10, PUSH_APPLIED);
    struct asked other = script_exchange(&t, 1);
    assert_true(other.push && other.decided && other.base_version == 8 &&
                other.pull == ASKED_PULL_LATEST && other.buffer == lead.buffer);
    script_answer(&t, &other, 9, PUSH_APPLIED);
    assert_int_equal(script_compute(&t).batch.batch, 1);
    lead = script_exchange(&t, 0);
    script_answer(&t, &lead, 11, PUSH_DUPLICATE); /* the others may not have it */
    assert_true(script_exchange(&t, 1).decided);
    assert_int_equal(script_report(&t).dropped, 1);
    script_end(&t);
}

/* Nothing was pulled with the push: all that it is computed on is old. */
static void test_a_dropped_push_without_a_pull(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = max_staleness(TRAINING_ASYNC);
    a.consistency.pull_every = 2;
    a.consistency.push_every = 2;
    start(&t, &a, 0);
    (void)script_compute(&t);
    (void)script_compute(&t);
    struct asked lead = script_exchange(&t, 0);
    assert_int_equal(lead.pull, ASKED_PULL_NONE);
    script_answer(&t, &lead, 0, PUSH_DROPPED);
    script_answer_both(&t, 5, PUSH_NONE);
    assert_int_equal(script_compute(&t).batch.batch, 0);
    assert_int_equal(script_report(&t).dropped, 2); /* both batches */
    script_end(&t);
}

/* A pull may wait for who is behind, and they for this worker's push to the other shards. */
static void test_the_leads_word_waits_for_no_pull_in_bounded_mode(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = max_staleness(TRAINING_BOUNDED);
    start(&t, &a, 0);
    (void)script_compute(&t);
    struct asked lead = script_exchange(&t, 0);
    assert_int_equal(lead.pull, ASKED_PULL_NONE);
    script_answer(&t, &lead, 1, PUSH_APPLIED);
    struct asked other = script_exchange(&t, 1);
    assert_true(other.push && other.decided && other.pull == ASKED_PULL_LATEST);
    struct asked pull = script_exchange(&t, 0);
    assert_true(!pull.push && pull.pull == ASKED_PULL_LATEST);
    script_answer(&t, &pull, 2, PUSH_NONE);
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    script_answer(&t, &other, 2, PUSH_APPLIED);
    assert_int_equal(script_compute(&t).batch.batch, 1);
    script_end(&t);
}

/* ---- leases ---- */

static struct worker_event granted(uint64_t generation, uint32_t split, uint32_t batch_end)
{
    return (struct worker_event){
        .kind = WORKER_LEASED,
        .leased = {.generation = generation,
                   .kind = WORKER_LEASE_GRANTED,
                   .granted = {.split = split, .batch_end = batch_end, .fresh = true}},
    };
}

static void test_requests_name_what_is_held(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = async_of(1);
    a.leases[0].batch_end = 2;
    start(&t, &a, 0);
    (void)script_compute(&t);
    answer_push(&t, 0, 1, 1);
    struct worker_do_lease ask =
        script_take(&t, WORKER_DO_LEASE).lease; /* its last batch is in hand */
    assert_int_equal(ask.held_count, 1);
    assert_true(ask.held[0].split == 0 && ask.held[0].batch_end == 2);
    script_feed(&t, granted(1, 1, SPLIT_BATCHES));
    (void)script_compute(&t);
    answer_push(&t, 1, 2, 2); /* done, and its report is not heard yet */
    a.leases[1] = (struct worker_lease){.split = 1, .batch_end = SPLIT_BATCHES};
    for (uint32_t batch = 0; batch < 4; batch++) {
        (void)script_compute(&t);
        answer_push(&t, batch, batch + 1, 3 + batch);
    }
    ask = script_take(&t, WORKER_DO_LEASE).lease;
    assert_int_equal(ask.held_count, 2);
    assert_true(ask.held[0].split == 0 && ask.held[1].split == 1);
    /* One that it has is no reason to ask again at once. */
    script_feed(&t, granted(1, 1, SPLIT_BATCHES));
    assert_int_equal(script_count(&t, WORKER_DO_LEASE), 0);
    assert_int_equal(t.failures, 0);
    script_end(&t);
}

static void test_a_generation_says_what_is_held(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = async_of(1);
    a.leases[0].batch_end = 1;
    start(&t, &a, 0);
    assert_int_equal(script_take(&t, WORKER_DO_LEASE).lease.generation, 1);
    struct worker_do_compute compute = script_take(&t, WORKER_DO_COMPUTE).compute;
    a.generation = 2;
    a.leases[0] = (struct worker_lease){.split = 1, .batch_end = 3};
    script_assign(&t, &a);
    script_feed(&t, granted(1, 0, SPLIT_BATCHES)); /* of the old one */
    assert_int_equal(compute.batch.split, 0);
    script_feed(&t, (struct worker_event){.kind = WORKER_COMPUTED});
    script_feed(&t, granted(1, 0, SPLIT_BATCHES));
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
        struct asked push = script_exchange(&t, s);
        assert_true(push.push && push.generation == 1);
        script_refuse(&t, &push, ERR_ABORTED);
    }
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
        struct asked pull = script_exchange(&t, s);
        assert_true(pull.progress && pull.generation == 2 && pull.batch.split == 1);
        script_answer(&t, &pull, 4, PUSH_NONE);
    }
    for (uint32_t batch = 0; batch < 3; batch++) {
        assert_int_equal(script_compute(&t).batch.split, 1);
        answer_push(&t, batch, batch + 1, 5 + batch);
    }
    struct worker_do_lease ask = script_take(&t, WORKER_DO_LEASE).lease;
    assert_int_equal(ask.held_count, 1);
    assert_int_equal(ask.held[0].split, 1);
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    script_end(&t);
}

/* Who has nothing left to do does not keep the others of bounded mode waiting. */
static void test_done_tells_the_shards(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = async_of(1);
    a.consistency.mode = TRAINING_BOUNDED;
    a.leases[0].batch_end = 1;
    start(&t, &a, 0);
    (void)script_take(&t, WORKER_DO_LEASE);
    script_feed(&t, (struct worker_event){.kind = WORKER_LEASED,
                                          .leased = {.generation = 1, .kind = WORKER_LEASE_DONE}});
    (void)script_compute(&t);
    answer_push(&t, 0, 1, 1);
    for (uint32_t s = 0; s < SCRIPT_SHARDS; s++) {
        struct asked idle = script_exchange(&t, s);
        assert_true(idle.idle && !idle.push && idle.pull == ASKED_PULL_NONE);
        script_answer(&t, &idle, 1, PUSH_NONE);
    }
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 0);
    script_end(&t);
}

/* Who waits for the master to hear of its splits is at work: others are not to run ahead of it. */
static void test_unheard_reports_are_no_idleness(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = async_of(1);
    a.consistency.mode = TRAINING_BOUNDED;
    a.leases[0].batch_end = 1;
    script_begin(&t, 1);
    script_assign(&t, &a);
    script_answer_both(&t, 0, PUSH_NONE);
    for (uint32_t split = 0; split < 2; split++) {
        (void)script_take(&t, WORKER_DO_LEASE);
        script_feed(&t, granted(1, split + 1, 1));
        assert_int_equal(script_compute(&t).batch.split, split);
        answer_push(&t, 0, 1, split + 1);
    }
    assert_int_equal(t.failures, 0);
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 0);
    script_end(&t);
}

/* Its assignment was meant for the process before it, and the next one is on its way. */
static void test_a_generation_without_this_worker(void **state)
{
    (void)state;
    struct script t;
    script_begin(&t, SPLIT_BATCHES);
    struct worker_assignment a = async_of(1);
    a.consistency.mode = TRAINING_BOUNDED;
    script_assign(&t, &a);
    struct asked pull = script_exchange(&t, 0);
    script_refuse(&t, &pull, ERR_PERMISSION);
    assert_int_equal(t.failures, 0);
    assert_int_equal(t.open_count, 0);
    a.generation = 2;
    script_assign(&t, &a);
    script_answer_both(&t, 0, PUSH_NONE);
    assert_int_equal(script_take(&t, WORKER_DO_COMPUTE).compute.generation, 2);
    script_end(&t);
}

/* Bounded: the lead says the clock, and every shard hears the same. */
static void test_the_lead_says_the_clock(void **state)
{
    (void)state;
    struct script t;
    script_begin(&t, SPLIT_BATCHES);
    struct worker_assignment a = async_of(1);
    a.consistency.mode = TRAINING_BOUNDED;
    script_assign(&t, &a);
    struct asked pull = script_exchange(&t, 0);
    assert_true(pull.joins);
    assert_int_equal(script_count(&t, WORKER_DO_EXCHANGE), 0); /* the others wait for its answer */
    struct worker_event answer = script_answer_of(&pull, 5, PUSH_NONE);
    answer.exchanged.answer.train.clock = 40;
    script_feed(&t, answer);
    pull = script_exchange(&t, 1);
    assert_false(pull.joins);
    assert_int_equal(pull.clock, 40);
    script_answer(&t, &pull, 5, PUSH_NONE);
    script_compute(&t);
    for (uint32_t s = 0; s < 2; s++) {
        struct asked push = script_exchange(&t, s);
        assert_true(push.push);
        assert_int_equal(push.clock, 41);
        script_answer(&t, &push, 6, PUSH_APPLIED);
    }
    script_end(&t);
}

/* ---- changes of mode ---- */

static struct worker_assignment sync_of(uint64_t generation, uint32_t replicas, uint64_t step)
{
    return (struct worker_assignment){
        .generation = generation,
        .consistency = {.mode = TRAINING_SYNC, .replicas = replicas, .aggregate = replicas},
        .replica_end = replicas,
        .step = step,
        .ledger_step = step,
        .step_limit = step + 1,
    };
}

static void test_async_to_sync_and_back(void **state)
{
    (void)state;
    struct script t;
    struct worker_assignment a = async_of(1);
    a.leases[0].batch_end = 1;
    a.consistency.push_every = 2;
    start(&t, &a, 0);
    (void)script_take(&t, WORKER_DO_LEASE);
    (void)script_compute(&t);
    answer_push(&t, 0, 1, 4);
    (void)script_report(&t);
    (void)script_take(&t, WORKER_DO_REPORT_SPLIT); /* nobody answers it */

    struct worker_assignment sync = sync_of(2, 2, 6);
    script_assign(&t, &sync);
    script_feed(&t, granted(1, 1, SPLIT_BATCHES));
    script_feed(
        &t, (struct worker_event){.kind = WORKER_SPLIT_REPORTED, .reported = {1, ERR_UNAVAILABLE}});
    struct asked pull = script_exchange(&t, 0);
    assert_true(pull.pull == ASKED_PULL_VERSION && pull.version == 6);
    script_answer(&t, &pull, 6, PUSH_NONE);
    pull = script_exchange(&t, 1);
    script_answer(&t, &pull, 6, PUSH_NONE);
    (void)script_compute(&t);
    assert_int_equal(script_compute(&t).replica, 1);
    script_answer_both(&t, 7, PUSH_APPLIED);
    struct worker_do_report_progress report = script_report(&t);
    assert_true(report.idle && report.position == 7);
    t.now_ms += 60000;
    script_feed(&t, (struct worker_event){.kind = WORKER_TIMER});
    assert_int_equal(t.open_count, 0); /* neither leases nor reports of the old mode */

    a = async_of(3);
    a.lease_count = 0;
    script_assign(&t, &a);
    assert_int_equal(script_take(&t, WORKER_DO_LEASE).lease.held_count, 0);
    assert_int_equal(t.open_count, 0);
    assert_int_equal(t.reply.position, 7); /* as it was asked; then in batches */
    script_feed(&t, granted(3, 1, SPLIT_BATCHES));
    script_answer_both(&t, 7, PUSH_NONE);
    (void)script_compute(&t);
    assert_int_equal(script_report(&t).position, 1); /* pushed so far, in both */
    answer_push(&t, 0, 1, 8);
    script_end(&t);
}

/* Of a step that was begun the gradients are kept, and nothing of its sums. */
static void test_sync_to_another_number_of_replicas(void **state)
{
    (void)state;
    struct script t;
    script_begin(&t, SPLIT_BATCHES);
    struct worker_assignment a = sync_of(1, 4, 0);
    script_assign(&t, &a);
    script_answer_both(&t, 0, PUSH_NONE);
    (void)script_compute(&t); /* of four: summed at the worker first */
    a = sync_of(2, 2, 0);
    script_assign(&t, &a);
    assert_int_equal(t.adds, 0);
    assert_int_equal(script_compute(&t).replica, 1);          /* for the generation that is over */
    assert_int_equal(script_count(&t, WORKER_DO_COMPUTE), 0); /* the same two make the step */
    assert_int_equal(t.adds, 1);
    struct asked push = script_exchange(&t, 0);
    assert_true(push.push && push.replica_first == 0 && push.replica_end == 2 &&
                push.examples == 20 && push.generation == 2);
    script_end(&t);
}

/* What was measured is told again; where the worker stood then does not count any more. */
static void test_a_repeated_report_is_not_idle_in_another_generation(void **state)
{
    (void)state;
    struct script t;
    script_begin(&t, SPLIT_BATCHES);
    struct worker_assignment a = sync_of(1, 1, 0);
    script_assign(&t, &a);
    script_answer_both(&t, 0, PUSH_NONE);
    (void)script_compute(&t);
    script_answer_both(&t, 1, PUSH_APPLIED);
    struct worker_do_report_progress report =
        script_take(&t, WORKER_DO_REPORT_PROGRESS).report_progress;
    assert_true(report.idle);
    script_feed(&t, (struct worker_event){.kind = WORKER_PROGRESS_REPORTED,
                                          .reported.code = ERR_UNAVAILABLE});
    a = sync_of(2, 1, 1);
    script_assign(&t, &a);
    while (script_count(&t, WORKER_DO_REPORT_PROGRESS) == 0) {
        script_timer(&t);
    }
    struct worker_do_report_progress again =
        script_take(&t, WORKER_DO_REPORT_PROGRESS).report_progress;
    assert_true(again.again && !again.idle && again.generation == 2);
    assert_int_equal(again.sequence, report.sequence);
    script_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_push_every_sums_batches),
        cmocka_unit_test(test_push_every_after_a_takeover),
        cmocka_unit_test(test_hold_makes_a_push_whole),
        cmocka_unit_test(test_pull_every),
        cmocka_unit_test(test_the_lead_decides_what_is_too_stale),
        cmocka_unit_test(test_a_dropped_push_without_a_pull),
        cmocka_unit_test(test_the_leads_word_waits_for_no_pull_in_bounded_mode),
        cmocka_unit_test(test_requests_name_what_is_held),
        cmocka_unit_test(test_a_generation_says_what_is_held),
        cmocka_unit_test(test_done_tells_the_shards),
        cmocka_unit_test(test_unheard_reports_are_no_idleness),
        cmocka_unit_test(test_a_generation_without_this_worker),
        cmocka_unit_test(test_the_lead_says_the_clock),
        cmocka_unit_test(test_async_to_sync_and_back),
        cmocka_unit_test(test_sync_to_another_number_of_replicas),
        cmocka_unit_test(test_a_repeated_report_is_not_idle_in_another_generation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
