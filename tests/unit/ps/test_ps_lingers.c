/* SPDX-License-Identifier: Apache-2.0 */
/* A shard is opened where a closed one has not given all its memory back: it is waited for. */
#include "ps_rig.h"

#include <time.h>

#include "ps/rpc/ps_shell.h"

#define ARRAY (ELEMENTS * sizeof(float))

static char job[] = "a-1";
static char other[] = "b-2";

/* Who reads the closed shard yet. */
static _Atomic(struct snapshot *) read_yet;

/* In the place of the C library's: who waits meets the last reader, who is through then. */
int nanosleep(const struct timespec *requested, struct timespec *left)
{
    struct snapshot *s = atomic_exchange(&read_yet, NULL);
    if (s != NULL) {
        ps_values_release(s);
    }
    return clock_nanosleep(CLOCK_MONOTONIC, 0, requested, left);
}

static void close_shard(struct ps_rig *rig, char *id)
{
    struct err err;
    Gradus__V1__CloseShardRequest r = GRADUS__V1__CLOSE_SHARD_REQUEST__INIT;
    Gradus__V1__ShardRef ref = ps_rig_ref(id, 1);
    r.shard = &ref;
    ps_rig_expect(ps_rig_call(rig, "CloseShard", &r.base, NULL, 0, NULL, &err), 0, &err, "");
}

static void test_memory_of_a_closed_shard_is_waited_for(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    struct ps_shard *list[PS_SHARDS_MAX];
    ps_rig_start(&rig, 3 * ARRAY + ARRAY / 2); /* two versions and a gradient */
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "sgd", 1, 1, &err), 0, &err, "");
    assert_int_equal(ps_list(rig.ps, job, list), 1);
    struct snapshot *reading = ps_values_acquire(list[0], 0, 1);
    ps_shard_unref(list[0]);
    close_shard(&rig, job);
    assert_true(ps_lingers(rig.ps));
    assert_true(atomic_load(&rig.ps->budget.bytes) >= ARRAY);
    atomic_store(&read_yet, reading);
    ps_rig_expect(ps_rig_open(&rig, other, "sync", "sgd", 1, 1, &err), 0, &err, "");
    assert_null(atomic_load(&read_yet)); /* it did wait */
    ps_rig_stop(&rig);
}

/* Not for what another shard, which is open, has. */
static void test_nobody_waits_for_open_shards(void **state)
{
    (void)state;
    struct ps_rig rig;
    struct err err;
    struct ps_shard *list[PS_SHARDS_MAX];
    ps_rig_start(&rig, 3 * ARRAY + ARRAY / 2);
    ps_rig_expect(ps_rig_open(&rig, job, "sync", "sgd", 1, 1, &err), 0, &err, "");
    ps_rig_expect(ps_rig_open(&rig, other, "sync", "sgd", 1, 1, &err), ERR_EXHAUSTED, &err,
                  "job b-2 shard 0");
    assert_int_equal(ps_list(rig.ps, NULL, list), 1);
    ps_shard_unref(list[0]);
    ps_rig_stop(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_of_a_closed_shard_is_waited_for),
        cmocka_unit_test(test_nobody_waits_for_open_shards),
    };
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
