/* SPDX-License-Identifier: Apache-2.0 */
/* Updates with sums over whole variables, over real gRPC: two shards make the bits of one. */
#define PS_RIG_SHARDS_MAX 3
#include "exchange_rig.h"

#include <math.h>

#include "ps/rpc/ps_shell.h"

#define SHARDS 2

static char cut[] = "a-1"; /* over two shards */
static char one[] = "b-1"; /* the same in one piece */

struct scene {
    struct ps_rig rig;
    struct client shards[SHARDS], whole;
    struct plan plan, whole_plan;
    uint32_t rounds;
};

static void open_shard(struct scene *s, char *job, const char *rule, const char *mode,
                       uint32_t shard, uint32_t shards)
{
    struct err err;
    struct ps_rig_opening o = {.job = job,
                               .rule = rule,
                               .generation = 1,
                               .consistency = ps_rig_consistency(mode, 1),
                               .shard = shard,
                               .shards = shards};
    ps_rig_expect(ps_rig_open_as(&s->rig, &o, NULL, &err), 0, &err, "");
}

static void begin(struct scene *s, const char *rule, const char *mode)
{
    struct ps_shard *found[PS_SHARDS_MAX];
    for (size_t i = 0; i < ELEMENTS; i++) {
        gradient[i] = 0.75F;
    }
    *s = (struct scene){0};
    ps_rig_start(&s->rig, 0);
    ps_rig_plan(SHARDS, &s->plan);
    ps_rig_plan(1, &s->whole_plan);
    for (uint32_t i = 0; i < SHARDS; i++) {
        open_shard(s, cut, rule, mode, i, SHARDS);
        exchange_open(&s->shards[i], &s->rig);
    }
    assert_int_equal(ps_list(s->rig.ps, cut, found), SHARDS);
    s->rounds = ps_eras_rounds(&found[0]->eras);
    for (size_t i = 0; i < SHARDS; i++) {
        ps_shard_unref(found[i]);
    }
    open_shard(s, one, rule, mode, 0, 1);
    exchange_open(&s->whole, &s->rig);
}

static void end(struct scene *s)
{
    for (uint32_t i = 0; i < SHARDS; i++) {
        exchange_close(&s->shards[i]);
    }
    exchange_close(&s->whole);
    plan_release(&s->plan);
    plan_release(&s->whole_plan);
    ps_rig_stop(&s->rig);
}

static struct chunk push_of(const struct scene *s, uint32_t shard, uint64_t step)
{
    return (struct chunk){.exchange = 1,
                          .job = cut,
                          .shard = shard,
                          .first = true,
                          .push = true,
                          .step = step,
                          .hi = 1,
                          .examples = 10,
                          .total = s->plan.shard_elements[shard],
                          .floats = s->plan.shard_elements[shard]};
}

static struct chunk ask_of(uint32_t shard, uint64_t step, uint32_t round)
{
    return (struct chunk){.exchange = 2,
                          .job = cut,
                          .shard = shard,
                          .first = true,
                          .has_sums = true,
                          .step = step,
                          .round = round};
}

static struct chunk totals_of(uint32_t shard, uint64_t step, uint32_t round,
                              const struct buf *totals)
{
    return (struct chunk){.exchange = 3,
                          .job = cut,
                          .shard = shard,
                          .first = true,
                          .has_totals = true,
                          .step = step,
                          .round = round,
                          .totals = *totals};
}

static struct chunk pull_of(char *job, uint32_t shard, uint64_t version)
{
    return (struct chunk){.exchange = 4,
                          .job = job,
                          .shard = shard,
                          .first = true,
                          .pull = true,
                          .kind = GRADUS__V1__PULL__KIND__VERSION,
                          .version = version};
}

/* The part of every shard, joined. */
static void join(struct scene *s, uint64_t step, uint32_t round, struct buf *totals)
{
    const void *parts[SHARDS];
    size_t bytes[SHARDS];
    struct err err;
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct chunk ask = ask_of(i, step, round);
        struct answer *a = exchange(&s->shards[i], &ask);
        assert_int_equal(a->code, 0);
        assert_true(a->has_sums && !a->sums_known);
        assert_true(a->sums_step == step && a->sums_round == round);
        parts[i] = a->sums.data;
        bytes[i] = a->sums.len;
    }
    ps_rig_expect(update_join(parts, bytes, SHARDS, totals, &err), 0, &err, "");
}

/* What is no totals changes nothing. */
static void send_wrong(struct scene *s, uint32_t shard, uint64_t step, uint32_t round,
                       const struct buf *totals)
{
    struct buf wrong = {0};
    struct chunk k = totals_of(shard, step, round, &wrong);
    expect_refusal(&s->shards[shard], &k, ERR_INVALID, "a-1 shard");
    buf_add(&wrong, totals->data, totals->len - 1);
    k.totals = wrong;
    expect_refusal(&s->shards[shard], &k, ERR_INVALID, "a-1 shard");
    buf_reset(&wrong);
    for (size_t i = 0; i < totals->len; i++) {
        buf_add_char(&wrong, (char)(i * 37));
    }
    k.totals = wrong;
    expect_refusal(&s->shards[shard], &k, ERR_INVALID, "a-1 shard");
    buf_release(&wrong);
}

static void do_step(struct scene *s, uint64_t step)
{
    struct buf totals = {0};
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct chunk push = push_of(s, i, step);
        assert_int_equal(exchange(&s->shards[i], &push)->push, GRADUS__V1__PUSH_RESULT__ACCEPTED);
    }
    for (uint32_t round = 0; round < s->rounds; round++) {
        join(s, step, round, &totals);
        for (uint32_t i = 0; i < SHARDS; i++) {
            send_wrong(s, i, step, round, &totals);
            struct chunk k = totals_of(i, step, round, &totals);
            assert_int_equal(exchange(&s->shards[i], &k)->code, 0);
            assert_int_equal(exchange(&s->shards[i], &k)->code, 0); /* once more does no harm */
            struct chunk ask = ask_of(i, step, round);
            struct answer *a = exchange(&s->shards[i], &ask);
            assert_true(a->has_sums && a->sums_known);
            assert_int_equal(a->sums.len, totals.len);
            assert_memory_equal(a->sums.data, totals.data, totals.len);
        }
    }
    buf_release(&totals);
    struct chunk whole = push_of(s, 0, step);
    whole.job = one;
    whole.total = whole.floats = ELEMENTS;
    assert_int_equal(exchange(&s->whole, &whole)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
}

/* Where the elements of @p lie in one piece. */
static uint64_t place_in_whole(const struct scene *s, const struct partition *p)
{
    for (size_t i = 0; i < s->whole_plan.partition_count; i++) {
        if (s->whole_plan.partitions[i].variable == p->variable) {
            return s->whole_plan.partitions[i].offset + p->first;
        }
    }
    fail();
    return 0;
}

static void assert_same(struct scene *s, uint64_t version)
{
    struct chunk pull = pull_of(one, 0, version);
    const float *whole = exchange(&s->whole, &pull)->values;
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        size_t count;
        const struct partition *p = plan_shard(&s->plan, shard, &count);
        pull = pull_of(cut, shard, version);
        const struct answer *a = exchange(&s->shards[shard], &pull);
        assert_int_equal(a->code, 0);
        for (size_t i = 0; i < count; i++) {
            assert_memory_equal(a->values + p[i].offset, whole + place_in_whole(s, &p[i]),
                                p[i].count * sizeof(float));
        }
    }
}

static void test_two_shards_are_one(void **state)
{
    (void)state;
    static const char *const rules[] = {
        "lamb", "adafactor", "momentum, clip_global_norm: 0.5",
        "adam, clip_norm: 0.1, accumulate: 2, average: 0.9, non_finite: skip"};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        struct scene s;
        begin(&s, rules[i], "sync");
        assert_true(s.rounds > 0);
        for (uint64_t step = 0; step < 3; step++) {
            do_step(&s, step);
            assert_same(&s, step + 1);
        }
        struct chunk ask = ask_of(0, 0, 0); /* long over */
        const struct answer *a = exchange(&s.shards[0], &ask);
        assert_true(a->has_sums && a->sums_known && a->sums.len == 0);
        end(&s);
    }
}

/* A generation that begins between two rounds. */
static void test_begun_again(void **state)
{
    (void)state;
    struct scene s;
    struct err err;
    struct buf totals = {0};
    begin(&s, "adafactor", "sync");
    do_step(&s, 0);
    struct chunk push = push_of(&s, 0, 1);
    (void)exchange(&s.shards[0], &push);
    push = push_of(&s, 1, 1);
    (void)exchange(&s.shards[1], &push);
    join(&s, 1, 0, &totals);
    struct chunk k = totals_of(0, 1, 0, &totals);
    assert_int_equal(exchange(&s.shards[0], &k)->code, 0);
    for (uint32_t i = 0; i < SHARDS; i++) {
        Gradus__V1__SetMembershipRequest r = GRADUS__V1__SET_MEMBERSHIP_REQUEST__INIT;
        Gradus__V1__ShardRef ref = ps_rig_ref(cut, 2);
        ref.shard = i;
        r.shard = &ref;
        ps_rig_expect(ps_rig_call(&s.rig, "SetMembership", &r.base, NULL, 0, NULL, &err), 0, &err,
                      "");
    }
    k = totals_of(1, 1, 0, &totals);
    expect_refusal(&s.shards[1], &k, ERR_ABORTED, "is over");
    k.generation = 2;
    expect_refusal(&s.shards[1], &k, ERR_RANGE, "is not reduced here yet");
    buf_release(&totals);
    end(&s);
}

/* Async: the norms come with the push. */
static void test_norms(void **state)
{
    (void)state;
    struct scene s;
    double norms[3] = {0};
    begin(&s, "momentum, clip_global_norm: 0.5", "async");
    for (size_t i = 0; i < s.plan.variable_count; i++) {
        double g = 0.75 / 10;
        norms[i] = (double)shape_count(&s.plan.variables[i].shape) * g * g;
    }
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct chunk push = push_of(&s, i, 0);
        push.hi = 0;
        expect_refusal(&s.shards[i], &push, ERR_INVALID, "a push without norms");
        push.norms = norms;
        push.norm_count = 3;
        expect_refusal(&s.shards[i], &push, ERR_INVALID, "norms of 3 variables; there are 2");
        push.norm_count = 2;
        struct answer *a = exchange(&s.shards[i], &push);
        assert_int_equal(a->code, 0);
        assert_int_equal(a->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    }
    end(&s);
}

/* Whoever waits for the update, and whoever asks afterwards, hears which variable it was. */
static void test_not_finite(void **state)
{
    (void)state;
    struct scene s;
    begin(&s, "sgd", "sync");
    struct chunk pull = pull_of(one, 0, 1);
    pull.exchange = 5;
    send_chunk(&s.whole, &pull); /* waits */
    gradient[7] = NAN;
    struct chunk push = push_of(&s, 0, 0);
    push.job = one;
    push.total = push.floats = ELEMENTS;
    expect_refusal(&s.whole, &push, ERR_INVALID,
                   "b-1 shard 0: element 7 of the gradient of variable dense_1.kernel is not "
                   "finite, at step 0");
    assert_int_equal(wait_answer(&s.whole, 5)->code, -ERR_INVALID);
    pull.exchange = 6;
    expect_refusal(&s.whole, &pull, ERR_INVALID, "dense_1.kernel is not finite");
    end(&s);
}

static void test_skipped(void **state)
{
    (void)state;
    struct scene s;
    struct err err;
    struct rpc_msg *reply;
    begin(&s, "sgd, non_finite: skip", "sync");
    gradient[7] = INFINITY;
    struct chunk push = push_of(&s, 0, 0);
    push.job = one;
    push.total = push.floats = ELEMENTS;
    assert_int_equal(exchange(&s.whole, &push)->push, GRADUS__V1__PUSH_RESULT__APPLIED);
    struct chunk pull = pull_of(one, 0, 0);
    float *before = mem_new(ELEMENTS, sizeof *before);
    memcpy(before, exchange(&s.whole, &pull)->values, ELEMENTS * sizeof *before);
    pull = pull_of(one, 0, 1);
    assert_memory_equal(exchange(&s.whole, &pull)->values, before, ELEMENTS * sizeof *before);
    free(before);
    Gradus__V1__StatsRequest r = GRADUS__V1__STATS_REQUEST__INIT;
    r.job = one;
    ps_rig_expect(ps_rig_call(&s.rig, "Stats", &r.base, NULL, 0, &reply, &err), 0, &err, "");
    const Gradus__V1__StatsResponse *m = (const Gradus__V1__StatsResponse *)reply->body;
    assert_int_equal(m->shards[0]->updates_skipped, 1);
    rpc_msg_unref(reply);
    assert_true(meter_value(s.rig.ps->meters.updates_skipped) == 1);
    end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_shards_are_one),
        cmocka_unit_test(test_begun_again),
        cmocka_unit_test(test_norms),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test(test_skipped),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
