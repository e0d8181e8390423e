/* SPDX-License-Identifier: Apache-2.0 */
/* Random clusters (fake_cluster.h): generations and modes change, and nothing hangs, gets lost or
 * is done twice. */
#include "support/test.h"

#include <stdlib.h>

#include "base/mem.h"
#include "unit/worker/fake_cluster.h"

static bool all_idle(const struct cluster *c)
{
    for (size_t k = 0; k < c->workers; k++) {
        if (!c->nodes[k].idle) {
            return false;
        }
    }
    return true;
}

static void must_advance(struct cluster *c, uint64_t *budget)
{
    if (*budget == 0 || !cluster_advance(c)) {
        print_message("seed %llu mode %d generation %llu limit %llu\n", (unsigned long long)c->seed,
                      (int)c->consistency.mode, (unsigned long long)c->generation,
                      (unsigned long long)c->limit);
        fail_msg("the workers hang");
    }
    (*budget)--;
}

static bool sync_is_over(const struct cluster *c)
{
    bool one = false;
    bool all = true;
    for (size_t k = 0; k < c->workers; k++) {
        bool there = c->nodes[k].idle && c->nodes[k].position == c->limit;
        one = one || there;
        all = all && there;
    }
    return consistency_is_nonblocking(&c->consistency) ? one : all;
}

/* Of the last round of @step, however it came about. */
static uint64_t expected_totals(const struct cluster *c, uint64_t step)
{
    uint64_t totals = step + 1;
    uint64_t weight = c->shards * (c->shards + 1) / 2;
    for (uint32_t round = 0; round < c->shard[0].rounds; round++) {
        totals = (totals * 31 + c->shard[0].applied[step]) * weight;
    }
    return totals;
}

static void run_sync(struct cluster *c, uint64_t regroups)
{
    uint64_t budget = 100000;
    c->limit = c->step_map.step + 3 + cluster_draw(c, 12);
    cluster_regroup(c);
    while (!sync_is_over(c)) {
        must_advance(c, &budget);
        if (regroups > 0 && cluster_draw(c, 150) == 0) {
            regroups--;
            cluster_regroup(c);
        }
    }
    for (uint32_t s = 0; s < c->shards; s++) {
        const struct fake_shard *shard = &c->shard[s];
        assert_int_equal(shard->version, c->limit);
        for (uint64_t step = c->step_map.step; step < c->limit; step++) {
            assert_int_equal(shard->applied[step], c->shard[0].applied[step]);
            if (shard->rounds > 0) {
                assert_int_equal(shard->totals_of[step], expected_totals(c, step));
            }
        }
    }
    ledger_release(&c->ledger);
    step_map_ledger(&c->step_map, c->limit, &c->ledger);
}

static bool is_level(const struct cluster *c)
{
    for (uint32_t s = 1; s < c->shards; s++) {
        if (memcmp(c->shard[s].done, c->shard[0].done, sizeof c->shard[0].done) != 0) {
            return false;
        }
    }
    return true;
}

static void epoch_begin(struct cluster *c)
{
    for (uint32_t k = 0; k < ledger_shape_splits(&SHAPE); k++) {
        uint32_t batches = ledger_shape_split_batches(&SHAPE, k);
        c->split[k] = c->ledger.done[k] == batches ? SPLIT_DONE : SPLIT_FREE;
        c->leases[k] =
            (struct worker_lease){.epoch = c->ledger.epoch, .split = k, .batch_end = batches};
        for (uint32_t s = 0; s < c->shards; s++) {
            c->shard[s].done[c->ledger.epoch][k] = c->ledger.done[k];
        }
    }
    c->epoch = c->ledger.epoch;
}

/* Until the epoch is done, or a hold; then all shards have the same. */
static void run_async(struct cluster *c, uint64_t regroups)
{
    uint64_t budget = 100000;
    if (ledger_left(&c->ledger) == 0) {
        ledger_next_epoch(&c->ledger);
    }
    epoch_begin(c);
    cluster_regroup(c);
    uint64_t hold_in = cluster_draw(c, 3) == 0 ? UINT64_MAX : 20 + cluster_draw(c, 300);
    while (!cluster_epoch_is_done(c) || !all_idle(c)) {
        must_advance(c, &budget);
        if (regroups > 0 && cluster_draw(c, 150) == 0) {
            regroups--;
            c->holding = false;
            cluster_regroup(c);
        } else if (!c->holding && hold_in-- == 0) {
            c->holding = true;
            cluster_assign(c, true);
        } else if (c->holding && all_idle(c)) {
            c->holding = false;
            if (is_level(c)) {
                break;
            }
            hold_in = 100 + cluster_draw(c, 100);
            cluster_assign(c, false);
        }
    }
    c->holding = false;
    assert_true(is_level(c));
    for (uint32_t k = 0; k < ledger_shape_splits(&SHAPE); k++) {
        c->ledger.done[k] = c->shard[0].done[c->epoch][k];
        c->split[k] = SPLIT_FREE;
    }
}

static struct consistency drawn_consistency(struct cluster *c)
{
    uint32_t replicas = 1 + (uint32_t)cluster_draw(c, 7);
    struct consistency k = {.mode = (enum training_mode)cluster_draw(c, 3),
                            .replicas = replicas,
                            .aggregate = replicas,
                            .push_every = 1,
                            .pull_every = 1};
    if (k.mode == TRAINING_SYNC) {
        uint64_t kind = cluster_draw(c, 3);
        k.aggregate = kind == 1 ? 1 + (uint32_t)cluster_draw(c, replicas) : replicas;
        k.speculate = kind == 2 ? 2 : 0;
        return k;
    }
    k.policy = (enum staleness_policy)cluster_draw(c, 4);
    k.max_staleness = cluster_draw(c, 3);
    k.staleness = cluster_draw(c, 4);
    k.overlap = k.policy != POLICY_MAX_STALENESS && cluster_draw(c, 2) == 0;
    if (!k.overlap) {
        k.push_every = 1 + (uint32_t)cluster_draw(c, 4);
        k.pull_every = 1 + (uint32_t)cluster_draw(c, 3);
    }
    return k;
}

static void run_cluster(struct cluster *c, uint64_t seed)
{
    c->seed = seed;
    c->draws = 0;
    c->now_ms = 1;
    c->workers = 1 + cluster_draw(c, FAKE_WORKERS_MAX);
    c->shards = 1 + (uint32_t)cluster_draw(c, FAKE_SHARDS_MAX);
    c->lossy = cluster_draw(c, 2) == 0;
    c->generation = 0;
    uint32_t rounds = c->shards > 1 ? (uint32_t)cluster_draw(c, 3) : 0;
    const struct era only = {.rounds = rounds};
    struct worker_config config = {
        .shard_count = c->shards, .eras = &only, .era_count = 1, .shape = SHAPE};
    for (size_t k = 0; k < c->workers; k++) {
        c->nodes[k].worker = worker_new(&config);
        c->nodes[k].slowness = cluster_draw(c, 4) == 0 ? 20 : 1;
        memset(c->nodes[k].sets, 0xff, sizeof c->nodes[k].sets);
    }
    for (uint32_t s = 0; s < c->shards; s++) {
        c->shard[s].number = s;
        c->shard[s].rounds = rounds;
    }
    assert_int_equal(ledger_init(&c->ledger, &SHAPE, 0, NULL), 0);
    for (int phase = 0; phase < 5; phase++) {
        c->consistency = drawn_consistency(c);
        step_map_release(&c->step_map);
        step_map_init(&c->step_map, c->shard[0].version, c->consistency.replicas, &c->ledger);
        uint64_t regroups = cluster_draw(c, 2) * cluster_draw(c, 4);
        if (c->consistency.mode == TRAINING_SYNC) {
            run_sync(c, regroups);
        } else {
            run_async(c, regroups);
        }
    }
    for (size_t k = 0; k < c->workers; k++) {
        worker_free(c->nodes[k].worker);
    }
    step_map_release(&c->step_map);
    ledger_release(&c->ledger);
    worker_actions_release(&c->actions);
}

static void test_random_clusters(void **state)
{
    (void)state;
    size_t dropped = 0;
    size_t speculated = 0;
    size_t again = 0;
    size_t known = 0;
    const char *count = getenv("GRADUS_TEST_SEEDS");
    uint64_t seeds = count != NULL ? strtoull(count, NULL, 10) : 300;
    for (uint64_t seed = 0; seed < seeds; seed++) {
        struct cluster *c = mem_new(1, sizeof *c);
        run_cluster(c, seed);
        dropped += c->dropped_seen;
        speculated += c->speculated_seen;
        again += c->again_seen;
        known += c->known_seen;
        free(c);
    }
    assert_true(dropped > 0 && speculated > 0 && again > 0 && known > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_clusters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
