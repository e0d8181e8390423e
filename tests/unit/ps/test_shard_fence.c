/* SPDX-License-Identifier: Apache-2.0 */
/* Whoever does not know the shard's opening, or its master's secret, changes nothing. */
#include "shard_rig.h"

static void assert_same(struct rig *r, const struct shard_info *before)
{
    struct shard_info now;
    shard_info(r->shard, &now);
    assert_int_equal(now.generation, before->generation);
    assert_int_equal(now.version, before->version);
    assert_int_equal(now.pins, before->pins);
    assert_int_equal(now.queued, before->queued);
    assert_int_equal(now.parked, before->parked);
    assert_false(now.closed);
}

static void test_another_opening_is_refused(void **state)
{
    (void)state;
    const enum training_mode modes[] = {TRAINING_SYNC, TRAINING_ASYNC, TRAINING_BOUNDED};
    for (size_t i = 0; i < 3; i++) {
        struct rig r;
        struct shard_info before;
        rig_init(&r, modes[i], 2);
        shard_info(r.shard, &before);
        struct shard_event e = rig_exchange(&r, 1, "w0");
        rig_set_push(&r, &e, 1, 10);
        e.ask.push.replica_end = 1;
        e.fence.opening = 5;
        rig_step(&r, &e);
        rig_expect(&r, 1, ERR_ABORTED, "opened another time, or by another cluster");
        assert_int_equal(r.buffers, 0);
        e = rig_exchange(&r, 2, "w0");
        e.ask.has_pull = true;
        e.fence.opening = 5;
        rig_step(&r, &e);
        rig_expect(&r, 2, ERR_ABORTED, "another cluster");
        assert_same(&r, &before);
        rig_release(&r);
    }
}

static void test_generations_of_others_are_refused(void **state)
{
    (void)state;
    static const uint64_t generations[] = {1, 2, 999, UINT64_MAX};
    static const enum shard_event_kind kinds[] = {SHARD_MEMBERSHIP, SHARD_PIN,   SHARD_UNPIN,
                                                  SHARD_CHECKPOINT, SHARD_STATE, SHARD_CLOSE};
    struct rig r;
    struct shard_info before;
    rig_init(&r, TRAINING_SYNC, 2);
    rig_pin(&r, SHARD_PIN, 1, "p", true);
    shard_info(r.shard, &before);
    uintptr_t tag = 10;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (size_t g = 0; g < 4; g++) {
            struct shard_event e = {.kind = kinds[k],
                                    .generation = generations[g],
                                    .tag = (void *)++tag,
                                    .pin_id = "p",
                                    .workers = RIG_WORKERS,
                                    .worker_count = 2,
                                    .fence = {.secret = {[FENCE_SECRET_BYTES - 1] = 1}}};
            if (kinds[k] == SHARD_PIN) {
                e.slots_buffer = rig_buffer(&r, 1);
            }
            rig_step(&r, &e);
            rig_expect(&r, tag, ERR_UNAUTHENTICATED, "not asked by the master");
            assert_same(&r, &before);
        }
    }
    /* And its master goes on. */
    rig_membership(&r, 500, 2, 2);
    assert_int_equal(rig_replied(&r, 500)->code, 0);
    rig_release(&r);
}

/* A master that was started again has the job's secret, but not the number of an opening that it
 * did not make: it may close the shard, and nothing else. */
static void test_the_master_may_close_any_opening(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, TRAINING_SYNC, 2);
    struct shard_event e = {.kind = SHARD_MEMBERSHIP,
                            .generation = 2,
                            .tag = (void *)1,
                            .workers = RIG_WORKERS,
                            .worker_count = 2,
                            .fence = {.opening = 9}};
    rig_step(&r, &e);
    rig_expect(&r, 1, ERR_ABORTED, "another time");
    e.kind = SHARD_CLOSE;
    e.tag = (void *)2;
    rig_step(&r, &e);
    assert_int_equal(rig_replied(&r, 2)->code, 0);
    rig_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_opening_is_refused),
        cmocka_unit_test(test_generations_of_others_are_refused),
        cmocka_unit_test(test_the_master_may_close_any_opening),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
