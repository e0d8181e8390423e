/* SPDX-License-Identifier: Apache-2.0 */
/* Steps with fewer than all replicas, spare replicas and stale gradients, over real gRPC. */
#include "exchange_rig.h"

#include <math.h>

#include "ps/rpc/ps_shell.h"
#include "support/wait_until.h"

#define RATE 0.01 /* of rule sgd */

static char job[] = "a-1";
static char w0[] = "w0";
static char w1[] = "w1";
static float initial[ELEMENTS];

struct scene {
    struct ps_rig rig;
    struct client c;
    struct ps_rig_opening o;
    uint64_t elements;
    uint64_t memory_bytes_max; /* set before begin(); 0: as much as there is */
    const char *rule;          /* likewise; NULL: sgd */
};

static float element(size_t i)
{
    return (float)(i % 31) * 0.125F - 1.5F;
}

static void begin(struct scene *s, uint32_t shard, const struct consistency *consistency)
{
    struct err err;
    struct plan plan;
    for (size_t i = 0; i < ELEMENTS; i++) {
        gradient[i] = element(i);
    }
    ps_rig_start(&s->rig, s->memory_bytes_max);
    s->o = (struct ps_rig_opening){.job = job,
                                   .rule = s->rule == NULL ? "sgd" : s->rule,
                                   .generation = 1,
                                   .consistency = *consistency,
                                   .shard = shard,
                                   .shards = shard + 1};
    ps_rig_plan(s->o.shards, &plan);
    s->elements = plan.shard_elements[shard];
    plan_release(&plan);
    ps_rig_expect(ps_rig_open_as(&s->rig, &s->o, NULL, &err), 0, &err, "");
    exchange_open(&s->c, &s->rig);
    struct chunk pull = {.exchange = 0, .job = job, .shard = shard, .first = true, .pull = true};
    memcpy(initial, exchange(&s->c, &pull)->values, s->elements * sizeof(float));
}

static void end(struct scene *s)
{
    exchange_close(&s->c);
    ps_rig_stop(&s->rig);
}

static struct chunk sync_push(const struct scene *s, uint64_t exchange_number, uint64_t step,
                              uint32_t replica)
{
    return (struct chunk){.exchange = exchange_number,
                          .job = job,
                          .shard = s->o.shard,
                          .first = true,
                          .push = true,
                          .step = step,
                          .lo = replica,
                          .hi = replica + 1,
                          .examples = 10,
                          .total = s->elements,
                          .floats = s->elements};
}

static struct chunk decision_of(const struct scene *s, uint64_t step, uint8_t *bits, size_t bytes)
{
    return (struct chunk){.exchange = 9,
                          .job = job,
                          .shard = s->o.shard,
                          .first = true,
                          .has_decision = true,
                          .step = step,
                          .decision = bits,
                          .decision_bytes = bytes};
}

static double meter(const struct scene *s, enum push_result result)
{
    return meter_value(s->rig.ps->meters.pushes[result]);
}

static const struct consistency two_of_three = {
    .mode = TRAINING_SYNC, .replicas = 3, .aggregate = 2, .push_every = 1, .pull_every = 1};

static void check_sum(const struct scene *s, const float *values, float sum, float examples)
{
    for (size_t i = 0; i < s->elements; i++) {
        float want = initial[i] - 0.01F * (sum * element(i) * (1.0F / examples));
        assert_true(fabsf(values[i] - want) <= 1e-6F);
    }
}

static void test_the_lead_decides(void **state)
{
    (void)state;
    struct scene s = {0};
    begin(&s, 0, &two_of_three);
    struct chunk later = {.exchange = 7,
                          .job = job,
                          .first = true,
                          .pull = true,
                          .kind = GRADUS__V1__PULL__KIND__AT_LEAST,
                          .version = 1};
    send_chunk(&s.c, &later);
    struct chunk first = sync_push(&s, 1, 0, 0);
    struct chunk second = sync_push(&s, 2, 0, 2);
    send_chunk(&s.c, &first); /* waits for the step */
    send_chunk(&s.c, &second);
    for (uint64_t i = 1; i <= 2; i++) {
        struct answer *a = wait_answer(&s.c, i);
        assert_int_equal(a->push, GRADUS__V1__PUSH_RESULT__APPLIED);
        assert_true(a->has_decision);
        assert_int_equal(a->decision_step, 0);
        assert_int_equal(a->decision, 5);
        assert_int_equal(a->version, 1);
    }
    struct answer *pulled = wait_answer(&s.c, 7);
    assert_int_equal(pulled->version, 1);
    assert_false(pulled->has_decision);
    check_sum(&s, pulled->values, 2, 20);
    struct chunk late = sync_push(&s, 3, 0, 1);
    struct answer *a = exchange(&s.c, &late);
    assert_int_equal(a->push, GRADUS__V1__PUSH_RESULT__STALE);
    assert_int_equal(a->decision, 5);
    first.exchange = 4;
    assert_int_equal(exchange(&s.c, &first)->push, GRADUS__V1__PUSH_RESULT__DUPLICATE);
    assert_true(meter(&s, PUSH_STALE) == 1 && meter(&s, PUSH_APPLIED) == 2);
    assert_true(meter_value(s.rig.ps->meters.decisions_made) == 4);
    uint8_t bits[] = {5};
    struct chunk told = decision_of(&s, 1, bits, 1);
    expect_refusal(&s.c, &told, ERR_INVALID, "job a-1 shard 0: a decision of step 1 for the lead");
    end(&s);
}

static void test_the_others_follow(void **state)
{
    (void)state;
    struct scene s = {0};
    begin(&s, 1, &two_of_three);
    uint8_t bits[SHARD_REPLICAS_MAX / 8 + 1] = {6};
    for (uint32_t r = 0; r < 2; r++) {
        struct chunk push = sync_push(&s, r + 1, 0, r);
        send_chunk(&s.c, &push);
    }
    struct chunk told = decision_of(&s, 0, bits, sizeof bits);
    expect_refusal(&s.c, &told, ERR_INVALID,
                   "job a-1 shard 1: a decision on 8193 bytes of replicas; at most 8192");
    told.decision_bytes = 2;
    expect_refusal(&s.c, &told, ERR_INVALID, "2 bytes");
    told.decision_bytes = 0;
    expect_refusal(&s.c, &told, ERR_INVALID, "0 bytes");
    told.decision_bytes = 1;
    bits[0] = 8 | 6; /* there are 3 replicas */
    expect_refusal(&s.c, &told, ERR_INVALID, "decision of step 0");
    bits[0] = 6;
    told.step = 1;
    expect_refusal(&s.c, &told, ERR_RANGE, "step 1");
    told.step = 0;
    assert_int_equal(exchange(&s.c, &told)->code, 0); /* replica 2 is still to come */
    assert_int_equal(exchange(&s.c, &told)->code, 0);
    bits[0] = 5;
    expect_refusal(&s.c, &told, ERR_INVALID, "a second decision of step 0");
    struct chunk third = sync_push(&s, 3, 0, 2);
    assert_int_equal(exchange(&s.c, &third)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    assert_int_equal(wait_answer(&s.c, 1)->push, GRADUS__V1__PUSH_RESULT__STALE);
    assert_int_equal(wait_answer(&s.c, 2)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    struct chunk pull = {.exchange = 4, .job = job, .shard = 1, .first = true, .pull = true};
    struct answer *a = exchange(&s.c, &pull);
    assert_int_equal(a->version, 1);
    check_sum(&s, a->values, 2, 20);
    assert_true(meter_value(s.rig.ps->meters.decisions_taken) == 2);
    end(&s);
}

/* Whether the answer to @ask, into @a, is that a replica is given away. */
static bool is_given(struct scene *s, const struct chunk *ask, struct answer **a)
{
    *a = exchange(&s->c, ask);
    assert_int_equal((*a)->code, 0);
    assert_true((*a)->has_spare);
    assert_true((*a)->spare_given || (*a)->spare_wait_ms > 0);
    return (*a)->spare_given;
}

static void test_late_replicas_are_given_away(void **state)
{
    (void)state;
    struct scene s = {0};
    struct consistency c = ps_rig_consistency("sync", 2);
    c.speculate = 1;
    begin(&s, 0, &c);
    struct chunk push;
    for (uint64_t step = 0; step < 2; step++) { /* the first step tells what is usual */
        push = sync_push(&s, 1, step, 0);
        assert_int_equal(exchange(&s.c, &push)->push, GRADUS__V1__PUSH_RESULT__ACCEPTED);
        if (step == 0) {
            push = sync_push(&s, 1, step, 1);
            assert_int_equal(exchange(&s.c, &push)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
        }
    }
    struct chunk ask = {.exchange = 2, .job = job, .first = true, .has_spare = true, .step = 1};
    struct answer *a = NULL; /* the other one is late by the server's clock */
    wait_until(is_given(&s, &ask, &a));
    assert_int_equal(a->spare_replica, 1);
    push = sync_push(&s, 3, 1, 1);
    push.is_spare = true;
    a = exchange(&s.c, &push);
    assert_int_equal(a->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    assert_false(a->has_spare);
    a = exchange(&s.c, &ask);
    assert_true(a->has_spare && !a->spare_given);
    assert_int_equal(a->spare_wait_ms, 0);
    push = sync_push(&s, 4, 1, 1); /* its owner */
    assert_int_equal(exchange(&s.c, &push)->push, GRADUS__V1__PUSH_RESULT__DUPLICATE);
    assert_true(meter_value(s.rig.ps->meters.spares) == 1);
    end(&s);
}

static struct chunk async_push(const struct scene *s, uint64_t exchange_number, char *worker,
                               uint32_t split, uint32_t batch, uint64_t base)
{
    return (struct chunk){.exchange = exchange_number,
                          .job = job,
                          .shard = s->o.shard,
                          .worker = worker,
                          .first = true,
                          .push = true,
                          .pull = true,
                          .split = split,
                          .batch = batch,
                          .examples = 10,
                          .base_version = base,
                          .total = s->elements,
                          .floats = s->elements};
}

static void test_stale_gradients_are_dropped(void **state)
{
    (void)state;
    struct scene s = {0};
    struct consistency c = ps_rig_consistency("async", 1);
    c.policy = POLICY_MAX_STALENESS;
    c.max_staleness = 1;
    begin(&s, 0, &c);
    for (uint32_t batch = 0; batch < 2; batch++) {
        struct chunk push = async_push(&s, 1, w0, 0, batch, 0);
        struct answer *a = exchange(&s.c, &push);
        assert_int_equal(a->push, GRADUS__V1__PUSH_RESULT__APPLIED);
        assert_int_equal(a->staleness, batch);
    }
    struct chunk push = async_push(&s, 1, w1, 1, 0, 0);
    struct answer *a = exchange(&s.c, &push);
    assert_int_equal(a->code, 0);
    assert_int_equal(a->push, GRADUS__V1__PUSH_RESULT__DROPPED);
    assert_int_equal(a->version, 2);
    assert_true(meter(&s, PUSH_DROPPED) == 1);
    push.base_version = 2; /* computed again */
    assert_int_equal(exchange(&s.c, &push)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    struct buf page = {0};
    meter_expose(s.rig.meters, &page);
    assert_non_null(strstr(buf_str(&page), "ps_staleness_versions_count 3\n"));
    assert_non_null(strstr(buf_str(&page), "ps_staleness_versions_sum 1\n"));
    buf_release(&page);
    end(&s);
}

static void test_only_the_lead_drops(void **state)
{
    (void)state;
    struct scene s = {0};
    struct consistency c = ps_rig_consistency("async", 1);
    c.policy = POLICY_MAX_STALENESS;
    begin(&s, 1, &c);
    struct chunk push = async_push(&s, 1, w0, 0, 0, 0);
    expect_refusal(&s.c, &push, ERR_STATE, "job a-1 shard 1: ");
    push.decided = true;
    assert_int_equal(exchange(&s.c, &push)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    push.batch = 1; /* stale, but decided */
    struct answer *a = exchange(&s.c, &push);
    assert_int_equal(a->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    assert_int_equal(a->staleness, 1);
    end(&s);
}

/* The values after an update, as the formula says in double precision. */
static void check_update(const struct scene *s, const float *before, const float *base,
                         const float *after, double rate, double lambda)
{
    for (size_t i = 0; i < s->elements; i++) {
        double g = (double)element(i) / 10;
        double moved = base == NULL ? 0 : (double)before[i] - (double)base[i];
        double want = (double)before[i] - rate * (g + lambda * g * g * moved);
        if (!(fabs(want - (double)after[i]) <= 1e-7 + 1e-6 * fabs(want))) {
            fail_msg("element %zu: %.9g, expected %.9g", i, (double)after[i], want);
        }
    }
}

static void test_stale_gradients_weigh_less(void **state)
{
    (void)state;
    struct scene s = {0};
    static float before[ELEMENTS];
    struct consistency c = ps_rig_consistency("async", 1);
    c.policy = POLICY_SCALE_LR;
    begin(&s, 0, &c);
    memcpy(before, initial, sizeof before);
    for (uint32_t i = 0; i < 4; i++) {
        struct chunk push = async_push(&s, 1, w0, i / 2, i % 2, 0);
        struct answer *a = exchange(&s.c, &push);
        assert_int_equal(a->push, GRADUS__V1__PUSH_RESULT__APPLIED);
        assert_int_equal(a->staleness, i);
        check_update(&s, before, NULL, a->values, RATE / (i > 1 ? i : 1), 0);
        memcpy(before, a->values, sizeof before);
    }
    end(&s);
}

/* λ is so large that the correction is as large as the gradient; the number of elements is no
 * multiple of a block. */
static void compensate(const char *rule, const struct consistency *c, double lambda)
{
    struct scene s = {.rule = rule};
    static float before[ELEMENTS];
    begin(&s, 0, c);
    struct chunk pull = {.exchange = 3, .job = job, .worker = w1, .first = true, .pull = true};
    assert_int_equal(exchange(&s.c, &pull)->version, 0);
    memcpy(before, initial, sizeof before);
    for (uint32_t i = 0; i < 3; i++) { /* each on the version before: nothing to compensate */
        struct chunk push = async_push(&s, 1, w0, i / 2, i % 2, i);
        struct answer *a = exchange(&s.c, &push);
        assert_int_equal(a->staleness, 0);
        check_update(&s, before, NULL, a->values, RATE, 0);
        memcpy(before, a->values, sizeof before);
    }
    struct chunk push = async_push(&s, 2, w1, 2, 0, 0);
    struct answer *a = exchange(&s.c, &push);
    assert_int_equal(a->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    assert_int_equal(a->staleness, 3);
    check_update(&s, before, initial, a->values, RATE, lambda);
    end(&s);
}

/* By the policy, or by a rule that wants what the worker read. */
static void test_stale_gradients_are_compensated(void **state)
{
    (void)state;
    struct consistency c = ps_rig_consistency("async", 1);
    compensate("dc_asgd, learning_rate: 0.01, lambda: 5000", &c, 5000);
    c.policy = POLICY_DELAY_COMPENSATION;
    c.lambda = 5000;
    compensate("sgd", &c, 5000);
}

/* A rule that wants its slot as it was when the worker read. */
static void test_slots_are_kept_for_workers(void **state)
{
    (void)state;
    struct scene s = {.rule = "adaptive_revision"};
    struct consistency c = ps_rig_consistency("async", 1);
    struct ps_shard *found[PS_SHARDS_MAX];
    begin(&s, 0, &c);
    assert_int_equal(ps_list(s.rig.ps, job, found), 1);
    struct chunk pull = {.exchange = 3, .job = job, .worker = w1, .first = true, .pull = true};
    (void)exchange(&s.c, &pull);
    for (uint32_t i = 0; i < 5; i++) {
        struct chunk push = async_push(&s, 1, i == 3 ? w1 : w0, i / 2, i % 2, i == 3 ? 0 : i);
        struct answer *a = exchange(&s.c, &push);
        assert_int_equal(a->push, GRADUS__V1__PUSH_RESULT__APPLIED);
        assert_int_equal(a->staleness, i == 3 ? 3 : 0);
        assert_true(a->values[7] != initial[7] && isfinite(a->values[7]));
    }
    assert_int_equal(found[0]->base_count, 2); /* what w0 read last, and w1 */
    assert_int_equal(found[0]->base_pool.count, 3);
    ps_shard_unref(found[0]);
    end(&s);
}

/* What was sent to each worker, the two newest versions and a gradient are all the memory there
 * is; an update never waits for memory that only another one would free. */
static void test_compensation_never_stands_still(void **state)
{
    (void)state;
    struct scene s = {.memory_bytes_max = 5 * ELEMENTS * sizeof(float)};
    struct consistency c = ps_rig_consistency("async", 1);
    c.policy = POLICY_DELAY_COMPENSATION;
    c.lambda = 0.5;
    begin(&s, 0, &c);
    static const bool second[] = {false, false, true, false, true, true, true, false};
    uint64_t bases[2] = {0, 0};
    struct chunk pull = {.exchange = 3, .job = job, .worker = w1, .first = true, .pull = true};
    assert_int_equal(exchange(&s.c, &pull)->version, 0);
    for (uint32_t i = 0; i < 40; i++) {
        bool w = second[i % 8];
        uint32_t batch = i % 5;
        struct chunk push = async_push(&s, 1, w ? w1 : w0, batch / 2, batch % 2, bases[w]);
        push.epoch = i / 5;
        struct answer *a = exchange(&s.c, &push);
        if (a->code != 0) {
            fail_msg("push %u: %s", i, a->message);
        }
        assert_int_equal(a->push, GRADUS__V1__PUSH_RESULT__APPLIED);
        assert_int_equal(a->staleness, i - bases[w]);
        bases[w] = a->version;
    }
    end(&s);
}

static void test_one_push_of_several_batches(void **state)
{
    (void)state;
    struct scene s = {0};
    struct consistency c = ps_rig_consistency("async", 1);
    c.push_every = 2;
    begin(&s, 0, &c);
    struct chunk push = async_push(&s, 1, w0, 0, 0, 0);
    push.batch_end = 2;
    push.examples = 20;
    struct answer *a = exchange(&s.c, &push);
    assert_int_equal(a->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    assert_int_equal(a->version, 1);
    assert_int_equal(exchange(&s.c, &push)->push, GRADUS__V1__PUSH_RESULT__DUPLICATE);
    push.split = 1;
    push.batch_end = 3;
    expect_refusal(&s.c, &push, ERR_INVALID, "job a-1 shard 0: a push of batch");
    Gradus__V1__StatsRequest r = GRADUS__V1__STATS_REQUEST__INIT;
    struct rpc_msg *reply;
    struct err err;
    assert_int_equal(ps_rig_call(&s.rig, "Stats", &r.base, NULL, 0, &reply, &err), 0);
    const Gradus__V1__ShardStats *stats =
        ((const Gradus__V1__StatsResponse *)reply->body)->shards[0];
    assert_int_equal(stats->examples, 20);
    assert_int_equal(stats->pushes_applied, 1);
    assert_int_equal(stats->pushes_duplicate, 1);
    assert_int_equal(stats->pushes_dropped, 0);
    assert_int_equal(stats->ledger->done[0], 2);
    rpc_msg_unref(reply);
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_lead_decides),
        cmocka_unit_test(test_the_others_follow),
        cmocka_unit_test(test_late_replicas_are_given_away),
        cmocka_unit_test(test_stale_gradients_are_dropped),
        cmocka_unit_test(test_only_the_lead_drops),
        cmocka_unit_test(test_stale_gradients_weigh_less),
        cmocka_unit_test(test_stale_gradients_are_compensated),
        cmocka_unit_test(test_slots_are_kept_for_workers),
        cmocka_unit_test(test_compensation_never_stands_still),
        cmocka_unit_test(test_one_push_of_several_batches),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
