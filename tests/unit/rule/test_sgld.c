/* SPDX-License-Identifier: Apache-2.0 */
/* The noise of sgld: normal, and a pure function of seed, version, variable and element. */
#include "rule_rig.h"

#define PI 3.14159265358979323846
#define N 100000

/* Noise alone: of parameters 0 and gradients 0, at rate and temperature 1. */
static void noise_of(const char *settings, uint64_t version, uint64_t variable, uint64_t first,
                     float *out, size_t n)
{
    const struct rule *rule = rule_find("sgld");
    void *params = fixture_params(rule, settings);
    float *zero = mem_new(n, sizeof *zero);
    struct rule_scalars s = {0};
    rule->prepare(params, version, 1.0, &s);
    const struct rule_span span = {
        .out = out,
        .in = zero,
        .gradient = zero,
        .gradient_scale = 1.0F,
        .n = n,
        .first = first,
        .variable = variable,
        .width = 1,
    };
    rule_apply_span(rule, &s, &span);
    free(zero);
    free(params);
}

/* One element through rng_philox() of base and libm. */
static double expected(uint64_t key, uint64_t element)
{
    const uint64_t counter = element / 64 * 16 + element % 16;
    const uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    const uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
    uint32_t words[4];
    rng_philox(k, c, words);
    size_t pair = element % 64 / 32;
    double u = ((double)(words[2 * pair] >> 9) + 0.5) / (1 << 23);
    double angle = 2 * PI * (double)(words[2 * pair + 1] >> 8) / (1 << 24);
    double radius = sqrt(-2 * log(u));
    return radius * (element / 16 % 2 == 0 ? cos(angle) : sin(angle));
}

static void it_is_that_of_philox(void **state)
{
    (void)state;
    static const uint64_t firsts[] = {
        0, 1, 63, 64, 1000003, 0x3FFFFFFC0, 0x400000000, (1ULL << 50) + 17, 1ULL << 62};
    const uint64_t key = rng_key_mix(rng_key_mix(rng_key(1, "sgld"), 5), 77);
    for (size_t i = 0; i < sizeof firsts / sizeof firsts[0]; i++) {
        float noise[150];
        noise_of("learning_rate=1", 5, 77, firsts[i], noise, 150);
        for (size_t k = 0; k < 150; k++) {
            double want = expected(key, firsts[i] + k);
            assert_true(fabs((double)noise[k] - want) <= 2e-6);
        }
    }
}

static void it_is_normal(void **state)
{
    (void)state;
    float *noise = mem_new(N, sizeof *noise);
    noise_of("learning_rate=1", 0, 1, 0, noise, N);
    double moments[5] = {0};
    for (size_t i = 0; i < N; i++) {
        double x = (double)noise[i], power = 1;
        for (size_t k = 0; k < 5; k++, power *= x) {
            moments[k] += power / N;
        }
    }
    assert_true(fabs(moments[1]) < 0.015);
    assert_true(fabs(moments[2] - 1) < 0.02);
    assert_true(fabs(moments[3]) < 0.05);
    assert_true(fabs(moments[4] - 3) < 0.15);
    double next = 0; /* neighbours have nothing to do with each other */
    for (size_t i = 0; i + 1 < N; i++) {
        next += (double)noise[i] * (double)noise[i + 1] / N;
    }
    assert_true(fabs(next) < 0.015);
    free(noise);
}

static void it_scales(void **state)
{
    (void)state;
    float one[64], scaled[64];
    noise_of("learning_rate=1", 0, 1, 0, one, 64);
    noise_of("learning_rate=0.25 temperature=4", 0, 1, 0, scaled, 64);
    assert_same_floats(one, scaled, 64, "sgld", "noise");
    noise_of("learning_rate=0.25", 0, 1, 0, scaled, 64);
    for (size_t i = 0; i < 64; i++) {
        assert_true(scaled[i] == 0.5F * one[i]);
    }
}

static void everything_changes_it(void **state)
{
    (void)state;
    float a[64], b[4][64];
    noise_of("learning_rate=1 seed=3", 4, 5, 0, a, 64);
    noise_of("learning_rate=1 seed=4", 4, 5, 0, b[0], 64);
    noise_of("learning_rate=1 seed=3", 5, 5, 0, b[1], 64);
    noise_of("learning_rate=1 seed=3", 4, 6, 0, b[2], 64);
    noise_of("learning_rate=1 seed=3", 4, 5, 64, b[3], 64);
    for (size_t k = 0; k < 4; k++) {
        for (size_t i = 0; i < 64; i++) {
            assert_true(a[i] != b[k][i]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_that_of_philox),
        cmocka_unit_test(it_is_normal),
        cmocka_unit_test(it_scales),
        cmocka_unit_test(everything_changes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
