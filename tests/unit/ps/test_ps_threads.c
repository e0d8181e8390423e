/* SPDX-License-Identifier: Apache-2.0 */
/* A shard that is large enough for several threads: the bits of one. */
#define ROWS 17500
#include "exchange_rig.h"

#include "ps/rpc/ps_shell.h"

#define STEPS 2
#define REPLICAS 2

/* The sums of replicas, the rounds of the rule and the update itself, over the stream. */
static float *train(const char *rule, unsigned threads)
{
    struct ps_rig rig;
    struct client c;
    struct err err;
    char job[] = "a-1";
    float *out = mem_new(ELEMENTS, sizeof *out);
    assert_true(ELEMENTS >= PS_SHARED_FLOATS_MIN);
    ps_rig_start_full(&rig, 0, 0, threads);
    assert_int_equal(thread_team_size(rig.ps->team), threads);
    ps_rig_expect(ps_rig_open(&rig, job, "sync", rule, 1, REPLICAS, &err), 0, &err, "");
    exchange_open(&c, &rig);
    for (uint64_t step = 0; step < STEPS; step++) {
        for (uint32_t replica = 0; replica < REPLICAS; replica++) {
            for (size_t i = 0; i < ELEMENTS; i++) {
                gradient[i] = (float)((i * (replica + 1) + step) % 97) * 0.01F;
            }
            forget_answer(&c, replica);
            send_push(&c, job, replica, step, replica, replica + 1, 1 << 18,
                      replica + 1 == REPLICAS);
            assert_int_equal(wait_answer(&c, replica)->code, 0);
        }
        assert_int_equal(c.answers[REPLICAS - 1].version, step + 1);
    }
    memcpy(out, c.answers[REPLICAS - 1].values, ELEMENTS * sizeof *out);
    exchange_close(&c);
    ps_rig_stop(&rig);
    return out;
}

static void test_the_same_bits(void **state)
{
    (void)state;
    static const char *const rules[] = {"adam, clip_global_norm: 0.1, l2: 0.01", "sgd",
                                        "adafactor"};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        float *one = train(rules[i], 1);
        float *several = train(rules[i], 3);
        if (memcmp(one, several, ELEMENTS * sizeof *one) != 0) {
            fail_msg("%s: other bits with several threads", rules[i]);
        }
        free(several);
        free(one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_the_same_bits)};
    return cmocka_run_group_tests(tests, ps_rig_setup, ps_rig_teardown);
}
