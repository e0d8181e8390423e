/* SPDX-License-Identifier: Apache-2.0 */
/* Speculation: any part of a step from anyone, and which replicas idle workers are given. */
#include "shard_gradient.h"

static void open_spare(struct rig *r, uint32_t number, uint32_t replicas)
{
    struct consistency c = rig_consistency(TRAINING_SYNC, replicas);
    c.speculate = 3;
    rig_open(r, number, &c);
}

/* ---- any part of a step ---- */

static void test_pushes_replace_what_lies_inside(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 4);
    rig_push_sync(&r, 1, 0, 1, 2, 1, 4);
    rig_push_sync(&r, 2, 0, 0, 2, 2, 8); /* the node above */
    rig_expect_push(&r, 2, PUSH_ACCEPTED);
    assert_int_equal(r.buffers, 1);
    rig_push_sync(&r, 3, 0, 0, 1, 9, 4); /* in it */
    rig_expect_push(&r, 3, PUSH_DUPLICATE);
    rig_push_sync(&r, 4, 0, 0, 2, 9, 8); /* it itself */
    rig_expect_push(&r, 4, PUSH_DUPLICATE);
    rig_push_sync(&r, 5, 0, 3, 4, 7, 4);
    rig_push_sync(&r, 6, 0, 0, 4, 4, 16); /* everything */
    rig_expect_push(&r, 6, PUSH_APPLIED);
    assert_true(r.values[1][0] == -0.25F);
    assert_int_equal(r.buffers, 0);
    struct shard_info info;
    shard_info(r.shard, &info);
    assert_int_equal(info.pushes_applied, 1);
    assert_int_equal(info.pushes_duplicate, 5); /* three of them had been accepted */
    assert_int_equal(info.examples, 16);
    rig_release(&r);
}

/* Sums that the shard made itself are as good as those that came. */
static void test_parts_that_add_up_cover_their_node(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 3);
    r.can_apply = false;
    rig_push_sync(&r, 1, 0, 0, 1, 1, 4);
    rig_push_sync(&r, 2, 0, 1, 2, 1, 4);
    rig_push_sync(&r, 3, 0, 0, 2, 9, 8);
    rig_expect_push(&r, 3, PUSH_DUPLICATE);
    rig_push_sync(&r, 4, 0, 2, 3, 1, 4);
    rig_push_sync(&r, 5, 0, 0, 3, 9, 12); /* complete, and waits for a snapshot */
    rig_expect_push(&r, 5, PUSH_DUPLICATE);
    assert_true(shard_wants_snapshot(r.shard));
    assert_int_equal(r.buffers, 1);
    r.can_apply = true;
    rig_event(&r, SHARD_SNAPSHOT, 0);
    assert_true(r.values[1][0] == -0.25F);
    rig_release(&r);
}

/* ---- who is late ---- */

static void push_at(struct rig *r, uint64_t now_ms, uintptr_t tag, uint64_t step, uint32_t lo,
                    uint32_t hi, bool spare)
{
    r->now_ms = now_ms;
    struct shard_event e = rig_sync(r, tag, step, lo, hi, 1, 4);
    e.ask.push.spare = spare;
    rig_step(r, &e);
}

static const struct rig_reply *ask_at(struct rig *r, uint64_t now_ms, uintptr_t tag, uint64_t step)
{
    r->now_ms = now_ms;
    struct shard_event e = rig_exchange(r, tag, "w0");
    e.ask = (struct exchange_request){.kind = EXCHANGE_SPARE, .spare_step = step};
    rig_step(r, &e);
    const struct rig_reply *reply = rig_replied(r, tag);
    assert_true(reply->code != 0 || reply->has_spare);
    return reply;
}

static void expect_given(const struct rig_reply *reply, uint32_t replica)
{
    assert_int_equal(reply->code, 0);
    assert_true(reply->spare_given);
    assert_int_equal(reply->spare_replica, replica);
}

static void expect_wait(const struct rig_reply *reply, uint32_t ms)
{
    assert_int_equal(reply->code, 0);
    assert_false(reply->spare_given);
    assert_int_equal(reply->spare_wait_ms, ms);
}

/* Step 0 of four replicas takes 100 ms, from 1000 on, when somebody pulled. */
static void run_first_step(struct rig *r)
{
    r->now_ms = 1000;
    rig_pull(r, 90, PULL_VERSION, 0);
    push_at(r, 1090, 91, 0, 0, 1, false);
    push_at(r, 1100, 92, 0, 1, 2, false);
    push_at(r, 1110, 93, 0, 2, 3, false);
    push_at(r, 1120, 94, 0, 3, 4, false);
    assert_int_equal(r->version, 1);
}

static void test_late_replicas_are_given_away(void **state)
{
    (void)state;
    struct rig r;
    open_spare(&r, 0, 4);
    run_first_step(&r); /* median 100: late after 300 */
    push_at(&r, 1220, 1, 1, 0, 1, false);
    expect_wait(ask_at(&r, 1220, 2, 1), 201);
    push_at(&r, 1225, 3, 1, 1, 2, false);
    expect_wait(ask_at(&r, 1420, 4, 1), 5); /* at least */
    expect_given(ask_at(&r, 1421, 5, 1), 3);
    expect_given(ask_at(&r, 1422, 6, 1), 2);
    expect_wait(ask_at(&r, 1423, 7, 1), 299); /* given once: another 300 from then */
    expect_given(ask_at(&r, 1722, 8, 1), 3);
    expect_given(ask_at(&r, 1723, 9, 1), 2);
    push_at(&r, 1730, 10, 1, 3, 4, true);
    rig_expect_push(&r, 10, PUSH_ACCEPTED);
    expect_given(ask_at(&r, 2100, 13, 1), 2); /* 3 is in */
    push_at(&r, 2101, 11, 1, 2, 3, true);
    rig_expect_push(&r, 11, PUSH_APPLIED);
    expect_wait(ask_at(&r, 2102, 12, 1), 0); /* the step is complete */
    rig_release(&r);
}

/* Who asks in a step that takes minutes does not ask fifty times a second. */
static void test_long_steps_are_asked_about_less_often(void **state)
{
    (void)state;
    struct rig r;
    open_spare(&r, 0, 4);
    expect_wait(ask_at(&r, 1000, 1, 0), 20);
    expect_wait(ask_at(&r, 1160, 2, 0), 20);
    expect_wait(ask_at(&r, 1800, 3, 0), 100);
    expect_wait(ask_at(&r, 9000, 4, 0), 1000);
    expect_wait(ask_at(&r, 90000, 5, 0), 1000);
    rig_release(&r);
}

static void test_the_least_given_comes_first(void **state)
{
    (void)state;
    struct rig r;
    open_spare(&r, 0, 4);
    run_first_step(&r);
    push_at(&r, 1220, 1, 1, 0, 2, false);
    expect_given(ask_at(&r, 1421, 2, 1), 3);
    expect_given(ask_at(&r, 2000, 3, 1), 2); /* 3 is due again, too */
    expect_given(ask_at(&r, 2001, 4, 1), 3);
    rig_release(&r);
}

/* Less time than 20 ms proves nothing. */
static void test_small_times_are_not_late(void **state)
{
    (void)state;
    struct rig r;
    open_spare(&r, 0, 2);
    rig_pull(&r, 1, PULL_VERSION, 0);
    push_at(&r, 1001, 2, 0, 0, 1, false);
    expect_wait(ask_at(&r, 1001, 3, 0), 20); /* nothing is known yet */
    push_at(&r, 1002, 4, 0, 1, 2, false);
    push_at(&r, 1003, 5, 1, 0, 1, false);
    expect_wait(ask_at(&r, 1003, 6, 1), 20); /* 1002 + 20 + 1 */
    expect_given(ask_at(&r, 1023, 7, 1), 1);
    rig_release(&r);
}

static void test_slow_owners_are_not_waited_for_again(void **state)
{
    (void)state;
    struct rig r;
    open_spare(&r, 0, 4);
    run_first_step(&r);
    for (uint32_t i = 0; i < 3; i++) {
        push_at(&r, 1220, 1 + i, 1, i, i + 1, false);
    }
    expect_given(ask_at(&r, 1421, 4, 1), 3);
    push_at(&r, 1500, 5, 1, 3, 4, true);
    assert_int_equal(r.version, 2);
    push_at(&r, 1510, 6, 1, 3, 4, false); /* of a step that is over: it is no better for it */
    rig_expect_push(&r, 6, PUSH_DUPLICATE);
    for (uint32_t i = 0; i < 3; i++) {
        push_at(&r, 1600, 10 + i, 2, i, i + 1, false);
    }
    expect_given(ask_at(&r, 1600, 13, 2), 3); /* at once */
    push_at(&r, 1610, 14, 2, 3, 4, true);     /* which says nothing of its owner */
    for (uint32_t i = 0; i < 3; i++) {
        push_at(&r, 1710, 20 + i, 3, i, i + 1, false);
    }
    expect_given(ask_at(&r, 1710, 23, 3), 3);
    push_at(&r, 2500, 24, 3, 3, 4, false); /* the owner, but late */
    for (uint32_t i = 0; i < 3; i++) {
        push_at(&r, 2600, 30 + i, 4, i, i + 1, false);
    }
    expect_given(ask_at(&r, 2600, 33, 4), 3);
    push_at(&r, 2680, 34, 4, 3, 4, false); /* not late, but everybody would wait for it */
    for (uint32_t i = 0; i < 3; i++) {
        push_at(&r, 2780, 40 + i, 5, i, i + 1, false);
    }
    expect_given(ask_at(&r, 2780, 43, 5), 3);
    push_at(&r, 2790, 44, 5, 3, 4, false); /* in time */
    assert_int_equal(r.version, 6);
    for (uint32_t i = 0; i < 3; i++) {
        push_at(&r, 2890, 50 + i, 6, i, i + 1, false);
    }
    assert_false(ask_at(&r, 2890, 53, 6)->spare_given);
    rig_release(&r);
}

/* The owner comes in time, but a spare was faster: it is not slow. */
static void test_duplicates_in_time_prove_speed(void **state)
{
    (void)state;
    struct rig r;
    open_spare(&r, 0, 4);
    run_first_step(&r);
    for (uint32_t i = 0; i < 2; i++) {
        push_at(&r, 1220, 1 + i, 1, i, i + 1, false);
    }
    expect_given(ask_at(&r, 1421, 4, 1), 3);
    push_at(&r, 1422, 5, 1, 3, 4, true);
    push_at(&r, 1430, 6, 1, 2, 3, false); /* late: step 2 begins with 3 slow */
    for (uint32_t i = 0; i < 2; i++) {
        push_at(&r, 1530, 7 + i, 2, i, i + 1, false);
    }
    expect_given(ask_at(&r, 1530, 10, 2), 3);
    push_at(&r, 1540, 11, 2, 3, 4, true);
    push_at(&r, 1541, 12, 2, 3, 4, false);
    rig_expect_push(&r, 12, PUSH_DUPLICATE);
    push_at(&r, 1542, 13, 2, 2, 3, false);
    assert_int_equal(r.version, 3);
    push_at(&r, 1640, 14, 3, 0, 2, false);
    assert_false(ask_at(&r, 1640, 15, 3)->spare_given);
    rig_release(&r);
}

/* This step's own median as soon as more than half of it is in: all are slower than before. */
static void test_the_present_step_tells_what_is_usual(void **state)
{
    (void)state;
    struct rig r;
    open_spare(&r, 0, 5);
    rig_pull(&r, 1, PULL_VERSION, 0);
    push_at(&r, 1100, 2, 0, 0, 4, false);
    push_at(&r, 1100, 3, 0, 4, 5, false); /* 100 */
    push_at(&r, 1180, 4, 1, 0, 1, false);
    push_at(&r, 1340, 5, 1, 1, 2, false);
    expect_wait(ask_at(&r, 1340, 6, 1), 61); /* two of five: late after 3 × 100 */
    push_at(&r, 1350, 7, 1, 2, 3, false);
    expect_wait(ask_at(&r, 1401, 8, 1), 420); /* the second took 240: 1100 + 720 + 1 - 1401 */
    rig_release(&r);
}

/* Workers stand still at a sync point: the step begins with its first replica. */
static void test_a_pause_is_not_late(void **state)
{
    (void)state;
    struct rig r;
    open_spare(&r, 0, 4);
    run_first_step(&r);
    push_at(&r, 9000, 1, 1, 0, 1, false); /* began at 8900 */
    expect_wait(ask_at(&r, 9000, 2, 1), 201);
    push_at(&r, 9005, 3, 1, 1, 2, false);
    push_at(&r, 9005, 10, 1, 2, 4, false);
    /* At most 2 × 100 + 20 before its first, so 225 is usual now. */
    push_at(&r, 9105, 4, 2, 0, 1, false);
    expect_wait(ask_at(&r, 9105, 5, 2), 576);
    push_at(&r, 9106, 6, 2, 1, 2, false);
    push_at(&r, 9106, 11, 2, 2, 4, false); /* and 101 again */
    push_at(&r, 9206, 7, 3, 0, 1, false);
    expect_wait(ask_at(&r, 9206, 8, 3), 204);
    rig_release(&r);
}

/* Somebody without a replica asks first: nobody is late before. */
static void test_idle_workers_may_be_first(void **state)
{
    (void)state;
    struct rig r;
    open_spare(&r, 0, 4);
    run_first_step(&r);
    expect_wait(ask_at(&r, 9000, 1, 1), 301);
    expect_wait(ask_at(&r, 9100, 2, 1), 201);
    expect_given(ask_at(&r, 9301, 3, 1), 3);
    expect_given(ask_at(&r, 9302, 4, 1), 2);
    expect_given(ask_at(&r, 9303, 5, 1), 1);
    expect_given(ask_at(&r, 9304, 6, 1), 0);
    expect_wait(ask_at(&r, 9305, 7, 1), 297);
    rig_release(&r);
}

static void test_a_new_generation_forgives(void **state)
{
    (void)state;
    struct rig r;
    open_spare(&r, 0, 4);
    run_first_step(&r);
    push_at(&r, 1220, 1, 1, 0, 2, false);
    expect_given(ask_at(&r, 1421, 2, 1), 3);
    r.now_ms = 1430;
    rig_membership(&r, 3, 2, 2);
    r.generation = 2;
    push_at(&r, 1530, 4, 1, 0, 2, false);
    expect_wait(ask_at(&r, 1530, 5, 1), 201);
    rig_release(&r);
}

static void test_empty_replicas_are_no_measure(void **state)
{
    (void)state;
    struct rig r;
    open_spare(&r, 0, 4);
    run_first_step(&r);
    r.now_ms = 1121;
    for (uint32_t i = 0; i < 2; i++) {
        rig_push_sync(&r, 1 + i, 1, i, i + 1, 0, 0);
    }
    push_at(&r, 1220, 3, 1, 2, 3, false);
    expect_wait(ask_at(&r, 1220, 4, 1), 201);
    push_at(&r, 1230, 5, 1, 3, 4, false);
    push_at(&r, 1330, 6, 2, 0, 1, false); /* usual: 100 of the first of the two */
    expect_wait(ask_at(&r, 1330, 7, 2), 201);
    rig_release(&r);
}

/* More than half of those that have data. */
static void test_empty_replicas_are_not_waited_for(void **state)
{
    (void)state;
    struct rig r;
    open_spare(&r, 0, 6);
    rig_pull(&r, 1, PULL_VERSION, 0);
    rig_push_sync(&r, 2, 0, 4, 6, 0, 0); /* one push, two replicas */
    push_at(&r, 1100, 3, 0, 0, 2, false);
    expect_wait(ask_at(&r, 1100, 4, 0), 201); /* three times 100 ms after 1000 */
    push_at(&r, 1120, 5, 0, 2, 3, false);
    expect_wait(ask_at(&r, 1120, 6, 0), 181); /* of the median: 1000 + 300 + 1 */
    rig_release(&r);
}

/* A worker stopped between its pushes to the lead and to this shard: only here it is missed. */
static void test_a_shard_that_is_not_the_lead_gives_what_it_lacks(void **state)
{
    (void)state;
    struct rig r;
    open_spare(&r, 1, 4);
    run_first_step(&r);
    push_at(&r, 1215, 1, 1, 0, 2, false);
    push_at(&r, 1220, 2, 1, 2, 3, false);
    expect_wait(ask_at(&r, 1225, 3, 1), 181); /* three times 95 ms after 1120 */
    expect_given(ask_at(&r, 1406, 4, 1), 3);
    push_at(&r, 1500, 5, 1, 3, 4, true);
    rig_expect_push(&r, 5, PUSH_APPLIED);
    expect_wait(ask_at(&r, 1501, 6, 1), 0);
    rig_release(&r);
}

static void partial_push(struct rig *r, uint64_t now_ms, uintptr_t tag, uint64_t step,
                         uint32_t replica)
{
    push_at(r, now_ms, tag, step, replica, replica + 1, false);
}

/* Where not all replicas are waited for, those that the decision names are. */
static void test_what_a_decision_names_is_given_away(void **state)
{
    (void)state;
    struct rig r;
    open_partial(&r, 1, 4, 2);
    r.now_ms = 1000;
    rig_pull(&r, 90, PULL_VERSION, 0);
    partial_push(&r, 1060, 1, 0, 1);
    partial_push(&r, 1100, 2, 0, 2);
    decide(&r, 3, 0, &(uint8_t){0x06}, 1);
    assert_int_equal(r.version, 1);
    partial_push(&r, 1160, 4, 1, 0);
    partial_push(&r, 1180, 5, 1, 1);
    expect_wait(ask_at(&r, 9000, 6, 1), 1000); /* nobody knows what it takes */
    decide(&r, 7, 1, &(uint8_t){0x09}, 1);
    expect_given(ask_at(&r, 9001, 8, 1), 3);  /* never 2 */
    expect_wait(ask_at(&r, 9002, 9, 1), 180); /* three times 60 ms after it was given */
    push_at(&r, 9010, 10, 1, 3, 4, true);
    rig_expect_push(&r, 10, PUSH_ACCEPTED);
    assert_int_equal(r.version, 2);
    expect_wait(ask_at(&r, 9011, 11, 1), 0);
    decide(&r, 12, 2, &(uint8_t){0x0c}, 1); /* two are missing */
    expect_given(ask_at(&r, 99000, 13, 2), 3);
    push_at(&r, 99001, 14, 2, 3, 4, true);
    rig_expect_push(&r, 14, PUSH_ACCEPTED); /* and who brings one asks for the other */
    assert_int_equal(r.version, 2);
    expect_given(ask_at(&r, 99999, 15, 2), 2);
    push_at(&r, 100000, 16, 2, 2, 3, true);
    assert_int_equal(r.version, 3);
    rig_release(&r);
}

/* The lead decides with what is in: before that it misses nobody. */
static void test_the_lead_of_partial_steps_gives_nothing(void **state)
{
    (void)state;
    struct rig r;
    open_partial(&r, 0, 4, 2);
    partial_push(&r, 1000, 1, 0, 1);
    expect_wait(ask_at(&r, 9000, 2, 0), 1000);
    partial_push(&r, 9001, 3, 0, 0);
    partial_push(&r, 9100, 4, 1, 0);
    expect_wait(ask_at(&r, 99000, 5, 1), 1000);
    r.can_apply = false;
    partial_push(&r, 99001, 6, 1, 1);
    assert_int_equal(r.version, 1);
    rig_release(&r);
}

static void test_requests_that_cannot_be(void **state)
{
    (void)state;
    struct rig r;
    open_spare(&r, 0, 4);
    assert_int_equal(ask_at(&r, 1000, 1, 1)->code, ERR_RANGE);
    rig_expect(&r, 1, ERR_RANGE, "step 1, but the shard is at step 0");
    struct shard_event e = rig_exchange(&r, 2, "w0");
    e.ask.kind = EXCHANGE_NONE;
    rig_step(&r, &e);
    rig_expect(&r, 2, ERR_INVALID, "neither a push nor a pull");
    r.generation = 0;
    assert_int_equal(ask_at(&r, 1000, 3, 0)->code, ERR_ABORTED);
    r.generation = 1;
    r.can_apply = false;
    push_at(&r, 1000, 4, 0, 0, 4, false);
    expect_wait(ask_at(&r, 1001, 5, 0), 0); /* complete but for a snapshot */
    rig_release(&r);
    rig_init(&r, TRAINING_SYNC, 4);
    (void)ask_at(&r, 1000, 7, 0);
    rig_expect(&r, 7, ERR_INVALID, "not given away in this job");
    rig_release(&r);
    rig_init(&r, TRAINING_BOUNDED, 0);
    (void)ask_at(&r, 1000, 8, 0);
    rig_expect(&r, 8, ERR_INVALID, "not given away in this job");
    rig_release(&r);
}

/* ---- any parts in any order ---- */

#define SHARDS 3

static struct tree_block random_node(uint32_t *seed, uint32_t replicas)
{
    struct tree_block node = {0, replicas};
    while (node.hi - node.lo > 1 && random_below(seed, 5) > 0) {
        uint32_t middle = tree_split(node.lo, node.hi);
        if (random_below(seed, 2) == 0) {
            node.hi = middle;
        } else {
            node.lo = middle;
        }
    }
    return node;
}

static void random_push(struct rig *r, uint32_t *seed, uint64_t low, uint32_t replicas)
{
    struct tree_block b = random_node(seed, replicas);
    uint64_t step = low > 0 && random_below(seed, 8) == 0 ? low - 1 : low;
    uintptr_t tag = r->reply_count + 1;
    bool over = step < r->version;
    struct shard_event e = gradient_push(r, tag, step, b.lo, b.hi);
    e.ask.push.spare = random_below(seed, 3) == 0;
    rig_step(r, &e);
    const struct rig_reply *reply = rig_replied(r, tag);
    assert_int_equal(reply->code, 0);
    assert_true(!over || reply->push == PUSH_DUPLICATE);
}

static void random_ask(struct rig *r, uint32_t *seed)
{
    uint64_t version = r->version;
    uint64_t step = r->version > 0 ? r->version - random_below(seed, 2) : 0;
    const struct rig_reply *reply = ask_at(r, r->now_ms, r->reply_count + 1, step);
    assert_int_equal(reply->code, 0);
    bool all_in = step < version || shard_wants_snapshot(r->shard);
    assert_true(reply->spare_given || (reply->spare_wait_ms == 0) == all_in);
}

static uint64_t run_cluster(uint32_t seed)
{
    struct rig *rigs = calloc(SHARDS, sizeof *rigs);
    assert_non_null(rigs);
    uint32_t replicas = 1 + random_below(&seed, 12);
    for (uint32_t i = 0; i < SHARDS; i++) {
        open_spare(&rigs[i], i, replicas);
    }
    for (unsigned event = 0; event < 1500; event++) {
        struct rig *r = &rigs[random_below(&seed, SHARDS)];
        uint32_t dice = random_below(&seed, 100);
        uint64_t low = UINT64_MAX;
        for (unsigned i = 0; i < SHARDS; i++) {
            low = rigs[i].version < low ? rigs[i].version : low;
        }
        r->now_ms += random_below(&seed, 30);
        r->can_apply = random_below(&seed, 4) > 0;
        if (dice < 80) {
            random_push(r, &seed, low, replicas);
        } else if (dice < 90) {
            rig_event(r, SHARD_SNAPSHOT, 0);
        } else if (dice < 99) {
            random_ask(r, &seed);
        } else {
            uint64_t generation = r->generation + 1;
            rig_membership(r, r->reply_count + 1, generation, 1 + random_below(&seed, 4));
            r->generation = generation;
        }
    }
    uint64_t steps = 0;
    for (unsigned i = 0; i < SHARDS; i++) {
        for (uint64_t step = 0; step < rigs[i].version; step++) {
            check_update(&rigs[i], step, replicas, NULL);
        }
        steps += rigs[i].version;
        rig_release(&rigs[i]);
    }
    free(rigs);
    return steps;
}

static void test_random_parts_give_the_bits_of_the_tree(void **state)
{
    (void)state;
    uint64_t steps = 0;
    for (uint32_t seed = 1; seed <= 100; seed++) {
        steps += run_cluster(seed);
    }
    assert_true(steps > 100 * SHARDS * 10); /* the events do make progress */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pushes_replace_what_lies_inside),
        cmocka_unit_test(test_parts_that_add_up_cover_their_node),
        cmocka_unit_test(test_late_replicas_are_given_away),
        cmocka_unit_test(test_long_steps_are_asked_about_less_often),
        cmocka_unit_test(test_the_least_given_comes_first),
        cmocka_unit_test(test_small_times_are_not_late),
        cmocka_unit_test(test_slow_owners_are_not_waited_for_again),
        cmocka_unit_test(test_duplicates_in_time_prove_speed),
        cmocka_unit_test(test_the_present_step_tells_what_is_usual),
        cmocka_unit_test(test_a_pause_is_not_late),
        cmocka_unit_test(test_idle_workers_may_be_first),
        cmocka_unit_test(test_a_new_generation_forgives),
        cmocka_unit_test(test_empty_replicas_are_no_measure),
        cmocka_unit_test(test_empty_replicas_are_not_waited_for),
        cmocka_unit_test(test_a_shard_that_is_not_the_lead_gives_what_it_lacks),
        cmocka_unit_test(test_what_a_decision_names_is_given_away),
        cmocka_unit_test(test_the_lead_of_partial_steps_gives_nothing),
        cmocka_unit_test(test_requests_that_cannot_be),
        cmocka_unit_test(test_random_parts_give_the_bits_of_the_tree),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
