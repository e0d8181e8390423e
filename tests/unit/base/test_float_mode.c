/* SPDX-License-Identifier: Apache-2.0 */
/* A program that calls float_mode_flush() counts subnormal floats as zero since before main(), and
 * so do its threads. */
#include "support/test.h"

#include <float.h>
#include <pthread.h>

#include "base/float_mode.h"

static bool at_first;

/* As those of shared libraries, but later. */
__attribute__((constructor)) static void construct(void)
{
    at_first = float_mode_flushes();
}

/* Do a result that would be subnormal and a subnormal operand count as zero? */
static bool computes_so(void)
{
    volatile float least = FLT_MIN, subnormal = FLT_MIN / 8.0F;
    return least / 4.0F == 0.0F && subnormal * 8.0F == 0.0F;
}

static void *look(void *seen)
{
    *(bool *)seen = float_mode_flushes() && computes_so();
    return NULL;
}

static void test_before_main(void **state)
{
    (void)state;
    assert_true(at_first);
}

static void test_every_thread(void **state)
{
    (void)state;
    bool here = false, there = false;
    pthread_t thread;
    (void)look(&here);
    assert_true(here);
    assert_int_equal(pthread_create(&thread, NULL, look, &there), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(there);
}

int main(void)
{
#if !defined(__x86_64__) && !defined(__aarch64__)
    return 77; /* the mode is not known there */
#endif
    float_mode_flush();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_before_main),
        cmocka_unit_test(test_every_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
