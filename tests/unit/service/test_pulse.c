/* SPDX-License-Identifier: Apache-2.0 */
/* A loop that turns, and what is seen of one that does not. */
#include "support/test.h"

#include "os/chrono.h"
#include "service/pulse.h"
#include "support/wait_until.h"

static void nothing(void *ctx)
{
    (void)ctx;
}

static void test_of_no_loop(void **state)
{
    (void)state;
    struct pulse p = {0};
    assert_int_equal(pulse_silence_ms(&p, 1000000), 0);
}

static void test_silence_is_since_the_last_turn(void **state)
{
    (void)state;
    struct pulse p = {0};
    struct loop *loop = loop_new(0);
    uint64_t begin_ms = chrono_now_ms();
    pulse_begin(&p, "test", loop);
    uint64_t beat_ms = atomic_load(&p.beat_ms);
    assert_true(beat_ms >= begin_ms);
    assert_int_equal(pulse_silence_ms(&p, beat_ms + 31000), 31000);
    assert_int_equal(pulse_silence_ms(&p, beat_ms - 1),
                     0); /* another thread's clock, just before */
    loop_free(loop);
}

static bool beats(struct loop *loop, const struct pulse *p, uint64_t since_ms)
{
    assert_int_equal(loop_call(loop, nothing, NULL, NULL), 0);
    return atomic_load(&p->beat_ms) >= since_ms;
}

static void test_a_loop_that_turns_beats(void **state)
{
    (void)state;
    struct pulse p = {0};
    struct err err = {0};
    struct loop *loop = loop_new(0);
    pulse_begin(&p, "test", loop);
    uint64_t first_ms = atomic_load(&p.beat_ms);
    p.timer.deadline_ms = 0; /* it is due */
    assert_int_equal(loop_start(loop, "test", &err), 0);
    atomic_store(&p.beat_ms, first_ms - 1);
    wait_until(beats(loop, &p, first_ms));
    loop_stop(loop);
    loop_join(loop);
    loop_free(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_no_loop),
        cmocka_unit_test(test_silence_is_since_the_last_turn),
        cmocka_unit_test(test_a_loop_that_turns_beats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
