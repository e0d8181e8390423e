/* SPDX-License-Identifier: Apache-2.0 */
/* Partial sync on several shards: any events in any order, and all of them make the same of it. */
#include "shard_gradient.h"

#define SHARDS 3
#define STEPS_MAX 400
#define REPLICAS_MAX 9

struct pushed { /* by tag */
    uint64_t step;
    uint32_t replica;
    bool is_push;
};

struct cluster {
    struct rig rigs[SHARDS];
    uint32_t replicas;
    uint32_t seed;
    uint64_t decided; /* steps of which the decision is known */
    uint8_t sets[STEPS_MAX][8];
    struct pushed pushed[SHARDS][RIG_REPLIES];
    uintptr_t tags[SHARDS];
    size_t seen[SHARDS];
};

static uint64_t lowest(const struct cluster *c)
{
    uint64_t low = UINT64_MAX;
    for (unsigned i = 0; i < SHARDS; i++) {
        low = c->rigs[i].version < low ? c->rigs[i].version : low;
    }
    return low;
}

static void check_reply(struct cluster *c, unsigned shard, const struct rig_reply *reply)
{
    if (reply->code != 0) {
        assert_int_equal(reply->code, ERR_ABORTED);
        return;
    }
    if (reply->has_decision) {
        assert_int_equal(shard, 0);
        assert_true(reply->decision_step < STEPS_MAX);
        uint8_t *set = c->sets[reply->decision_step];
        if (reply->decision_step < c->decided) {
            assert_memory_equal(set, reply->decision, reply->decision_bytes);
        } else {
            assert_int_equal(reply->decision_step, c->decided);
            memcpy(set, reply->decision, reply->decision_bytes);
            c->decided++;
        }
    }
    const struct pushed *p = &c->pushed[shard][reply->tag];
    if (p->is_push) {
        assert_true(p->step < c->decided);
        assert_true((reply->push == PUSH_STALE) == !in_set(c->sets[p->step], p->replica));
        assert_true(reply->push == PUSH_STALE || reply->push == PUSH_APPLIED ||
                    reply->push == PUSH_DUPLICATE);
    }
}

static void check_cluster(struct cluster *c, unsigned shard)
{
    struct rig *r = &c->rigs[shard];
    for (; c->seen[shard] < r->reply_count; c->seen[shard]++) {
        check_reply(c, shard, &r->replies[c->seen[shard]]);
    }
    assert_true(c->rigs[0].version - lowest(c) <= 1);
    assert_true(r->version <= c->rigs[0].version);
}

static void send_push(struct cluster *c, unsigned shard, uint64_t step, uint32_t replica)
{
    struct rig *r = &c->rigs[shard];
    uintptr_t tag = ++c->tags[shard];
    assert_true(tag < RIG_REPLIES);
    c->pushed[shard][tag] = (struct pushed){step, replica, true};
    r->can_apply = random_below(&c->seed, 3) > 0;
    struct shard_event e = gradient_push(r, tag, step, replica, replica + 1);
    rig_step(r, &e);
    check_cluster(c, shard);
}

static void send_decision(struct cluster *c, unsigned shard, uint64_t step)
{
    struct rig *r = &c->rigs[shard];
    r->can_apply = random_below(&c->seed, 3) > 0;
    decide(r, ++c->tags[shard], step, c->sets[step], (c->replicas + 7) / 8);
    rig_expect(r, c->tags[shard], 0, "");
    check_cluster(c, shard);
}

static void send_snapshot(struct cluster *c, unsigned shard)
{
    c->rigs[shard].can_apply = true;
    rig_event(&c->rigs[shard], SHARD_SNAPSHOT, 0);
    check_cluster(c, shard);
}

static void change_generation(struct cluster *c)
{
    uint64_t generation = c->rigs[0].generation + 1;
    for (unsigned i = 0; i < SHARDS; i++) {
        rig_membership(&c->rigs[i], ++c->tags[i], generation, 1 + random_below(&c->seed, 4));
        send_push(c, i, lowest(c), random_below(&c->seed, c->replicas)); /* too late */
        rig_expect(&c->rigs[i], c->tags[i], ERR_ABORTED, "is over");
        c->rigs[i].generation = generation;
    }
}

static void random_step(struct cluster *c)
{
    unsigned shard = random_below(&c->seed, SHARDS);
    uint64_t low = lowest(c);
    uint32_t dice = random_below(&c->seed, 100);
    if (dice < 70) {
        uint64_t back = random_below(&c->seed, 8) == 0 ? random_below(&c->seed, 4) : 0;
        uint64_t step = back < low ? low - back : low;
        send_push(c, shard, step, random_below(&c->seed, c->replicas));
    } else if (dice < 85 && shard > 0) {
        uint64_t known = c->decided;
        uint64_t step = known == 0 ? 0 : known - 1 - random_below(&c->seed, 2) % known;
        if (known > 0 && step <= c->rigs[shard].version) {
            send_decision(c, shard, step);
        }
    } else if (dice < 98) {
        send_snapshot(c, shard);
    } else {
        change_generation(c);
    }
}

/* Everybody pushes everything, and carries decisions along: a step gets done. */
static void finish_step(struct cluster *c)
{
    uint64_t step = lowest(c);
    for (unsigned i = 0; i < SHARDS; i++) {
        for (uint32_t r = 0; r < c->replicas; r++) {
            send_push(c, i, step, r);
        }
        send_snapshot(c, i);
        if (i > 0 && c->rigs[i].version == step) {
            assert_true(c->decided > step);
            send_decision(c, i, step);
            send_snapshot(c, i);
        }
        assert_true(c->rigs[i].version > step);
    }
}

static uint64_t run_cluster(uint32_t seed)
{
    struct cluster *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->seed = seed;
    c->replicas = 2 + random_below(&c->seed, REPLICAS_MAX - 1);
    uint32_t aggregate = 1 + random_below(&c->seed, c->replicas - 1);
    for (unsigned i = 0; i < SHARDS; i++) {
        open_partial(&c->rigs[i], i, c->replicas, aggregate);
    }
    for (unsigned event = 0; event < 1500; event++) {
        random_step(c);
    }
    uint64_t steps = lowest(c);
    finish_step(c);
    finish_step(c);
    for (uint64_t step = 0; step < c->decided; step++) {
        for (unsigned i = 0; i < SHARDS; i++) {
            check_update(&c->rigs[i], step, c->replicas, c->sets[step]);
        }
    }
    for (unsigned i = 0; i < SHARDS; i++) {
        struct shard_info info;
        shard_info(c->rigs[i].shard, &info);
        assert_int_equal(info.version, c->decided);
        assert_int_equal(info.parked, 0);
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
    assert_true(steps > 100 * 10); /* the events do make progress */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_clusters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
