/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers are the same everywhere and for ever: those of Philox against the published
 * answers (Random123, kat_vectors), ours against what they were. */
#include "support/test.h"

#include <math.h>
#include <string.h>

#include "base/rng.h"

static void test_philox(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], out[4];
    } CASES[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        uint32_t out[4];
        rng_philox(CASES[i].key, CASES[i].counter, out);
        assert_memory_equal(out, CASES[i].out, sizeof out);
    }
}

static void test_streams(void **state)
{
    (void)state;
    const uint64_t key = UINT64_C(0x299f31d0a4093822);
    assert_true(rng_u64(0, 0) == UINT64_C(0xe169c58d6627e8d5));
    const uint32_t k[2] = {0xa4093822, 0x299f31d0}, c[4] = {7, 1, 0, 0};
    uint32_t out[4];
    rng_philox(k, c, out);
    assert_true(rng_u64(key, (UINT64_C(1) << 32) + 7) == ((uint64_t)out[1] << 32 | out[0]));
    assert_true(rng_uniform(0, 0) == (double)(UINT64_C(0xe169c58d6627e8d5) >> 11) * 0x1.0p-53);
    double u = ((double)(UINT64_C(0xe169c58d6627e8d5) >> 11) + 0.5) * 0x1.0p-53;
    double v = (double)(UINT64_C(0x9b00dbd8bc57ac4c) >> 11) * 0x1.0p-53;
    assert_true(fabs(rng_normal(0, 0) - sqrt(-2 * log(u)) * cos(2 * acos(-1) * v)) < 1e-12);
    assert_int_equal(rng_below(0, 0, 1), 0);
    assert_int_equal(rng_below(0, 0, 1000), 880); /* 0xe169.. / 2^64 = 0.88052 */
}

static void test_moments(void **state)
{
    (void)state;
    enum { N = 20000 };
    double sum = 0, squares = 0, uniform = 0;
    uint64_t key = rng_key(5, "moments");
    for (uint64_t i = 0; i < N; i++) {
        double x = rng_normal(key, i), y = rng_uniform(key, i);
        assert_true(y >= 0 && y < 1);
        assert_true(rng_below(key, i, 7) < 7);
        sum += x;
        squares += x * x;
        uniform += y;
    }
    assert_true(fabs(sum / N) < 0.03 && fabs(squares / N - 1) < 0.05);
    assert_true(fabs(uniform / N - 0.5) < 0.01);
}

/* The finalizer of SplitMix64, whose first number for seed 0 is e220a8397b1dcdaf. */
static void test_keys(void **state)
{
    (void)state;
    assert_true(rng_key(0, "") == UINT64_C(0xe220a8397b1dcdaf));
    assert_true(rng_key(0, "a") == rng_key_mix(rng_key(0, ""), 'a'));
    assert_true(rng_key(0, "ab") != rng_key(0, "ba"));
    assert_true(rng_key(1, "a") != rng_key(0, "a"));
    assert_true(rng_key_mix(5, 0) != rng_key_mix(5, 1));
    assert_true(rng_key(0, "\xff") == rng_key_mix(rng_key(0, ""), 0xff)); /* no sign */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_moments),
        cmocka_unit_test(test_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
