/* SPDX-License-Identifier: Apache-2.0 */
/* Sums over whole variables: rounds between the last gradient of a step and its update. */
#include "shard_gradient.h"

#define REPLICAS 3

static void open_rounds(struct rig *r, uint32_t number, uint32_t rounds)
{
    struct consistency c = rig_consistency(TRAINING_SYNC, REPLICAS);
    rig_open_rounds(r, number, &c, rounds);
}

/* All of @step, as requests @tag and on. */
static void push_all(struct rig *r, uintptr_t tag, uint64_t step)
{
    for (uint32_t i = 0; i < REPLICAS; i++) {
        rig_push_sync(r, tag + i, step, i, i + 1, 1, 2);
    }
}

static void test_step_waits_for_totals(void **state)
{
    (void)state;
    struct rig r;
    open_rounds(&r, 1, 1);
    rig_ask_sums(&r, 1, 0, 0);
    push_all(&r, 10, 0);
    rig_expect_push(&r, 12, PUSH_ACCEPTED); /* the last one does not apply */
    assert_int_equal(r.version, 0);
    rig_expect_sums(&r, 1, false, 0, 0);
    assert_true(rig_replied(&r, 1)->sums != 0);
    rig_pull(&r, 2, PULL_VERSION, 1);
    assert_null(rig_find(&r, 2));
    rig_totals(&r, 3, 0, 0, 42);
    rig_expect(&r, 3, 0, "");
    rig_expect_values(&r, 2, 1);
    assert_true(r.sums.last[0] == 42);
    rig_release(&r);
}

static void test_two_rounds(void **state)
{
    (void)state;
    struct rig r;
    open_rounds(&r, 0, 2);
    push_all(&r, 10, 0);
    rig_ask_sums(&r, 1, 0, 1); /* waits for the round before */
    assert_null(rig_find(&r, 1));
    rig_totals(&r, 2, 0, 0, 5);
    rig_expect_sums(&r, 1, false, 0, 1);
    assert_true(rig_replied(&r, 1)->sums == 5 + 2 * 36 * REPLICAS);
    rig_ask_sums(&r, 3, 0, 0); /* somebody was slow */
    rig_expect_sums(&r, 3, true, 0, 0);
    assert_true(rig_replied(&r, 3)->sums == 5);
    assert_int_equal(r.version, 0);
    rig_totals(&r, 4, 0, 1, 6);
    assert_int_equal(r.version, 1);
    rig_release(&r);
}

/* The first totals count; those of others, which are the same, are ignored. */
static void test_late_and_repeated(void **state)
{
    (void)state;
    struct rig r;
    open_rounds(&r, 0, 2);
    push_all(&r, 10, 0);
    rig_totals(&r, 1, 0, 0, 5);
    rig_totals(&r, 2, 0, 0, 7);
    rig_expect(&r, 2, 0, "");
    rig_totals(&r, 3, 0, 1, 6);
    rig_totals(&r, 4, 0, 1, 8);
    rig_expect(&r, 4, 0, "");
    assert_int_equal(r.version, 1);
    assert_true(r.sums.last[0] == 5 && r.sums.last[1] == 6);
    rig_ask_sums(&r, 5, 0, 1);
    rig_expect_sums(&r, 5, true, 0, 1);
    assert_true(rig_replied(&r, 5)->sums == 6);
    push_all(&r, 20, 1);
    rig_push_sync(&r, 30, 1, 0, 1, 1, 2); /* it is all in */
    rig_expect_push(&r, 30, PUSH_DUPLICATE);
    rig_totals(&r, 31, 1, 0, 5);
    rig_totals(&r, 32, 1, 1, 5);
    assert_int_equal(r.version, 2);
    rig_ask_sums(&r, 33, 0, 1);
    rig_expect_sums(&r, 33, true, 0, 1);
    assert_true(rig_replied(&r, 33)->sums_over);
    rig_release(&r);
}

static void test_refused(void **state)
{
    (void)state;
    struct rig r;
    open_rounds(&r, 0, 2);
    rig_ask_sums(&r, 1, 1, 0);
    rig_expect(&r, 1, ERR_RANGE, "but the shard is at step 0");
    rig_ask_sums(&r, 2, 0, 2);
    rig_expect(&r, 2, ERR_INVALID, "there are 2 rounds");
    rig_totals(&r, 3, 0, 0, 1);
    rig_expect(&r, 3, ERR_RANGE, "is not reduced here yet");
    rig_totals(&r, 4, 1, 0, 1);
    rig_expect(&r, 4, ERR_RANGE, "but the shard is at step 0");
    push_all(&r, 10, 0);
    rig_totals(&r, 5, 0, 1, 1);
    rig_expect(&r, 5, ERR_RANGE, "round 1 of step 0, which is not reduced");
    r.generation = 0;
    rig_totals(&r, 6, 0, 0, 1);
    rig_expect(&r, 6, ERR_ABORTED, "is over");
    r.generation = 1;
    assert_int_equal(r.version, 0);
    rig_release(&r);
}

static void test_jobs_without_sums(void **state)
{
    (void)state;
    struct rig r;
    open_rounds(&r, 0, 0);
    rig_ask_sums(&r, 1, 0, 0);
    rig_expect(&r, 1, ERR_INVALID, "takes none over several shards");
    rig_totals(&r, 2, 0, 0, 1);
    rig_expect(&r, 2, ERR_INVALID, "takes none over several shards");
    rig_release(&r);
    struct consistency c = rig_consistency(TRAINING_ASYNC, 0);
    rig_open_rounds(&r, 0, &c, 1);
    rig_ask_sums(&r, 1, 0, 0);
    rig_expect(&r, 1, ERR_INVALID, "takes none over several shards");
    rig_push_async(&r, 2, "w0", 0, 0, 0);
    rig_expect_push(&r, 2, PUSH_APPLIED);
    rig_release(&r);
    struct err err;
    r.era.rounds = SHARD_ROUNDS_MAX + 1;
    assert_null(shard_new(&r.options, &err));
}

/* Nothing begins without a free snapshot, and nothing is applied without one. */
static void test_snapshots(void **state)
{
    (void)state;
    struct rig r;
    open_rounds(&r, 0, 1);
    r.can_apply = false;
    rig_ask_sums(&r, 1, 0, 0);
    push_all(&r, 10, 0);
    assert_false(r.sums.begun);
    assert_true(shard_wants_snapshot(r.shard));
    r.can_apply = true;
    rig_event(&r, SHARD_SNAPSHOT, 0);
    assert_true(r.sums.begun);
    rig_expect_sums(&r, 1, false, 0, 0);
    assert_false(shard_wants_snapshot(r.shard)); /* but totals */
    r.can_apply = false;
    rig_totals(&r, 2, 0, 0, 3);
    assert_int_equal(r.version, 0);
    assert_true(shard_wants_snapshot(r.shard));
    rig_ask_sums(&r, 3, 0, 0);
    rig_expect_sums(&r, 3, true, 0, 0);
    r.can_apply = true;
    rig_event(&r, SHARD_SNAPSHOT, 0);
    assert_int_equal(r.version, 1);
    rig_release(&r);
}

/* What is not applied is forgotten with its sums; the totals of what is applied are not. */
static void test_new_generation(void **state)
{
    (void)state;
    struct rig r;
    open_rounds(&r, 0, 2);
    push_all(&r, 10, 0);
    rig_totals(&r, 1, 0, 0, 5);
    rig_totals(&r, 2, 0, 1, 6);
    push_all(&r, 20, 1);
    rig_totals(&r, 3, 1, 0, 7);
    rig_ask_sums(&r, 4, 1, 1);
    rig_expect_sums(&r, 4, false, 1, 1);
    push_all(&r, 30, 1);
    rig_membership(&r, 5, 2, 2);
    assert_false(r.sums.begun);
    assert_int_equal(r.buffers, 0);
    r.generation = 2;
    rig_ask_sums(&r, 6, 0, 1);
    rig_expect_sums(&r, 6, true, 0, 1);
    assert_true(rig_replied(&r, 6)->sums == 6);
    rig_ask_sums(&r, 7, 1, 0);
    assert_null(rig_find(&r, 7));
    rig_membership(&r, 8, 3, 2);
    rig_expect(&r, 7, ERR_ABORTED, "is over");
    r.generation = 3;
    push_all(&r, 40, 1);
    rig_totals(&r, 50, 1, 0, 7);
    rig_totals(&r, 51, 1, 1, 7);
    assert_int_equal(r.version, 2);
    rig_release(&r);
}

/* A shard that was restored has no sums of the step before its first. */
static void test_change_and_restore(void **state)
{
    (void)state;
    struct rig r;
    open_rounds(&r, 0, 1);
    push_all(&r, 10, 0);
    struct consistency c = rig_consistency(TRAINING_SYNC, 1);
    rig_change(&r, 1, 2, &c, 0, &r.ledger);
    rig_expect(&r, 1, 0, "");
    assert_false(r.sums.begun);
    r.generation = 2;
    r.options.consistency = c;
    rig_push_sync(&r, 2, 0, 0, 1, 1, 2);
    assert_true(r.sums.begun);
    rig_totals(&r, 3, 0, 0, 1);
    assert_int_equal(r.version, 1);
    rig_change(&r, 4, 3, &c, 1, &r.ledger);
    r.generation = 3;
    rig_ask_sums(&r, 5, 0, 0);
    rig_expect(&r, 5, ERR_RANGE, "was not made here");
    rig_release(&r);
}

/* An update of nothing takes its rounds like any other. */
static void test_empty_step(void **state)
{
    (void)state;
    struct rig r;
    open_rounds(&r, 0, 1);
    rig_push_sync(&r, 1, 0, 0, 2, 0, 0);
    rig_push_sync(&r, 2, 0, 2, 3, 0, 0);
    assert_true(r.sums.begun);
    rig_totals(&r, 3, 0, 0, 1);
    assert_int_equal(r.version, 1);
    assert_null(r.applied.buffer);
    rig_release(&r);
}

#define SHARDS 3
#define STEPS_MAX 400

struct cluster {
    struct rig rigs[SHARDS];
    uint32_t seed, replicas, rounds;
    bool partial;
    uint64_t decided; /* steps of which the decision is known */
    uint8_t sets[STEPS_MAX][8];
    double totals[STEPS_MAX][RIG_ROUNDS];
    bool known[STEPS_MAX][RIG_ROUNDS]; /* somebody joined them once */
    uintptr_t tag;
    size_t seen[SHARDS];
    /* What the shards answered to requests for sums of this generation. */
    struct {
        bool there, known;
        double sums;
    } answers[STEPS_MAX][RIG_ROUNDS][SHARDS];
};

static uint64_t lowest(const struct cluster *c)
{
    uint64_t low = UINT64_MAX;
    for (unsigned i = 0; i < SHARDS; i++) {
        low = c->rigs[i].version < low ? c->rigs[i].version : low;
    }
    return low;
}

static void hear(struct cluster *c, unsigned shard, const struct rig_reply *reply)
{
    if (reply->code != 0) {
        assert_int_equal(reply->code, ERR_ABORTED);
        return;
    }
    if (reply->has_decision && reply->decision_step >= c->decided) {
        assert_int_equal(reply->decision_step, c->decided);
        memcpy(c->sets[c->decided++], reply->decision, reply->decision_bytes);
    } else if (reply->has_decision) {
        assert_memory_equal(c->sets[reply->decision_step], reply->decision, reply->decision_bytes);
    }
    if (reply->has_sums && !reply->sums_over) {
        c->answers[reply->sums_step][reply->sums_round][shard].there = true;
        c->answers[reply->sums_step][reply->sums_round][shard].known = reply->sums_known;
        c->answers[reply->sums_step][reply->sums_round][shard].sums = reply->sums;
    }
}

static void listen(struct cluster *c)
{
    for (unsigned i = 0; i < SHARDS; i++) {
        for (; c->seen[i] < c->rigs[i].reply_count; c->seen[i]++) {
            hear(c, i, &c->rigs[i].replies[c->seen[i]]);
        }
        assert_true(c->rigs[i].version - lowest(c) <= 1);
    }
}

/* What a worker makes of the answers of all shards; false: one is missing. */
static bool join(struct cluster *c, uint64_t step, uint32_t round)
{
    bool known = false;
    double total = 0;
    for (unsigned i = 0; i < SHARDS; i++) {
        if (!c->answers[step][round][i].there) {
            return false;
        }
        if (c->answers[step][round][i].known) {
            known = true;
            total = c->answers[step][round][i].sums;
        }
    }
    for (unsigned i = 0; i < SHARDS && !known; i++) {
        total += c->answers[step][round][i].sums;
    }
    assert_true(!c->known[step][round] || c->totals[step][round] == total);
    c->known[step][round] = true;
    c->totals[step][round] = total;
    return true;
}

static void set_can_apply(struct cluster *c, unsigned shard)
{
    c->rigs[shard].can_apply = random_below(&c->seed, 3) > 0;
}

static void send_push(struct cluster *c, unsigned shard, uint64_t step, uint32_t replica)
{
    set_can_apply(c, shard);
    struct rig *r = &c->rigs[shard];
    struct shard_event e = gradient_push(r, ++c->tag, step, replica, replica + 1);
    rig_step(r, &e);
    listen(c);
}

static void send_ask(struct cluster *c, unsigned shard, uint64_t step, uint32_t round)
{
    rig_ask_sums(&c->rigs[shard], ++c->tag, step, round);
    listen(c);
}

static void send_totals(struct cluster *c, unsigned shard, uint64_t step, uint32_t round)
{
    if (join(c, step, round)) {
        set_can_apply(c, shard);
        rig_totals(&c->rigs[shard], ++c->tag, step, round, c->totals[step][round]);
        rig_expect(&c->rigs[shard], c->tag, 0, "");
        listen(c);
    }
}

static void send_decision(struct cluster *c, unsigned shard, uint64_t step)
{
    if (c->partial && shard > 0 && step < c->decided && step <= c->rigs[shard].version) {
        set_can_apply(c, shard);
        decide(&c->rigs[shard], ++c->tag, step, c->sets[step], (c->replicas + 7) / 8);
        rig_expect(&c->rigs[shard], c->tag, 0, "");
        listen(c);
    }
}

static void send_snapshot(struct cluster *c, unsigned shard)
{
    c->rigs[shard].can_apply = true;
    if (shard_wants_snapshot(c->rigs[shard].shard)) {
        rig_event(&c->rigs[shard], SHARD_SNAPSHOT, 0);
    }
    listen(c);
}

static void change_generation(struct cluster *c)
{
    uint64_t generation = c->rigs[0].generation + 1;
    for (unsigned i = 0; i < SHARDS; i++) {
        rig_membership(&c->rigs[i], ++c->tag, generation, 1 + random_below(&c->seed, 4));
        rig_totals(&c->rigs[i], ++c->tag, lowest(c), 0, 1); /* too late */
        rig_expect(&c->rigs[i], c->tag, ERR_ABORTED, "is over");
        c->rigs[i].generation = generation;
    }
    memset(c->answers, 0, sizeof c->answers); /* lost */
    listen(c);
}

static void random_event(struct cluster *c)
{
    unsigned shard = random_below(&c->seed, SHARDS);
    uint64_t step = lowest(c);
    uint64_t back = random_below(&c->seed, 8) == 0 ? random_below(&c->seed, 4) : 0;
    step -= back < step ? back : step;
    uint32_t round = c->known[step][0] ? random_below(&c->seed, c->rounds) : 0;
    uint32_t dice = random_below(&c->seed, 100);
    if (dice < 45) {
        send_push(c, shard, step, random_below(&c->seed, c->replicas));
    } else if (dice < 65) {
        send_ask(c, shard, step, round);
    } else if (dice < 85) {
        send_totals(c, shard, step, round);
    } else if (dice < 90) {
        send_decision(c, shard, step);
    } else if (dice < 99 || random_below(&c->seed, 3) > 0) {
        send_snapshot(c, shard);
    } else {
        change_generation(c);
    }
}

/* A worker that does all of a step: it gets done, wherever the shards are. */
static void finish_step(struct cluster *c)
{
    uint64_t step = lowest(c);
    for (unsigned i = 0; i < SHARDS; i++) {
        for (uint32_t r = 0; r < c->replicas; r++) {
            send_push(c, i, step, r);
        }
        send_snapshot(c, i);
    }
    for (uint32_t round = 0; round < c->rounds; round++) {
        for (unsigned i = 0; i < SHARDS; i++) {
            send_ask(c, i, step, round); /* the lead first: it brings the decision */
            send_decision(c, i, step);
            send_snapshot(c, i);
        }
        for (unsigned i = 0; i < SHARDS; i++) {
            assert_true(join(c, step, round));
            send_totals(c, i, step, round);
            send_snapshot(c, i);
        }
    }
    assert_true(lowest(c) > step);
}

/* The totals of all steps are those of the sums that were applied. */
static void check_steps(struct cluster *c)
{
    for (uint64_t step = 0; step < lowest(c); step++) {
        const uint8_t *set = c->partial ? c->sets[step] : NULL;
        struct gradient g = gradient_sum(step, 0, c->replicas, set);
        double before = 0;
        for (uint32_t round = 0; round < c->rounds; round++) {
            double total = 0;
            for (unsigned i = 0; i < SHARDS; i++) {
                total += rig_partial(i, g.examples == 0 ? NULL : g.values, round, before);
            }
            assert_true(c->known[step][round]);
            assert_true(c->totals[step][round] == total);
            before = total;
        }
        for (unsigned i = 0; i < SHARDS; i++) {
            check_update(&c->rigs[i], step, c->replicas, set);
        }
    }
}

static uint64_t run_cluster(uint32_t seed)
{
    struct cluster *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->seed = seed;
    c->replicas = 2 + random_below(&c->seed, 4);
    c->rounds = 1 + random_below(&c->seed, RIG_ROUNDS);
    struct consistency k = rig_consistency(TRAINING_SYNC, c->replicas);
    c->partial = random_below(&c->seed, 2) == 0;
    k.aggregate = c->partial ? 1 + random_below(&c->seed, c->replicas - 1) : c->replicas;
    for (unsigned i = 0; i < SHARDS; i++) {
        rig_open_rounds(&c->rigs[i], i, &k, c->rounds);
    }
    for (unsigned event = 0; event < 3000; event++) {
        random_event(c);
    }
    uint64_t steps = lowest(c);
    finish_step(c);
    finish_step(c);
    check_steps(c);
    for (unsigned i = 0; i < SHARDS; i++) {
        rig_release(&c->rigs[i]);
    }
    free(c);
    return steps;
}

static void test_random_clusters(void **state)
{
    (void)state;
    uint64_t steps = 0;
    for (uint32_t seed = 1; seed <= 100; seed++) {
        steps += run_cluster(seed);
    }
    assert_true(steps > 100 * 5); /* the events do make progress */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_step_waits_for_totals),
        cmocka_unit_test(test_two_rounds),
        cmocka_unit_test(test_late_and_repeated),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_jobs_without_sums),
        cmocka_unit_test(test_snapshots),
        cmocka_unit_test(test_new_generation),
        cmocka_unit_test(test_change_and_restore),
        cmocka_unit_test(test_empty_step),
        cmocka_unit_test(test_random_clusters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
